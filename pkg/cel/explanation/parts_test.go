/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// compile compiles an expression whose variables are pairs of names and expressions.
func compile(t *testing.T, text string, variables ...string) *partial.Expression {
	t.Helper()
	compiler := compilers.Policies(t)
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
	type row struct {
		Variables []string
		Text      string
		Want      []string
	}
	check := func(t *testing.T, tc row) {
		t.Helper()
		var got []string
		for _, p := range explanation.PartsOf(compile(t, tc.Text, tc.Variables...)).All() {
			got = append(got, p.Text)
			if len(p.Text) > explanation.MaxPartBytes {
				t.Errorf("%q has %d bytes", p.Text, len(p.Text))
			}
		}
		if diff := cmp.Diff(tc.Want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	rows.Run(t, "testdata/parts.yaml", check)
	check(t, row{Text: `object.a == "` + strings.Repeat("ä", 200) + `"`, Want: []string{`object.a == "` + strings.Repeat("ä", 120) + `…`}})
	if got := explanation.PartsOf(compile(t, "true"+strings.Repeat(" && object.a", 64))).All(); len(got) > 0 {
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
			part := explanation.PartsOf(compile(t, tc.text)).All()[0]
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
			expression := compile(t, tc.text)
			values := cel.Values{
				cel.Object:  map[string]any{"a": int64(1), "b": int64(2), "name": "m"},
				cel.Request: cel.Known(map[string]any{"name": "n"}),
			}
			limit := uint64(cel.CostLimit)
			if tc.limit > 0 {
				limit = tc.limit
			}
			parts, _ := explanation.PartsOf(expression).NotTrue(t.Context(), values, limit, nil)
			got := ""
			if len(parts) == 1 {
				got, _ = parts[0].TextFor(t.Context(), values, cel.CostLimit)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNotTrue finds the parts that keep a condition from being true. Parts that are preferred come first, and what cannot be found within the limit is not
// found: a wrong part in a refusal would be worse than none.
func TestNotTrue(t *testing.T) {
	t.Parallel()
	const check = `authorizer.path("/a").check("get").allowed()`
	readsRequest := func(p *explanation.Part) bool { return p.Reads(cel.Request) }
	for _, tc := range []struct {
		name, text string
		preferred  func(*explanation.Part) bool
		limit      uint64 // cel.CostLimit if it is 0
		ended      bool
		want       []string
	}{
		{name: "one part, which is not evaluated", text: `object.a == 1`, limit: 1, want: []string{`object.a == 1`}},
		{name: "the first that is false", text: `object.a == 1 && object.b == 1 && object.c == 1`, want: []string{`object.b == 1`}},
		{name: "one that is false, behind one that fails", text: `object.z == 1 && object.b == 1`, want: []string{`object.b == 1`}},
		{name: "those that fail", text: `object.z == 1 && object.a == 1 && object.y == 1`, want: []string{`object.z == 1`, `object.y == 1`}},
		{name: "one that fails, and one that asks", text: `object.z == 1 && ` + check, want: []string{`object.z == 1`, check}},
		{name: "one that is false, before one that asks", text: check + ` && object.b == 1`, want: []string{`object.b == 1`}},
		{name: "one that reads what is not given", text: `object.a == 1 && oldObject.a == 1`, want: []string{`oldObject.a == 1`}},
		{name: "all are true", text: `object.a == 1 && object.b == 2`},
		{name: "the preferred one of two", text: `object.b == 1 && request.name == "x"`, preferred: readsRequest, want: []string{`request.name == "x"`}},
		{name: "the preferred one is true", text: `object.b == 1 && request.name == "n"`, preferred: readsRequest, want: []string{`object.b == 1`}},
		{name: "two preferred ones keep their order", text: `object.b == 1 && request.name == "y" && request.name == "x"`, preferred: readsRequest, want: []string{`request.name == "y"`}},
		{name: "preferred ones that fail come first", text: `object.z == 1 && request.nothing == "y"`, preferred: func(p *explanation.Part) bool { return p.Reads(cel.Request) }, want: []string{`request.nothing == "y"`, `object.z == 1`}},
		{name: "over the limit", text: `object.a == 1 && object.b == 1`, limit: 1},
		{name: "an ended request", text: `object.a == 1 && object.l.exists(x, x == 1)`, ended: true},
		{name: "too many parts", text: `object.b == 1` + strings.Repeat(` && object.a == 1`, 64)},
		{name: "as many parts as may be", text: `object.a == 1` + strings.Repeat(` && object.a == 1`, 62) + ` && object.b == 1`, want: []string{`object.b == 1`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.ended {
				cancel()
			}
			if tc.limit == 0 {
				tc.limit = cel.CostLimit
			}
			text := strings.ReplaceAll(tc.text, "request.nothing", "dyn(request).nothing")
			values := cel.Values{
				cel.Object:  map[string]any{"a": int64(1), "b": int64(2), "c": int64(3), "l": []any{int64(2)}},
				cel.Request: cel.Known(map[string]any{"name": "n"}),
			}
			parts, cost := explanation.PartsOf(compile(t, text)).NotTrue(ctx, values, tc.limit, tc.preferred)
			var got []string
			for _, p := range parts {
				got = append(got, strings.ReplaceAll(p.Text, "dyn(request).nothing", "request.nothing"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("after %d units (-want +got):\n%s", cost, diff)
			}
		})
	}
}

// TestPartsListFewFields has parts that read more fields than a message lists.
func TestPartsListFewFields(t *testing.T) {
	t.Parallel()
	sum := func(format string, n int) string {
		var terms []string
		for i := range n {
			terms = append(terms, fmt.Sprintf(format, i))
		}
		return "[" + strings.Join(terms, ", ") + "] == []"
	}
	for _, tc := range []struct {
		name, text              string
		wantFields, wantRequest int
	}{
		{name: "eight", text: sum("object.f%d", 8), wantFields: 8},
		{name: "nine", text: sum("object.f%d", 9), wantFields: 8},
		{name: "one, often", text: "[" + strings.Repeat("object.f, ", 20) + "object.g] == []", wantFields: 2},
		{
			name:        "of the request",
			text:        "[" + strings.Repeat("dyn(request.name), ", 3) + "dyn(request.verb), dyn(request.resource), dyn(request.namespace), dyn(request.apiGroup), dyn(request.apiVersion), dyn(request.subresource), dyn(request.userInfo), dyn(request.path)] == []",
			wantRequest: 8,
		},
		{name: "elements of a list by number", text: `object.l[0].a == object.l[1].a`},
		{name: "a key that is computed", text: `object.m[request.name] == 1`, wantRequest: 1},
	} {
		parts := explanation.PartsOf(compile(t, tc.text)).All()
		if len(parts) != 1 || len(parts[0].Fields) != tc.wantFields && tc.wantFields > 0 || len(parts[0].RequestFields) != tc.wantRequest {
			t.Errorf("%s: got %+v", tc.name, parts[0])
		}
	}
}

// TestReadsOnly tells which variables a part depends on, without those that its macros bind.
func TestReadsOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		only []cel.Variable
		not  []cel.Variable // with these alone it is not enough
	}{
		{text: `true`, only: nil},
		{text: `request.name == "a"`, only: []cel.Variable{cel.Request}, not: []cel.Variable{cel.Object}},
		{text: `object.a == request.name`, only: []cel.Variable{cel.Object, cel.Request}, not: []cel.Variable{cel.Object}},
		{text: `object.l.all(x, x == request.name)`, only: []cel.Variable{cel.Object, cel.Request}, not: []cel.Variable{cel.Object}},
		{text: `[1, 2].exists(x, x == 2)`, only: nil},
		{text: `[1].exists(x, [2].exists(y, x == y && namespaceObject.metadata.name == 'n' && x == 1))`, only: []cel.Variable{cel.NamespaceObject}, not: []cel.Variable{cel.Request}},
		{text: `{"object": 1} == {}`, only: nil},
		{text: `"object" == "request"`, only: nil},
	} {
		part := explanation.PartsOf(compile(t, tc.text)).All()[0]
		if !part.ReadsOnly(tc.only...) || !part.ReadsOnly(append(tc.only, cel.Options)...) {
			t.Errorf("%s: it reads more than %q", tc.text, tc.only)
		}
		if tc.not != nil && part.ReadsOnly(tc.not...) {
			t.Errorf("%s: it reads %q only", tc.text, tc.not)
		}
	}
}

// TestUnchangedInReasons looks at the parts of a condition, which reasons show.
func TestUnchangedInReasons(t *testing.T) {
	t.Parallel()
	const call = `unchanged(object, oldObject, ["data.status"])`
	expression := compilers.Compiled(t, compilers.Policies(t), `request.verb == "patch" && `+call)
	parts := explanation.PartsOf(expression).All()
	if len(parts) != 2 || parts[1].Text != call {
		t.Errorf("got %d parts, %+v", len(parts), parts)
	}
}
