/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// ids returns the IDs of conditions.
func ids(conditions []authorization.Condition) []string {
	var found []string
	for _, c := range conditions {
		found = append(found, c.ID)
	}
	return found
}

// TestWithoutDeny leaves Deny conditions out of the set of one member, and of no other set.
func TestWithoutDeny(t *testing.T) {
	t.Parallel()
	const of = "policies"
	deny := func(id int) authorization.Condition { return condition(id, authorization.EffectDeny, isLater) }
	allow, hold := condition(8, authorization.EffectAllow, isLater), condition(9, authorization.EffectNoOpinion, isLater)
	set := func(name string, d authorization.Decision) authorization.Set {
		return authorization.Set{AuthorizerName: name, Decision: d}
	}
	all := func(authorization.Condition) bool { return true }
	first := func(c authorization.Condition) bool { return c.ID == deny(0).ID }
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		enforced func(authorization.Condition) bool
		want     string
		leftOut  []string
	}{
		{name: "one of two", decision: authorization.Chained(set(of, authorization.Conditions(deny(0), deny(1)))), enforced: first, want: "can deny", leftOut: ids([]authorization.Condition{deny(0)})},
		{name: "both", decision: authorization.Chained(set(of, authorization.Conditions(deny(0), deny(1)))), enforced: all, want: "NoOpinion", leftOut: ids([]authorization.Condition{deny(0), deny(1)})},
		{name: "none", decision: authorization.Chained(set(of, authorization.Conditions(deny(1)))), enforced: first, want: "can deny"},
		{name: "before an Allow", decision: authorization.Chained(set(of, authorization.Conditions(deny(0))), set("b", authorization.Allow("", nil))), enforced: all, want: "Allow", leftOut: ids([]authorization.Condition{deny(0)})},
		{name: "before a Deny", decision: authorization.Chained(set(of, authorization.Conditions(deny(0))), set("b", authorization.Deny("", nil))), enforced: all, want: "Deny", leftOut: ids([]authorization.Condition{deny(0)})},
		{name: "before another condition that could deny", decision: authorization.Chained(set(of, authorization.Conditions(deny(0))), set("b", authorization.Conditions(deny(0), allow))), enforced: all, want: "can deny", leftOut: ids([]authorization.Condition{deny(0)})},
		{name: "before a condition that could allow", decision: authorization.Chained(set(of, authorization.Conditions(deny(0))), set("b", authorization.Conditions(allow))), enforced: all, want: "can allow", leftOut: ids([]authorization.Condition{deny(0)})},
		{name: "of another member", decision: authorization.Chained(set("b", authorization.Conditions(deny(0)))), enforced: all, want: "can deny"},
		{name: "nested", decision: authorization.Chained(set("b", authorization.Chained(set(of, authorization.Conditions(deny(0))), set("c", authorization.Conditions(allow))))), enforced: all, want: "can deny"},
		{name: "nested in the member", decision: authorization.Chained(set(of, authorization.Chained(set("b", authorization.Conditions(deny(0))), set("c", authorization.Conditions(allow))))), enforced: all, want: "can deny"},
		{name: "beside a condition that could allow", decision: authorization.Chained(set(of, authorization.Conditions(deny(0), allow))), enforced: all, want: "can deny"},
		{name: "beside a condition that could hold back", decision: authorization.Chained(set(of, authorization.Conditions(deny(0), hold))), enforced: all, want: "can deny"},
		{name: "conditions that are no chain", decision: authorization.Conditions(deny(0)), enforced: all, want: "can deny"},
		{name: "Allow", decision: authorization.Allow("", nil), enforced: all, want: "Allow"},
		{name: "Deny", decision: authorization.Deny("", nil), enforced: all, want: "Deny"},
	} {
		before := fmt.Sprintf("%+v", tc.decision.Chain())
		rest, leftOut := tc.decision.WithoutDeny(of, tc.enforced)
		got := kindOf(rest)
		switch {
		case rest.CanBecomeDenied() && !rest.IsDeny():
			got = "can deny"
		case rest.CanBecomeAllowed() && !rest.IsAllow():
			got = "can allow"
		}
		if got != tc.want || !slices.Equal(ids(leftOut), tc.leftOut) {
			t.Errorf("%s: got %s without %q, want %s without %q", tc.name, got, ids(leftOut), tc.want, tc.leftOut)
		}
		if after := fmt.Sprintf("%+v", tc.decision.Chain()); after != before {
			t.Errorf("%s: the decision is now %s", tc.name, after)
		}
	}
}

// TestWithoutDenyLaw evaluates random chains with all data. If the conditions that are left out are false, leaving them out changes
// nothing. If one of them is true, or fails, what remains may be anything, and the other component refuses.
func TestWithoutDenyLaw(t *testing.T) {
	t.Parallel()
	const of = "policies"
	r := rand.New(rand.NewPCG(3, 4))
	values := []string{isTrue, isFalse, isError, isUnsupported}
	compared := 0
	for c := cases.Of(20_000); c.Next(); {
		var own []authorization.Condition
		for id := range 1 + r.IntN(3) {
			own = append(own, condition(100+id, authorization.EffectDeny, isLater))
		}
		sets := randomSets(r, 2, values)
		at := r.IntN(len(sets) + 1)
		sets = slices.Insert(sets, at, authorization.Set{AuthorizerName: of, FailureMode: allModes[r.IntN(3)], Decision: authorization.Conditions(own...)})
		later, enforced := map[string]string{}, map[string]bool{}
		for _, c := range own {
			later[c.ID] = values[r.IntN(len(values))]
			if r.IntN(2) == 0 {
				later[c.ID], enforced[c.ID] = isFalse, true
			}
		}
		d := authorization.Chained(sets...)
		rest, leftOut := d.WithoutDeny(of, func(c authorization.Condition) bool { return enforced[c.ID] })
		evaluator := literal{later: later}
		if got, want := kindOf(rest.Evaluate(t.Context(), evaluator)), kindOf(d.Evaluate(t.Context(), evaluator)); got != want {
			t.Fatalf("%+v without %q, with %v: got %s, want %s", d.Chain(), ids(leftOut), later, got, want)
		}
		compared += len(leftOut)
	}
	if compared == 0 {
		t.Error("nothing was left out")
	}
}
