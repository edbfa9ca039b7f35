/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

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
	"github.com/proviso-authz/proviso/pkg/cel/partial"
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
	for _, tc := range []struct {
		name, text string
		variables  []string
		unknown    []cel.Variable
		want       string
	}{
		{name: "a comparison", text: `object.spec.class == "dev"`, want: `
false <- object.spec.class == "dev"
  gold <- object.spec.class {object [spec class]}
  dev <- "dev"
`},
		{name: "a chain has all operands", text: `object.spec.size == 3 && object.spec.class == "dev" && object.spec.none`, want: `
false <- object.spec.size == 3 && object.spec.class == "dev" && object.spec.none
  true <- object.spec.size == 3
    3 <- object.spec.size {object [spec size]}
    3 <- 3
  false <- object.spec.class == "dev"
    gold <- object.spec.class {object [spec class]}
    dev <- "dev"
  no such key <- object.spec.none {object [spec none]}
`},
		{name: "the branch that is chosen, and the field of it", variables: []string{"of", `operation == "DELETE" ? oldObject : object`}, text: `variables.of.spec.size > 3 ? object.a == 1 : !has(object.spec.class)`, want: `
false <- (operation == "DELETE" ? oldObject : object).spec.size > 3 ? object.a == 1 : !has(object.spec.class)
  false <- (operation == "DELETE" ? oldObject : object).spec.size > 3
    3 <- (operation == "DELETE" ? oldObject : object).spec.size {object [spec size]}
    3 <- 3
  false <- !has(object.spec.class)
    true <- has(object.spec.class) {object [spec class]}
`},
		{name: "an optional field with a name of the request", text: `object.metadata.?labels[request.userInfo.username].orValue("") != ""`, want: `
false <- object.metadata.?labels[request.userInfo.username].orValue("") != ""
   <- object.metadata.?labels[request.userInfo.username].orValue("") {object [metadata labels alice]}
   <- ""
`},
		{name: "the elements that make all false", text: `object.spec.list.all(e, e.?on.orValue(false))`, want: `
false <- object.spec.list.all(e, e.?on.orValue(false))
  [map[n:a on:true] map[n:b]] <- object.spec.list {object [spec list]}
  false <- e.?on.orValue(false) [e=map[n:b] [spec list 1]] {object [spec list 1 on]}
`},
		{name: "the elements that make exists true", text: `object.spec.list.exists(i, e, e.n == "b" && i > 0)`, want: `
true <- object.spec.list.exists(i, e, e.n == "b" && i > 0)
  [map[n:a on:true] map[n:b]] <- object.spec.list {object [spec list]}
  true <- e.n == "b" && i > 0 [e=map[n:b] [spec list 1]]
    true <- e.n == "b"
      b <- e.n {object [spec list 1 n]}
      b <- "b"
    true <- i > 0
      1 <- i
      0 <- 0
`},
		{name: "the elements of a sum of lists", variables: []string{"all", `object.spec.?none.orValue([]) + [object.spec.list[0]] + object.spec.list`}, text: `variables.all.exists(e, e.n == "b")`, want: `
true <- (object.spec.?none.orValue([]) + [object.spec.list[0]] + object.spec.list).exists(e, e.n == "b")
  [map[n:a on:true] map[n:a on:true] map[n:b]] <- object.spec.?none.orValue([]) + [object.spec.list[0]] + object.spec.list
    [map[n:a on:true]] <- object.spec.?none.orValue([]) + [object.spec.list[0]]
      [] <- object.spec.?none.orValue([]) {object [spec none]}
      [map[n:a on:true]] <- [object.spec.list[0]]
        map[n:a on:true] <- object.spec.list[0] {object [spec list 0]}
    [map[n:a on:true] map[n:b]] <- object.spec.list {object [spec list]}
  true <- e.n == "b" [e=map[n:b] [spec list 1]]
    b <- e.n {object [spec list 1 n]}
    b <- "b"
`},
		{name: "the keys of a map", text: `object.metadata.labels.all(k, k == "team")`, want: `
false <- object.metadata.labels.all(k, k == "team")
  map[team:blue tier:prod] <- object.metadata.labels {object [metadata labels]}
  false <- k == "team" [k=tier key [metadata labels tier]]
    tier <- k
    team <- "team"
`},
		{name: "another macro has its range", text: `object.spec.list.map(e, e.n).size() == 1`, want: `
false <- object.spec.list.map(e, e.n).size() == 1
  2 <- object.spec.list.map(e, e.n).size()
    [a b] <- object.spec.list.map(e, e.n)
      [map[n:a on:true] map[n:b]] <- object.spec.list {object [spec list]}
  1 <- 1
`},
		{name: "elements that do not decide take no place", text: `[1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3, 4, 5, 6, 7, 8].all(b, [1, 2, 3, 4, 5, 6, 7, 8].all(c, a + b + c < 100 + object.spec.size))) && object.spec.none == 1`, want: `
no such key <- [1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3, 4, 5, 6, 7, 8].all(b, [1, 2, 3, 4, 5, 6, 7, 8].all(c, a + b + c < 100 + object.spec.size))) && object.spec.none == 1
  true <- [1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3, 4, 5, 6, 7, 8].all(b, [1, 2, 3, 4, 5, 6, 7, 8].all(c, a + b + c < 100 + object.spec.size)))
    [1 2 3 4 5 6 7 8] <- [1, 2, 3, 4, 5, 6, 7, 8]
  no such key <- object.spec.none == 1
    no such key <- object.spec.none {object [spec none]}
    1 <- 1
`},
		{name: "what is not known", text: `options.x == "a" || object.spec.class == "gold"`, unknown: []cel.Variable{cel.Options}, want: `
true <- options.x == "a" || object.spec.class == "gold"
  unknown <- options.x == "a"
    unknown <- options.x {options [x]}
    a <- "a"
  true <- object.spec.class == "gold"
    gold <- object.spec.class {object [spec class]}
    gold <- "gold"
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := compileParts(t, tc.text, tc.variables...)
			values := tracedValues()
			traced := e.Trace(t.Context(), values, partial.TraceLimit, tc.unknown...)
			if traced == nil {
				t.Fatal("there is no trace")
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), traceLines(traced, "")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			result, _, err := e.Program().Eval(t.Context(), values)
			if traced.Err == nil != (err == nil) || err == nil && traced.Value != types.Bool(result) {
				t.Errorf("the trace is %v, and the program %t, %v", traced.Value, result, err)
			}
		})
	}
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
