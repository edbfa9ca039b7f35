/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"reflect"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// TestMinCost computes the lower bound of what expressions cost. It must not be above the cost of any evaluation without an
// error, because an expression is refused if the bound is over the limit. Each is evaluated with values that make it cheap.
func TestMinCost(t *testing.T) {
	t.Parallel()
	const check, lists, maps = 350_000, 10, 30 // what is made costs 10 units for a list and 30 for a map
	const checking, checkingToo = `authorizer.path("/x").check("get").allowed()`, `authorizer.path("/y").check("get").allowed()`
	e := newEngine(t)
	for _, tc := range []struct {
		name, expression string
		want             uint64
	}{
		{name: "a literal", expression: `true`, want: 0},
		{name: "a variable", expression: `object`, want: 0},
		{name: "a comparison", expression: `object.a == 1`, want: 0},
		{name: "a check", expression: checking, want: check},
		{name: "a check of a resource", expression: `authorizer.group("").resource("pods").check("get").allowed()`, want: check},
		{name: "a check of the request", expression: `authorizer.requestResource.check("get").reason() == ""`, want: check},
		{name: "a function that has only the name of the check", expression: `object.check == "x"`, want: 0},
		{name: "two checks that are compared", expression: checking + " == " + checkingToo, want: 2 * check},
		{name: "a negated check", expression: "!" + checking, want: check},
		{name: "either of two checks", expression: checking + " || " + checkingToo, want: check},
		{name: "both of two checks, of which the first may decide", expression: checking + " && " + checkingToo, want: check},
		{name: "a check or what costs nothing", expression: checking + " || object.a == 1", want: 0},
		{name: "what costs nothing and a check", expression: "object.a == 1 && " + checking, want: 0},
		{name: "a choice between a check and nothing", expression: "dryRun ? " + checking + " : true", want: 0},
		{name: "a choice between two checks", expression: "dryRun ? " + checking + " : " + checkingToo, want: check},
		{name: "a choice by a check", expression: checking + " ? object.a == 1 : object.b == 1", want: check},
		{name: "a field of an object that is made", expression: `{"a": object.b}.a`, want: maps},
		{name: "a check in a function", expression: `string(` + checking + `) == "true"`, want: check},

		{name: "a constant list", expression: `[1, 2, 3] == object.a`, want: 0},
		{name: "a constant list of conversions and types", expression: `[dyn(1), dyn(int), dyn(int("2")), dyn([3]), dyn({"a": 4})] == object.a`, want: 0},
		{name: "a list of conversions", expression: `[int("1"), int("2")] == object.a`, want: 0},
		{name: "a list that is made", expression: `[object.a] == object.b`, want: lists},
		{name: "lists that are made in a list", expression: `[[object.a], [object.b]] == object.c`, want: 3 * lists},
		{name: "a constant map", expression: `{"a": 1} == object.a`, want: 0},
		{name: "a map that is made", expression: `{"a": object.a} == object.b`, want: maps},
		{name: "a map of a key that is made", expression: `{string(object.a): 1} == object.b`, want: maps},
		{name: "a check in a list", expression: `[` + checking + `, true] == object.a`, want: check + lists},
		{name: "a check in a map", expression: `{"a": ` + checking + `} == object.a`, want: check + maps},
		{name: "a check as a key", expression: `{` + checking + `: 1} == object.a`, want: check + maps},
		{name: "a check in an optional element", expression: `[?optional.of(` + checking + `)] == object.a`, want: check + lists},

		{name: "a check for each element", expression: `[1, 2, 3].map(x, ` + checking + `) == []`, want: 3 * (check + lists)},
		{name: "a check for each element that is checked", expression: `[1, 2, 3].filter(x, ` + checking + `) == []`, want: 3 * check},
		{name: "a check for all, which may end at the first", expression: `[1, 2, 3].all(x, ` + checking + `)`, want: check},
		{name: "a check for all of none", expression: `[].all(x, ` + checking + `)`, want: 0},
		{name: "a check for each element of an unknown list", expression: `object.a.map(x, ` + checking + `) == []`, want: 0},
		{name: "a check before a loop", expression: `[` + checking + `].all(x, x)`, want: check + lists},
		{name: "a check for each of the elements of a map", expression: `{"a": 1}.map(x, ` + checking + `) == []`, want: check + lists},
		{name: "a check for each of the elements of a map, whose keys may be the same", expression: `{"a": 1, "b": 2}.map(x, ` + checking + `) == []`, want: 0},
		{name: "a check for each optional element", expression: `[?optional.none()].map(x, ` + checking + `) == []`, want: lists},
		{name: "a check for each optional entry", expression: `{?"a": optional.none()}.map(x, ` + checking + `) == []`, want: maps},
		{name: "elements that a macro has made", expression: `[1, 2].map(x, x).map(y, ` + checking + `) == []`, want: 2*lists + 2*(check+lists)},
		{name: "elements that a macro may have left out", expression: `[1, 2].filter(x, x > 1).map(y, ` + checking + `) == []`, want: 0},
		{name: "loops in loops", expression: `[1, 2, 3].map(x, [1, 2].map(y, ` + checking + `)) == []`, want: 3 * (lists + 2*(check+lists))},

		{name: "a range", expression: `lists.range(100) == object.a`, want: 11 + 100},
		{name: "a range of an unknown length", expression: `lists.range(object.a) == []`, want: 11},
		{name: "a range below zero", expression: `lists.range(-5) == []`, want: 11},
		{name: "a range that is longer than any limit", expression: `lists.range(9223372036854775807) == []`, want: 1 << 40},
		{name: "a slice", expression: `object.a.slice(10, 30) == []`, want: 11 + 20},
		{name: "a slice of nothing", expression: `object.a.slice(30, 10) == []`, want: 11},
		{name: "a slice from an unknown place", expression: `object.a.slice(object.b, 30) == []`, want: 11},
		{name: "a slice to an unknown place", expression: `object.a.slice(10, object.b) == []`, want: 11},
		{name: "a range that is reversed", expression: `lists.range(100).reverse() == []`, want: 2 * (11 + 100)},
		{name: "a range that is sorted", expression: `lists.range(100).sort() == []`, want: 11 + 100 + 11 + 2*100*100},
		{name: "distinct elements of a range", expression: `lists.range(100).distinct() == []`, want: 11 + 100 + 11 + 2*100*100},
		{name: "distinct elements, of which at least one is left", expression: `lists.range(100).distinct().filter(x, ` + checking + `) == []`, want: 11 + 100 + 11 + 2*100*100 + check},
		{name: "a check for each number of a range", expression: `lists.range(3).filter(x, ` + checking + `) == []`, want: 11 + 3 + 3*check},
		{name: "a check for each element of a slice", expression: `object.a.slice(1, 3).filter(x, ` + checking + `) == []`, want: 11 + 2 + 2*check},

		{name: "an index of what is made", expression: `[object.a][0] == 1`, want: lists},
		{name: "an index by what is made, of an optional that may be none", expression: `object.?a[?[object.b][0]].hasValue()`, want: 0},
		{name: "a default of an optional", expression: `object.?a.orValue(` + checking + `)`, want: 0},
		{name: "an optional that is made", expression: `optional.of(` + checking + `).orValue(true)`, want: check},
		{name: "another optional", expression: `object.?a.or(optional.of(` + checking + `)).hasValue()`, want: 0},
		{name: "a search in a constant that is empty", expression: checking + ` in []`, want: 0},
		{name: "a search in a constant", expression: checking + ` in [true]`, want: check},
		{name: "a search in a list that is made", expression: `object.a in [object.b]`, want: lists},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checked, err := engine.Check(e.Env, e.Guard, tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got := guard.MinCost(checked.NativeRep()); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestMinCostIsBelowTheCost evaluates expressions with many values. None may cost less than the bound.
func TestMinCostIsBelowTheCost(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	objects := []any{
		map[string]any{}, map[string]any{"a": nil, "b": int64(0)}, map[string]any{"a": []any{}, "b": []any{}}, map[string]any{"a": []any{int64(3), int64(1)}, "b": int64(1)}, map[string]any{"a": "x", "b": true},
		map[string]any{"a": map[string]any{"k": "v"}, "b": []any{"k"}}, map[string]any{"a": true, "b": false},
	}
	evaluated := 0
	for _, expression := range []string{
		`[object.a, object.b].size() == 2`, `{"a": object.a}.size() == 1`, `[1, 2, 3].map(x, [dyn(x), object.a]).size() == 3`, `[1, 2, 3].all(x, [dyn(x), object.a].size() == 3)`, `[1, 2, 3].exists(x, [dyn(x), object.a].size() == 3)`,
		`[1, 2, 3].exists_one(x, [dyn(x), object.a].size() == 2)`, `[object.a, object.b].filter(x, [x].size() == 1).size() == 2`, `lists.range(20).map(x, x + 1).size() == 20`, `lists.range(20).slice(3, 9).reverse().size() == 6`,
		`lists.range(20).sort().distinct().size() == 20`, `[3, 1, 2].sortBy(x, -x) == [3, 2, 1]`, `object.a == 1 && [object.b].size() == 1`, `object.a == 1 || [object.b].size() == 1`, `object.?a.orValue([object].size()) == 1`,
		`object.?a[?[object].size()].hasValue()`, `optional.of([object.a]).optMap(x, [x, x]).hasValue()`, `optional.none().optMap(x, [x, x]).hasValue()`, `object.?a.optFlatMap(x, optional.of([x])).hasValue()`, `(has(object.a) ? [object.a] : []).size() == 1`,
		`object.a in [object.b]`, `object.a in []`, `[object.a] in []`, `[?object.?a, ?object.?b].size() == 2`, `{?"a": object.?a}.size() == 1`, `{object.b: 1, object.a: 2}.size() == 2`, `object.a.map(x, [x]).size() == 2`, `object.a.all(k, v, [k, v].size() == 2)`,
		`object.a.transformMap(k, v, [v]).size() == 1`, `object.a.transformList(k, v, [v]).size() == 1`, `[1, 2].transformMapEntry(i, v, {v: [i]}).size() == 2`, `[[dyn(1)], [object.b]].flatten().size() == 2`, `[object.a, object.b].distinct().size() == 2`,
		`lists.range(5).all(x, lists.range(5).exists(y, [dyn(x), dyn(y)] == [object.a, dyn(y)]))`, `sets.contains([object.a], [object.b])`, `[int("1"), int("2")].map(x, [x]).size() == 2`, `type([object.a]) == list`, `[object.a][0] == [object.b][0]`, `{"a": object.a}["a"] == 1`,
	} {
		checked, err := engine.Check(e.Env, e.Guard, expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		native := checked.NativeRep()
		bound := guard.MinCost(native)
		planned, err := e.Plan(native, []ast.Expr{native.Expr()})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			_, cost, err := e.Eval(t.Context(), planned[0], cel.Values{cel.Object: object}, cel.CostLimit)
			if err == nil {
				evaluated++
			}
			if err == nil && cost < bound {
				t.Errorf("%s of %v: got the cost %d, but the bound is %d", expression, object, cost, bound)
			}
		}
	}
	if evaluated < 100 {
		t.Errorf("got %d evaluations without an error, too few to compare", evaluated)
	}
}

// TestMinCostOfWhatWasNotChecked asks that the bound is 0 where the types are missing, and that no expression is too deep.
func TestMinCostOfWhatWasNotChecked(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for _, expression := range []string{`lists.range(100).sort() == []`, `[1, int] == []`, strings.Repeat("[", 16) + strings.Repeat("]", 16) + " == []"} {
		parsed, issues := e.Env.Parse(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		if got := guard.MinCost(parsed.NativeRep()); got > 10*17 {
			t.Errorf("%s: got %d", expression, got)
		}
	}
	if got := guard.MinCost(nil); got != 0 {
		t.Errorf("nothing: got %d, want 0", got)
	}
}

// watchedCall reads how many values the cost tracker keeps before each call.
type watchedCall struct {
	interpreter.InterpretableCall
	deepest *int
}

func (w watchedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	// The stack is not exported. Only its length is read.
	stack := reflect.ValueOf(frame).Elem().FieldByName("ctx").Elem().FieldByName("costs").Elem().FieldByName("stack")
	*w.deepest = max(*w.deepest, stack.Len())
	return w.InterpretableCall.Exec(frame)
}

// TestMacrosKeepTheStackShort runs every kind of macro for few and for many rounds. The stack of
// the cost tracker, which is searched at every step, must not grow with the rounds.
func TestMacrosKeepTheStackShort(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewConditionEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for _, expression := range []string{
		`object.all(x, x != -1 && x != -2)`, `object.exists(x, x == -1 || x == -2)`, `object.exists_one(x, x == -1)`, `object.map(x, x).size() == 0`, `object.map(x, x > 1, x).size() == 0`,
		`object.filter(x, x < 0).size() == 0`, `object.all(i, x, x != -1)`, `object.exists(i, x, x == -1)`, `object.existsOne(i, x, x == -1)`,
		`object.transformList(i, x, x).size() == 0`, `object.transformMap(i, x, x).size() == 0`, `object.transformMapEntry(i, x, {x: i}).size() == 0`,
		`object.sortBy(x, x).size() == 0`, `object.exists(x, [1, 2].all(y, x == y))`, `[1, 2].exists(y, object.exists(x, x == -1))`,
		`object.map(x, x).filter(x, x < 0).exists(x, x == 1) || object.all(x, x != -1)`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			few, many := deepest(t, environment.Engine(), expression, 3), deepest(t, environment.Engine(), expression, 600)
			if few < 1 || many > few+2 {
				t.Errorf("got %d values on the stack after 600 rounds, %d after 3", many, few)
			}
		})
	}
}

func deepest(t *testing.T, e *engine.Engine, expression string, rounds int) (result int) {
	t.Helper()
	checked, err := engine.Check(e.Env, e.Guard, expression)
	if err != nil {
		t.Fatal(err)
	}
	watch := func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() != guard.RoundFunction {
			return watchedCall{call, &result}, nil
		}
		return i, nil
	}
	options := append(e.Guard.OptionsFor([]ast.Expr{checked.NativeRep().Expr()}), celgo.CustomDecoratorV2(watch))
	program, err := e.Env.Program(checked, options...)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, rounds)
	for i := range list {
		list[i] = int64(i)
	}
	if _, _, err := program.Eval(cel.Values{cel.Object: list}); err != nil {
		t.Fatal(err)
	}
	return result
}
