/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

func listOf(n int) []any { return slices.Repeat([]any{int64(1)}, n) }

func mapOf(n int, value any) map[string]any {
	result := make(map[string]any, n)
	for i := range n {
		result[strconv.Itoa(i)] = value
	}
	return result
}

// TestSizesAtTheirBounds has objects at each bound of docs/fine-grained.md ("Large objects") and one above it.
func TestSizesAtTheirBounds(t *testing.T) {
	t.Parallel()
	nested := func(levels int, value any) any {
		for range levels {
			value = []any{value}
		}
		return value
	}
	for _, tc := range []struct {
		name    string
		object  map[string]any
		managed any
		want    error
	}{
		{name: "nothing"},
		{name: "the longest list", object: map[string]any{"a": listOf(20_000)}},
		{name: "a list that is longer", object: map[string]any{"a": listOf(20_001)}, want: errTooLarge},
		{name: "the largest map", object: map[string]any{"a": mapOf(20_000, "x")}},
		{name: "a map that is larger", object: map[string]any{"a": mapOf(20_001, "x")}, want: errTooLarge},
		{name: "an object with too many fields", object: mapOf(20_001, "x"), want: errTooLarge},
		{name: "as many entries as may be", object: mapOf(5, mapOf(19_999, "x"))}, // 5 + 5 × 19 999
		{name: "an entry more", object: map[string]any{"a": mapOf(5, mapOf(19_999, "x"))}, want: errTooMany},
		{name: "two of the longest lists", object: mapOf(2, listOf(20_000))}, // 2 × 20 000²
		{name: "two of the longest lists, and one with one element", object: map[string]any{"a": mapOf(2, listOf(20_000)), "b": listOf(1)}, want: errLongLists},
		{name: "two of the longest lists, and an empty one", object: map[string]any{"a": mapOf(2, listOf(20_000)), "b": []any{}}},
		{name: "lists of 8000", object: mapOf(12, listOf(8000))},
		{name: "lists of 8300", object: mapOf(12, listOf(8300)), want: errLongLists},
		{name: "as deep as may be", object: map[string]any{"a": nested(127, "x")}, want: nil},
		{name: "as deep as may be, and an empty list in it", object: map[string]any{"a": nested(127, []any{})}},
		{name: "a level deeper", object: map[string]any{"a": nested(128, "x")}, want: errTooDeep},
		{name: "a level deeper, behind many others", object: map[string]any{"a": listOf(100), "b": mapOf(100, nested(127, "x"))}, want: errTooDeep},
		{name: "the longest list of managers", managed: listOf(20_000)},
		{name: "a longer list of managers", managed: listOf(20_001), want: errTooLarge},
		{name: "managers with many fields", managed: slices.Repeat([]any{mapOf(10_000, "x")}, 11)},
		{name: "managers with deep fields", managed: nested(1000, "x")},
		{name: "managers beside as many entries as may be", object: mapOf(5, mapOf(19_999, "x")), managed: listOf(1000)},
		{name: "long lists in managers", managed: slices.Repeat([]any{listOf(20_000)}, 3), want: errLongLists},
	} {
		if err := checkSizes(tc.object, tc.managed); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestSizesOfScalars counts no entries in what has none.
func TestSizesOfScalars(t *testing.T) {
	t.Parallel()
	for _, scalar := range []any{nil, "", "x", int64(math.MaxInt64), 0.5, true} {
		c := sizeChecker{}
		if err := c.check(scalar, 0); err != nil || c.total != 0 || c.listWork != 0 {
			t.Errorf("%v: got %v, and counted %+v", scalar, err, c)
		}
	}
}

// orderType is a list with two keys, of which one has a default, in which there is a set.
const orderType = `types:
- name: object
  map:
    fields:
    - {name: ports, type: {namedType: ports}}
    - {name: words, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - {name: piece, type: {list: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - {name: box, type: {namedType: box}}
    - {name: lost, type: {namedType: nowhere}}
    elementType: {namedType: ports}
- name: box
  map: {elementType: {namedType: ports}, elementRelationship: atomic}
- name: ports
  list: {elementType: {namedType: port}, elementRelationship: associative, keys: [port, protocol]}
- name: port
  map:
    fields:
    - {name: port, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}, default: TCP}
    - {name: names, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
`

// TestOrder finds the lists whose elements have another order. Elements that come or go do not count, only the order of those that stay.
func TestOrder(t *testing.T) {
	t.Parallel()
	parser, err := typed.NewParser(orderType)
	if err != nil {
		t.Fatal(err)
	}
	port := func(number int64, rest ...any) map[string]any {
		result := map[string]any{"port": number}
		for i := 0; i < len(rest); i += 2 {
			result[rest[i].(string)] = rest[i+1]
		}
		return result
	}
	words := func(list ...any) map[string]any { return map[string]any{"words": list} }
	ports := func(list ...any) map[string]any { return map[string]any{"ports": list} }
	for _, tc := range []struct {
		name          string
		before, after map[string]any
		want          string
	}{
		{name: "the same", before: words("a", "b"), after: words("a", "b")},
		{name: "the other way", before: words("a", "b"), after: words("b", "a"), want: "words"},
		{name: "the first becomes the last", before: words("a", "b", "c"), after: words("b", "c", "a"), want: "words"},
		{name: "one in between goes", before: words("a", "b", "c"), after: words("a", "c")},
		{name: "one goes, the others change places", before: words("a", "b", "c"), after: words("c", "a"), want: "words"},
		{name: "one comes first", before: words("a", "b"), after: words("z", "a", "b")},
		{name: "one is in the place of another", before: words("a", "b"), after: words("z", "b")},
		{name: "all go", before: words("a", "b"), after: words()},
		{name: "all are others", before: words("a", "b"), after: words("c", "d")},
		{name: "no list before", before: map[string]any{}, after: words("b", "a")},
		{name: "null before", before: map[string]any{"words": nil}, after: words("b", "a")},
		{name: "a list of one piece", before: map[string]any{"piece": []any{"a", "b"}}, after: map[string]any{"piece": []any{"b", "a"}}},
		{name: "by two keys", before: ports(port(1, "protocol", "TCP"), port(1, "protocol", "UDP")), after: ports(port(1, "protocol", "UDP"), port(1, "protocol", "TCP")), want: "ports"},
		{name: "by a default", before: ports(port(1), port(1, "protocol", "UDP")), after: ports(port(1, "protocol", "UDP"), port(1, "protocol", "TCP")), want: "ports"},
		{name: "a default that is written down", before: ports(port(1), port(2)), after: ports(port(1, "protocol", "TCP"), port(2, "protocol", "TCP"))},
		{name: "numbers of two types", before: ports(port(1), port(2)), after: ports(map[string]any{"port": 1.0}, map[string]any{"port": 2.0})},
		{name: "without a key that has no default", before: ports(map[string]any{"protocol": "UDP"}, port(2)), after: ports(port(2), map[string]any{"protocol": "UDP"}), want: "ports"},
		{name: "elements change places, and what is in them not", before: ports(port(1, "names", []any{"a", "b"}), port(2)), after: ports(port(2), port(1, "names", []any{"a", "b"})), want: "ports"},
		{name: "within an element", before: ports(port(1, "names", []any{"a", "b"})), after: ports(port(1, "names", []any{"b", "a"})), want: `ports[port=1,protocol="TCP"].names`},
		{name: "within an element that moves", before: ports(port(1, "names", []any{"a", "b"}), port(2)), after: ports(port(2), port(1, "names", []any{"b", "a"})), want: `ports ports[port=1,protocol="TCP"].names`},
		{name: "within an element that is new", before: ports(port(2)), after: ports(port(2), port(1, "names", []any{"b", "a"}))},
		{name: "in a field that the type does not name", before: map[string]any{"x": []any{port(1), port(2)}}, after: map[string]any{"x": []any{port(2), port(1)}}, want: "x"},
		{name: "in a map of one piece", before: map[string]any{"box": map[string]any{"x": []any{port(1), port(2)}}}, after: map[string]any{"box": map[string]any{"x": []any{port(2), port(1)}}}},
		{name: "of a type that is not there", before: map[string]any{"lost": []any{"a", "b"}}, after: map[string]any{"lost": []any{"b", "a"}}},
		{name: "a list that was a map", before: map[string]any{"words": map[string]any{"a": "x"}}, after: words("b", "a")},
		{name: "a map that was a list", before: words("b", "a"), after: map[string]any{"words": map[string]any{"a": "x"}}},
	} {
		object := "object"
		walker := orderWalker{schema: parser.Type(object).Schema, moved: fieldpath.NewSet()}
		if err := walker.walk(t.Context(), schema.TypeRef{NamedType: &object}, tc.before, tc.after, nil); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		got := ""
		for _, path := range pathsOf(walker.moved) {
			got += " " + NameOf(path)
		}
		if want := " " + tc.want; got != want && got+tc.want != "" {
			t.Errorf("%s: got%s, want%s", tc.name, got, want)
		}
	}
}
