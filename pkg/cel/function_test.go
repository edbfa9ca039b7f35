/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// functionCompiler compiles functions of a dynamic x and a string s.
func functionCompiler(t *testing.T, result *cel.Type) *cel.FunctionCompiler {
	t.Helper()
	c, err := cel.NewFunctionCompiler(cel.Signature{
		Variables: map[cel.Variable]*cel.Type{"x": cel.DynamicType, "s": cel.StringType}, Result: result, CostLimit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	list := make([]any, 2000)
	for _, tc := range []struct {
		name, text string
		result     *cel.Type
		values     cel.Values
		want       any
		wantErr    error
	}{
		{name: "a string", text: "s.split('-')[0]", result: cel.StringType, values: cel.Values{"s": "a-b"}, want: "a"},
		{name: "a bool", text: "x.a * 2 > 10", result: cel.BoolType, values: cel.Values{"x": map[string]any{"a": int64(6)}}, want: true},
		{name: "null", text: "x == null", result: cel.BoolType, values: cel.Values{"x": nil}, want: true},
		{name: "null in a list", text: "x[0] == null", result: cel.BoolType, values: cel.Values{"x": []any{nil}}, want: true},
		{name: "an error", text: "s.split('-')[1]", result: cel.StringType, values: cel.Values{"s": "a"}, wantErr: cel.ErrEvaluation},
		{name: "an unknown variable", text: "s", result: cel.StringType, wantErr: cel.ErrEvaluation},
		{name: "work within the limit", text: "x.all(e, e == null)", result: cel.BoolType, values: cel.Values{"x": list[:100]}, want: true},
		{name: "work beyond the limit", text: "x.all(e, e == null)", result: cel.BoolType, values: cel.Values{"x": list}, wantErr: cel.ErrCost},
		{name: "work that only the parts of a value show", text: "x == x", result: cel.BoolType, values: cel.Values{"x": list}, wantErr: cel.ErrCost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, err := functionCompiler(t, tc.result).Compile(tc.text, cel.NewBudget())
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Call(t.Context(), tc.values)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v; result (-want +got):\n%s", err, tc.wantErr, diff)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if got, err := f.Call(ended, tc.values); got != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: got %v, %v", got, err)
			}
		})
	}
}

// TestFunctionsThatDoNotCompile have the bounds of conditions.
func TestFunctionsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{name: "another type", text: "1", want: "it must yield string, but yields int"},
		{name: "a dynamic type", text: "x", want: "it must yield string, but yields dyn"},
		{name: "a syntax error", text: "s +", want: "ERROR: <input>:1:4: Syntax error"},
		{name: "a variable of conditions", text: "object.name", want: "undeclared reference to 'object'"},
		{name: "a long text", text: "s" + strings.Repeat(" ", cel.MaxExpressionBytes), want: "longer than 10240 bytes"},
		{name: "deep literals", text: strings.Repeat("[", 17) + strings.Repeat("]", 17) + ".size() == 0 ? s : s", want: "nested more than 16 deep"},
		{name: "what the compiler panics at", text: "[?s]", want: "does not compile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, err := functionCompiler(t, cel.StringType).Compile(tc.text, cel.NewBudget())
			if f != nil || !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want an error with %q", f, err, tc.want)
			}
		})
	}
}

// TestBudgetOfFunctions compiles expressions of two signatures within one budget. Long ones spend its bytes, and macros its
// parts.
func TestBudgetOfFunctions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		most int
	}{
		"long":   {text: strings.Repeat("true||", 150) + "true", most: 22},
		"macros": {text: strings.Repeat("[].exists_one(a,a)||", 40) + "true", most: 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := functionCompiler(t, cel.BoolType), functionCompiler(t, cel.StringType)
			budget, compiled := cel.NewBudget(), 0
			for range 100 {
				if _, err := one.Compile(tc.text, budget); err != nil {
					if !errors.Is(err, cel.ErrBudget) || !errors.Is(err, cel.ErrCompile) {
						t.Fatalf("got %v, want ErrBudget", err)
					}
					break
				}
				compiled++
			}
			if compiled < 4 || compiled > tc.most {
				t.Errorf("got %d compilations of %d bytes, want between 4 and %d", compiled, len(tc.text), tc.most)
			}
			if _, err := other.Compile("s", budget); !errors.Is(err, cel.ErrBudget) {
				t.Errorf("another signature after the budget is spent: got %v, want ErrBudget", err)
			}
			if _, err := one.Compile(tc.text, cel.NewBudget()); err != nil {
				t.Errorf("with another budget: %v", err)
			}
		})
	}
}
