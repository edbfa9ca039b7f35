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
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

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

// TestClaimBudgets spends each budget up to its bound, which docs/adr/0027 gives, and once more.
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
