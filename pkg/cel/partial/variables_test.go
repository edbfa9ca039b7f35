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
		{"of the design", []cel.NamedExpression{{Name: "subjectOf", Expression: `operation == "DELETE" ? oldObject : object`}}, `variables.subjectOf.spec.storageClassName == "dev"`,
			`(operation == "DELETE" ? oldObject : object).spec.storageClassName == "dev"`},
		{"known", []cel.NamedExpression{{Name: "user", Expression: `request.userInfo.username`}}, `object.owner == variables.user`, `object.owner == "alice"`},
		{"one of the other", []cel.NamedExpression{{Name: "a", Expression: `request.name`}, {Name: "b", Expression: `variables.a + "-1"`}}, `object.name == variables.b || object.name == variables.a`,
			`object.name == "web-1" || object.name == "web"`},
		{"macros", []cel.NamedExpression{{Name: "devs", Expression: `request.userInfo.groups.filter(g, g.startsWith("dev"))`}, {Name: "inDevs", Expression: `variables.devs.exists(d, d == object.group)`}}, `variables.inDevs`,
			`"devs" == object.group`},
		{"in a macro", []cel.NamedExpression{{Name: "names", Expression: `object.spec.containers.map(c, c.name)`}}, `object.spec.names.all(n, n in variables.names)`,
			`object.spec.names.all(n, n in object.spec.containers.map(c, c.name))`},
		{"in a macro that binds the same name", []cel.NamedExpression{{Name: "mine", Expression: `object.items.exists(c, c == request.name)`}}, `object.containers.all(c, c.ok == 1 && variables.mine)`,
			`object.containers.all(c, c.ok == 1 && object.items.exists(c2, c2 == "web"))`},
		{"in a macro in a macro of the same names", []cel.NamedExpression{{Name: "mine", Expression: `object.items.exists(c, k, c == request.name && c == k)`}, {Name: "both", Expression: `object.l.all(k, variables.mine && k == object.c2)`}},
			`object.containers.all(c, object.m.all(k, c == k && variables.both && variables.mine))`,
			`object.containers.all(c, object.m.all(k, c == k && object.l.all(k3, object.items.exists(c2, k2, c2 == "web" && c2 == k2) && k3 == object.c2) && object.items.exists(c3, k2, c3 == "web" && c3 == k2)))`},
		{"with an optional of the same name", []cel.NamedExpression{{Name: "mine", Expression: `object.?a.optMap(v, v == request.name).orValue(false)`}}, `object.?b.optMap(v, v == 1 || variables.mine).orValue(false)`,
			`object.?b.optMap(v, v == 1 || object.?a.optMap(v2, v2 == "web").orValue(false)).orValue(false)`},
		{"an error where it is not needed", []cel.NamedExpression{{Name: "bad", Expression: `request.userInfo.extra["nope"][0]`}}, `request.verb == "create" || variables.bad == "x"`, "true"},
		{"never used", []cel.NamedExpression{{Name: "unused", Expression: `object.x`}}, `has(object.y)`, "has(object.y)"},
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
		{"too long together", of(3, long), "true", `variable "v2": expression does not compile: the expressions ` + together},
		{"too long with the condition", of(2, long), long, together},
		{"too large where they are put in", chain(20, wide, "true && ", ""), "true", together},
		{"too many comparisons together", of(4, strings.Repeat("1==2||", 400)+"true"), "true", together},
		{"types that double", chain(2, "[1]", "", strings.Repeat(".map(v, {v: v})", 9)), "variables.v2 == []", "may have more than 256 parts"},
		{"wrapped types", chain(8, "1", strings.Repeat("optional.of(", 40), strings.Repeat(")", 40)), "variables.v8 == 1", "copies of type variables"},
		{"deep literals", chain(8, "1", strings.Repeat("[", 15), strings.Repeat("]", 15)), "variables.v8 == []", "copies of type variables"},
		{"types to be inferred", chain(20, "[]", "["+strings.Repeat("[], ", 60), "]"), "variables.v20 == []", "copies of type variables"},
		{"large patterns", chain(5, "true", `"x".matches("a{900}") && `, ""), "variables.v5", "regular expressions are larger"},
		{"patterns that take long, put in many times", chain(3, slowPattern, "", " || false"), "variables.v3 || variables.v3", "regular expressions take too long to parse"},
		{"patterns that take long, of many variables", of(20, slowPattern), "true", together},
		{"unknown", nil, `variables.x == "a"`, `undeclared reference to "variables.x"`},
		{"itself", []cel.NamedExpression{{Name: "a", Expression: `variables.a`}}, `variables.a`, `variable "a": expression does not compile: undeclared reference to "variables.a"`},
		{"a cycle", []cel.NamedExpression{{Name: "a", Expression: `variables.b`}, {Name: "b", Expression: `variables.a`}}, `variables.a`, `variable "a"`},
		{"twice", []cel.NamedExpression{{Name: "a", Expression: `1`}, {Name: "a", Expression: `2`}}, `variables.a == 1`, "used twice"},
		{"no identifier", []cel.NamedExpression{{Name: "a-b", Expression: `1`}}, `true`, "no identifier"},
		{"does not compile", []cel.NamedExpression{{Name: "a", Expression: `object.`}}, `true`, `variable "a": expression does not compile: ERROR: <input>:1:8`},
		{"of another type than is needed", []cel.NamedExpression{{Name: "a", Expression: `1`}}, `variables.a == "x"`, "no matching overload"},
		{"all of them", nil, `variables == object`, "undeclared reference to 'variables'"},
		{"growing without end", growing, `variables.v20`, "more than 8192 parts"},
		{"generic calls without end", adding, `variables.v20 == []`, "copies of type variables"},
		{"capturing the name of a type", []cel.NamedExpression{{Name: "a", Expression: `type(object.a) == int`}}, `[1].exists(int, variables.a)`, `must not bind a variable that has the name of another: "int"`},
		{"bound by a macro", []cel.NamedExpression{{Name: "a", Expression: `1`}}, `[1].exists(variables, variables == 1)`, "must not bind"},
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
