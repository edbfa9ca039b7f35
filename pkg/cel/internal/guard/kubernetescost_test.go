/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestCostIsThatOfKubernetes asks that what bounds expressions here does not make them
// cost more than where Kubernetes evaluates them, as long as values are small.
func TestCostIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	compiler, env := cel.NewCompilerFor(environment), environment.Engine().Env
	object := map[string]any{"a": map[string]any{"b": map[string]any{"c": "x"}}, "list": []any{"x", "y"}, "n": int64(1), "key": "a"}
	for _, expression := range []string{
		`object.n == 1`,
		`object.a.b.c == "x"`,
		`object["a"].b["c"].startsWith("x")`,
		`object[object.key].b.c == "x"`,
		`object.list.all(e, e.size() == 1 && object.a.b.c == "x")`,
		`object.list[0] == "x" && object.list.exists(e, e == object.a.b.c)`,
		`object.list.all(e, !object.a[?e].hasValue() && !object.a[?"z" + e].hasValue() && !object.a[?dyn(e)].hasValue())`,
		`object.list.all(e, object.a[e == "x" ? "b" : "b"].c == "x" && object[e == "x" ? object.key : object["key"]].b.c == "x")`,
		`object[object.?b.orValue("key")] == "a" && object[object.list.first().value() + "" == "x" ? "key" : "b"] == "a"`,
		`object[object.?key.optMap(k, k).value()].b.c == "x" && {object.?key.optMap(k, k).value(): 1}.size() == 1`,
		`object.list.all(e, object[?e].hasValue() || object[?dyn(object)[object.key].b.c].orValue(1) == 1)`,
		`object.list.all(e, {e: 1}[e] == 1 && {(e == "x" ? object : object).key: e}.size() == 1 && {(e == "x" ? e : "y"): e}.size() == 1)`,
		`{dyn(object.key): object.n, dyn(object)["key"]: object.n, object.list[0]: object.n}.size() == 2 && {"b" + object.key: 1}.size() == 1`,
		`{?object.key: object.?n, object.a.b.c: object.n}.size() == 2`,
		`object[has(object.n) ? "a" : "b"].b.c == "x" && {true: 1}[has(object.n)] == 1 && {has(object.n): 1}.size() == 1`,
		`!object.?a[?object.key].hasValue() && [object[optional.of("key").value()]][object.n - 1] == "a"`,
		`(object.n == 1 ? object.a.b : object.a).c == "x"`,
		`object.?a.?b.?c.orValue("y") == "x"`,
		`[object.a.b.c, dyn("y")].size() == 2 && {"k": object.n}.k == 1`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, expression)
			checked, issues := env.Compile(expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			plain, err := env.Program(checked, celgo.CostTracking(&library.CostEstimator{}))
			if err != nil {
				t.Fatal(err)
			}
			value, details, err := plain.Eval(map[string]any{"object": object})
			if err != nil || value != types.True {
				t.Fatalf("got %v, %v", value, err)
			}
			got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
			if want := *details.ActualCost(); !got || err != nil || cost != want {
				t.Errorf("got %t, %v at cost %d, want true at cost %d", got, err, cost, want)
			}
		})
	}
}
