/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// forgetUnchanged makes a plan evaluate the steps that it would leave as they are.
func (s *step) forgetUnchanged() (unchanged uint64) {
	if s == nil {
		return 0
	}
	unchanged, s.unchanged = s.unchanged, 0
	unchanged += s.target.forgetUnchanged()
	for _, group := range [][]*step{s.args, s.unrolled} {
		for _, operand := range group {
			unchanged += operand.forgetUnchanged()
		}
	}
	return unchanged
}

// compilerForTest returns a compiler of policies.
func compilerForTest(tb testing.TB) *Compiler {
	tb.Helper()
	conditions, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	compiler, err := NewPolicyCompiler(conditions)
	if err != nil {
		tb.Fatal(err)
	}
	return compiler
}

// TestUnchangedStepsAreEvaluatedToThemselves checks that an unchanged step has the same result, at the
// same cost, as its evaluation.
func TestUnchangedStepsAreEvaluatedToThemselves(t *testing.T) {
	t.Parallel()
	compiler := compilerForTest(t)
	values := cel.Values{cel.Request: cel.Known(map[string]any{"name": "n", "namespace": "ns", "userInfo": map[string]any{"groups": []any{"a", "b"}}})}
	for _, tc := range []struct {
		expression string
		unchanged  bool
	}{
		{expression: `object.spec.size < 10 && request.name == "n"`, unchanged: true},
		{expression: `has(object.spec) && object.metadata.labels["a"].startsWith("b") && request.name == "n"`, unchanged: true},
		{expression: `operation == "CREATE" || object == oldObject || dryRun`, unchanged: true},
		{expression: `object.items.all(i, i.size < 3 && object.spec.size > 2)`, unchanged: true},
		{expression: `request.userInfo.groups.all(g, object.spec.name.contains("x") && g == object.spec.group)`, unchanged: true},
		{expression: `request.userInfo.groups.map(g, g).exists(g, g == object.spec.group)`, unchanged: true},
		{expression: `(request.name == "x" ? object.a : object.b.c) == 1`, unchanged: true},
		{expression: `object.?a.?b.orValue("x") == request.name`, unchanged: true},
		{expression: `object.?a.or(object.?b).orValue(request.name) == "n"`, unchanged: true},
		{expression: `object.a in [1, 2] && object.b in []`, unchanged: true},
		{expression: `(object.a == 1 && false) || (object.b ? object.c : object.d) == request.name`, unchanged: true},
		{expression: `-object.a == 1 && !(object.b == -2)`, unchanged: true},
		{expression: `object.a == quantity("1") || quantity(object.a).isGreaterThan(quantity("2"))`, unchanged: true},
		{expression: `object.a / 0 == 1 || [dyn(object.a), dyn(2)].exists(x, x == request.name.size())`, unchanged: true},
		{expression: `namespaceObject.metadata.name == object.metadata.namespace`, unchanged: true},
		{expression: `type(object.a) == string`, unchanged: true},
		{expression: `authorizer.group("").resource("pods").check("get").allowed()`, unchanged: true},
		{expression: `request.name == "n"`, unchanged: false},
	} {
		t.Run(tc.expression, func(t *testing.T) {
			t.Parallel()
			expression, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := expression.Plan(cel.Request)
			if err != nil {
				t.Fatal(err)
			}
			got, gotCost := cameTo(t, plan, values)
			if unchanged := plan.root.forgetUnchanged(); (unchanged > 0) != tc.unchanged {
				t.Errorf("%d steps are unchanged", unchanged)
			}
			if want, wantCost := cameTo(t, plan, values); got != want || gotCost != wantCost {
				t.Errorf("got %s for %d, want %s for %d", got, gotCost, want, wantCost)
			}
		})
	}
}

func cameTo(t *testing.T, plan *Plan, values cel.Values) (string, uint64) {
	t.Helper()
	outcome := plan.Eval(t.Context(), values)
	switch {
	case outcome.Residual() != nil:
		text, err := outcome.Residual().Text()
		if err != nil {
			t.Fatal(err)
		}
		return text, outcome.Cost()
	case outcome.Err() != nil:
		return outcome.Err().Error(), outcome.Cost()
	case outcome.IsTrue():
		return "true", outcome.Cost()
	}
	return "false", outcome.Cost()
}
