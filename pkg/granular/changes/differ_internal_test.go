/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestSizesAtTheirBounds has objects at each bound of docs/fine-grained.md ("Bounds of field checks") and one above it.
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

// randomFields makes a fieldsV1, whose root may be empty.
func randomFields(r *rand.Rand, depth int) map[string]any {
	keys := []string{"f:a", "f:b", `k:{"name":"x"}`, `k:{"name":"x","port":1}`, `v:"x"`, "v:1", "i:0", "f:example.com/a"}
	node := map[string]any{}
	for range r.IntN(4) {
		if depth < 4 {
			node[keys[r.IntN(len(keys))]] = randomFields(r, depth+1)
		}
	}
	if depth > 0 && r.IntN(3) == 0 {
		node[selfMember] = map[string]any{}
	}
	return node
}

// setOf reads a fieldsV1 as the server does.
func setOf(t *testing.T, fields map[string]any) *fieldpath.Set {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	set := fieldpath.NewSet()
	if err := set.FromJSON(bytes.NewReader(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return set
}

func copyOf(t *testing.T, fields map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]any{}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// TestFieldsV1AsSets compares the walker with the sets of structured-merge-diff, in which the server has managed fields: what is gained is the new
// set without the old one, and what is lost the old without the new.
func TestFieldsV1AsSets(t *testing.T) {
	t.Parallel()
	gainedInAll, lostInAll := 0, 0
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test must be repeatable
		before, after := randomFields(r, 0), randomFields(r, 0)
		if r.IntN(2) == 0 { // much in common
			after = copyOf(t, before)
			uniteInto(after, randomFields(r, 2), true)
		}
		gained, lost := fieldpath.NewSet(), fieldpath.NewSet()
		walker := fieldsV1Walker{show: func(path fieldpath.Path, keyBytes int, isGained bool) error {
			set := lost
			if isGained {
				set = gained
			}
			if set.Has(path) {
				t.Errorf("seed %d: %s is shown twice", seed, path)
			}
			set.Insert(path.Copy())
			want := 0
			for _, e := range path {
				key, err := fieldpath.SerializePathElement(e)
				if err != nil {
					t.Fatal(err)
				}
				want += len(key)
			}
			if keyBytes != want {
				t.Errorf("seed %d: %s has keys of %d bytes, want %d", seed, path, keyBytes, want)
			}
			return nil
		}}
		if err := walker.walk(t.Context(), before, after); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		setBefore, setAfter := setOf(t, before), setOf(t, after)
		if want := setAfter.Difference(setBefore); !want.Equals(gained) {
			t.Fatalf("seed %d: gained\n%s\nwant\n%s\nbefore %v\nafter %v", seed, gained, want, before, after)
		}
		if want := setBefore.Difference(setAfter); !want.Equals(lost) {
			t.Fatalf("seed %d: lost\n%s\nwant\n%s\nbefore %v\nafter %v", seed, lost, want, before, after)
		}
		if len(walker.keys) != 0 || len(walker.path) != 0 || walker.keyBytes != 0 {
			t.Fatalf("seed %d: the walker ends at %v, with %d bytes of keys", seed, walker.keys, walker.keyBytes)
		}
		gainedInAll, lostInAll = gainedInAll+gained.Size(), lostInAll+lost.Size()
	}
	if gainedInAll < 700 || lostInAll < 700 {
		t.Errorf("%d paths were gained and %d lost, so that the test proves little", gainedInAll, lostInAll)
	}
}

// TestUnionsOfFieldsV1 compares with the union of sets, by which the server merges entries. Neither side may change with the other afterwards.
func TestUnionsOfFieldsV1(t *testing.T) {
	t.Parallel()
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test must be repeatable
		one, other, third := randomFields(r, 0), randomFields(r, 0), randomFields(r, 0)
		united := copyOf(t, one)
		otherBefore := copyOf(t, other)
		uniteInto(united, other, true)
		if got, want := setOf(t, united), setOf(t, one).Union(setOf(t, other)); !want.Equals(got) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s\nof %v\nand %v", seed, got, want, one, other)
		}
		uniteInto(united, third, true)
		if diff := cmp.Diff(otherBefore, other); diff != "" {
			t.Fatalf("seed %d: a union changes what went into it before (-before +after):\n%s", seed, diff)
		}
	}
}

// TestUnionsKeepWhatIsWrong unites what is no fieldsV1: the walker must still see and refuse it.
func TestUnionsKeepWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		into, from, want map[string]any
	}{
		{name: "a number", into: map[string]any{}, from: map[string]any{"f:a": int64(1)}, want: map[string]any{"f:a": int64(1)}},
		{name: "null in a field", into: map[string]any{"f:a": map[string]any{}}, from: map[string]any{"f:a": map[string]any{"f:b": nil}}, want: map[string]any{"f:a": map[string]any{"f:b": nil, ".": map[string]any{}}}},
		{name: "a text for a node", into: map[string]any{"f:a": map[string]any{"f:b": map[string]any{}}}, from: map[string]any{"f:a": "x"}, want: map[string]any{"f:a": "x"}},
		{name: "a node for a text", into: map[string]any{"f:a": "x"}, from: map[string]any{"f:a": map[string]any{"f:b": map[string]any{}}}, want: map[string]any{"f:a": map[string]any{"f:b": map[string]any{}}}},
		{name: "a list in a new node", into: map[string]any{}, from: map[string]any{"f:a": map[string]any{"f:b": []any{}}}, want: map[string]any{"f:a": map[string]any{"f:b": []any{}}}},
	} {
		uniteInto(tc.into, tc.from, true)
		if diff := cmp.Diff(tc.want, tc.into); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// nestedFields is a fieldsV1 with one path of some levels.
func nestedFields(levels int) map[string]any {
	node := map[string]any{}
	for range levels {
		node = map[string]any{"f:a": node}
	}
	return node
}

// TestFieldsV1ThatCannotBeRead is an error of the walk, unless it is the same before and after: then there is nothing to understand.
func TestFieldsV1ThatCannotBeRead(t *testing.T) {
	t.Parallel()
	leaf := map[string]any{}
	for _, tc := range []struct {
		name          string
		before, after map[string]any
		want          int // paths
		wantErr       bool
	}{
		{name: "a number", after: map[string]any{"f:a": int64(1)}, wantErr: true},
		{name: "a number that goes", before: map[string]any{"f:a": int64(1)}, wantErr: true},
		{name: "a number that becomes a node", before: map[string]any{"f:a": int64(1)}, after: map[string]any{"f:a": leaf}, wantErr: true},
		{name: "a number that stays", before: map[string]any{"f:a": int64(1)}, after: map[string]any{"f:a": int64(1), "f:b": leaf}, want: 1},
		{name: "a number that is another one", before: map[string]any{"f:a": int64(1)}, after: map[string]any{"f:a": int64(2)}, wantErr: true},
		{name: "null", after: map[string]any{"f:a": nil}, wantErr: true},
		{name: "null for nothing, in a field", before: map[string]any{"f:a": leaf}, after: map[string]any{"f:a": map[string]any{"f:b": nil}}, wantErr: true},
		{name: "a key of no kind", after: map[string]any{"a": leaf}, wantErr: true},
		{name: "a key of an unknown kind", after: map[string]any{"z:a": leaf}, wantErr: true},
		{name: "an empty key", after: map[string]any{"": leaf}, wantErr: true},
		{name: "a field without a name", after: map[string]any{"f:": leaf}, want: 1},
		{name: "an index that is no number", after: map[string]any{"i:x": leaf}, wantErr: true},
		{name: "a value that is no JSON", after: map[string]any{"v:x": leaf}, wantErr: true},
		{name: "keys that are a list", after: map[string]any{`k:["a"]`: leaf}, wantErr: true},
		{name: "a key of no kind on the way", after: map[string]any{"a": map[string]any{"f:b": leaf}}, wantErr: true},
		{name: "a key of no kind, before and after", before: map[string]any{"a": leaf}, after: map[string]any{"a": leaf, "f:b": leaf}, want: 1},
		{name: "a dot at the root", after: map[string]any{".": leaf, "f:b": leaf}, want: 1},
		{name: "a dot with something in it", after: map[string]any{"f:a": map[string]any{".": map[string]any{"f:b": leaf}}}, want: 1},
		{name: "as deep as may be", after: nestedFields(128), want: 1},
		{name: "a level deeper", after: nestedFields(129), wantErr: true},
		{name: "a level deeper, before and after", before: nestedFields(129), after: nestedFields(129)},
		{name: "a level deeper, that goes", before: nestedFields(129), wantErr: true},
	} {
		shown := 0
		walker := fieldsV1Walker{show: func(fieldpath.Path, int, bool) error { shown++; return nil }}
		err := walker.walk(t.Context(), tc.before, tc.after)
		if errors.Is(err, errEntry) != tc.wantErr || err != nil && !tc.wantErr || err == nil && shown != tc.want {
			t.Errorf("%s: got %v and %d paths, want %d, and an error %v", tc.name, err, shown, tc.want, tc.wantErr)
		}
	}
}

// TestFieldsV1WalkEnds by an error of the function that gets the paths, and with the request.
func TestFieldsV1WalkEnds(t *testing.T) {
	t.Parallel()
	enough, shown := errors.New("enough"), 0
	after := map[string]any{"f:a": map[string]any{"f:x": map[string]any{}, "f:y": map[string]any{}}, "f:b": map[string]any{}}
	walker := fieldsV1Walker{show: func(fieldpath.Path, int, bool) error {
		if shown++; shown == 2 {
			return enough
		}
		return nil
	}}
	if err := walker.walk(t.Context(), nil, after); !errors.Is(err, enough) || shown != 2 {
		t.Errorf("got %v after %d paths, want the error of the second", err, shown)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	shown = 2
	if err := walker.walk(ended, nil, after); !errors.Is(err, context.Canceled) || shown != 2 {
		t.Errorf("got %v after %d paths, want none of an ended request", err, shown-2)
	}
}

// TestClaimBudgets spends each budget up to its bound, and once more.
func TestClaimBudgets(t *testing.T) {
	t.Parallel()
	path := func(n int) fieldpath.Path { return make(fieldpath.Path, n) }
	for _, tc := range []struct {
		name  string
		spend func(b *claimBudget) error
		want  int // how often it can be spent
	}{
		{name: "claims on one field", spend: func(b *claimBudget) error { return b.claim(path(1)) }, want: 20_000},
		{name: "claims on the whole object", spend: func(b *claimBudget) error { return b.claim(nil) }, want: 20_000},
		{name: "claims on fields at a depth of 25", spend: func(b *claimBudget) error { return b.claim(path(25)) }, want: 20_000},
		{name: "claims on fields at a depth of 26", spend: func(b *claimBudget) error { return b.claim(path(26)) }, want: 500_000 / 26},
		{name: "claims on fields at the greatest depth", spend: func(b *claimBudget) error { return b.claim(path(128)) }, want: 500_000 / 128},
		{name: "comparisons of a MiB", spend: func(b *claimBudget) error { return b.compare(1 << 20) }, want: 32},
		{name: "comparisons of a MiB and a byte", spend: func(b *claimBudget) error { return b.compare(1<<20 + 1) }, want: 31},
		{name: "one comparison that is too large", spend: func(b *claimBudget) error { return b.compare(32<<20 + 1) }, want: 0},
	} {
		var budget claimBudget
		got := 0
		for tc.spend(&budget) == nil && got <= tc.want {
			got++
		}
		if got != tc.want {
			t.Errorf("%s: spent %d times, want %d", tc.name, got, tc.want)
		}
		if err := tc.spend(&budget); !errors.Is(err, errTooManyClaims) || !strings.Contains(err.Error(), "20000") {
			t.Errorf("%s: got %v once it was spent", tc.name, err)
		}
	}
}
