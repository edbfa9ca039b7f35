/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

// The bounds of evaluations, as docs/doors.md has them.
const (
	mostWaitingSmall          = 2048
	mostWaitingSmallOfOneUser = 256
	reasonBusy                = "too many requests at the same time: try again later"
)

// mostEvaluations is how many reviews are evaluated at the same time, and mostEvaluationsOfOneUser
// how many of one user name.
func mostEvaluations() int          { return max(4*runtime.GOMAXPROCS(0), 16) }
func mostEvaluationsOfOneUser() int { return mostEvaluations() / 4 }

// holdEvery takes every slot, by users who have no more than their share.
func (b *bubble) holdEvery(t *testing.T) []<-chan reply {
	t.Helper()
	var replies []<-chan reply
	for i := 0; len(replies) < mostEvaluations(); i++ {
		replies = append(replies, b.holdSized(t, fmt.Sprint("user-", i), min(mostEvaluationsOfOneUser(), mostEvaluations()-len(replies)), 0)...)
	}
	return replies
}

// TestEvaluationWithoutSlotIsDenied holds every slot. One more review is denied, large or small, and
// whether or not a policy denies it without a condition.
func TestEvaluationWithoutSlotIsDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, never)
		replies := b.holdEvery(t)
		large := b.send(t, review("bob", "c", largeBytes))
		wantDenied(t, "a small review", b.askSmall(t, "bob", "c"), reasonBusy, slotTimeout)
		wantDenied(t, "a large review", <-large, reasonBusy, slotTimeout)
		wantDenied(t, "a small review that a policy denies", b.askSmall(t, "alice", "c"), reasonBusy, slotTimeout)
		close(b.open)
		for _, replied := range replies {
			wantNoOpinion(t, "one that had a slot", <-replied, 2*slotTimeout)
		}
		wantNoOpinion(t, "a small review afterwards", b.askSmall(t, "bob", "c"), 0)
		wantDenied(t, "a review that a policy denies, afterwards", b.askSmall(t, "alice", "c"), `policy=p reason=Denied: it denies the request`, 0)
	})
}

// TestEvaluationsOfOneUser asks that small reviews of one user name have a share of the slots, and
// that a flood of them denies nothing to others.
func TestEvaluationsOfOneUser(t *testing.T) {
	t.Parallel()
	share := mostEvaluationsOfOneUser()
	for _, tc := range []struct {
		name      string
		sent      int
		wantLater int // denied after the time for which they may wait
		wantNow   int // denied at once
	}{
		{name: "as many as may be evaluated", sent: share},
		{name: "one more", sent: share + 1, wantLater: 1},
		{name: "as many as may wait", sent: share + mostWaitingSmallOfOneUser, wantLater: mostWaitingSmallOfOneUser},
		{name: "a flood", sent: share + mostWaitingSmallOfOneUser + 300, wantLater: mostWaitingSmallOfOneUser, wantNow: 300},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, never)
				replies := b.holdSized(t, "mallory", tc.sent, 0)
				wantNoOpinion(t, "a review of another user", b.askSmall(t, "bob", "c"), 0)
				wantNoOpinion(t, "a large review of another user", b.ask(t, "bob", "c"), 0)
				wantDenied(t, "a review that a policy denies", b.askSmall(t, "alice", "c"), `policy=p reason=Denied: it denies the request`, 0)
				time.Sleep(slotTimeout)
				synctest.Wait()
				close(b.open)
				counts := map[string]int{}
				for _, replied := range replies {
					got := <-replied
					counts[fmt.Sprint(got.status.Denied, got.status.Reason, got.after)]++
				}
				evaluated, later, now := counts[fmt.Sprint(false, "", slotTimeout)], counts[fmt.Sprint(true, reasonBusy, slotTimeout)], counts[fmt.Sprint(true, reasonBusy, time.Duration(0))]
				if evaluated != share || later != tc.wantLater || now != tc.wantNow {
					t.Errorf("got %v, want %d evaluated, %d denied after waiting and %d at once", counts, share, tc.wantLater, tc.wantNow)
				}
				wantNoOpinion(t, "a review afterwards", b.askSmall(t, "mallory", "c"), 0)
			})
		})
	}
}

// TestEvaluationWaitsForASlot asks that a slot which becomes free in time is used.
func TestEvaluationWaitsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		b.holdSized(t, "bob", mostEvaluationsOfOneUser(), 0)
		next := b.send(t, review("bob", "c", 0))
		time.Sleep(slotTimeout - time.Millisecond)
		close(b.open)
		wantNoOpinion(t, "one more review", <-next, slotTimeout-time.Millisecond)
	})
}

// TestWaitingIsBounded has as many reviews wait as may, of several users. One more is denied at
// once.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		b.holdEvery(t)
		for i := range mostWaitingSmall / mostWaitingSmallOfOneUser {
			b.holdSized(t, fmt.Sprint("waiting-", i), mostWaitingSmallOfOneUser, 0)
		}
		wantDenied(t, "one more", b.askSmall(t, "bob", "c"), reasonBusy, 0)
		time.Sleep(slotTimeout)
		synctest.Wait()
		close(b.open)
		synctest.Wait()
		wantNoOpinion(t, "a review afterwards", b.askSmall(t, "bob", "c"), 0)
	})
}

// TestEvaluationSlotsAreFreed has more evaluations of one user end in some way than it has slots.
func TestEvaluationSlotsAreFreed(t *testing.T) {
	t.Parallel()
	for object, reason := range map[string]string{panics: reasonPanic, panicsLate: reasonTooLate, tooSlow: reasonTooLate} {
		t.Run(object, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				for range mostEvaluations() + 1 {
					if got := b.askSmall(t, "alice", object); got.code != http.StatusOK || !got.status.Denied || got.status.Reason != reason {
						t.Fatalf("got %s, want denied: %s", got, reason)
					}
				}
				time.Sleep(pastDeadline) // until the last evaluation ends
				for _, replied := range b.holdSized(t, "alice", mostEvaluationsOfOneUser(), 0) {
					defer func() { wantNoOpinion(t, "an evaluation afterwards", <-replied, 0) }()
				}
				close(b.open)
			})
		})
	}
}

// TestCheckOfFieldsTakesNoSlot has kube-apiserver answer the checks of one user slowly.
// They take no slot from the user's other reviews.
func TestCheckOfFieldsTakesNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		b := newBubbleAsking(t, nil, &frontdoor.Fields{
			Check: func(a authorizer.Attributes) (authorizer.Attributes, bool) {
				return a, a.GetName() == "fields"
			},
			KubeAPIServer: authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
				asked++
				<-ctx.Done()
				return authorizer.DecisionNoOpinion, "", ctx.Err()
			}),
		})
		var replies []<-chan reply
		for range mostEvaluationsOfOneUser() + 1 {
			replies = append(replies, b.send(t, review("alice", "fields", 0)))
			synctest.Wait()
		}
		if asked != mostEvaluationsOfOneUser()+1 {
			t.Errorf("kube-apiserver was asked %d times, want as often as there are reviews", asked)
		}
		wantNoOpinion(t, "another review", b.askSmall(t, "alice", "c"), 0)
		for _, replied := range replies {
			wantNoOpinion(t, "a review whose check is not answered", <-replied, time.Second)
		}
	})
}

// TestNormalReviewIsSmall asks that a review with long names and some dozen groups is not taken for
// a large one, whose slots and waiting places are all taken.
func TestNormalReviewIsSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		b.hold(t, "alice", mostOfOneUser+mostWaiting)
		name, groups := strings.Repeat("n", 253), []string{`"system:authenticated"`}
		for i := range 48 {
			groups = append(groups, fmt.Sprintf("%q", fmt.Sprintf("oidc:organization/department-%02d/team-of-the-cluster/administrators", i)))
		}
		body := fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice", "uid": %q, "groups": [%s],
		  "extra": {"authentication.kubernetes.io/credential-id": ["JTI=%s"], "authentication.kubernetes.io/node-name": [%q], "authentication.kubernetes.io/pod-name": [%q]},
		  "resourceAttributes": {"verb": "list", "group": %q, "version": "v1", "resource": "configmaps", "namespace": %q, "name": %q,
		    "labelSelector": {"requirements": [{"key": %q, "operator": "In", "values": [%q]}]}}}}`,
			strings.Repeat("u", 36), strings.Join(groups, ","), strings.Repeat("c", 36), name, name, name, name[:63], name, name, name[:63])
		wantNoOpinion(t, fmt.Sprintf("a review of %d bytes", len(body)), <-b.send(t, post(body)), 0)
		wantDenied(t, "a large one", b.ask(t, "alice", "c"), reasonNoSlot, 0)
		close(b.open)
	})
}
