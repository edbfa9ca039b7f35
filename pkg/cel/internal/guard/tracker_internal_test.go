/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"maps"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// plainEnv has a dynamic variable x, macros of two variables and optionals.
func plainEnv(t *testing.T) *celgo.Env {
	t.Helper()
	env, err := celgo.NewEnv(celgo.Variable("x", celgo.DynType), celgo.OptionalTypes(), ext.TwoVarComprehensions())
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func parsed(t *testing.T, env *celgo.Env, text string) ast.Expr {
	t.Helper()
	result, issues := env.Parse(text)
	if issues.Err() != nil {
		t.Fatalf("%.60s: %v", text, issues.Err())
	}
	return result.NativeRep().Expr()
}

// TestOperandsAreCounted counts the elements of literals, and the constants that are joined in one chain of && and ||.
func TestOperandsAreCounted(t *testing.T) {
	t.Parallel()
	env := plainEnv(t)
	type row struct {
		Expression string
		Want       map[int]int // how many instructions have so many operands
	}
	rows.Run(t, "testdata/operands.yaml", func(t *testing.T, tc row) {
		got := map[int]int{}
		for _, n := range operandsOf([]ast.Expr{parsed(t, env, tc.Expression)}) {
			got[n]++
		}
		if !maps.Equal(got, tc.Want) {
			t.Errorf("got %v, want %v", got, tc.Want)
		}
	})
}

// TestSurcharges evaluates literals and chains at and over the number of operands that cost nothing.
func TestSurcharges(t *testing.T) {
	t.Parallel()
	env := plainEnv(t)
	for _, tc := range []struct {
		name, expression string
		surcharge        uint64 // beyond what cel-go counts
	}{
		{name: "a list at the bound", expression: `[` + strings.Repeat("1,", 15) + `x]`},
		{name: "a list over the bound", expression: `[` + strings.Repeat("1,", 16) + `x]`, surcharge: 4},
		{name: "a list of 400", expression: `[` + strings.Repeat("1,", 399) + `x]`, surcharge: 100},
		{name: "a list of constants, which is made once", expression: `[` + strings.Repeat("1,", 400) + `2]`},
		{name: "a map at the bound", expression: `{` + strings.Repeat("1: 1,", 7) + `2: x}`},
		{name: "a map over the bound", expression: `{` + strings.Repeat("1: 1,", 8) + `2: x}`, surcharge: 4},
		{name: "a chain at the bound", expression: strings.Repeat("true && ", 16) + `x`},
		{name: "a chain over the bound", expression: strings.Repeat("true && ", 17) + `x`, surcharge: 4},
		{name: "a chain of ||", expression: strings.Repeat("false || ", 400) + `x`, surcharge: 100},
		{name: "a chain of variables, which cost themselves", expression: strings.Repeat("x && ", 30) + `x`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checked, issues := env.Compile(tc.expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			cost := func(options ...celgo.ProgramOption) uint64 {
				program, err := env.Program(checked, append(options, celgo.CostTracking(costs{}))...)
				if err != nil {
					t.Fatal(err)
				}
				_, details, err := program.Eval(map[string]any{"x": true})
				if err != nil {
					t.Fatal(err)
				}
				return *details.ActualCost()
			}
			plain, got := cost(), cost(celgo.CustomDecoratorV2(surcharges([]ast.Expr{checked.NativeRep().Expr()})))
			if got != plain+tc.surcharge {
				t.Errorf("got the cost %d, want %d and a surcharge of %d", got, plain, tc.surcharge)
			}
		})
	}
}

// TestRoundsOfMacros asks that each macro has one instruction that ends its rounds, and nothing else has.
func TestRoundsOfMacros(t *testing.T) {
	t.Parallel()
	env := plainEnv(t)
	for _, tc := range []struct {
		expression string
		want       int
	}{
		{expression: `x == [true && x]`, want: 0},
		{expression: `x.all(e, e)`, want: 1},
		{expression: `x.exists(e, e)`, want: 1},
		{expression: `x.exists_one(e, e)`, want: 1},
		{expression: `x.map(e, e)`, want: 1},
		{expression: `x.map(e, e, e)`, want: 1},
		{expression: `x.filter(e, e)`, want: 1},
		{expression: `x.all(i, e, i == e)`, want: 1},
		{expression: `x.exists(i, e, i == e)`, want: 1},
		{expression: `x.existsOne(i, e, i == e)`, want: 1},
		{expression: `x.transformList(i, e, e)`, want: 1},
		{expression: `x.transformMap(i, e, e)`, want: 1},
		{expression: `x.transformMapEntry(i, e, {i: e})`, want: 1},
		{expression: `x.all(e, e.exists(f, f.all(g, g)))`, want: 3},
		{expression: `x.all(e, e) || x.all(e, !e)`, want: 2},
		{expression: `x.map(e, e.filter(f, true && f))`, want: 2},
	} {
		checked, issues := env.Compile(tc.expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		found := 0
		count := func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
			if call, ok := i.(trackedCall); ok && call.function == roundFunction {
				found++
			}
			return i, nil
		}
		if _, err := env.Program(checked, celgo.CustomDecoratorV2(rounds([]ast.Expr{checked.NativeRep().Expr()})), celgo.CustomDecoratorV2(count)); err != nil {
			t.Fatal(err)
		}
		if found != tc.want {
			t.Errorf("%s: got %d rounds, want %d", tc.expression, found, tc.want)
		}
	}
}

// TestChargeKeys puts calls around the keys of indexes and of map literals, in copies of the expressions.
func TestChargeKeys(t *testing.T) {
	t.Parallel()
	const first = 1000
	env := plainEnv(t)
	for _, tc := range []struct {
		name, expression string
		index, entry     int // how many calls are made of each kind
	}{
		{name: "a field", expression: `x.a.b`},
		{name: "a literal index", expression: `x["a"][0]`},
		{name: "an index", expression: `x[x]`, index: 1},
		{name: "an optional index", expression: `x[?x]`, index: 1},
		{name: "an optional index of a literal", expression: `x[?"a"]`},
		{name: "an index by an index", expression: `x[x[x.a]]`, index: 2},
		{name: "indexes of an index", expression: `x[x][x]`, index: 2},
		{name: "an index by a sum", expression: `x["a" + "b"]`, index: 1},
		{name: "a map of literal keys", expression: `{"a": x, 1: x}`},
		{name: "a map", expression: `{x: 1, "a": 2, x.b: 3}`, entry: 2},
		{name: "a map with optional entries", expression: `{?x: x.?a, ?"a": x.?b}`, entry: 1},
		{name: "a map in a key of a map", expression: `{{x: 1}: 2}`, entry: 2},
		{name: "an index in a macro", expression: `x.all(k, x[k] == {k: 1}[k])`, index: 2, entry: 1},
		{name: "other calls", expression: `x.size() + x in [x]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			original := parsed(t, env, tc.expression)
			before := describe(original)
			charged := ChargeKeys([]ast.Expr{original, original}, first)
			ast.PreOrderVisit(original, ast.NewExprVisitor(func(part ast.Expr) {
				if part.ID() >= first {
					t.Errorf("the original has the new part %s", describe(part))
				}
			}))
			ids := map[int64]int{}
			for _, e := range charged {
				made := map[string]int{}
				ast.PreOrderVisit(e, ast.NewExprVisitor(func(part ast.Expr) {
					if part.ID() >= first {
						ids[part.ID()]++
						made[part.AsCall().FunctionName()]++
					}
				}))
				if made[indexKeyFunction] != tc.index || made[entryKeyFunction] != tc.entry {
					t.Errorf("got the calls %v, want %d for indexes and %d for entries", made, tc.index, tc.entry)
				}
				if got := describe(e); got != before {
					t.Errorf("got %s, want %s with calls", got, before)
				}
			}
			for id, n := range ids {
				if n != 1 || id >= first+int64(2*(tc.index+tc.entry)) {
					t.Errorf("the id %d is there %d times", id, n)
				}
			}
		})
	}
}

// describe prints an expression, without the calls that ChargeKeys makes, so that two that differ have different texts.
func describe(e ast.Expr) string {
	switch e.Kind() {
	case ast.LiteralKind:
		return "'" + string(e.AsLiteral().ConvertToType(types.StringType).(types.String)) + "'"
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		return describe(e.AsSelect().Operand()) + "." + e.AsSelect().FieldName()
	case ast.CallKind:
		if name := e.AsCall().FunctionName(); name == indexKeyFunction || name == entryKeyFunction {
			return describe(e.AsCall().Args()[0])
		}
		text := e.AsCall().FunctionName() + "("
		if e.AsCall().IsMemberFunction() {
			text = describe(e.AsCall().Target()) + "->" + text
		}
		for _, arg := range e.AsCall().Args() {
			text += describe(arg) + ","
		}
		return text + ")"
	case ast.ListKind, ast.MapKind:
		text := "["
		for _, element := range Elements(e) {
			text += describe(element) + ","
		}
		return text + "]"
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return "loop" + describe(c.IterRange()) + c.IterVar() + c.AccuVar() + describe(c.AccuInit()) + describe(c.LoopCondition()) + describe(c.LoopStep()) + describe(c.Result())
	default:
		return "?"
	}
}

// TestChargedKeys decorates the calls that ChargeKeys makes, and no others.
func TestChargedKeys(t *testing.T) {
	t.Parallel()
	constant := interpreter.NewConstValue(3, types.String("a"))
	value := interpreter.NewCall(2, "f", "f", []interpreter.InterpretableV2{constant}, func(...ref.Val) ref.Val { return types.String("abc") })
	for _, tc := range []struct {
		name, function string
		key            interpreter.InterpretableV2
		wantKey        bool
	}{
		{name: "an index by a call", function: indexKeyFunction, key: value, wantKey: true},
		{name: "an entry by a call", function: entryKeyFunction, key: value, wantKey: true},
		{name: "an index by what the planner made a constant", function: indexKeyFunction, key: constant},
		{name: "an entry by what the planner made a constant", function: entryKeyFunction, key: constant},
		{name: "another call", function: operators.Index, key: value},
	} {
		made := interpreter.NewCall(1, tc.function, "", []interpreter.InterpretableV2{tc.key}, func(args ...ref.Val) ref.Val { return args[0] })
		got, err := chargedKeys(made)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := got.(trackedCall)
		if ok != tc.wantKey || ok && (k.Function() != entryKeyFunction || len(k.Args()) != 0) {
			t.Errorf("%s: got %T, want a key: %t", tc.name, got, tc.wantKey)
		}
		if want := tc.key.Eval(interpreter.EmptyActivation()); got.Eval(interpreter.EmptyActivation()) != want {
			t.Errorf("%s: got %v, want the value %v", tc.name, got.Eval(interpreter.EmptyActivation()), want)
		}
	}
}
