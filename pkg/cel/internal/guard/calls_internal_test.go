/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/environment"
)

// TestCheckCalls decorates calls as the planner makes them. A call that is replaced must call the function of its overload, and
// only with arguments within the bounds.
func TestCheckCalls(t *testing.T) {
	t.Parallel()
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(env)
	if err != nil {
		t.Fatal(err)
	}
	large := val(list(maxDeep, 1))
	// unknown returns an instruction whose value the planner does not know.
	unknown := func(v ref.Val) interpreter.InterpretableV2 {
		return interpreter.NewCall(9, "f", "f", []interpreter.InterpretableV2{interpreter.NewConstValue(10, v)}, func(...ref.Val) ref.Val { return v })
	}
	for _, tc := range []struct {
		name, function, overload string
		args                     []interpreter.InterpretableV2
		want                     ref.Val // nil if the call stays as it is
		wantErr                  error
	}{
		{name: "a function that is not guarded", function: "size", args: []interpreter.InterpretableV2{unknown(large)}},
		{name: "==", function: operators.Equals, args: []interpreter.InterpretableV2{unknown(types.Int(1)), unknown(types.Double(1))}, want: types.True},
		{name: "== of what is too large", function: operators.Equals, args: []interpreter.InterpretableV2{unknown(large), unknown(large)}, wantErr: errWork},
		{name: "!=", function: operators.NotEquals, args: []interpreter.InterpretableV2{unknown(types.Int(1)), unknown(types.String("1"))}, want: types.True},
		{name: "!= of equal values", function: operators.NotEquals, args: []interpreter.InterpretableV2{unknown(types.Int(1)), unknown(types.Uint(1))}, want: types.False},
		{name: "!= of what is too large", function: operators.NotEquals, args: []interpreter.InterpretableV2{unknown(large), unknown(large)}, wantErr: errWork},
		{name: "in", function: operators.In, args: []interpreter.InterpretableV2{unknown(types.Int(1)), unknown(val([]any{1}))}, want: types.True},
		{name: "in of a constant", function: operators.In, args: []interpreter.InterpretableV2{unknown(types.Int(2)), interpreter.NewConstValue(3, val([]any{1}))}, want: types.False},
		{name: "in of two constants, which the planner evaluates", function: operators.In, args: []interpreter.InterpretableV2{interpreter.NewConstValue(2, types.Int(1)), interpreter.NewConstValue(3, val([]any{1}))}},
		{name: "in of what is too large", function: operators.In, args: []interpreter.InterpretableV2{unknown(types.Int(2)), unknown(large)}, wantErr: errWork},
		{name: "an overload", function: "int", overload: "string_to_int", args: []interpreter.InterpretableV2{unknown(val("12"))}, want: types.Int(12)},
		{name: "an overload of a long text", function: "int", overload: "string_to_int", args: []interpreter.InterpretableV2{unknown(val(text(257)))}, wantErr: errWork},
		{name: "an overload that is found at run time", function: "int", args: []interpreter.InterpretableV2{unknown(types.Double(1.5))}, want: types.Int(1)},
		{name: "a pattern that is no constant", function: "matches", overload: "matches_string", args: []interpreter.InterpretableV2{unknown(val("aaa")), unknown(val("^a+$"))}, want: types.True},
		{name: "a long pattern that is no constant", function: "matches", overload: "matches_string", args: []interpreter.InterpretableV2{unknown(val("aaa")), unknown(val(text(257)))}, wantErr: errDynamicPattern},
		{name: "a long constant pattern", function: "matches", overload: "matches_string", args: []interpreter.InterpretableV2{unknown(val("aaa")), interpreter.NewConstValue(3, val(text(257)))}, want: types.False},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			original := interpreter.NewCall(1, tc.function, tc.overload, tc.args, func(...ref.Val) ref.Val { return types.NewErr("the original is called") })
			checked, err := g.CheckCalls(original)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == nil && tc.wantErr == nil {
				if checked != original {
					t.Error("the call is replaced")
				}
				return
			}
			got := checked.Eval(interpreter.EmptyActivation())
			if failed, ok := got.(*types.Err); ok != (tc.wantErr != nil) || ok && !errors.Is(failed, tc.wantErr) || !ok && got != tc.want {
				t.Errorf("got %v, want %v, %v", got, tc.want, tc.wantErr)
			}
		})
	}
	constant := interpreter.NewConstValue(1, types.True)
	if got, err := g.CheckCalls(constant); got != interpreter.InterpretableV2(constant) || err != nil {
		t.Errorf("a constant: got %v, %v, want the constant", got, err)
	}
	lacking := &Guard{checks: guarded}
	if got, err := lacking.CheckCalls(interpreter.NewCall(1, "int", "", []interpreter.InterpretableV2{unknown(types.True)}, func(...ref.Val) ref.Val { return types.True })); got != nil || err == nil {
		t.Errorf("a function whose implementation is not known: got %v, %v, want an error", got, err)
	}
}
