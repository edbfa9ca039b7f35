/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

// compileParts compiles an expression whose variables are pairs of names and expressions.
func compileParts(t *testing.T, text string, variables ...string) *partial.Expression {
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
		for _, p := range compileParts(t, tc.Text, tc.Variables...).Parts() {
			got = append(got, p.Text)
			if len(p.Text) > partial.MaxPartBytes {
				t.Errorf("%q has %d bytes", p.Text, len(p.Text))
			}
		}
		if diff := cmp.Diff(tc.Want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	rows.Run(t, "testdata/parts.yaml", check)
	check(t, row{Text: `object.a == "` + strings.Repeat("ä", 200) + `"`, Want: []string{`object.a == "` + strings.Repeat("ä", 120) + `…`}})
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

// TestNotTrue finds the parts that keep a condition from being true. Parts that are preferred come first, and what cannot be found within the limit is not
// found: a wrong part in a refusal would be worse than none.
func TestNotTrue(t *testing.T) {
	t.Parallel()
	const check = `authorizer.path("/a").check("get").allowed()`
	readsRequest := func(p *partial.Part) bool { return p.Reads(cel.Request) }
	for _, tc := range []struct {
		name, text string
		preferred  func(*partial.Part) bool
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
		{name: "preferred ones that fail come first", text: `object.z == 1 && request.nothing == "y"`, preferred: func(p *partial.Part) bool { return p.Reads(cel.Request) }, want: []string{`request.nothing == "y"`, `object.z == 1`}},
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
			parts, cost := compileParts(t, text).NotTrue(ctx, values, tc.limit, tc.preferred)
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
		parts := compileParts(t, tc.text).Parts()
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
		part := compileParts(t, tc.text).Parts()[0]
		if !part.ReadsOnly(tc.only...) || !part.ReadsOnly(append(tc.only, cel.Options)...) {
			t.Errorf("%s: it reads more than %q", tc.text, tc.only)
		}
		if tc.not != nil && part.ReadsOnly(tc.not...) {
			t.Errorf("%s: it reads %q only", tc.text, tc.not)
		}
	}
}

// native returns a value that prints the same every time. A list that a literal makes prints its maps in any order.
func native(value ref.Val) any {
	list, ok := value.(traits.Lister)
	if !ok {
		return value.Value()
	}
	elements := []any{}
	for i := list.Iterator(); i.HasNext() == types.True; {
		elements = append(elements, native(i.Next()))
	}
	return elements
}

// traceLines prints a trace: the value, the text and the field of each part, a part in a line.
func traceLines(traced *partial.Trace, indent string) string {
	value := "unknown"
	switch {
	case traced.Err != nil:
		value = cel.FailureClass(traced.Err)
	case traced.Value != nil:
		value = fmt.Sprint(native(traced.Value))
	}
	text := indent + value + " <- " + traced.Text
	if traced.Element != nil {
		text += fmt.Sprintf(" [%s=%v", traced.Element.Name, traced.Element.Value.Value())
		if traced.Element.Field != nil {
			text += fmt.Sprintf(" %v", traced.Element.Field.Path)
		}
		if traced.Element.KeyOf != nil {
			text += fmt.Sprintf(" key %v", traced.Element.KeyOf.Path)
		}
		text += "]"
	}
	if traced.Field != nil {
		text += fmt.Sprintf(" {%s %v}", traced.Field.Variable, traced.Field.Path)
	}
	if traced.IsTruncated {
		text += " …"
	}
	text += "\n"
	for _, part := range traced.Parts {
		text += traceLines(part, indent+"  ")
	}
	return text
}

var tracedObject = map[string]any{
	"metadata": map[string]any{"name": "web", "labels": map[string]any{"team": "blue", "tier": "prod"}},
	"spec":     map[string]any{"class": "gold", "size": int64(3), "list": []any{map[string]any{"n": "a", "on": true}, map[string]any{"n": "b"}}},
}

func tracedValues() cel.Values {
	return cel.Values{
		cel.Request: cel.Known(map[string]any{"verb": "create", "userInfo": map[string]any{"username": "alice"}}), cel.Object: tracedObject,
		cel.OldObject: types.NullValue, cel.Operation: "CREATE",
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	type row struct {
		Variables []string // each name and its expression
		Text      string
		Unknown   []cel.Variable
		Want      string
	}
	rows.Run(t, "testdata/trace.yaml", func(t *testing.T, tc row) {
		e := compileParts(t, tc.Text, tc.Variables...)
		values := tracedValues()
		traced := e.Trace(t.Context(), values, partial.TraceLimit, tc.Unknown...)
		if traced == nil {
			t.Fatal("there is no trace")
		}
		if diff := cmp.Diff(tc.Want, traceLines(traced, "")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		result, _, err := e.Program().Eval(t.Context(), values)
		if traced.Err == nil != (err == nil) || err == nil && traced.Value != types.Bool(result) {
			t.Errorf("the trace is %v, and the program %t, %v", traced.Value, result, err)
		}
	})
}

// TestTraceReads checks from which fields a value is said to come: a caller that may not show them relies on it.
func TestTraceReads(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want string // the fields that the deepest first parts read, from the outermost
	}{
		{text: `object.data.x == "a"`, want: "[object data x]"},
		{text: `object.data["x"] == "a"`, want: "[object data x]"},
		{text: `object.data[request.verb] == "a"`, want: "[object data] [request verb]"},
		{text: `object[request.verb].x == "a"`, want: "[object] [request verb]"},
		{text: `dyn(object).?data[?"x"].orValue(dyn("")) == "a"`, want: "[object data x]"},
		{text: `(operation == "DELETE" ? oldObject : object).data.x == "a"`, want: "[operation] [oldObject data x] [object data x]"},
		{text: `[object.data.x].exists(v, v == "a")`, want: "[object data x]"},
		{text: `object.data.exists(k, object.data[k] == "a")`, want: "[object data]"},
		{text: `object.data.map(k, k + object.spec.y).size() == 0`, want: "[object data] [object spec y]"},
		{text: `{"a": object.data}["a"].x == dyn("a")`, want: "[object data]"},
		{text: `size(object.data) == object.metadata.name`, want: "[object data] [object metadata name]"},
	} {
		traced := compileParts(t, tc.text).Trace(t.Context(), tracedValues(), partial.TraceLimit)
		var got []string
		for _, read := range traced.Reads {
			got = append(got, fmt.Sprint(append([]string{string(read.Variable)}, read.Path...)))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %s, want %s", tc.text, strings.Join(got, " "), tc.want)
		}
	}
	inner := compileParts(t, `[object.data.x].exists(v, v == "a")`).Trace(t.Context(), cel.Values{cel.Object: map[string]any{"data": map[string]any{"x": "a"}}}, partial.TraceLimit)
	body := inner.Parts[len(inner.Parts)-1]
	for _, traced := range []*partial.Trace{body, body.Parts[0]} {
		if !slices.ContainsFunc(traced.Reads, func(r partial.Read) bool { return slices.Equal(r.Path, []string{"data", "x"}) }) {
			t.Errorf("%s: got %v, want data.x", traced.Text, traced.Reads)
		}
	}
	if len(body.Element.Reads) != 1 {
		t.Errorf("got %v", body.Element.Reads)
	}
}

// TestTraceIsBounded traces large expressions and objects.
func TestTraceIsBounded(t *testing.T) {
	t.Parallel()
	long := make([]any, 200)
	for i := range long {
		long[i] = int64(i)
	}
	values := cel.Values{cel.Object: map[string]any{"list": long}}
	for name, text := range map[string]string{
		"many operands": strings.Repeat(`object.x || `, 600) + "object.y",
		"many elements": `object.list.all(e, e < 0)`,
		"deep":          strings.Repeat("!(", 40) + "object.x" + strings.Repeat(")", 40),
	} {
		traced := compileParts(t, text).Trace(t.Context(), values, partial.TraceLimit)
		if lines := strings.Count(traceLines(traced, ""), "\n"); lines > 512 || !strings.Contains(traceLines(traced, ""), "…") {
			t.Errorf("%s: got %d lines, want a trace that is cut", name, lines)
		}
	}
	if traced := compileParts(t, `object.list.all(e, e < 0)`).Trace(t.Context(), values, 0); traced.Err == nil || traced.Value != nil {
		t.Errorf("got %v without a budget", traced.Value)
	}
}
