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
		`(object.n == 1 ? object.a.b : object.a).c == "x"`,
		`object.?a.?b.?c.orValue("y") == "x"`,
		`[object.a.b.c, dyn("y")].size() == 2 && {"k": object.n}.k == 1`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(expression)
			if err != nil {
				t.Fatal(err)
			}
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
