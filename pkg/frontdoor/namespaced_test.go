/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

// The bounds of the policies of one namespace, as docs/doors.md has them.
const (
	namespaceTimeout   = 250 * time.Millisecond
	reasonNotEvaluated = `policy=attacked/p reason=Error: its condition could not be evaluated`
	notEvaluated       = `the policies of the namespace were not evaluated in time`
)

// inNamespace is a small review about an object in a namespace, or a large one.
func inNamespace(user, namespace, object string, bytes int) *http.Request {
	return post(reviewBody(user, namespace, object, bytes))
}

// slowNamespace has a Deny policy in a namespace, which takes as long as the name of the object says. The policy of another
// namespace and the policies of the cluster take no time for other objects.
var slowNamespace = map[string]policy{
	"attacked/p": {effect: deny, everyone: true, condition: `request.userInfo.uid == "never"`},
	"other/p":    {effect: deny, everyone: true, condition: `request.userInfo.uid == "never"`},
	"other/q":    {effect: allow, everyone: true, condition: `request.userInfo.uid == "never" || request.userInfo.username == "alice"`},
}

// holdIn sends reviews about a namespace that are not decided before b.open is closed.
func (b *bubble) holdIn(t *testing.T, namespace string, count, bytes int, userOf func(i int) string) []<-chan reply {
	t.Helper()
	var replies []<-chan reply
	for i := range count {
		replies = append(replies, b.send(t, inNamespace(userOf(i), namespace, held, bytes)))
	}
	synctest.Wait()
	return replies
}

// TestSlowNamespaceClosesItselfOnly has an author of one namespace choose both what its policies cost and the
// user names of the reviews about it. Reviews about other namespaces and about the cluster are decided at once, also
// those about the same user.
func TestSlowNamespaceClosesItselfOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		count  int
		bytes  int
		userOf func(i int) string
	}{
		{name: "reviews that name one user", count: 200, userOf: func(int) string { return "carol" }},
		{name: "reviews that name many users", count: 200, userOf: func(i int) string { return fmt.Sprint("invented-", i) }},
		{name: "reviews that name one user, large", count: 20, bytes: largeBytes, userOf: func(int) string { return "carol" }},
		{name: "reviews that name many users, large", count: 20, bytes: largeBytes, userOf: func(i int) string { return fmt.Sprint("invented-", i) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, slowNamespace)
				replies := b.holdIn(t, "attacked", tc.count, tc.bytes, tc.userOf)
				for _, namespace := range []string{"", "other", "without-policies"} {
					wantNoOpinion(t, "a review about carol in "+namespace, <-b.send(t, inNamespace("carol", namespace, "c", 0)), 0)
					wantNoOpinion(t, "a large review about carol in "+namespace, <-b.send(t, inNamespace("carol", namespace, "c", largeBytes)), 0)
				}
				if got := <-b.send(t, inNamespace("alice", "other", "c", 0)); !got.status.Allowed || got.after != 0 {
					t.Errorf("what a policy of the other namespace allows: got %s", got)
				}
				time.Sleep(pastDeadline)
				synctest.Wait()
				close(b.open)
				for _, replied := range replies {
					if got := <-replied; got.code != http.StatusOK || !got.status.Denied {
						t.Errorf("a slow review: got %s, want denied", got)
					}
				}
				synctest.Wait()
				wantNoOpinion(t, "a review about the namespace afterwards", <-b.send(t, inNamespace("carol", "attacked", "c", 0)), 0)
			})
		})
	}
}

// TestPoliciesOfANamespaceHaveATimeLimit asks that the policies of a namespace count as over their budget after a time,
// while policies of the cluster still decide.
func TestPoliciesOfANamespaceHaveATimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, map[string]policy{
			"attacked/p": slowNamespace["attacked/p"],
			"granted/p":  {effect: allow, everyone: true, condition: `request.userInfo.uid != "never"`},
			"held/p":     {effect: noOpinion, everyone: true, condition: `request.userInfo.uid == "never"`},
			"z":          {effect: allow, everyone: true, condition: `request.userInfo.username == "alice"`},
		})
		slow := func(user, namespace string) reply {
			return <-b.send(t, inNamespace(user, namespace, slowInNamespace, 0))
		}
		got := slow("bob", "attacked")
		if !got.status.Denied || got.status.Reason != reasonNotEvaluated+": the time was up" || got.after != 2*namespaceTimeout {
			t.Errorf("a Deny policy: got %s", got)
		}
		wantNoOpinion(t, "an Allow policy", slow("bob", "granted"), 2*namespaceTimeout)
		wantNoOpinion(t, "a NoOpinion policy", slow("alice", "held"), 2*namespaceTimeout)
		if got := slow("alice", "granted"); !got.status.Allowed {
			t.Errorf("an Allow policy of the cluster: got %s", got)
		}
	})
}

// TestNamespaceWithoutSlot asks that a review about a namespace whose slots are taken is decided without the policies of
// the namespace, after it has waited.
func TestNamespaceWithoutSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, slowNamespace)
		b.holdIn(t, "attacked", mostEvaluations()/4, 0, func(i int) string { return fmt.Sprint("u", i) })
		got := <-b.send(t, inNamespace("bob", "attacked", "c", 0))
		if !got.status.Denied || got.status.Reason != reasonNotEvaluated || got.status.EvaluationError != notEvaluated || got.after != slotTimeout {
			t.Errorf("got %s, want denied after %s", got, slotTimeout)
		}
		close(b.open)
		synctest.Wait()
		wantNoOpinion(t, "a review afterwards", <-b.send(t, inNamespace("bob", "attacked", "c", 0)), 0)
	})
}

// TestUnevaluatedNamespacesAreCounted has a review wait for a slot of its namespace in vain, and holds the others until it is too
// late.
func TestUnevaluatedNamespacesAreCounted(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	frontdoor.RegisterMetrics()
	counts := func() map[string]float64 {
		values, _ := testutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer, "proviso_webhook_authorize_namespaces_unevaluated_total", nil, "cause") // an error says that there are none
		return values
	}
	before, held := counts(), mostEvaluations()/4
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, slowNamespace)
		b.holdIn(t, "attacked", held, 0, func(i int) string { return fmt.Sprint("u", i) })
		<-b.send(t, inNamespace("bob", "attacked", "c", 0))
		close(b.open)
		synctest.Wait()
	})
	after := counts()
	for cause, want := range map[string]int{"no_slot": 1, "too_late": held} {
		if got := after[cause] - before[cause]; got != float64(want) {
			t.Errorf("%s: counted %v, want %d", cause, got, want)
		}
	}
}

// TestReviewsOfOneUserInANamespace asks that reviews about one namespace never take the whole share of the user whom they
// name, nor all slots, where policies of the cluster are slow.
func TestReviewsOfOneUserInANamespace(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{0, largeBytes} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				b.holdIn(t, "attacked", mostEvaluations(), bytes, func(int) string { return "bob" })
				wantNoOpinion(t, "a review about the same user", <-b.send(t, inNamespace("bob", "other", "c", bytes)), 0)
				b.holdIn(t, "attacked", 2*mostEvaluations(), bytes, func(i int) string { return fmt.Sprint("u", i) })
				wantNoOpinion(t, "a review about another user", <-b.send(t, inNamespace("alice", "other", "c", bytes)), 0)
				wantNoOpinion(t, "a review about the same user again", <-b.send(t, inNamespace("bob", "other", "c", bytes)), 0)
				close(b.open)
				synctest.Wait()
				wantNoOpinion(t, "a review about the namespace afterwards", <-b.send(t, inNamespace("bob", "attacked", "c", bytes)), 0)
			})
		})
	}
}

// TestWaitingReviewsHoldNoSlots has reviews wait for a slot of a slow namespace, or of a user with many slow reviews. Other reviews
// need only slots for which they do not wait, and are decided at once.
func TestWaitingReviewsHoldNoSlots(t *testing.T) {
	t.Parallel()
	invented := func(i int) string { return fmt.Sprint("invented-", i) }
	carol := func(int) string { return "carol" }
	slow := map[string]policy{}
	for _, namespace := range []string{"a", "b", "c", "d", "other"} {
		slow[namespace+"/p"] = slowNamespace["attacked/p"]
	}
	for _, tc := range []struct {
		name string
		hold func(*testing.T, *bubble)
		// user and namespace are of the other reviews.
		user, namespace string
	}{
		{name: "the slots of their user, while two namespaces are slow", user: "carol", namespace: "other", hold: func(t *testing.T, b *bubble) {
			t.Helper()
			for _, namespace := range []string{"a", "b"} {
				b.holdIn(t, namespace, mostEvaluations()/4, 0, invented)
				b.holdIn(t, namespace, mostEvaluationsOfOneUser(), 0, carol)
			}
		}},
		{name: "the slots of their user, who is named in reviews about three slow namespaces", user: "carol", namespace: "other", hold: func(t *testing.T, b *bubble) {
			t.Helper()
			for _, namespace := range []string{"a", "b", "c"} {
				b.holdIn(t, namespace, mostEvaluationsOfOneUser(), 0, carol)
				b.holdIn(t, namespace, mostOfOneUser, largeBytes, carol)
			}
		}},
		{name: "the slots of their namespace, while their user is slow", user: "dave", namespace: "other", hold: func(t *testing.T, b *bubble) {
			t.Helper()
			for _, namespace := range []string{"a", "b", "c", "d", "other"} {
				b.holdIn(t, namespace, mostEvaluationsOfOneUser()/2, 0, func(int) string { return "alice" })
			}
			b.holdIn(t, "other", mostEvaluationsOfOneUser()/2, 0, func(int) string { return "bob" })
		}},
		{name: "the slots of large reviews, while namespaces are slow", user: "dave", namespace: "a", hold: func(t *testing.T, b *bubble) {
			t.Helper()
			b.holdIn(t, "b", mostEvaluations()/4, 0, invented)
			b.holdIn(t, "c", mostEvaluations()/4, 0, invented)
			b.holdIn(t, "d", mostEvaluations()/4, 0, invented)
			for _, namespace := range []string{"b", "c", "d"} {
				b.holdIn(t, namespace, mostLarge/4, largeBytes, invented)
			}
			b.holdIn(t, "b", mostOfOneUser, largeBytes, func(int) string { return "dave" })
			b.holdIn(t, "c", mostOfOneUser, largeBytes, func(int) string { return "dave" })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, slow)
				tc.hold(t, b)
				for _, bytes := range []int{0, largeBytes} {
					wantNoOpinion(t, fmt.Sprintf("another review of %d bytes", bytes), <-b.send(t, inNamespace(tc.user, tc.namespace, "c", bytes)), 0)
				}
				close(b.open)
				time.Sleep(pastDeadline)
			})
		})
	}
}
