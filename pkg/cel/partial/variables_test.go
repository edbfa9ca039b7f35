/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

func TestVariables(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	type row struct {
		Variables        []cel.NamedExpression
		Expression, Want string
	}
	rows.Run(t, "testdata/variables.yaml", func(t *testing.T, tc row) {
		expression, err := c.CompileWithVariables(tc.Variables, tc.Expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := leftOf(t, expression, alice()); got != tc.Want {
			t.Errorf("got  %s\nwant %s", got, tc.Want)
		}
	})
}

func TestVariablesRefused(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	growing, adding := []cel.NamedExpression{{Name: "v0", Expression: `object.a`}}, []cel.NamedExpression{{Name: "v0", Expression: `[object.a]`}}
	for i := range 20 {
		adding = append(adding, cel.NamedExpression{Name: fmt.Sprintf("v%d", i+1), Expression: fmt.Sprintf("variables.v%[1]d + variables.v%[1]d", i)})
		growing = append(growing, cel.NamedExpression{Name: fmt.Sprintf("v%d", i+1), Expression: fmt.Sprintf("variables.v%[1]d && variables.v%[1]d", i)})
	}
	// chain makes named expressions. Each one is a text that contains the one before it.
	chain := func(n int, first, before, after string) []cel.NamedExpression {
		all := []cel.NamedExpression{{Name: "v0", Expression: first}}
		for i := 1; i <= n; i++ {
			all = append(all, cel.NamedExpression{Name: fmt.Sprintf("v%d", i), Expression: fmt.Sprintf("%svariables.v%d%s", before, i-1, after)})
		}
		return all
	}
	const together = "take too long to compile together"
	long, wide := strings.Repeat("true && ", 1000)+"true", strings.Repeat("[true].all(x, x) && ", 200)+"true"
	const slowPattern = `object.s.matches("(?i)[!-\uD7FF]")`
	of := func(n int, text string) []cel.NamedExpression {
		var all []cel.NamedExpression
		for i := range n {
			all = append(all, cel.NamedExpression{Name: fmt.Sprintf("v%d", i), Expression: text})
		}
		return all
	}
	for _, tc := range []struct {
		name       string
		variables  []cel.NamedExpression
		expression string
		want       string
	}{
		{name: "too long together", variables: of(3, long), expression: "true", want: `variable "v2": expression does not compile: the expressions ` + together},
		{name: "too long with the condition", variables: of(2, long), expression: long, want: together},
		{name: "too large where they are put in", variables: chain(20, wide, "true && ", ""), expression: "true", want: together},
		{name: "too many comparisons together", variables: of(4, strings.Repeat("1==2||", 400)+"true"), expression: "true", want: together},
		{name: "types that double", variables: chain(2, "[1]", "", strings.Repeat(".map(v, {v: v})", 9)), expression: "variables.v2 == []", want: "may have more than 256 parts"},
		{name: "wrapped types", variables: chain(8, "1", strings.Repeat("optional.of(", 40), strings.Repeat(")", 40)), expression: "variables.v8 == 1", want: "copies of type variables"},
		{name: "deep literals", variables: chain(8, "1", strings.Repeat("[", 15), strings.Repeat("]", 15)), expression: "variables.v8 == []", want: "copies of type variables"},
		{name: "types to be inferred", variables: chain(20, "[]", "["+strings.Repeat("[], ", 60), "]"), expression: "variables.v20 == []", want: "copies of type variables"},
		{name: "large patterns", variables: chain(5, "true", `"x".matches("a{900}") && `, ""), expression: "variables.v5", want: "regular expressions are larger"},
		{name: "patterns that take long, put in many times", variables: chain(3, slowPattern, "", " || false"), expression: "variables.v3 || variables.v3", want: "regular expressions take too long to parse"},
		{name: "patterns that take long, of many variables", variables: of(20, slowPattern), expression: "true", want: together},
		{name: "unknown", variables: nil, expression: `variables.x == "a"`, want: `undeclared reference to "variables.x"`},
		{name: "itself", variables: []cel.NamedExpression{{Name: "a", Expression: `variables.a`}}, expression: `variables.a`, want: `variable "a": expression does not compile: undeclared reference to "variables.a"`},
		{name: "a cycle", variables: []cel.NamedExpression{{Name: "a", Expression: `variables.b`}, {Name: "b", Expression: `variables.a`}}, expression: `variables.a`, want: `variable "a"`},
		{name: "twice", variables: []cel.NamedExpression{{Name: "a", Expression: `1`}, {Name: "a", Expression: `2`}}, expression: `variables.a == 1`, want: "used twice"},
		{name: "no identifier", variables: []cel.NamedExpression{{Name: "a-b", Expression: `1`}}, expression: `true`, want: "no identifier"},
		{name: "does not compile", variables: []cel.NamedExpression{{Name: "a", Expression: `object.`}}, expression: `true`, want: `variable "a": expression does not compile: ERROR: <input>:1:8`},
		{name: "of another type than is needed", variables: []cel.NamedExpression{{Name: "a", Expression: `1`}}, expression: `variables.a == "x"`, want: "no matching overload"},
		{name: "all of them", variables: nil, expression: `variables == object`, want: "undeclared reference to 'variables'"},
		{name: "a long text, put in many times", variables: []cel.NamedExpression{{Name: "a", Expression: `"` + strings.Repeat("a", 9000) + `"`}, {Name: "b", Expression: "[" + strings.Repeat("variables.a,", 19) + `""] == []`}}, expression: `variables.b`, want: "more than 163840 bytes with the variables"},
		{name: "growing without end", variables: growing, expression: `variables.v20`, want: "more than 8192 parts"},
		{name: "generic calls without end", variables: adding, expression: `variables.v20 == []`, want: "copies of type variables"},
		{name: "capturing the name of a type", variables: []cel.NamedExpression{{Name: "a", Expression: `type(object.a) == int`}}, expression: `[1].exists(int, variables.a)`, want: `must not bind a variable that has the name of another: "int"`},
		{name: "bound by a macro", variables: []cel.NamedExpression{{Name: "a", Expression: `1`}}, expression: `[1].exists(variables, variables == 1)`, want: "must not bind"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.CompileWithVariables(tc.variables, tc.expression)
			if of, ok := errors.AsType[*partial.VariableError](err); ok && of.Name != tc.variables[of.Index].Name {
				t.Errorf("got the name %q for the variable %d", of.Name, of.Index)
			}
			if !errors.Is(err, cel.ErrCompile) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrCompile with %q", err, tc.want)
			}
		})
	}
}

// TestVariableErrors says which variable is wrong, also if a later one or the expression is wrong, too.
func TestVariableErrors(t *testing.T) {
	t.Parallel()
	right, wrong := cel.NamedExpression{Name: "right", Expression: "object.a"}, cel.NamedExpression{Name: "wrong", Expression: "object."}
	for _, tc := range []struct {
		name       string
		variables  []cel.NamedExpression
		expression string
		wantIndex  int // -1 if no variable is wrong
		wantErr    error
	}{
		{name: "the first", variables: []cel.NamedExpression{wrong, right}, expression: "object.", wantErr: cel.ErrCompile},
		{name: "the second", variables: []cel.NamedExpression{right, wrong}, expression: "true", wantIndex: 1, wantErr: cel.ErrCompile},
		{name: "the first of two", variables: []cel.NamedExpression{right, wrong, wrong}, expression: "true", wantIndex: 1, wantErr: cel.ErrCompile},
		{name: "an empty one", variables: []cel.NamedExpression{{Name: "empty"}}, expression: "true", wantErr: cel.ErrCompile},
		{name: "one without a name", variables: []cel.NamedExpression{right, {Expression: "1"}}, expression: "true", wantIndex: 1, wantErr: cel.ErrCompile},
		{name: "one that refers to a later one", variables: []cel.NamedExpression{{Name: "early", Expression: "variables.right"}, right}, expression: "true", wantErr: cel.ErrCompile},
		{name: "one that is too long", variables: []cel.NamedExpression{right, {Name: "long", Expression: strings.Repeat(" ", cel.MaxExpressionBytes) + "1"}}, expression: "true", wantIndex: 1, wantErr: cel.ErrTooLong},
		{name: "one for which nothing is left", variables: []cel.NamedExpression{{Name: "a", Expression: strings.Repeat("true && ", 1200) + "true"}, {Name: "b", Expression: strings.Repeat("true && ", 1200) + "true"}, {Name: "c", Expression: strings.Repeat("true && ", 1200) + "true"}}, expression: "true", wantIndex: 2, wantErr: cel.ErrBudget},
		{name: "the expression", variables: []cel.NamedExpression{right}, expression: "object.", wantIndex: -1, wantErr: cel.ErrCompile},
		{name: "an expression of another type", variables: []cel.NamedExpression{right}, expression: "1", wantIndex: -1, wantErr: cel.ErrCompile},
		{name: "an expression that is too long", expression: "true" + strings.Repeat(" ", cel.MaxExpressionBytes), wantIndex: -1, wantErr: cel.ErrTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression, err := compilers.Policies(t).CompileWithVariables(tc.variables, tc.expression)
			if expression != nil || !errors.Is(err, tc.wantErr) {
				t.Fatalf("got %v, %v, want %v", expression, err, tc.wantErr)
			}
			of, isVariable := errors.AsType[*partial.VariableError](err)
			if isVariable != (tc.wantIndex >= 0) {
				t.Fatalf("got %v, about a variable: %v", err, isVariable)
			}
			if isVariable && (of.Index != tc.wantIndex || of.Name != tc.variables[tc.wantIndex].Name || !strings.HasPrefix(err.Error(), fmt.Sprintf("variable %q: ", of.Name))) {
				t.Errorf("got %v, about variable %d, want %d", err, of.Index, tc.wantIndex)
			}
		})
	}
}

// TestCompileExpressionAgain has one expression for each text with its variables, and says each time what compiling it costs.
func TestCompileExpressionAgain(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	compile := func(variable, text string) (*partial.Expression, uint64) {
		t.Helper()
		expression, cost, err := c.CompileWithCost([]cel.NamedExpression{{Name: "v", Expression: variable}}, text)
		if err != nil {
			t.Fatal(err)
		}
		return expression, cost
	}
	const text = "object.name == variables.v"
	first, cost := compile("request.name", text)
	for _, other := range [][2]string{{"request.namespace", text}, {"request.name", "object.other == variables.v"}} {
		if second, _ := compile(other[0], other[1]); second == first || second.Text() == first.Text() {
			t.Errorf("%q has the expression of other texts", other)
		}
	}
	if again, costAgain := compile("request.name", text); again != first || cost == 0 || costAgain != cost {
		t.Errorf("compiled again at a cost of %d, and at first of %d", costAgain, cost)
	}
}

// TestCompileCosts charges what was compiled, also of an expression that does not compile: otherwise a client could have expressions compiled for nothing.
func TestCompileCosts(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	cost := func(text string, variables ...string) uint64 {
		var named []cel.NamedExpression
		for i, v := range variables {
			named = append(named, cel.NamedExpression{Name: fmt.Sprintf("v%d", i), Expression: v})
		}
		_, cost, _ := c.CompileWithCost(named, text)
		return cost
	}
	long := strings.Repeat("object.a == 1 && ", 100) + "true"
	for _, tc := range []struct {
		name       string
		less, more uint64
	}{
		{name: "something and more", less: cost("true"), more: cost(long)},
		{name: "a mistake at the end costs about as much", less: cost(long) / 2, more: cost(long + " && object.")},
		{name: "a wrong type costs about as much", less: cost(long) / 2, more: cost(long + ` && (1 == "a")`)},
		{name: "a variable that is not used", less: cost("true"), more: cost("true", long)},
		{name: "a variable that is used twice", less: cost("variables.v0", long), more: cost("variables.v0 && variables.v0", long)},
		{name: "a variable before one that does not compile", less: cost("true"), more: cost("true", long, "object.")},
	} {
		if tc.less >= tc.more {
			t.Errorf("%s: got %d and %d", tc.name, tc.less, tc.more)
		}
	}
	if got := cost(strings.Repeat(" ", cel.MaxExpressionBytes+1)); got > 0 {
		t.Errorf("a text that is refused for its length costs %d", got)
	}
}

// TestResidualsOfOperators evaluates each operator, function and macro with known and unknown operands. The residual must be the
// expected text, must not show what is known and not needed, and must come out like the whole expression for every object.
func TestResidualsOfOperators(t *testing.T) {
	t.Parallel()
	c, conditions := compilers.Policies(t), compilers.Conditions(t)
	objects := []any{
		nil, map[string]any{}, map[string]any{"a": int64(1), "b": int64(2), "s": "web", "l": []any{"devs", "x"}, "m": map[string]any{"k": "v", "blue": "w"}, "t": true, "f": false},
		map[string]any{"a": "web", "b": "1", "s": int64(1), "l": map[string]any{"devs": int64(1)}, "m": []any{"blue"}, "t": false, "f": true}, map[string]any{"a": nil, "s": "", "l": []any{}, "m": map[string]any{}, "t": "true", "f": int64(0)},
	}
	rows.Run(t, "testdata/operators.yaml", func(t *testing.T, tc residualRow) {
		text := partially(t, c, tc.Expression, alice())
		if text != tc.Want {
			t.Errorf("got  %s\nwant %s", text, tc.Want)
		}
		whole := compilers.Compiled(t, c, tc.Expression)
		for _, object := range objects {
			values := alice()
			values[cel.Object] = object
			want, _, wantErr := whole.Program().Eval(t.Context(), values)
			got, gotErr := text == "true", error(nil)
			switch text {
			case "true", "false":
			case "error":
				gotErr = cel.ErrEvaluation
			default:
				got, _, gotErr = compilers.Compiled(t, conditions, text).Eval(t.Context(), cel.Values{cel.Object: object})
			}
			if got != want || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("for %v: the residual is %t, %v, and the expression %t, %v", object, got, gotErr, want, wantErr)
			}
		}
	})
}

// TestEvalWithinItsCost evaluates with exactly the limit that the evaluation costs, and with one unit less. An evaluation that exceeds its limit must
// be an error that says so, and never a value or a residual.
func TestEvalWithinItsCost(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for _, tc := range []struct{ name, expression string }{
		{name: "true", expression: `request.name == "web"`},
		{name: "false", expression: `request.name == "x" || request.verb == "x"`},
		{name: "an error", expression: `request.userInfo.extra["nope"][0] == "x"`},
		{name: "a residual", expression: `object.s == request.name && object.t`},
		{name: "a residual that nothing changes", expression: `object.a == 1 && object.b.c.d == [1, 2, 3]`},
		{name: "work", expression: `lists.range(1000).all(x, x >= 0) && object.t`},
		{name: "a long value", expression: `object.s == lists.range(500).map(x, "a").join()`},
		{name: "a value without a literal", expression: `quantity(request.name + "1").isLessThan(quantity(object.s))`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(t, c, tc.expression)
			full := plan.Eval(t.Context(), alice())
			if full.Cost() == 0 || full.Stopped() {
				t.Fatalf("got the cost %d, stopped %t", full.Cost(), full.Stopped())
			}
			for _, limit := range []uint64{full.Cost(), full.Cost() + 1, cel.CostLimit, 1 << 63} {
				got := plan.EvalWithin(t.Context(), alice(), limit)
				if got.Stopped() || got.Cost() != full.Cost() || got.IsTrue() != full.IsTrue() || got.IsFalse() != full.IsFalse() || (got.Residual() == nil) != (full.Residual() == nil) || (got.Err() == nil) != (full.Err() == nil) {
					t.Errorf("within %d: got %+v, want %+v", limit, got, full)
				}
			}
			for _, limit := range []uint64{0, 1, full.Cost() / 2, full.Cost() - 1} {
				got := plan.EvalWithin(t.Context(), alice(), limit)
				if !got.Stopped() || !errors.Is(got.Err(), cel.ErrCost) || got.IsTrue() || got.IsFalse() || got.Residual() != nil || got.Cost() <= limit {
					t.Errorf("within %d: got %+v, want ErrCost", limit, got)
				}
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if got := plan.Eval(ended, alice()); !got.Stopped() || !errors.Is(got.Err(), context.Canceled) || !errors.Is(got.Err(), cel.ErrEvaluation) || got.Residual() != nil {
				t.Errorf("in a context that has ended: got %+v, want its error", got)
			}
		})
	}
}

// TestEvalOfOddRequests evaluates with requests that are not what is declared, and without any. None of them may be true.
func TestEvalOfOddRequests(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	for name, values := range map[string]cel.Values{
		"no request": {}, "null": {cel.Request: nil}, "a text": {cel.Request: "create"}, "a list": {cel.Request: []any{}}, "no fields": {cel.Request: map[string]any{}}, "a number for a name": {cel.Request: cel.Known(map[string]any{"name": int64(1)})},
		"a channel": {cel.Request: make(chan int)}, "a null user": {cel.Request: cel.Known(map[string]any{"name": "x", "userInfo": nil})},
	} {
		for _, expression := range []string{`request.name == "web" && object.t`, `object.t && request.name == "web"`, `request.userInfo.username.startsWith("a") && object.t == true`, `request.userInfo.groups.exists(g, g == object.s)`} {
			got := planFor(t, c, expression).Eval(t.Context(), values)
			if got.IsTrue() {
				t.Errorf("%s: %s is true", name, expression)
			}
			if residual := got.Residual(); residual != nil {
				// A part that is not known to be false is an error for every object.
				if text, err := residual.Text(); err == nil && !residual.NeverTrue() {
					t.Errorf("%s: %s leaves %s, which can be true", name, expression, text)
				}
			}
		}
	}
}

// TestResidualsAtTheBound leaves texts of the greatest length, and of one byte more.
func TestResidualsAtTheBound(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	plan := planFor(t, c, `object.s == request.name`)
	room := cel.MaxExpressionBytes - len(`object.s == ""`)
	for _, tc := range []struct {
		name  string
		text  string
		fails bool
	}{
		{name: "the longest", text: strings.Repeat("a", room)},
		{name: "a byte more", text: strings.Repeat("a", room+1), fails: true},
		{name: "the longest with escapes", text: strings.Repeat("\n", room/2)},
		{name: "an escape more", text: strings.Repeat("\n", room/2+1), fails: true},
		{name: "far more", text: strings.Repeat("a", 1<<20), fails: true},
	} {
		residual := plan.Eval(t.Context(), request("alice", "create")).Residual()
		if residual == nil {
			t.Fatal("got no residual")
		}
		residual = plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"name": tc.text})}).Residual()
		if residual == nil {
			t.Fatalf("%s: got no residual", tc.name)
		}
		text, err := residual.Text()
		if (err != nil) != tc.fails || tc.fails && (text != "" || !errors.Is(err, cel.ErrCompile)) || !tc.fails && len(text) > cel.MaxExpressionBytes {
			t.Errorf("%s: got %d bytes, %v, want an error: %t", tc.name, len(text), err, tc.fails)
		}
		if again, errAgain := residual.Text(); again != text || !errors.Is(errAgain, err) {
			t.Errorf("%s: got %d bytes, %v the second time", tc.name, len(again), errAgain)
		}
		if cost := residual.TextCost(); (cost == 0) != tc.fails {
			t.Errorf("%s: making the text costs %d", tc.name, cost)
		}
	}
}
