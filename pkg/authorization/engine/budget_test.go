/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// expensive is a condition that costs two thirds of cel.CostLimit at admission, little before, and
// hardly any time: a secondary check has a fixed cost. last decides what it is.
func expensive(last string) string {
	const check = `authorizer.group("").resource("things").check("get").allowed()`
	return "!" + check + " && !" + check + " && " + last
}

var three = map[string]any{"three": int64(3)}

// mayNothing answers secondary checks.
var mayNothing = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
})

// mayAll allows everything.
var mayAll = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
})

// checkedChain is a chain of policies whose secondary checks are answered.
func checkedChain(tb testing.TB, specs map[string]spec) *authorization.Chain {
	tb.Helper()
	restricting, granting := partOf(publish(tb, specs), false), partOf(publish(tb, specs), true)
	restricting.Checks, granting.Checks = mayNothing, mayNothing
	return chainOf(tb, restricting, granting)
}

// texts compiles the texts of conditions. It keeps the programs.
var texts = sync.OnceValues(cel.NewCompiler)

// textEvaluator evaluates conditions from their text.
func textEvaluator(tb testing.TB, data conditionsData) *celeval.Evaluator {
	tb.Helper()
	compiler, err := texts()
	if err != nil {
		tb.Fatal(err)
	}
	return &celeval.Evaluator{Compiler: compiler, Values: data.values(), Secondary: &celeval.SecondaryChecks{Authorizer: mayNothing, User: data.GetUserInfo(), Resource: data}}
}

// several are so many policies of one effect, of whose conditions none is true but the last, if
// that one says so, and more.
func several(count int, effect policyv1alpha1.PolicyEffect, last string, more map[string]spec) map[string]spec {
	specs := map[string]spec{}
	for i := range count {
		specs[fmt.Sprintf("p%03d", i)] = spec{Effect: effect, Condition: expensive("object.three == 4")}
	}
	specs[fmt.Sprintf("p%03d", count)] = spec{Effect: effect, Condition: expensive(last)}
	maps.Copy(specs, more)
	return specs
}

// reviewed evaluates a decision as an AuthorizationConditionsReview does: from its text.
func reviewed(tb testing.TB, chain *authorization.Chain, decision authorization.Decision, data conditionsData) authorization.Decision {
	tb.Helper()
	wire, err := authorization.SetsToWire(decision.Chain())
	if err != nil {
		tb.Fatal(err)
	}
	sets, err := authorization.SetsFromWire(wire)
	if err != nil {
		tb.Fatal(err)
	}
	return authorization.Chained(chain.WithAuthors(sets...)...).Evaluate(tb.Context(), authorization.EvaluatorFor(data, textEvaluator(tb, data)))
}

// TestBudgetAtAdmission asks that the budget for all conditions of a request holds in a request as
// it does in its review, whatever the effect of the conditions is.
func TestBudgetAtAdmission(t *testing.T) {
	t.Parallel()
	const buffer, many, yes, no = 10, 20, "object.three == 3", "object.three == 4"
	allowed := map[string]spec{"z": {Effect: allow}}
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		want  string
	}{
		{name: "Allow within the budget", specs: several(buffer, allow, yes, nil), want: "Allow"},
		{name: "Allow over the budget", specs: several(many, allow, yes, nil), want: "NoOpinion"},
		{name: "Deny within the budget", specs: several(buffer, deny, no, allowed), want: "Allow"},
		{name: "Deny over the budget", specs: several(many, deny, no, allowed), want: "Deny"},
		{name: "NoOpinion within the budget", specs: several(buffer, noOpinion, no, allowed), want: "Allow"},
		{name: "NoOpinion over the budget", specs: several(many, noOpinion, no, allowed), want: "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain, a := checkedChain(t, tc.specs), podsOf("update")
			data := conditionsData{attributes: a, operation: "UPDATE", object: three, before: map[string]any{}}
			decision := chain.Decide(t.Context(), a)
			inProcess := decision.Evaluate(t.Context(), authorization.EvaluatorFor(data, nil))
			lazily := chain.Begin(t.Context(), a).Evaluate(t.Context(), authorization.EvaluatorFor(data, nil))
			inReview := reviewed(t, chain, decision, data)
			got := fmt.Sprintf("%s, %s, %s", show(t, inProcess), show(t, lazily), show(t, inReview))
			if want := fmt.Sprintf("%[1]s, %[1]s, %[1]s", tc.want); got != want {
				t.Errorf("in process, lazily, in a review: got %s, want %s", got, want)
			}
		})
	}
}

// TestBudgetIsSharedByMembers asks that what the conditions of one member have spent is missing to
// the conditions of the next, whether they are evaluated in process or from their text, and that evaluators
// of the same request share it.
func TestBudgetIsSharedByMembers(t *testing.T) {
	t.Parallel()
	a := podsOf("update")
	data := conditionsData{attributes: a, operation: "UPDATE", object: three, before: map[string]any{}}
	chain := checkedChain(t, several(20, allow, "object.three == 3", nil))
	cheap := authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "object.three == 3"})
	ctx := authorization.WithBudget(t.Context())
	if got := cheap.Evaluate(ctx, authorization.EvaluatorFor(data, textEvaluator(t, data))); !got.IsAllow() {
		t.Fatalf("before anything is spent: got %s", show(t, got))
	}
	for range 2 {
		chain.Decide(ctx, a).Evaluate(ctx, authorization.EvaluatorFor(data, textEvaluator(t, data)))
	}
	if got := cheap.Evaluate(ctx, authorization.EvaluatorFor(data, textEvaluator(t, data))); !got.IsNoOpinion() {
		t.Errorf("with nothing left: got %s", show(t, got))
	}
	if got := cheap.Evaluate(t.Context(), authorization.EvaluatorFor(data, textEvaluator(t, data))); !got.IsAllow() {
		t.Errorf("for another request: got %s", show(t, got))
	}
}

// sorts is a condition on the request alone that costs half of cel.NamespacedAuthorizationBudget and
// hardly any time: sorting has the cost of comparing all elements with each other. last decides what it is.
func sorts(last string) string { return `lists.range(240).sort()[0] == 0 && ` + last }

// TestBudgetAtAuthorization asks that policies of one namespace together, and policies of the cluster,
// have budgets of their own while only the request is known, and that policies over a budget are
// closed without closing policies of the other scope.
func TestBudgetAtAuthorization(t *testing.T) {
	t.Parallel()
	const yes, no = `request.verb == "update"`, `request.verb == "get"`
	// with returns 16 policies on which a namespace spends its budget, and others.
	with := func(prefix string, effect policyv1alpha1.PolicyEffect, more map[string]spec) map[string]spec {
		specs := map[string]spec{}
		for i := range 16 {
			specs[fmt.Sprintf("%sp%02d", prefix, i)] = spec{Effect: effect, Condition: sorts(no)}
		}
		maps.Copy(specs, more)
		return specs
	}
	one := func(name string, effect policyv1alpha1.PolicyEffect, condition string) map[string]spec {
		return map[string]spec{name: {Effect: effect, Condition: condition}}
	}
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		want  string
	}{
		{name: "an Allow within the budget of a namespace", specs: one("n/z", allow, sorts(yes)), want: "NoOpinion, Allow"},
		{name: "an Allow over the budget of a namespace", specs: with("n/", allow, one("n/z", allow, yes)), want: "NoOpinion, NoOpinion"},
		{name: "a Deny over the budget of a namespace", specs: with("n/", deny, one("n/z", deny, no)), want: "Deny, NoOpinion"},
		{name: "a NoOpinion over the budget of a namespace", specs: with("n/", noOpinion, one("z", allow, yes)), want: "NoOpinion, NoOpinion"},
		{name: "Allow policies of a namespace keep no policy of the cluster from allowing", specs: with("n/", allow, one("z", allow, sorts(yes))), want: "NoOpinion, Allow"},
		{name: "Allow policies of a namespace keep no policy of the cluster from denying", specs: with("n/", allow, one("z", deny, sorts(yes))), want: "Deny, NoOpinion"},
		{name: "Allow policies of a namespace hide no NoOpinion policy of the cluster", specs: with("n/", allow, map[string]spec{"y": {Effect: noOpinion, Condition: sorts(yes)}, "z": {Effect: allow}}), want: "NoOpinion, NoOpinion"},
		{name: "Deny policies of the namespace of another request", specs: with("m/", deny, one("z", allow, yes)), want: "NoOpinion, Allow"},
		{name: "the budget of the cluster is larger", specs: with("", allow, one("z", allow, yes)), want: "NoOpinion, Allow"},
		{name: "policies of the cluster leave the budget of a namespace alone", specs: with("", deny, one("n/z", allow, sorts(yes))), want: "NoOpinion, Allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := decided(t, publish(t, tc.specs), podsOf("update")); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSharedBudgetAtAuthorization asks that decisions in a context with authorization.PolicyBudgets share them, so
// that many decisions for one request cost no more than one, and that budgets of other scopes are left alone.
func TestSharedBudgetAtAuthorization(t *testing.T) {
	t.Parallel()
	const no = `request.verb == "get"`
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		// wantAtMost bounds the decisions until the answer is the last one for good.
		wantAtMost int
		wantFirst  string
		wantLast   string
	}{
		{name: "a Deny policy of the cluster", specs: map[string]spec{"p": {Effect: deny, Condition: sorts(no)}}, wantAtMost: 25, wantFirst: "NoOpinion, NoOpinion", wantLast: "Deny, NoOpinion"},
		{name: "a Deny policy of the namespace", specs: map[string]spec{"n/p": {Effect: deny, Condition: sorts(no)}}, wantAtMost: 3, wantFirst: "NoOpinion, NoOpinion", wantLast: "Deny, NoOpinion"},
		{name: "an Allow policy of the cluster", specs: map[string]spec{"p": {Effect: allow, Condition: sorts(`request.verb == "update"`)}}, wantAtMost: 25, wantFirst: "NoOpinion, Allow", wantLast: "NoOpinion, NoOpinion"},
		{name: "a Deny policy of the namespace leaves the cluster alone", specs: map[string]spec{"n/p": {Effect: allow, Condition: sorts(no)}, "z": {Effect: allow, Condition: `request.verb == "update"`}}, wantAtMost: 50, wantFirst: "NoOpinion, Allow", wantLast: "NoOpinion, Allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			snapshot := publish(t, tc.specs)
			ctx := authorization.WithPolicyBudgets(t.Context())
			if ctx != authorization.WithPolicyBudgets(ctx) {
				t.Error("a context with budgets does not keep them")
			}
			var got []string
			for range tc.wantAtMost {
				got = append(got, decidedIn(ctx, t, snapshot, podsOf("update")))
			}
			if first, last := got[0], got[len(got)-1]; first != tc.wantFirst || last != tc.wantLast {
				t.Errorf("got %s first and %s last, want %s and %s", first, last, tc.wantFirst, tc.wantLast)
			}
			for range 50 {
				if got := decided(t, snapshot, podsOf("update")); got != tc.wantFirst {
					t.Fatalf("without a shared budget: got %s, want %s", got, tc.wantFirst)
				}
			}
		})
	}
}
