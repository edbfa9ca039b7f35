/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

func always() bool { return true }

// keyed is the element of a path for an element of a list with these keys.
func keyed(pairs ...string) fieldpath.PathElement {
	keys := value.FieldList{}
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, value.Field{Name: pairs[i], Value: value.NewValueInterface(pairs[i+1])})
	}
	return fieldpath.PathElement{Key: &keys}
}

func element(v any) fieldpath.PathElement {
	return fieldpath.PathElement{Value: ptr.To(value.NewValueInterface(v))}
}

// TestValues looks up the values of fields on both sides of a write. A value that is not the only one which the path can
// mean is not found: exclusions must not be decided by one of two.
func TestValues(t *testing.T) {
	t.Parallel()
	const base = `
metadata: {labels: {a: x, empty: ""}, finalizers: [f, g]}
spec:
  replicas: null
  tags: [t]
  containers:
  - {name: main, image: old, ports: [{port: http}, {port: dns, protocol: UDP}]}
  - {name: twice, image: one}
  - {name: twice, image: two}
  - plain
`
	containers := func(more ...any) fieldpath.Path {
		return fieldpath.MakePathOrDie(append([]any{"spec", "containers"}, more...)...)
	}
	for _, tc := range []struct {
		name string
		path fieldpath.Path
		want any
		lost bool
	}{
		{name: "a field of a map", path: fieldpath.MakePathOrDie("metadata", "labels", "a"), want: "x"},
		{name: "an empty text", path: fieldpath.MakePathOrDie("metadata", "labels", "empty"), want: ""},
		{name: "a key that is not there", path: fieldpath.MakePathOrDie("metadata", "labels", "b")},
		{name: "a map that is not there", path: fieldpath.MakePathOrDie("metadata", "annotations", "b")},
		{name: "null", path: fieldpath.MakePathOrDie("spec", "replicas")},
		{name: "below null", path: fieldpath.MakePathOrDie("spec", "replicas", "x")},
		{name: "below a text", path: fieldpath.MakePathOrDie("metadata", "labels", "a", "x"), lost: true},
		{name: "a field of a list", path: fieldpath.MakePathOrDie("metadata", "finalizers", "f"), lost: true},
		{name: "an element of a map", path: append(fieldpath.MakePathOrDie("metadata", "labels"), element("x")), lost: true},
		{name: "an element of a set", path: append(fieldpath.MakePathOrDie("metadata", "finalizers"), element("g")), want: "g"},
		{name: "no such element", path: append(fieldpath.MakePathOrDie("metadata", "finalizers"), element("h"))},
		{name: "by index", path: append(fieldpath.MakePathOrDie("metadata", "finalizers"), fieldpath.PathElement{Index: ptr.To(1)}), want: "g"},
		{name: "by an index that is too large", path: append(fieldpath.MakePathOrDie("metadata", "finalizers"), fieldpath.PathElement{Index: ptr.To(2)})},
		{name: "by key", path: containers(keyed("name", "main"), "image"), want: "old"},
		{name: "no such key", path: containers(keyed("name", "other"), "image")},
		{name: "a key that two elements have", path: containers(keyed("name", "twice"), "image"), lost: true},
		{name: "by a key that is missing, and may have its default", path: containers(keyed("name", "main"), "ports", keyed("port", "http", "protocol", "TCP"), "port"), want: "http"},
		{name: "by two keys", path: containers(keyed("name", "main"), "ports", keyed("port", "dns", "protocol", "UDP"), "port"), want: "dns"},
		{name: "by a key with another value", path: containers(keyed("name", "main"), "ports", keyed("port", "dns", "protocol", "TCP"), "port")},
		{name: "by an element that says nothing", path: containers(fieldpath.PathElement{})},
		{name: "the object", path: fieldpath.Path{}, want: "an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			after := things.Decoded(t, strings.ReplaceAll(base, "image: old", "image: new"))
			c := changesOf(t, changes.Differ{}, things.Decoded(t, base), after)
			before, now, found := c.Values(tc.path, always)
			if found == tc.lost {
				t.Fatalf("found %v, want %v", found, !tc.lost)
			}
			if tc.lost {
				return
			}
			if tc.want == "an object" {
				_, isBefore := before.(map[string]any)
				_, isNow := now.(map[string]any)
				if !isBefore || !isNow {
					t.Errorf("got %v and %v", before, now)
				}
				return
			}
			if diff := cmp.Diff(tc.want, before); diff != "" {
				t.Errorf("before (-want +got):\n%s", diff)
			}
			wantNow := tc.want
			if wantNow == "old" {
				wantNow = "new"
			}
			if diff := cmp.Diff(wantNow, now); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValuesOfACreate has no old object, so that no field has an old value.
func TestValuesOfACreate(t *testing.T) {
	t.Parallel()
	c := changesOf(t, changes.Differ{}, nil, things.Decoded(t, "spec: {tags: [t]}"))
	before, after, found := c.Values(append(fieldpath.MakePathOrDie("spec", "tags"), element("t")), always)
	if before != nil || after != "t" || !found {
		t.Errorf("got %v, %v, %v", before, after, found)
	}
}

// TestValuesOfOneSide has fields whose value is known on one side of the write only. An exclusion must not be decided by that side.
func TestValuesOfOneSide(t *testing.T) {
	t.Parallel()
	const plain = "metadata: {name: a}\n"
	image := fieldpath.MakePathOrDie("spec", "containers", keyed("name", "a"), "image")
	for _, tc := range []struct {
		name, before, after string
		wantBefore          any
		wantAfter           any
		wantLost            bool
	}{
		{name: "known on both", before: plain + "spec: {containers: [{name: a, image: x}]}", after: plain + "spec: {containers: [{name: a, image: z}]}", wantBefore: "x", wantAfter: "z"},
		{name: "two elements before", before: plain + "spec: {containers: [{name: a, image: x}, {name: a, image: w}]}", after: plain + "spec: {containers: [{name: a, image: z}]}", wantLost: true},
		{name: "two elements after", before: plain + "spec: {containers: [{name: a, image: x}]}", after: plain + "spec: {containers: [{name: a, image: z}, {name: a, image: w}]}", wantLost: true},
		{name: "a text before", before: plain + "spec: {containers: x}", after: plain + "spec: {containers: [{name: a, image: z}]}", wantLost: true},
		{name: "a map after", before: plain + "spec: {containers: [{name: a, image: x}]}", after: plain + "spec: {containers: {a: z}}", wantLost: true},
		{name: "an element that is a text, after", before: plain + "spec: {containers: [{name: a, image: x}]}", after: plain + "spec: {containers: [a]}", wantBefore: "x"},
		{name: "nothing before", before: plain, after: plain + "spec: {containers: [{name: a, image: z}]}", wantAfter: "z"},
		{name: "null after", before: plain + "spec: {containers: [{name: a, image: x}]}", after: plain + "spec: {containers: null}", wantBefore: "x"},
	} {
		c, err := (changes.Differ{}).Changes(t.Context(), things.Kind, things.Decoded(t, tc.before), things.Decoded(t, tc.after))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		before, after, found := c.Values(image, always)
		if found == tc.wantLost || found && (before != tc.wantBefore || after != tc.wantAfter) {
			t.Errorf("%s: got %v and %v, found %v", tc.name, before, after, found)
		}
	}
}

// TestSearchEndsWithItsBudget asks before each element of a list. Once the caller has had enough, nothing is found, also
// if the element was.
func TestSearchEndsWithItsBudget(t *testing.T) {
	t.Parallel()
	o := things.Decoded(t, "spec: {tags: [a, b, c, d]}")
	c := changesOf(t, changes.Differ{}, o, o)
	for budget, want := range []bool{0: false, 1: false, 4: false, 7: false, 8: true, 9: true} {
		left := budget
		_, _, found := c.Values(append(fieldpath.MakePathOrDie("spec", "tags"), element("a")), func() bool { left--; return left >= 0 })
		if found != want {
			t.Errorf("with %d elements: found %v, want %v", budget, found, want)
		}
	}
}

// TestEqual compares as structured-merge-diff does, for which numbers have one type.
func TestEqual(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		a, b any
		want bool
	}{
		{name: "numbers", a: int64(3), b: 3.0, want: true},
		{name: "a number and its text", a: int64(3), b: "3"},
		{name: "null and nothing in a text", a: nil, b: ""},
		{name: "null", a: nil, b: nil, want: true},
		{name: "lists in another order", a: []any{"a", "b"}, b: []any{"b", "a"}},
		{name: "maps", a: map[string]any{"a": int64(1), "b": nil}, b: map[string]any{"b": nil, "a": 1.0}, want: true},
		{name: "maps, one with a null", a: map[string]any{"a": nil}, b: map[string]any{}},
		{name: "true and 1", a: true, b: int64(1)},
		{name: "the least and the greatest", a: int64(math.MinInt64), b: int64(math.MaxInt64)},
	} {
		if got := changes.Equal(tc.a, tc.b); got != tc.want || changes.Equal(tc.b, tc.a) != tc.want {
			t.Errorf("%s: got %v, want %v both ways", tc.name, got, tc.want)
		}
	}
}

// TestNames writes the names of fields for messages: whatever is in a key, a name is one line of bounded length.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		path fieldpath.Path
		want string
	}{
		{name: "nothing", path: nil, want: ""},
		{name: "fields", path: fieldpath.MakePathOrDie("spec", "nodeName"), want: "spec.nodeName"},
		{name: "a key with dots", path: fieldpath.MakePathOrDie("metadata", "labels", "example.com/x"), want: `metadata.labels["example.com/x"]`},
		{name: "a key that is no name, at first", path: fieldpath.MakePathOrDie("0", "a"), want: `["0"].a`},
		{name: "an empty key", path: fieldpath.MakePathOrDie("a", ""), want: `a[""]`},
		{name: "a key with quotes", path: fieldpath.MakePathOrDie("a", `b"].c["`), want: `a["b\"].c[\""]`},
		{name: "a key with a line break", path: fieldpath.MakePathOrDie("a", "b\nc"), want: `a["b\nc"]`},
		{name: "a key that is not UTF-8", path: fieldpath.MakePathOrDie("a", "\xff"), want: `a["\xff"]`},
		{name: "a key with an escape of a terminal", path: fieldpath.MakePathOrDie("a", "\x1b[2J"), want: `a["\x1b[2J"]`},
		{name: "a list key", path: fieldpath.MakePathOrDie("a", keyed("name", "x")), want: `a[name="x"]`},
		{name: "two list keys", path: fieldpath.MakePathOrDie("a", keyed("port", "80", "protocol", "T\"CP")), want: `a[port="80",protocol="T\"CP"]`},
		{name: "an element of a set", path: fieldpath.MakePathOrDie("a", element("x")), want: `a["x"]`},
		{name: "a number in a set", path: fieldpath.MakePathOrDie("a", element(int64(-1))), want: `a[-1]`},
		{name: "an index", path: fieldpath.MakePathOrDie("a", 3), want: `a[3]`},
	} {
		if got := changes.NameOf(tc.path); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestElementsAreWhole writes elements for comparisons, in which nothing may be left out, and in names for people, which are short.
func TestElementsAreWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for name, pair := range map[string][2]fieldpath.PathElement{
		"fields":       {{FieldName: ptr.To(long + "a")}, {FieldName: ptr.To(long + "b")}},
		"keys of maps": {{FieldName: ptr.To("/" + long + "a")}, {FieldName: ptr.To("/" + long + "b")}},
		"list keys":    {keyed("name", long+"a"), keyed("name", long+"b")},
		"values":       {element(long + "a"), element(long + "b")},
	} {
		var one, other strings.Builder
		changes.WriteElement(&one, pair[0])
		changes.WriteElement(&other, pair[1])
		if one.String() == other.String() || len(one.String()) < 5000 {
			t.Errorf("%s: elements that differ in their last letter are written as the same %d bytes", name, one.Len())
		}
		if a, b := changes.NameOf(fieldpath.Path{pair[0]}), changes.NameOf(fieldpath.Path{pair[1]}); a != b || len(a) > 300 {
			t.Errorf("%s: the name has %d bytes", name, len(a))
		}
	}
}

// TestNamesOfLongKeys writes no more of a key than a message shows.
func TestNamesOfLongKeys(t *testing.T) {
	// Not parallel, because it measures allocations.
	for _, key := range []string{strings.Repeat("x", 1<<20), strings.Repeat("ß", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat("\xff", 1<<20)} {
		deep := fieldpath.MakePathOrDie("a", key, key)
		if got := changes.NameOf(deep); len(got) > 256+len("…") || !strings.HasSuffix(got, "…") || !utf8.ValidString(got) {
			t.Errorf("a long key of %q: the name has %d bytes", key[:2], len(got))
		}
		if got := things.Allocated(func() { changes.NameOf(deep) }); got > 1<<19 {
			t.Errorf("a long key of %q: writing the name allocates %d bytes", key[:2], got)
		}
	}
}
