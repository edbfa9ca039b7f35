/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// compileParts compiles an expression whose variables are pairs of names and expressions.
func compileParts(t *testing.T, text string, variables ...string) *partial.Expression {
	t.Helper()
	conditions, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	var named []cel.NamedExpression
	for i := 0; i < len(variables); i += 2 {
		named = append(named, cel.NamedExpression{Name: variables[i], Expression: variables[i+1]})
	}
	expression, err := compiler.CompileWithVariables(named, text)
	if err != nil {
		t.Fatal(err)
	}
	return expression
}

// TestParts splits conditions into the parts that their authors wrote.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		variables  []string
		want       []string
	}{
		{"one", `object.a == 1`, nil, []string{`object.a == 1`}},
		{"two", `object.a == 1 && object.b == 2`, nil, []string{`object.a == 1`, `object.b == 2`}},
		{"nested", `(object.a && (object.b && object.c)) && object.d == 1`, nil, []string{`object.a`, `object.b`, `object.c`, `object.d == 1`}},
		{"other operators", `object.a || object.b && object.c`, nil, []string{`object.a || object.b && object.c`}},
		{"a choice", `object.a ? object.b == 1 : object.c == 1 && object.d`, nil, []string{`object.a ? object.b == 1 : object.c == 1 && object.d`}},
		{"an optional is no choice", `object.?a.orValue(1) == 1 && object.b`, nil, []string{`object.?a.orValue(1) == 1`, `object.b`}},
		{"a macro", `object.a.all(x, x.b && x.c) && object.d`, nil, []string{`object.a.all(x, x.b && x.c)`, `object.d`}},
		{"strings", `object.a == "x && \" y" && object.b == '&&' && object.c == r"\" && object.d == """a "&&" b"""`, nil,
			[]string{`object.a == "x && \" y"`, `object.b == '&&'`, `object.c == r"\"`, `object.d == """a "&&" b"""`}},
		{"names in backticks", "object.`a//b` == 1", nil, []string{"object.`a//b` == 1"}},
		{"names in backticks with blanks", "object.a && object.b.`x//y  z` == 'z'", nil, []string{"object.a", "object.b.`x//y  z` == 'z'"}},
		{"comments and lines", "object.a == 1 // one && two\n\t&& object.b ==\n 'x  y' // (", nil, []string{`object.a == 1`, `object.b == 'x  y'`}},
		{"parentheses that do not belong together", `(object.a || object.b) && (object.c || object.d)`, nil, []string{`object.a || object.b`, `object.c || object.d`}},
		{"a negation", `!(object.a && object.b) && object.c`, nil, []string{`!(object.a && object.b)`, `object.c`}},
		{"a variable in a part", `variables.v == 1 && object.b`, []string{"v", "object.a"}, []string{`variables.v == 1`, `object.b`}},
		{"a variable that is a conjunction", `variables.v && object.c`, []string{"u", "object.a", "v", "variables.u == 1 && object.b == 1"}, []string{`variables.u == 1`, `object.b == 1`, `object.c`}},
		{"a variable that is none", `variables.v && object.c`, []string{"v", "object.a || object.b"}, []string{`variables.v`, `object.c`}},
		{"a long one", `object.a == "` + strings.Repeat("ä", 200) + `"`, nil, []string{`object.a == "` + strings.Repeat("ä", 120) + `…`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range compileParts(t, tc.text, tc.variables...).Parts() {
				got = append(got, p.Text)
				if len(p.Text) > partial.MaxPartBytes {
					t.Errorf("%q has %d bytes", p.Text, len(p.Text))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := compileParts(t, "true"+strings.Repeat(" && object.a", 64)).Parts(); len(got) > 0 {
		t.Errorf("%d parts are too many", len(got))
	}
}

// TestPartFields asks which fields of the object and of the request a part reads.
func TestPartFields(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text            string
		fields, request []string
	}{
		{`object.spec.a == object.spec.b && true`, []string{"spec.a", "spec.b"}, nil},
		{`object.?spec.?a.orValue("") == "" && has(object.spec.b)`, []string{"spec.a"}, nil},
		{`object.metadata.labels["x/y"] == oldObject.metadata.labels["z"]`, []string{"metadata.labels.x/y"}, nil},
		{`object.list.exists(x, x.a == object.b)`, []string{"list", "b"}, nil},
		{`(operation == "DELETE" ? oldObject : object).spec.a == 1`, []string{"spec.a"}, nil},
		{`(request.name == "x" ? oldObject : object)["spec"].?a.orValue(1) == 1`, []string{"spec.a"}, []string{"name"}},
		{`oldObject.spec.a == options.b`, nil, nil},
		{`object == oldObject`, nil, nil},
		{`request.name == request.userInfo.username + request.userInfo.uid`, nil, []string{"name", "userInfo"}},
		{`dyn(request) == object.a`, []string{"a"}, []string{""}},
	} {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			part := compileParts(t, tc.text).Parts()[0]
			var fields []string
			for _, f := range part.Fields {
				fields = append(fields, strings.Join(f, "."))
			}
			if diff := cmp.Diff(tc.fields, fields) + cmp.Diff(tc.request, part.RequestFields); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFalsePart finds the part that makes a condition false.
func TestFalsePart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		limit      uint64
		want       string // without a limit that is the text for a user who may not read the policy
	}{
		{name: "the only one", text: `object.a == 2`, want: `object.a == 2`},
		{name: "the first", text: `object.a == 2 && object.b == 2`, want: `object.a == 2`},
		{name: "the second", text: `object.a == 1 && object.b == 1`, want: `object.b == 1`},
		{name: "one that is an error", text: `object.c == 1 && object.b == 1`, want: `object.b == 1`},
		{name: "one that asks for authorization", text: `object.a == 1 && authorizer.group("").resource("pods").check("get").allowed()`, want: `authorizer.group("").resource("pods").check("get").allowed()`},
		{name: "two that ask for authorization", text: `object.a == 1 && authorizer.path("/a").check("get").allowed() && authorizer.path("/b").check("get").allowed()`},
		{name: "the request is put in", text: `object.a == 1 && object.name == request.name`, want: `object.name == "n"`},
		{name: "the request alone", text: `object.a == 1 && request.name in ["secret"]`},
		{name: "over the limit", text: `object.b == 2 && object.a == 2`, limit: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expression := compileParts(t, tc.text)
			values := cel.Values{
				cel.Object:  map[string]any{"a": int64(1), "b": int64(2), "name": "m"},
				cel.Request: cel.Known(map[string]any{"name": "n"}),
			}
			limit := uint64(cel.CostLimit)
			if tc.limit > 0 {
				limit = tc.limit
			}
			part, _ := expression.FalsePart(t.Context(), values, limit)
			got := ""
			if part != nil {
				got, _ = expression.TextFor(t.Context(), part, values, cel.CostLimit)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
