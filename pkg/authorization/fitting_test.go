/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// conditionsOf returns n conditions of an effect, with IDs from the given number on.
func conditionsOf(from, n int, effect authorization.Effect, text string) (conditions []authorization.Condition) {
	for i := range n {
		conditions = append(conditions, condition(from+i, effect, text))
	}
	return conditions
}

// TestReviewsOfManyConditions shows decisions with more conditions than a review can hold. The review may be more closed
// than the request, never more open, and says so.
func TestReviewsOfManyConditions(t *testing.T) {
	t.Parallel()
	const most = authorizationapi.MaxConditionsPerSet
	const notShown = "a: %d of %d conditions with effect Allow are not shown, and count as false: a review holds 128 of a set"
	for _, tc := range []struct {
		name                string
		deny, hold, allow   int
		wantDeny, wantAllow int    // conditions that are shown
		wantError           string // in the status
		wantFolded          string // the reason
	}{
		{name: "as many as there may be", allow: most, wantAllow: most},
		{name: "one more", allow: most + 1, wantAllow: most, wantError: fmt.Sprintf(notShown, 1, most+1)},
		{name: "many more", allow: 10 * most, wantAllow: most, wantError: fmt.Sprintf(notShown, 9*most, 10*most)},
		{name: "those that deny are all shown", deny: most - 1, allow: 5, wantDeny: most - 1, wantAllow: 1, wantError: fmt.Sprintf(notShown, 4, most+4)},
		{name: "as many deny as there may be", deny: most, allow: 1, wantDeny: most, wantError: fmt.Sprintf(notShown, 1, most+1)},
		{name: "more deny than there may be", deny: most + 1, allow: 1, wantError: "a has 130 conditions, but a review holds 128 of a set", wantFolded: "the conditions exceed what a review can hold; they were folded to Deny"},
		{name: "more hold back than there may be", hold: most + 1, allow: 1, wantError: "a has 130 conditions, but a review holds 128 of a set", wantFolded: "the conditions exceed what a review can hold; they were folded to NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conditions := conditionsOf(0, tc.deny, authorization.EffectDeny, isLater)
			conditions = append(conditions, conditionsOf(tc.deny, tc.hold, authorization.EffectNoOpinion, isLater)...)
			conditions = append(conditions, conditionsOf(tc.deny+tc.hold, tc.allow, authorization.EffectAllow, isLater)...)
			slices.Reverse(conditions) // their order has no meaning
			d := authorization.Chained(setOf(conditions, ""))
			status := authorization.Status(d)
			if !strings.Contains(status.EvaluationError, tc.wantError) || (status.EvaluationError == "") != (tc.wantError == "") {
				t.Errorf("got the error %q, want %q", status.EvaluationError, tc.wantError)
			}
			if tc.wantFolded != "" {
				if len(status.ConditionsChain) > 0 || status.Allowed || status.Denied != (tc.deny > 0) || status.Reason != tc.wantFolded {
					t.Errorf("got %+v, want %q", status, tc.wantFolded)
				}
				return
			}
			shown := map[authorization.Effect]int{}
			for _, set := range status.ConditionsChain {
				for _, c := range set.Conditions {
					shown[c.Effect]++
				}
			}
			if shown[authorization.EffectDeny] != tc.wantDeny || shown[authorization.EffectAllow] != tc.wantAllow {
				t.Errorf("got %v shown, want %d that deny and %d that allow", shown, tc.wantDeny, tc.wantAllow)
			}
			sets, err := authorization.SetsFromWire(status.ConditionsChain)
			if err != nil {
				t.Fatalf("the review cannot be sent back: %v", err)
			}
			// Whatever the conditions turn out to be, the review is not more open than the request.
			for i := 0; i < len(conditions); i += 1 + len(conditions)/64 {
				later := map[string]string{}
				for j, c := range conditions {
					later[c.ID] = isFalse
					if j == i {
						later[c.ID] = isTrue
					}
				}
				request, review := d.Evaluate(t.Context(), literal{later: later}), authorization.Chained(sets...).Evaluate(t.Context(), literal{later: later})
				if review.IsAllow() && !request.IsAllow() || request.IsDeny() && !review.IsDeny() {
					t.Fatalf("with %s: the request is %s, the review %s", conditions[i].ID, kindOf(request), kindOf(review))
				}
			}
		})
	}
}

// TestManyConditionsInNestedChains leaves out conditions of the set that has too many, and keeps all others.
func TestManyConditionsInNestedChains(t *testing.T) {
	t.Parallel()
	const most = authorizationapi.MaxConditionsPerSet
	many := authorization.Set{AuthorizerName: "many", Decision: authorization.Conditions(conditionsOf(0, most+2, authorization.EffectAllow, isTrue)...)}
	few := authorization.Set{AuthorizerName: "few", Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isTrue))}
	status := authorization.Status(authorization.Chained(authorization.Set{AuthorizerName: "inner", Decision: authorization.Chained(many, few)}, few))
	if !strings.Contains(status.EvaluationError, "many: 2 of 130 conditions") || strings.Contains(status.EvaluationError, "few") {
		t.Errorf("got the error %q, want one that names the set with too many", status.EvaluationError)
	}
	if len(status.ConditionsChain) != 2 || len(status.ConditionsChain[0].ConditionsChain) != 2 {
		t.Fatalf("got %+v, want the chain within the chain", status.ConditionsChain)
	}
	inner := status.ConditionsChain[0].ConditionsChain
	if len(inner[0].Conditions) != most || len(inner[1].Conditions) != 1 || len(status.ConditionsChain[1].Conditions) != 1 {
		t.Errorf("got %d, %d and %d conditions", len(inner[0].Conditions), len(inner[1].Conditions), len(status.ConditionsChain[1].Conditions))
	}
}

// TestWireOfManySets has bounds for whole chains, which clients send.
func TestWireOfManySets(t *testing.T) {
	t.Parallel()
	nested := func(depth int) wireSet {
		set := wireSet{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{wireCondition("c")}}
		for range depth {
			set = wireSet{AuthorizerName: "a", ConditionsChain: []wireSet{set}}
		}
		return set
	}
	for _, tc := range []struct {
		name string
		wire []wireSet
		want bool // that it is accepted
	}{
		{name: "nothing", want: true},
		{name: "one set", wire: []wireSet{nested(0)}, want: true},
		{name: "two sets with one name", wire: []wireSet{nested(0), nested(0)}},
		{name: "a set without a name", wire: []wireSet{{Allowed: true}}},
		{name: "a chain in a chain", wire: []wireSet{nested(1)}, want: true},
		{name: "a chain in a thousand chains", wire: []wireSet{nested(1000)}},
		{name: "allowed and conditions", wire: []wireSet{{AuthorizerName: "a", Allowed: true, Conditions: nested(0).Conditions}}},
		{name: "conditions and a chain", wire: []wireSet{{AuthorizerName: "a", Conditions: nested(0).Conditions, ConditionsChain: []wireSet{nested(0)}}}},
		{name: "an unknown failure mode", wire: []wireSet{{AuthorizerName: "a", FailureMode: "Allow", Conditions: nested(0).Conditions}}},
		{name: "an unknown effect", wire: []wireSet{{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{{ID: "example.com/c", Effect: "allow", Type: "example.com/literal"}}}}},
		{name: "no effect", wire: []wireSet{{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{{ID: "example.com/c", Type: "example.com/literal"}}}}},
		{name: "a condition twice", wire: []wireSet{{AuthorizerName: "a", Conditions: append(nested(0).Conditions, nested(0).Conditions...)}}},
		{name: "an ID without a domain", wire: []wireSet{{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{{ID: "c", Effect: "Allow", Type: "example.com/literal"}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sets, err := authorization.SetsFromWire(tc.wire)
			if (err == nil) != tc.want || err != nil && (!errors.Is(err, authorization.ErrInvalidConditions) || sets != nil) {
				t.Errorf("got %v, %v, want it accepted %v", sets, err, tc.want)
			}
		})
	}
}

// TestHasWildcards tells attributes about many kinds of requests, which conditions are not written for, from those about
// one. An empty group is the core group, and an empty subresource the resource itself; an empty verb, version or
// resource stands for no kind of request.
func TestHasWildcards(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*authorizer.AttributesRecord)
		want   bool
	}{
		{name: "a request", change: func(*authorizer.AttributesRecord) {}},
		{name: "any verb", change: func(a *authorizer.AttributesRecord) { a.Verb = "*" }, want: true},
		{name: "no verb", change: func(a *authorizer.AttributesRecord) { a.Verb = "" }, want: true},
		{name: "any group", change: func(a *authorizer.AttributesRecord) { a.APIGroup = "*" }, want: true},
		{name: "any version", change: func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }, want: true},
		{name: "no version", change: func(a *authorizer.AttributesRecord) { a.APIVersion = "" }, want: true},
		{name: "any resource", change: func(a *authorizer.AttributesRecord) { a.Resource = "*" }, want: true},
		{name: "no resource", change: func(a *authorizer.AttributesRecord) { a.Resource = "" }, want: true},
		{name: "any subresource", change: func(a *authorizer.AttributesRecord) { a.Subresource = "*" }, want: true},
		{name: "a subresource", change: func(a *authorizer.AttributesRecord) { a.Subresource = "status" }},
		{name: "a name that is *", change: func(a *authorizer.AttributesRecord) { a.Name = "*" }},
		{name: "a namespace that is *", change: func(a *authorizer.AttributesRecord) { a.Namespace = "*" }},
		{name: "a verb with * in it", change: func(a *authorizer.AttributesRecord) { a.Verb = "get*" }},
		{name: "a path", change: func(a *authorizer.AttributesRecord) {
			*a = authorizer.AttributesRecord{Verb: "get", Path: "/metrics/*"}
		}},
		{name: "a path with any verb", change: func(a *authorizer.AttributesRecord) {
			*a = authorizer.AttributesRecord{Verb: "*", Path: "/metrics"}
		}, want: true},
	} {
		a := authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "n", Name: "p", ResourceRequest: true}
		tc.change(&a)
		if got := authorization.HasWildcards(a); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestCallers asks attributes for the sender of a review, who decides which policies the answer may show.
func TestCallers(t *testing.T) {
	t.Parallel()
	alice, bob := &user.DefaultInfo{Name: "alice"}, &user.DefaultInfo{Name: "bob"}
	record := authorizer.AttributesRecord{User: alice, Verb: "get"}
	for _, tc := range []struct {
		name       string
		attributes authorizer.Attributes
		want       user.Info
	}{
		{name: "a request", attributes: record},
		{name: "a review about another user", attributes: authorization.Request{Attributes: record, Caller: bob}, want: bob},
		{name: "a decision that is shown to no caller", attributes: authorization.Request{Attributes: record}},
		{name: "a pointer, which no review has", attributes: &authorization.Request{Attributes: record, Caller: bob}},
	} {
		if diff := cmp.Diff(tc.want, authorization.RequestOf(tc.attributes).Caller); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
