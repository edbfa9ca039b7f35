/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"testing"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// TestKeysOfMaps tells the values that are one key of a map for all equal values. With any other key, a map that is made twice
// would have two entries or one, depending on the place in memory.
func TestKeysOfMaps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		key      ref.Val
		plain    bool // that it can be a key of a map that an expression makes
		hashable bool // that a map of Go can look it up
	}{
		{name: "null", key: types.NullValue, plain: true, hashable: true},
		{name: "a bool", key: types.True, plain: true, hashable: true},
		{name: "an int", key: types.Int(1), plain: true, hashable: true},
		{name: "a uint", key: types.Uint(1), plain: true, hashable: true},
		{name: "a double", key: types.Double(1), plain: true, hashable: true},
		{name: "a string", key: types.String("a"), plain: true, hashable: true},
		{name: "a duration", key: types.Duration{Duration: time.Hour}, plain: true, hashable: true},
		{name: "a timestamp", key: types.Timestamp{Time: time.Unix(0, 0)}, hashable: true},
		{name: "bytes", key: types.Bytes("a")},
		{name: "a list", key: val([]any{"a"}), hashable: true},
		{name: "a map", key: val(map[string]any{}), hashable: true},
		{name: "a type", key: types.IntType, hashable: true},
		{name: "an optional", key: types.OptionalOf(types.Int(1)), hashable: true},
		{name: "a version", key: cel.Semver{}},
		{name: "a URL", key: cel.URL{}, hashable: true},
		{name: "an error", key: types.NewErr("an error"), hashable: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := isPlain(tc.key); got != tc.plain {
				t.Errorf("is a plain key: got %t, want %t", got, tc.plain)
			}
			found := hashableValue(tc.key)
			if _, other := found.(*unequal); other == tc.hashable {
				t.Errorf("got %T, want it looked up: %t", found, tc.hashable)
			}
			made := map[ref.Val]bool{}
			made[found] = true // panics if Go cannot hash it
			if got := types.DefaultTypeAdapter.NativeToValue(map[ref.Val]ref.Val{types.Int(1): types.True}); tc.hashable {
				result, isError := plainKeys(types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{types.Int(1): types.True, tc.key: types.True})).(*types.Err)
				if isError == tc.plain || isError && !errors.Is(result, errKey) {
					t.Errorf("a map with it: got %v, want it made: %t", result, tc.plain)
				}
			} else if plainKeys(got) != got {
				t.Error("a map without it has changed")
			}
		})
	}
	for _, v := range []ref.Val{types.Int(1), types.NewErr("an error"), val([]any{1}), val(map[string]any{})} {
		if plainKeys(v) != v {
			t.Errorf("%v, which has no keys, has changed", v)
		}
	}
}

// TestLongTextsAreInNoSet looks up texts in a set: one that is longer than all elements is not hashed.
func TestLongTextsAreInNoSet(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		value   ref.Val
		longest int
		want    bool // that it is looked up
	}{
		{name: "a text as long as the longest", value: val("ab"), longest: 2, want: true},
		{name: "a longer text", value: val("abc"), longest: 2},
		{name: "the empty text in a set of numbers", value: val(""), longest: 0, want: true},
		{name: "a text in a set of numbers", value: val("a"), longest: 0},
		{name: "a number in a set of numbers", value: val(1), longest: 0, want: true},
		{name: "bytes", value: types.Bytes("a"), longest: 2},
		{name: "an error, which stays", value: types.NewErr("an error"), want: true},
	} {
		h := hashable{InterpretableV2: interpreter.NewConstValue(1, tc.value), longest: tc.longest}
		for way, got := range map[string]ref.Val{"Exec": h.Exec(interpreter.AsFrame(interpreter.EmptyActivation())), "Eval": h.Eval(interpreter.EmptyActivation())} {
			if _, other := got.(*unequal); other == tc.want {
				t.Errorf("%s by %s: got %T, want it looked up: %t", tc.name, way, got, tc.want)
			}
		}
	}
}

// TestRecoveredPanics turns panics into values. The end of an evaluation must stay a panic, or || would absorb it.
func TestRecoveredPanics(t *testing.T) {
	t.Parallel()
	errOther := errors.New("the reviewer failed")
	for _, tc := range []struct {
		name   string
		panics any
		want   error // nil if it panics again
	}{
		{name: "a text", panics: "no", want: errPanic},
		{name: "an error", panics: errOther, want: errPanic},
		{name: "the error of a call", panics: failedCall{errOther}, want: errOther},
		{name: "the end of the context", panics: interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled}},
		{name: "the end of the budget", panics: interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			failing := interpreter.NewCall(1, "f", "f", []interpreter.InterpretableV2{interpreter.NewConstValue(2, types.True)}, func(...ref.Val) ref.Val { panic(tc.panics) })
			contained, err := ContainPanics(failing)
			if err != nil {
				t.Fatal(err)
			}
			for way, run := range map[string]func() ref.Val{
				"Exec": func() ref.Val { return contained.Exec(interpreter.AsFrame(interpreter.EmptyActivation())) },
				"Eval": func() ref.Val { return contained.Eval(interpreter.EmptyActivation()) },
			} {
				func() {
					defer func() {
						if r := recover(); (r != nil) != (tc.want == nil) {
							t.Errorf("%s: got the panic %v, want an error %v", way, r, tc.want)
						}
					}()
					if result, ok := run().(*types.Err); !ok || !errors.Is(result, tc.want) {
						t.Errorf("%s: got %v, want %v", way, result, tc.want)
					}
				}()
			}
		})
	}
	func() {
		defer func() {
			if r, ok := recover().(failedCall); !ok || !errors.Is(r.err, errOther) {
				t.Errorf("Fail panics with %v, want a failed call", r)
			}
		}()
		Fail(errOther)
	}()
}

// TestWhatIsContained lists the calls whose panics become errors: all but the operators that cannot panic.
func TestWhatIsContained(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		operators.Index: true, operators.OptIndex: true, operators.In: true, operators.OldIn: true, "matches": true, "dyn": true, mapInsert: true, operators.Negate: true,
		operators.Equals: false, operators.LogicalAnd: false, operators.Conditional: false, operators.OptSelect: false, operators.LogicalNot: false, operators.NotStrictlyFalse: false, "@sortByAssociatedKeys": false,
	} {
		contained, err := ContainPanics(interpreter.NewCall(1, name, "", nil, func(...ref.Val) ref.Val { return types.True }))
		if _, got := contained.(containedCall); got != want || err != nil {
			t.Errorf("%s: got %T, %v, want it contained: %t", name, contained, err, want)
		}
	}
	constant := interpreter.NewConstValue(1, types.True)
	if got, err := ContainPanics(constant); got != interpreter.InterpretableV2(constant) || err != nil {
		t.Errorf("a constant: got %T, %v, want the constant", got, err)
	}
}

// TestInvoke calls functions with numbers of arguments that they have, and that they do not have.
func TestInvoke(t *testing.T) {
	t.Parallel()
	one := &functions.Overload{Unary: func(v ref.Val) ref.Val { return v }}
	two := &functions.Overload{Binary: func(a, _ ref.Val) ref.Val { return a }}
	more := &functions.Overload{Function: func(args ...ref.Val) ref.Val { return types.Int(len(args)) }}
	for _, tc := range []struct {
		name     string
		function *functions.Overload
		args     []ref.Val
		want     ref.Val // nil for an error
	}{
		{name: "one of one", function: one, args: vals(7), want: types.Int(7)},
		{name: "two of one", function: one, args: vals(7, 8)},
		{name: "none of one", function: one},
		{name: "two of two", function: two, args: vals(7, 8), want: types.Int(7)},
		{name: "one of two", function: two, args: vals(7)},
		{name: "three of two", function: two, args: vals(7, 8, 9)},
		{name: "one of any number", function: more, args: vals(7), want: types.Int(1)},
		{name: "three of any number", function: more, args: vals(7, 8, 9), want: types.Int(3)},
		{name: "none of any number", function: more, want: types.Int(0)},
		{name: "no function", function: &functions.Overload{}, args: vals(7)},
	} {
		got := invoke(tc.function, tc.args)
		if failed, ok := got.(*types.Err); ok != (tc.want == nil) || ok && !errors.Is(failed, errArguments) || !ok && got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestUnequalValuesAreFoundNowhere looks up bytes, which Go cannot hash, in maps and in lists.
func TestUnequalValuesAreFoundNowhere(t *testing.T) {
	t.Parallel()
	env, err := celgo.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	bindings, err := env.Functions()[operators.In].Bindings()
	if err != nil {
		t.Fatal(err)
	}
	in := bindings[len(bindings)-1]
	for _, tc := range []struct {
		name        string
		value, from ref.Val
		want        ref.Val
	}{
		{name: "bytes in a map", value: types.Bytes("a"), from: types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{types.String("a"): types.True}), want: types.False},
		{name: "bytes in a list that has them", value: types.Bytes("a"), from: val([]any{[]byte("b"), []byte("a")}), want: types.True},
		{name: "a text in a map that has it", value: types.String("a"), from: val(map[string]any{"a": 1}), want: types.True},
		{name: "a text in a map that does not have it", value: types.String("b"), from: val(map[string]any{"a": 1}), want: types.False},
	} {
		if got := callIn(in, []ref.Val{tc.value, tc.from}); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

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
