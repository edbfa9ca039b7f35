/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

func TestVariables(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
	for _, tc := range []struct {
		name       string
		variables  []cel.NamedExpression
		expression string
		want       string
	}{
		{name: "of the design", variables: []cel.NamedExpression{{Name: "subjectOf", Expression: `operation == "DELETE" ? oldObject : object`}}, expression: `variables.subjectOf.spec.storageClassName == "dev"`,
			want: `(operation == "DELETE" ? oldObject : object).spec.storageClassName == "dev"`},
		{name: "known", variables: []cel.NamedExpression{{Name: "user", Expression: `request.userInfo.username`}}, expression: `object.owner == variables.user`, want: `object.owner == "alice"`},
		{name: "one of the other", variables: []cel.NamedExpression{{Name: "a", Expression: `request.name`}, {Name: "b", Expression: `variables.a + "-1"`}}, expression: `object.name == variables.b || object.name == variables.a`,
			want: `object.name == "web-1" || object.name == "web"`},
		{name: "macros", variables: []cel.NamedExpression{{Name: "devs", Expression: `request.userInfo.groups.filter(g, g.startsWith("dev"))`}, {Name: "inDevs", Expression: `variables.devs.exists(d, d == object.group)`}}, expression: `variables.inDevs`,
			want: `"devs" == object.group`},
		{name: "in a macro", variables: []cel.NamedExpression{{Name: "names", Expression: `object.spec.containers.map(c, c.name)`}}, expression: `object.spec.names.all(n, n in variables.names)`,
			want: `object.spec.names.all(n, n in object.spec.containers.map(c, c.name))`},
		{name: "in a macro that binds the same name", variables: []cel.NamedExpression{{Name: "mine", Expression: `object.items.exists(c, c == request.name)`}}, expression: `object.containers.all(c, c.ok == 1 && variables.mine)`,
			want: `object.containers.all(c, c.ok == 1 && object.items.exists(c2, c2 == "web"))`},
		{name: "in a macro in a macro of the same names", variables: []cel.NamedExpression{{Name: "mine", Expression: `object.items.exists(c, k, c == request.name && c == k)`}, {Name: "both", Expression: `object.l.all(k, variables.mine && k == object.c2)`}},
			expression: `object.containers.all(c, object.m.all(k, c == k && variables.both && variables.mine))`,
			want:       `object.containers.all(c, object.m.all(k, c == k && object.l.all(k3, object.items.exists(c2, k2, c2 == "web" && c2 == k2) && k3 == object.c2) && object.items.exists(c3, k2, c3 == "web" && c3 == k2)))`},
		{name: "with an optional of the same name", variables: []cel.NamedExpression{{Name: "mine", Expression: `object.?a.optMap(v, v == request.name).orValue(false)`}}, expression: `object.?b.optMap(v, v == 1 || variables.mine).orValue(false)`,
			want: `object.?b.optMap(v, v == 1 || object.?a.optMap(v2, v2 == "web").orValue(false)).orValue(false)`},
		{name: "an error where it is not needed", variables: []cel.NamedExpression{{Name: "bad", Expression: `request.userInfo.extra["nope"][0]`}}, expression: `request.verb == "create" || variables.bad == "x"`, want: "true"},
		{name: "never used", variables: []cel.NamedExpression{{Name: "unused", Expression: `object.x`}}, expression: `has(object.y)`, want: "has(object.y)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression, err := c.CompileWithVariables(tc.variables, tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := expression.Plan(cel.Request)
			if err != nil {
				t.Fatal(err)
			}
			outcome := plan.Eval(t.Context(), alice())
			got := fmt.Sprint(outcome.IsTrue())
			if r := outcome.Residual(); r != nil {
				if got, err = r.Text(); err != nil {
					t.Fatal(err)
				}
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestVariablesRefused(t *testing.T) {
	t.Parallel()
	c := policyCompiler(t)
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
			expression, err := policyCompiler(t).CompileWithVariables(tc.variables, tc.expression)
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
	c := policyCompiler(t)
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
	c := policyCompiler(t)
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
