/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// TestBoundsOfTypes measures types that are known.
func TestBoundsOfTypes(t *testing.T) {
	t.Parallel()
	variable := types.NewTypeParamType("T")
	for _, tc := range []struct {
		name       string
		t          *types.Type
		parameters map[string]typeBound
		want       typeBound
	}{
		{name: "a simple type", t: types.StringType, want: typeBound{parts: 1, depth: 1}},
		{name: "null", t: types.NullType, want: typeBound{parts: 1, depth: 1}},
		{name: "dyn", t: types.DynType, want: typeBound{parts: 1, depth: 1, isDyn: true}},
		{name: "an object", t: types.NewObjectType("proviso.Request"), want: typeBound{parts: 1, depth: 1}},
		{name: "a list", t: types.NewListType(types.StringType), want: typeBound{parts: 2, depth: 2}},
		{name: "a list of dyn, which is not dyn itself", t: types.NewListType(types.DynType), want: typeBound{parts: 2, depth: 2}},
		{name: "a map", t: types.NewMapType(types.StringType, types.NewListType(types.StringType)), want: typeBound{parts: 4, depth: 3}},
		{name: "a map with a deep key", t: types.NewMapType(types.NewListType(types.NewListType(types.IntType)), types.IntType), want: typeBound{parts: 5, depth: 4}},
		{name: "an optional", t: types.NewOptionalType(types.IntType), want: typeBound{parts: 2, depth: 2}},
		{name: "the type of a list", t: types.NewTypeTypeWithParam(types.NewListType(types.IntType)), want: typeBound{parts: 3, depth: 3}},
		{name: "a type variable", t: variable, want: typeBound{parts: 1, depth: 1, open: true}},
		{name: "a list of a type variable", t: types.NewListType(variable), want: typeBound{parts: 2, depth: 2, open: true}},
		{name: "a type variable that is bound", t: variable, parameters: map[string]typeBound{"T": {parts: 7, depth: 3}}, want: typeBound{parts: 7, depth: 3}},
		{name: "a map of a type variable that is bound", t: types.NewMapType(variable, variable), parameters: map[string]typeBound{"T": {parts: 7, depth: 3}}, want: typeBound{parts: 15, depth: 4}},
		{name: "another type variable", t: variable, parameters: map[string]typeBound{"U": {parts: 7, depth: 3}}, want: typeBound{parts: 1, depth: 1, open: true}},
		{name: "a type variable that is dyn", t: variable, parameters: map[string]typeBound{"T": dynType}, want: dynType},
	} {
		if got := boundOf(tc.t, tc.parameters); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestArithmeticOfBounds joins, nests and opens bounds of types.
func TestArithmeticOfBounds(t *testing.T) {
	t.Parallel()
	wide, deep := typeBound{parts: 9, depth: 2}, typeBound{parts: 4, depth: 4}
	open := typeBound{parts: 2, depth: 2, open: true}
	huge := typeBound{parts: maxTypeWork, depth: maxTypeWork}
	for _, tc := range []struct {
		name      string
		got, want typeBound
	}{
		{name: "what is wide or deep", got: wide.join(deep), want: typeBound{parts: 9, depth: 4}},
		{name: "what is deep or wide", got: deep.join(wide), want: typeBound{parts: 9, depth: 4}},
		{name: "what is wide or dyn", got: wide.join(dynType), want: dynType},
		{name: "what is dyn or wide", got: dynType.join(wide), want: dynType},
		{name: "what is open or bound", got: open.join(wide), want: wide},
		{name: "what is bound or open", got: wide.join(open), want: wide},
		{name: "what is open or open", got: open.join(unknownType), want: open},
		{name: "in a list of one parameter", got: wide.inner(1), want: typeBound{parts: 8, depth: 1}},
		{name: "in a map of two", got: wide.inner(2), want: typeBound{parts: 7, depth: 1}},
		{name: "in what has nothing in it", got: simpleType.inner(1), want: simpleType},
		{name: "in dyn", got: dynType.inner(1), want: dynType},
		{name: "in what is open", got: unknownType.inner(1), want: unknownType},
		{name: "a list", got: listOf(wide), want: typeBound{parts: 10, depth: 3}},
		{name: "a list of what is open", got: listOf(open), want: typeBound{parts: 3, depth: 3, open: true}},
		{name: "a list of dyn", got: listOf(dynType), want: typeBound{parts: 2, depth: 2}},
		{name: "a map", got: mapOf(wide, deep), want: typeBound{parts: 14, depth: 5}},
		{name: "a map with an open key", got: mapOf(open, deep), want: typeBound{parts: 7, depth: 5, open: true}},
		{name: "a map with an open value", got: mapOf(deep, open), want: typeBound{parts: 7, depth: 5, open: true}},
		{name: "a map of what is huge", got: mapOf(huge, huge), want: huge},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, tc.got, tc.want)
		}
	}
	for _, tc := range []struct {
		bound typeBound
		want  int
	}{
		{bound: typeBound{}, want: 0},
		{bound: typeBound{parts: 8, depth: 8}, want: 0},
		{bound: typeBound{parts: 9, depth: 2}, want: 18},
		{bound: huge, want: maxTypeWork * maxTypeWork},
		{bound: typeBound{parts: 1 << 62, depth: 1 << 62}, want: maxTypeWork * maxTypeWork},
	} {
		if got := tc.bound.work(); got != tc.want {
			t.Errorf("the work of %+v: got %d, want %d", tc.bound, got, tc.want)
		}
	}
}

// TestResultsOfOverloads bounds the results of calls of functions with one or more overloads, as the checker finds them.
func TestResultsOfOverloads(t *testing.T) {
	t.Parallel()
	a, b := types.NewTypeParamType("A"), types.NewTypeParamType("B")
	listA := types.NewListType(a)
	overload := func(id string, result *types.Type, args ...*types.Type) celgo.FunctionOpt {
		return celgo.Overload(id, args, result)
	}
	env, err := celgo.NewEnv(
		celgo.Function("plain", overload("plain_int", types.IntType, types.IntType)),
		celgo.Function("large", overload("large_int", types.NewListType(types.NewListType(types.IntType)), types.IntType)),
		celgo.Function("either", overload("either_int", types.IntType, types.IntType), overload("either_string", types.NewListType(types.StringType), types.StringType)),
		celgo.Function("anything", overload("anything_int", types.DynType, types.IntType)),
		celgo.Function("same", overload("same_a", a, a)),
		celgo.Function("first", overload("first_list", a, listA)),
		celgo.Function("wrap", overload("wrap_a", listA, a)),
		celgo.Function("pair", overload("pair_a_b", types.NewMapType(a, b), a, b)),
		celgo.Function("merge", overload("merge_a_a", listA, a, a)),
		celgo.Function("two", overload("two_list", a, listA), overload("two_map", a, types.NewMapType(types.StringType, a))),
		celgo.Function("arity", overload("arity_1", listA, a), overload("arity_2", types.NewMapType(a, b), a, b)),
		celgo.Function("mixed", overload("mixed_list", a, listA), overload("mixed_string", types.NewListType(types.NewListType(types.IntType)), types.StringType)),
	)
	if err != nil {
		t.Fatal(err)
	}
	known := candidatesOf(env)
	five := typeBound{parts: 5, depth: 3}
	open := typeBound{parts: 3, depth: 3, open: true}
	for _, tc := range []struct {
		name, function string
		args           []typeBound
		want           typeBound
	}{
		{name: "a result that does not depend on the argument", function: "plain", args: []typeBound{five}, want: simpleType},
		{name: "a large result", function: "large", args: []typeBound{simpleType}, want: typeBound{parts: 3, depth: 3}},
		{name: "one of two results", function: "either", args: []typeBound{simpleType}, want: typeBound{parts: 2, depth: 2}},
		{name: "dyn", function: "anything", args: []typeBound{simpleType}, want: dynType},
		{name: "the argument", function: "same", args: []typeBound{five}, want: five},
		{name: "the argument, which is open", function: "same", args: []typeBound{open}, want: open},
		{name: "the argument, which is dyn", function: "same", args: []typeBound{dynType}, want: dynType},
		{name: "what is in the argument", function: "first", args: []typeBound{five}, want: typeBound{parts: 4, depth: 2}},
		{name: "what is in dyn, of which nothing is known", function: "first", args: []typeBound{dynType}, want: unknownType},
		{name: "a list of the argument", function: "wrap", args: []typeBound{five}, want: typeBound{parts: 6, depth: 4}},
		{name: "a list of dyn", function: "wrap", args: []typeBound{dynType}, want: typeBound{parts: 2, depth: 2}},
		{name: "a map of the arguments", function: "pair", args: []typeBound{five, simpleType}, want: typeBound{parts: 7, depth: 4}},
		{name: "a list of two that must be the same", function: "merge", args: []typeBound{five, simpleType}, want: typeBound{parts: 6, depth: 4}},
		{name: "a list of two, one of which is open", function: "merge", args: []typeBound{five, unknownType}, want: typeBound{parts: 6, depth: 4}},
		{name: "a list of two, one of which is dyn", function: "merge", args: []typeBound{five, dynType}, want: typeBound{parts: 2, depth: 2}},
		{name: "what is in one of two arguments", function: "two", args: []typeBound{five}, want: typeBound{parts: 4, depth: 2}},
		{name: "what is in dyn, by two overloads", function: "two", args: []typeBound{dynType}, want: dynType},
		{name: "the overload of one argument", function: "arity", args: []typeBound{five}, want: typeBound{parts: 6, depth: 4}},
		{name: "the overload of two arguments", function: "arity", args: []typeBound{five, five}, want: typeBound{parts: 11, depth: 4}},
		{name: "a number of arguments that no overload has", function: "arity", args: []typeBound{five, five, five}, want: simpleType},
		{name: "what is in a small argument, or a large result", function: "mixed", args: []typeBound{simpleType}, want: typeBound{parts: 3, depth: 3}},
		{name: "what is in a large argument, or a small result", function: "mixed", args: []typeBound{{parts: 9, depth: 2}}, want: typeBound{parts: 8, depth: 3}},
		{name: "a function that there is not", function: "unknown", args: []typeBound{five}, want: simpleType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := known[callStyle{tc.function, false}].result(tc.args); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	for style, want := range map[callStyle][2]int{
		{"plain", false}: {1, 0}, {"either", false}: {2, 0}, {"pair", false}: {1, 2}, {"two", false}: {2, 2}, {"plain", true}: {0, 0}, {"size", true}: {4, 3}, {"startsWith", true}: {1, 0},
	} {
		if got := [2]int{known[style].count, known[style].variables}; got != want {
			t.Errorf("%v: got %d overloads and %d type variables, want %v", style, got[0], got[1], want)
		}
	}
}

// workOf counts what it takes to check an expression in an environment that has little but the variables x, y and z.
func workOf(t *testing.T, g *Guard, env *celgo.Env, text string) (TypeWork, error) {
	t.Helper()
	return g.CheckTypeWork(parsed(t, env, text))
}

func typedGuard(t *testing.T) (*Guard, *celgo.Env) {
	t.Helper()
	env := plainEnv(t)
	return &Guard{candidates: candidatesOf(env), identifiers: identifiersOf(env), fields: requestFields}, env
}

// TestTypeWorkOfExpressions counts by hand the parts of expressions, and the copies of type variables.
func TestTypeWorkOfExpressions(t *testing.T) {
	t.Parallel()
	g, env := typedGuard(t)
	for _, tc := range []struct {
		name, expression string
		nodes            int
		copied           uint64
	}{
		{name: "a literal", expression: `1`, nodes: 1, copied: 0},
		{name: "a variable", expression: `x`, nodes: 1, copied: 0},
		{name: "fields", expression: `x.a.b`, nodes: 3, copied: 0},
		{name: "a call of no generic function", expression: `1 < 2`, nodes: 3, copied: 0},
		{name: "a comparison, which adds a type variable", expression: `1 == 2`, nodes: 3, copied: 1},
		{name: "two comparisons, the second of which copies two, and the || that copies them twice", expression: `1 == 2 || 3 == 4`, nodes: 7, copied: 1 + 2 + 2*2},
		{name: "a comparison in a list, whose elements copy it", expression: `[1 == 2, true, false]`, nodes: 6, copied: 1 + 3},
		{name: "a list, whose elements have nothing to copy", expression: `[1, 2, 3]`, nodes: 4, copied: 0},
		{name: "an empty list, which has a type to be found", expression: `[]`, nodes: 1, copied: 0},
		{name: "an empty list that is compared", expression: `[] == [1]`, nodes: 4, copied: 2 + 1},
		{name: "an empty map that is compared, which has two", expression: `{} == {1: 2}`, nodes: 5, copied: 3 + 2 + 2},
		{name: "a macro, whose range, condition and step have to fit at the end", expression: `[1].all(x, x == 1)`, nodes: 12, copied: 1 + 2 + 3},
		{name: "a macro in a macro", expression: `[1].all(x, [2].all(y, x == y))`, nodes: 9 + 12, copied: 1 + 2 + 3 + 2 + 3},
		{name: "an optional field, which copies what is there", expression: `1 == 2 || x.?a.hasValue()`, nodes: 8, copied: 1 + 1 + 2 + 2*2},
		{name: "a pattern", expression: `"".matches("aaaa")`, nodes: 3, copied: 16 + 3*4},
		{name: "patterns", expression: `"".matches("aaaa") && matches("", "a")`, nodes: 7, copied: 16 + 3*4 + 16 + 19},
		{name: "a pattern that is no constant", expression: `"".matches(x)`, nodes: 3, copied: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := workOf(t, g, env, tc.expression)
			if want := (TypeWork{Nodes: tc.nodes, Copied: tc.copied}); got != want || err != nil {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// TestTypeWorkIsRefused checks expressions at and over the bounds. What is refused has spent all that one expression may.
func TestTypeWorkIsRefused(t *testing.T) {
	t.Parallel()
	g, env := typedGuard(t)
	nested := func(depth int) *types.Type {
		result := types.IntType
		for range depth {
			result = types.NewListType(result)
		}
		return result
	}
	for _, tc := range []struct {
		name, expression string
		guard            *Guard
		want             error
	}{
		{name: "a type of 256 parts", expression: `y`, guard: g.WithVariable("y", nested(255))},
		{name: "a type of 257 parts", expression: `y`, guard: g.WithVariable("y", nested(256)), want: ErrTypeParts},
		{name: "a variable whose name begins with a dot", expression: `.y`, guard: g.WithVariable("y", nested(256)), want: ErrTypeParts},
		{name: "a variable with a qualified name", expression: `y.z`, guard: g.WithVariable("y.z", nested(256)), want: ErrTypeParts},
		{name: "a field of a variable", expression: `y.z`, guard: g.WithVariable("z", nested(256))},
		{name: "a test for a qualified name, which is a bool", expression: `[has(y.z)]`, guard: g.WithVariable("y.z", nested(256))},
		{name: "a variable of a macro that hides the qualified name", expression: `[x].all(y, y.z == 1)`, guard: g.WithVariable("y.z", nested(256))},
		{name: "the variable beside the macro that hides it", expression: `[x].all(y, y.z == 1) || y.z == []`, guard: g.WithVariable("y.z", nested(256)), want: ErrTypeParts},
		{name: "the variable with a dot, which nothing hides", expression: `[x].all(y, .y.z == [])`, guard: g.WithVariable("y.z", nested(256)), want: ErrTypeParts},
		{name: "a list of 256 parts", expression: `[y]`, guard: g.WithVariable("y", nested(254))},
		{name: "a list of 257 parts", expression: `[y]`, guard: g.WithVariable("y", nested(255)), want: ErrTypeParts},
		{name: "a map whose key and value have 257 parts together", expression: `{y: y}`, guard: g.WithVariable("y", nested(127)), want: ErrTypeParts},
		{name: "a map whose key and value have 255 parts together", expression: `{y: 1}`, guard: g.WithVariable("y", nested(252))},
		{name: "a field of 256 parts", expression: `{"a": 1}.b`, guard: g.WithFields([]*types.Type{types.IntType, nested(254), types.IntType})},
		{name: "a field of more parts", expression: `{"a": 1}.b`, guard: g.WithFields([]*types.Type{types.IntType, nested(256), types.IntType}), want: ErrTypeParts},
		{name: "a field of dyn, which is dyn", expression: `x.b`, guard: g.WithFields([]*types.Type{nested(256)})},
		{name: "an optional field of dyn", expression: `x.?b`, guard: g.WithFields([]*types.Type{nested(256)})},
		{name: "an optional field", expression: `{"a": 1}.?b`, guard: g.WithFields([]*types.Type{nested(256)}), want: ErrTypeParts},
		{name: "comparisons", expression: strings.Repeat("1 == 2 || ", 200) + "true", guard: g},
		{name: "more comparisons", expression: strings.Repeat("1 == 2 || ", 1000) + "true", guard: g, want: ErrTypeWork},
		{name: "a large type that is walked", expression: "[" + strings.Repeat("y,", 7) + "y].size() == 1", guard: g.WithVariable("y", nested(100))},
		{name: "a large type that is walked too often", expression: "[" + strings.Repeat("y,", 100) + "y].size() == 1", guard: g.WithVariable("y", nested(100)), want: ErrTypeWork},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			work, err := workOf(t, tc.guard, env, tc.expression)
			if !errors.Is(err, tc.want) || err != nil && work.Copied != maxTypeWork || err == nil && work.Copied > maxTypeWork || work.Nodes == 0 {
				t.Errorf("got %+v, %v, want %v", work, err, tc.want)
			}
			// The guard from which it was made knows nothing of the variable.
			if _, err := workOf(t, g, env, `y`); err != nil {
				t.Errorf("the guard has changed: %v", err)
			}
		})
	}
}
