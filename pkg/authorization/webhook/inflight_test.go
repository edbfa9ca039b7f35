/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"
	metricstestutil "k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// The bounds, as docs/operations.md promises them.
const (
	wantInFlight        = 64
	wantInFlightPerUser = 32
	wantWaitingPerUser  = 512
	wantWaiting         = 4096
	wantWait            = 3 * time.Second
)

// holding is a kube-apiserver that answers when it is told to.
type holding struct {
	answers chan error

	mu   sync.Mutex
	held map[string]int // checks in flight, by user
}

func (h *holding) Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	h.count(review.Spec.User, 1)
	defer h.count(review.Spec.User, -1)
	select {
	case err := <-h.answers:
		return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *holding) count(user string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[user] += n; h.held[user] == 0 {
		delete(h.held, user)
	}
}

// crowd asks an authorizer checks, each in a goroutine of its own. It lives in the bubble of
// one test.
type crowd struct {
	*holding
	authorizer *webhook.Authorizer

	mu      sync.Mutex
	allowed int
	failed  []error
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	h := &holding{answers: make(chan error), held: map[string]int{}}
	a, err := webhook.New(webhook.Config{Client: h, Backoff: wait.Backoff{Steps: 2, Duration: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{holding: h, authorizer: a}
}

// ask asks n different checks about a user.
func (c *crowd) ask(ctx context.Context, t *testing.T, name string, n int) {
	t.Helper()
	for i := range n {
		a := attributes(name)
		a.Name = fmt.Sprint(i)
		go func() {
			decision, _, err := c.authorizer.Authorize(ctx, a)
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case decision == authorizer.DecisionAllow && err == nil:
				c.allowed++
			case decision == authorizer.DecisionDeny && err != nil:
				c.failed = append(c.failed, err)
			default:
				t.Errorf("got %v, %v, want Allow, or Deny and an error", decision, err)
			}
		}()
	}
	synctest.Wait()
}

// answer answers n of the checks in flight.
func (c *crowd) answer(n int, err error) {
	for range n {
		c.answers <- err
		synctest.Wait()
	}
}

// inFlight compares the checks in flight.
func (c *crowd) inFlight(t *testing.T, when string, want map[string]int) {
	t.Helper()
	synctest.Wait()
	c.holding.mu.Lock()
	defer c.holding.mu.Unlock()
	if diff := cmp.Diff(want, maps.Clone(c.held)); diff != "" {
		t.Errorf("%s: in flight (-want +got):\n%s", when, diff)
	}
}

// outcomes compares what has been answered. All errors must be as wanted.
func (c *crowd) outcomes(t *testing.T, when string, allowed, failed int, want error) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allowed != allowed || len(c.failed) != failed {
		t.Errorf("%s: %d allowed and %d failed, want %d and %d", when, c.allowed, len(c.failed), allowed, failed)
	}
	for _, err := range c.failed {
		if !errors.Is(err, want) {
			t.Fatalf("%s: got %v, want %v", when, err, want)
		}
	}
}

// bubble runs a test with a clock of its own. Whatever still asks when it is over is canceled.
func bubble(t *testing.T, test func(ctx context.Context, t *testing.T, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		test(ctx, t, newCrowd(t))
	})
}

// TestFloodLeavesPlaces holds the answers to a flood of one user's checks: another user's
// check reaches kube-apiserver at once.
func TestFloodLeavesPlaces(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		c.ask(ctx, t, "alice", 200)
		c.inFlight(t, "flood", map[string]int{"alice": wantInFlightPerUser})
		c.ask(ctx, t, "bob", 1)
		c.inFlight(t, "another user", map[string]int{"alice": wantInFlightPerUser, "bob": 1})
	})
}

// TestFloodsTakeTurns has every place taken: a user who comes then gets the next one that is
// free, before any other check of those who have their part.
func TestFloodsTakeTurns(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		c.ask(ctx, t, "alice", 200)
		c.ask(ctx, t, "carol", 200)
		full := map[string]int{"alice": wantInFlightPerUser, "carol": wantInFlight - wantInFlightPerUser}
		c.inFlight(t, "floods", full)
		c.ask(ctx, t, "bob", 1)
		c.inFlight(t, "another user waits", full)
		c.answer(1, nil)
		c.inFlight(t, "another user's turn", map[string]int{"alice": wantInFlightPerUser - 1, "carol": wantInFlightPerUser, "bob": 1})
	})
}

// TestRequesterHasThePart counts checks for the requester, who may ask about many users.
func TestRequesterHasThePart(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		want := map[string]int{}
		for i := range 2 * wantInFlightPerUser {
			name := fmt.Sprintf("subject-%d", i)
			c.ask(genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "mallory"}), t, name, 1)
			if i < wantInFlightPerUser {
				want[name] = 1
			}
		}
		c.inFlight(t, "about many users", want)
		want["alice"] = 1
		c.ask(genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "bob"}), t, "alice", 1)
		c.inFlight(t, "of another requester", want)
	})
}

// TestEveryCheckGetsItsTurn answers everything that waits.
func TestEveryCheckGetsItsTurn(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		c.ask(ctx, t, "alice", 300)
		c.ask(ctx, t, "bob", 300)
		c.answer(600, nil)
		c.inFlight(t, "afterwards", map[string]int{})
		c.outcomes(t, "afterwards", 600, 0, nil)
	})
}

// TestTooManyChecks fails what exceeds the bounds, at once and closed.
func TestTooManyChecks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name           string
		users, each    int
		wantRefused    int
		wantBobRefused bool
	}{
		{name: "as many as one user may have", users: 1, each: wantInFlightPerUser + wantWaitingPerUser},
		{name: "one more of one user", users: 1, each: wantInFlightPerUser + wantWaitingPerUser + 1, wantRefused: 1},
		{name: "a flood of one user", users: 1, each: 1000, wantRefused: 1000 - wantInFlightPerUser - wantWaitingPerUser},
		{name: "as many as all users may have", users: 16, each: (wantInFlight + wantWaiting) / 16, wantBobRefused: true},
		{name: "more of all users", users: 20, each: 300, wantRefused: 6000 - wantInFlight - wantWaiting, wantBobRefused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
				for i := range tc.users {
					c.ask(ctx, t, fmt.Sprintf("user-%d", i), tc.each)
				}
				c.outcomes(t, "flood", 0, tc.wantRefused, webhook.ErrBusy)
				c.ask(ctx, t, "bob", 1)
				if tc.wantBobRefused {
					tc.wantRefused++
				}
				c.outcomes(t, "another user", 0, tc.wantRefused, webhook.ErrBusy)
			})
		})
	}
}

// TestRefusalsAreCounted counts checks that exceed the bounds, and one that waits too long.
func TestRefusalsAreCounted(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	webhook.RegisterMetrics()
	counts := func() map[string]float64 {
		values, _ := metricstestutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer, "proviso_authorization_kube_apiserver_refusals_total", nil, "reason") // an error says that there are none
		return values
	}
	for _, tc := range []struct {
		name        string
		users, each int
		wait        time.Duration
		want        map[string]float64
	}{
		{name: "of one user", users: 1, each: wantInFlightPerUser + wantWaitingPerUser + 3, want: map[string]float64{"user": 3}},
		{name: "of all users", users: 20, each: 300, want: map[string]float64{"all": 6000 - wantInFlight - wantWaiting}},
		{name: "too long", users: 1, each: wantInFlightPerUser + 5, wait: wantWait, want: map[string]float64{"timeout": 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := counts()
			bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
				for i := range tc.users {
					c.ask(ctx, t, fmt.Sprintf("user-%d", i), tc.each)
				}
				time.Sleep(tc.wait)
				synctest.Wait()
			})
			after := counts()
			for _, reason := range []string{"user", "all", "timeout"} {
				if got := after[reason] - before[reason]; got != tc.want[reason] {
					t.Errorf("%s: counted %v, want %v", reason, got, tc.want[reason])
				}
			}
		})
	}
}

// TestWaitingEnds bounds how long a check waits for its turn. Those in flight are as they
// were, and what frees their places counts for new ones.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		c.ask(ctx, t, "alice", wantInFlightPerUser+10)
		c.ask(ctx, t, "carol", wantInFlightPerUser)
		c.ask(ctx, t, "bob", 10)
		time.Sleep(wantWait - time.Nanosecond)
		c.outcomes(t, "before", 0, 0, nil)
		time.Sleep(time.Nanosecond)
		c.outcomes(t, "after", 0, 20, webhook.ErrBusy)
		c.answer(wantInFlight, nil)
		c.outcomes(t, "answered", wantInFlight, 20, webhook.ErrBusy)
		c.ask(ctx, t, "bob", wantInFlightPerUser)
		c.inFlight(t, "new ones", map[string]int{"bob": wantInFlightPerUser})
	})
}

// TestClientsGoAway frees the places of checks whose request is over, wherever they are.
func TestClientsGoAway(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		gone, leave := context.WithCancel(ctx)
		c.ask(gone, t, "alice", wantInFlightPerUser+wantWaitingPerUser)
		c.ask(gone, t, "carol", wantInFlightPerUser)
		c.ask(gone, t, "bob", 1)
		leave()
		c.inFlight(t, "gone", map[string]int{})
		c.outcomes(t, "gone", 0, 2*wantInFlightPerUser+wantWaitingPerUser+1, context.Canceled)
		c.ask(ctx, t, "alice", wantInFlightPerUser+wantWaitingPerUser)
		c.inFlight(t, "back", map[string]int{"alice": wantInFlightPerUser})
		c.outcomes(t, "back", 0, 2*wantInFlightPerUser+wantWaitingPerUser+1, context.Canceled)
	})
}

// TestNoPlaceBetweenAttempts has checks that will be repeated in an hour hold no place.
func TestNoPlaceBetweenAttempts(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		c.ask(ctx, t, "alice", wantInFlightPerUser)
		c.answer(wantInFlightPerUser, apierrors.NewInternalError(errors.New("down")))
		c.inFlight(t, "between attempts", map[string]int{})
		c.ask(ctx, t, "alice", 1)
		c.inFlight(t, "a new one", map[string]int{"alice": 1})
		c.answer(1, nil)
		time.Sleep(time.Hour)
		c.inFlight(t, "repeated", map[string]int{"alice": wantInFlightPerUser})
	})
}

// TestKnownAnswersNeedNoPlace reuses an answer while every place of the user is taken.
func TestKnownAnswersNeedNoPlace(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, t *testing.T, c *crowd) {
		a, err := webhook.New(webhook.Config{Client: c.holding, Backoff: wait.Backoff{Steps: 1}, AllowCacheTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		c.authorizer = a
		c.ask(ctx, t, "alice", 1)
		c.answer(1, nil)
		c.outcomes(t, "asked", 1, 0, nil)
		for range 20 {
			c.ask(ctx, t, "carol", wantInFlightPerUser)
		}
		c.ask(ctx, t, "alice", 1)
		c.outcomes(t, "reused", 2, 96, webhook.ErrBusy)
	})
}
