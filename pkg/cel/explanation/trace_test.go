/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/test/testutil/rows"
)

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
func traceLines(traced *explanation.Trace, indent string) string {
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
		e := compile(t, tc.Text, tc.Variables...)
		values := tracedValues()
		traced := explanation.TraceOf(t.Context(), e, values, explanation.TraceLimit, tc.Unknown...)
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
		traced := explanation.TraceOf(t.Context(), compile(t, tc.text), tracedValues(), explanation.TraceLimit)
		var got []string
		for _, read := range traced.Reads {
			got = append(got, fmt.Sprint(append([]string{string(read.Variable)}, read.Path...)))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %s, want %s", tc.text, strings.Join(got, " "), tc.want)
		}
	}
	inner := explanation.TraceOf(t.Context(), compile(t, `[object.data.x].exists(v, v == "a")`), cel.Values{cel.Object: map[string]any{"data": map[string]any{"x": "a"}}}, explanation.TraceLimit)
	body := inner.Parts[len(inner.Parts)-1]
	for _, traced := range []*explanation.Trace{body, body.Parts[0]} {
		if !slices.ContainsFunc(traced.Reads, func(r explanation.Read) bool { return slices.Equal(r.Path, []string{"data", "x"}) }) {
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
		traced := explanation.TraceOf(t.Context(), compile(t, text), values, explanation.TraceLimit)
		if lines := strings.Count(traceLines(traced, ""), "\n"); lines > 512 || !strings.Contains(traceLines(traced, ""), "…") {
			t.Errorf("%s: got %d lines, want a trace that is cut", name, lines)
		}
	}
	if traced := explanation.TraceOf(t.Context(), compile(t, `object.list.all(e, e < 0)`), values, 0); traced.Err == nil || traced.Value != nil {
		t.Errorf("got %v without a budget", traced.Value)
	}
}
