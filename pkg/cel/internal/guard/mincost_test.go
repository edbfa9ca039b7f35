/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"reflect"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// TestMinCost counts the checks that each evaluation of an expression makes. There must not be more than in any evaluation without an
// error, because an expression is refused if they cost more than the limit.
func TestMinCost(t *testing.T) {
	t.Parallel()
	const check = 350_000
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
		{name: "a check in a function", expression: `string(` + checking + `) == "true"`, want: check},

		{name: "a constant list", expression: `[1, 2, 3] == object.a`, want: 0},
		{name: "a check in a list", expression: `[` + checking + `, true] == object.a`, want: check},
		{name: "a check in a map", expression: `{"a": ` + checking + `} == object.a`, want: check},
		{name: "a check as a key", expression: `{` + checking + `: 1} == object.a`, want: check},
		{name: "a check in an optional element", expression: `[?optional.of(` + checking + `)] == object.a`, want: check},

		{name: "a check for each element", expression: `[1, 2, 3].map(x, ` + checking + `) == []`, want: 0},
		{name: "a check for each element that is checked", expression: `[1, 2, 3].filter(x, ` + checking + `) == []`, want: 0},
		{name: "a check for all, which may end at the first", expression: `[1, 2, 3].all(x, ` + checking + `)`, want: 0},
		{name: "a check for all of none", expression: `[].all(x, ` + checking + `)`, want: 0},
		{name: "a check for each element of an unknown list", expression: `object.a.map(x, ` + checking + `) == []`, want: 0},
		{name: "a check before a loop", expression: `[` + checking + `].all(x, x)`, want: check},
		{name: "a check for each of the elements of a map", expression: `{"a": 1}.map(x, ` + checking + `) == []`, want: 0},
		{name: "loops in loops", expression: `[1, 2, 3].map(x, [1, 2].map(y, ` + checking + `)) == []`, want: 0},

		{name: "a field of a check", expression: `{"a": ` + checking + `}.a`, want: check},
		{name: "an index by a check, of an optional that may be none", expression: `object.?a[?{true: "b"}[` + checking + `]].hasValue()`, want: 0},
		{name: "an index of a check", expression: `[` + checking + `][0]`, want: check},
		{name: "a default of an optional", expression: `object.?a.orValue(` + checking + `)`, want: 0},
		{name: "an optional that is made", expression: `optional.of(` + checking + `).orValue(true)`, want: check},
		{name: "another optional", expression: `object.?a.or(optional.of(` + checking + `)).hasValue()`, want: 0},
		{name: "a search in a constant that is empty", expression: checking + ` in []`, want: 0},
		{name: "a search in a constant", expression: checking + ` in [true]`, want: check},
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

// TestMinCostOfNothing has no expression.
func TestMinCostOfNothing(t *testing.T) {
	t.Parallel()
	if got := guard.MinCost(nil); got != 0 {
		t.Errorf("got %d, want 0", got)
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
