/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestEngineReasons looks at why nothing is allowed, where conditions do not hold whatever the data
// is: the policies that might have allowed the request are named, but not too many, and no policies whose conditions only select
// other requests. Texts of conditions on the request are not shown, because their values may not be meant for the user.
func TestEngineReasons(t *testing.T) {
	t.Parallel()
	many := map[string]spec{}
	for i := range 20 {
		many[fmt.Sprintf("n/p%02d", i)] = spec{Effect: allow, Condition: `request.name == "other"`}
	}
	for _, tc := range []struct {
		name     string
		policies map[string]spec
		want     string
	}{
		{"nothing is about the request", map[string]spec{"other/a": {Effect: allow, Condition: `request.name == "other"`}}, ""},
		{"it is false", map[string]spec{"a": {Effect: allow, Condition: `request.name == "other"`}}, "policy=a reason=NotMet: failed part reads request.name"},
		{"it fails", map[string]spec{"a": {Effect: allow, Condition: `request.name + request.userInfo.extra["b"][0] == ""`}}, "policy=a reason=NotMet: failed part reads request.name, request.userInfo"},
		{"one part is about the request", map[string]spec{"a": {Effect: allow, Condition: `object.a == 1 && request.name == "other"`}}, "policy=a reason=NotMet: failed part reads request.name"},
		{"two parts are about the request", map[string]spec{"a": {Effect: allow, Condition: `request.verb == "create" && request.name == "other"`}}, "policy=a reason=NotMet: failed part reads request.name"},
		{"a part about the request that holds, and one that is false whatever the object is", map[string]spec{"a": {Effect: allow, Condition: `request.resource == "pods" && (request.name == "a" && object.a == 1 || request.name == "b" && object.b == 1)`}}, "policy=a reason=NotMet: failed part reads request.name"},
		{"the same with the operation", map[string]spec{"a": {Effect: allow, Condition: `operation == "CREATE" && (request.name == "other" && object.a == 1)`}}, "policy=a reason=NotMet: failed part reads request.name"},
		{"another user, and another name", map[string]spec{"a": {Effect: allow, Condition: `request.name == "other" && request.userInfo.username == "bob"`}}, ""},
		{"extra that the user does not have", map[string]spec{"a": {Effect: allow, Condition: `request.userInfo.extra["team"][0] == "x" && object.a == 1`}}, ""},
		{"a choice by the request", map[string]spec{"a": {Effect: allow, Condition: `(request.name == "x" ? object : oldObject).spec.a == 1`}}, "policy=a reason=NotMet: failed part reads request.name"},
		{"two that fail", map[string]spec{"a": {Effect: allow, Condition: `request.userInfo.extra["team"][0] == "x" && int(request.name) > 1`}}, "policy=a reason=NotMet: its condition does not hold"},
		{"the operation is known", map[string]spec{"a": {Effect: allow, Condition: `object.a == 1 && operation == "UPDATE"`}}, `policy=a reason=NotMet: failed part: operation == "UPDATE"`},
		{"described", map[string]spec{
			"n/a": {Effect: allow, Condition: `request.name == "other"`, Description: "others may"},
			"n/b": {Effect: allow, Condition: `object.a == 1 && request.name == "other"`},
			"n/c": {Effect: noOpinion, Condition: `request.name == "other"`},
		}, "policy=n/a reason=NotMet: others may: failed part reads request.name; policy=n/b reason=NotMet: failed part reads request.name"},
		{"only others", map[string]spec{"a": {Effect: noOpinion, Condition: `request.name == "other"`}}, ""},
		{"another user", map[string]spec{"a": {Effect: allow, Condition: `request.userInfo.username == "bob" && request.resource == "pods"`}}, ""},
		{"another resource", map[string]spec{"a": {Effect: allow, Condition: `request.resource == "nodes" && object.a == 1`}}, ""},
		{"the whole request", map[string]spec{"a": {Effect: allow, Condition: `request == dyn(1)`}}, "policy=a reason=NotMet: failed part reads request"},
		{"many", many, strings.Repeat("policy=n/p reason=NotMet: failed part reads request.name; ", 8) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := partOf(publish(t, tc.policies), true).Decide(t.Context(), podsOf("create"))
			got := d.Reason()
			if tc.name == "many" {
				for i := range many {
					got = strings.ReplaceAll(got, i, "n/p")
				}
			}
			if !d.IsNoOpinion() || got != tc.want {
				t.Errorf("got %s, %q, want %q", show(t, d), got, tc.want)
			}
		})
	}
}

// TestExplanationsHaveABudget explains policies whose parts are expensive. The explanations end when their own budget is spent,
// and spend nothing of the budgets of conditions.
func TestExplanationsHaveABudget(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 40), ",") + "]"
	expensive := list + ".all(x, " + list + ".all(y, x == y && request.name != ''))"
	policies := map[string]spec{}
	for i := range 4 {
		policies[fmt.Sprintf("p%d", i)] = spec{Effect: allow, Condition: expensive + ` && request.name == "other"`}
	}
	ctx := authorization.WithPolicyBudgets(t.Context())
	budgets := authorization.PolicyBudgetsOf(ctx)
	part, request := partOf(publish(t, policies), true), podsOf("create")
	reason := part.Decide(ctx, request).Reason()
	cost := uint64(cel.AuthorizationBudget) - budgets.Left("")
	if !strings.HasPrefix(reason, "policy=p0 reason=NotMet: failed part reads request.name; ") || !strings.HasSuffix(reason, "; policy=p3 reason=NotMet: its condition does not hold") {
		t.Errorf("got %s, want an explanation of the first policy, and none of the last", reason)
	}
	if left := budgets.LeftToExplain(); left != 0 {
		t.Errorf("%d is left to explain", left)
	}
	again := part.Decide(ctx, request).Reason()
	if twice := uint64(cel.AuthorizationBudget) - budgets.Left(""); strings.Contains(again, "failed part") || twice != 2*cost {
		t.Errorf("the first decision costs %d, and both together %d; the second says %s", cost, twice, again)
	}
}
