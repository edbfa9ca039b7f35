/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// newEngine returns the engine of an environment with the variables of conditions, and some limits.
func newEngine(t *testing.T, limits ...uint64) *engine.Engine {
	t.Helper()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(environment.Engine().Env, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func checked(t *testing.T, e *engine.Engine, text string) *ast.AST {
	t.Helper()
	result, err := engine.Check(e.Env, e.Guard, text)
	if err != nil {
		t.Fatal(err)
	}
	return result.NativeRep()
}

func plan(t *testing.T, e *engine.Engine, whole *ast.AST, parts ...ast.Expr) []*engine.Instructions {
	t.Helper()
	planned, err := e.Plan(whole, parts)
	if err != nil {
		t.Fatal(err)
	}
	if len(planned) != len(parts) {
		t.Fatalf("got %d instructions, want %d", len(planned), len(parts))
	}
	return planned
}

// TestPartsShareOneProgram plans parts of one expression together, and runs them at the same time. Each
// evaluation must run its own instructions with its own values.
func TestPartsShareOneProgram(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	whole := checked(t, e, `object.a == 1 && object.list.exists(x, x == object.a)`)
	planned := plan(t, e, whole, append([]ast.Expr{whole.Expr()}, whole.Expr().AsCall().Args()...)...)
	for _, tc := range []struct {
		name   string
		object map[string]any
		want   []bool
	}{
		{name: "both", object: map[string]any{"a": int64(1), "list": []any{int64(1)}}, want: []bool{true, true, true}},
		{name: "the first", object: map[string]any{"a": int64(1), "list": []any{}}, want: []bool{false, true, false}},
		{name: "the second", object: map[string]any{"a": int64(2), "list": []any{int64(2)}}, want: []bool{false, false, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var group sync.WaitGroup
			for i, instructions := range planned {
				group.Go(func() {
					for range 100 {
						if got, _, err := e.Eval(t.Context(), instructions, cel.Values{cel.Object: tc.object}, cel.CostLimit); got != types.Bool(tc.want[i]) || err != nil {
							t.Errorf("part %d: got %v, %v, want %t", i, got, err, tc.want[i])
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// TestWholeExpressions plans expressions that the planner evaluates or changes.
func TestWholeExpressions(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	for text, want := range map[string]types.Int{`[1, 2].size() + 1`: 3, `{"a": 5}.a`: 5, `7`: 7, `[dyn(object), dyn(3)][1]`: 3} {
		whole := checked(t, e, text)
		got, _, err := e.Eval(t.Context(), plan(t, e, whole, whole.Expr())[0], cel.Values{cel.Object: int64(0)}, cel.CostLimit)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %d", text, got, err, want)
		}
	}
}

// TestEvalUsesTheNextLimit evaluates the same instructions with different limits.
func TestEvalUsesTheNextLimit(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 100, 10_000)
	whole := checked(t, e, `object.all(x, x != -1)`)
	instructions := plan(t, e, whole, whole.Expr())[0]
	list := make([]any, 200)
	for i := range list {
		list[i] = int64(i)
	}
	values := cel.Values{cel.Object: list}
	for _, tc := range []struct {
		name  string
		limit uint64
		fails bool
	}{
		{name: "none", limit: 0, fails: true},
		{name: "the smallest", limit: 100, fails: true},
		{name: "between", limit: 101},
		{name: "the largest", limit: 10_000},
		{name: "above all", limit: 1 << 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, cost, err := e.Eval(t.Context(), instructions, values, tc.limit)
			if (err != nil) != tc.fails || cost <= 100 {
				t.Errorf("got the cost %d, %v, want an error: %t", cost, err, tc.fails)
			}
		})
	}
}

// TestEvalEndsWithItsContext evaluates a macro in a context that has ended.
func TestEvalEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	whole := checked(t, e, `object.all(x, x != -1) || true`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _, err := e.Eval(ctx, plan(t, e, whole, whole.Expr())[0], cel.Values{cel.Object: []any{int64(1), int64(2)}}, cel.CostLimit); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

// TestErrorsAreShort checks expressions with many mistakes, and one that the guard refuses.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	e := newEngine(t, cel.CostLimit)
	for name, text := range map[string]string{"syntax": strings.Repeat("? ", 1000), "types": strings.Repeat("unknown + ", 1000) + "1"} {
		if _, err := engine.Check(e.Env, e.Guard, text); err == nil || len(err.Error()) > 1100 {
			t.Errorf("%s: got %v, want a short error", name, err)
		}
	}
	if err := engine.CheckText(e.Guard, strings.Repeat("[", 17)+strings.Repeat("]", 17)); !errors.Is(err, engine.ErrCompile) {
		t.Errorf("got %v, want ErrCompile", err)
	}
}
