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
		{name: "one", text: `object.a == 1`, variables: nil, want: []string{`object.a == 1`}},
		{name: "two", text: `object.a == 1 && object.b == 2`, variables: nil, want: []string{`object.a == 1`, `object.b == 2`}},
		{name: "nested", text: `(object.a && (object.b && object.c)) && object.d == 1`, variables: nil, want: []string{`object.a`, `object.b`, `object.c`, `object.d == 1`}},
		{name: "other operators", text: `object.a || object.b && object.c`, variables: nil, want: []string{`object.a || object.b && object.c`}},
		{name: "a choice", text: `object.a ? object.b == 1 : object.c == 1 && object.d`, variables: nil, want: []string{`object.a ? object.b == 1 : object.c == 1 && object.d`}},
		{name: "an optional is no choice", text: `object.?a.orValue(1) == 1 && object.b`, variables: nil, want: []string{`object.?a.orValue(1) == 1`, `object.b`}},
		{name: "a macro", text: `object.a.all(x, x.b && x.c) && object.d`, variables: nil, want: []string{`object.a.all(x, x.b && x.c)`, `object.d`}},
		{name: "strings", text: `object.a == "x && \" y" && object.b == '&&' && object.c == r"\" && object.d == """a "&&" b"""`, variables: nil,
			want: []string{`object.a == "x && \" y"`, `object.b == '&&'`, `object.c == r"\"`, `object.d == """a "&&" b"""`}},
		{name: "names in backticks", text: "object.`a//b` == 1", variables: nil, want: []string{"object.`a//b` == 1"}},
		{name: "names in backticks with blanks", text: "object.a && object.b.`x//y  z` == 'z'", variables: nil, want: []string{"object.a", "object.b.`x//y  z` == 'z'"}},
		{name: "comments and lines", text: "object.a == 1 // one && two\n\t&& object.b ==\n 'x  y' // (", variables: nil, want: []string{`object.a == 1`, `object.b == 'x  y'`}},
		{name: "parentheses that do not belong together", text: `(object.a || object.b) && (object.c || object.d)`, variables: nil, want: []string{`object.a || object.b`, `object.c || object.d`}},
		{name: "a negation", text: `!(object.a && object.b) && object.c`, variables: nil, want: []string{`!(object.a && object.b)`, `object.c`}},
		{name: "a variable in a part", text: `variables.v == 1 && object.b`, variables: []string{"v", "object.a"}, want: []string{`variables.v == 1`, `object.b`}},
		{name: "a variable that is a conjunction", text: `variables.v && object.c`, variables: []string{"u", "object.a", "v", "variables.u == 1 && object.b == 1"}, want: []string{`variables.u == 1`, `object.b == 1`, `object.c`}},
		{name: "a variable that is none", text: `variables.v && object.c`, variables: []string{"v", "object.a || object.b"}, want: []string{`variables.v`, `object.c`}},
		{name: "a long one", text: `object.a == "` + strings.Repeat("ä", 200) + `"`, variables: nil, want: []string{`object.a == "` + strings.Repeat("ä", 120) + `…`}},
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
		{text: `object.spec.a == object.spec.b && true`, fields: []string{"spec.a", "spec.b"}, request: nil},
		{text: `object.?spec.?a.orValue("") == "" && has(object.spec.b)`, fields: []string{"spec.a"}, request: nil},
		{text: `object.metadata.labels["x/y"] == oldObject.metadata.labels["z"]`, fields: []string{"metadata.labels.x/y"}, request: nil},
		{text: `object.list.exists(x, x.a == object.b)`, fields: []string{"list", "b"}, request: nil},
		{text: `(operation == "DELETE" ? oldObject : object).spec.a == 1`, fields: []string{"spec.a"}, request: nil},
		{text: `(request.name == "x" ? oldObject : object)["spec"].?a.orValue(1) == 1`, fields: []string{"spec.a"}, request: []string{"name"}},
		{text: `oldObject.spec.a == options.b`, fields: nil, request: nil},
		{text: `object == oldObject`, fields: nil, request: nil},
		{text: `request.name == request.userInfo.username + request.userInfo.uid`, fields: nil, request: []string{"name", "userInfo"}},
		{text: `dyn(request) == object.a`, fields: []string{"a"}, request: []string{""}},
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
