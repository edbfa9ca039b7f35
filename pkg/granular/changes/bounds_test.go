/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// TestDeepObjects: the paths of the changed fields of an object without schema took memory in the
// square of its depth, too.
func TestDeepObjects(t *testing.T) {
	nested := func(levels int) *unstructured.Unstructured {
		o := things.Decoded(t, "metadata: {name: one}")
		var value any = "x"
		for range levels - 1 {
			value = map[string]any{"a": value, "b": "x"}
		}
		o.Object["spec"] = value
		return o
	}
	small := things.Decoded(t, "metadata: {name: one}")
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		want          string
	}{
		{name: "as deep as may be", before: small, after: nested(128)},
		{name: "one level deeper", before: small, after: nested(129), want: "the new object is nested deeper than 128 levels"},
		{name: "a deep object", before: small, after: nested(2000), want: "the new object is nested deeper than 128 levels"},
		{name: "a deep object before", before: nested(2000), after: small, want: "the old object is nested deeper than 128 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var err error
			got := things.Allocated(func() {
				var changed *changes.Changes
				if changed, err = (changes.Differ{}).Changes(t.Context(), things.Kind, tc.before, tc.after); err == nil {
					changed.Paths()
				}
			})
			if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want+", which takes too much memory to compare" {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if got > things.MaxAllocated {
				t.Errorf("the comparison allocated %d MiB", got>>20)
			}
		})
	}
}

// TestLargeObjects: the bound of each map held, but an object had room for many of them.
func TestLargeObjects(t *testing.T) {
	withMaps := func(n, entries int) *unstructured.Unstructured {
		o := things.Decoded(t, "metadata: {name: one}") // 5 entries with spec
		spec := map[string]any{}
		for i := range n {
			values := map[string]any{}
			for j := range entries {
				values[strconv.Itoa(j)] = int64(1)
			}
			spec[strconv.Itoa(i)] = values
		}
		o.Object["spec"] = spec
		return o
	}
	withLists := func(n, entries int) *unstructured.Unstructured {
		o := things.Decoded(t, "metadata: {name: one}")
		list := []any{}
		for range n {
			list = append(list, slices.Repeat([]any{int64(1)}, entries))
		}
		o.Object["spec"] = list
		return o
	}
	const tooMany = " has more than 100000 entries in its lists and maps, which takes too long to compare"
	const tooLarge = " has a list or map of more than 20000 entries, which takes too long to compare"
	const longLists = " has lists that take too long to compare together: the squares of their lengths add up to more than 800000000"
	small := things.Decoded(t, "metadata: {name: one}")
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		want          string
	}{
		{name: "as many entries as there may be", before: withMaps(35, 2856), after: withMaps(35, 2856)},     // 5 + 35 × 2857
		{name: "one more entry", before: small, after: withMaps(12, 8332), want: "the new object" + tooMany}, // 5 + 12 × 8333
		{name: "one more entry before", before: withMaps(12, 8332), after: small, want: "the old object" + tooMany},
		{name: "more entries of lists", before: small, after: withLists(1000, 100), want: "the new object" + tooMany},
		{name: "many more", before: withMaps(9, 20_000), after: withMaps(19, 20_000), want: "the old object" + tooMany},
		{name: "one map that is as large as may be", before: small, after: withMaps(1, 20_000)},
		{name: "one map that is larger", before: small, after: withMaps(1, 20_001), want: "the new object" + tooLarge},
		{name: "one list that is larger", before: small, after: withLists(1, 20_001), want: "the new object" + tooLarge},
		{name: "the longest list", before: small, after: withLists(1, 20_000)},
		{name: "lists of some thousand entries", before: withLists(12, 8000), after: withLists(12, 8000)},
		{name: "five of the longest lists", before: small, after: withLists(5, 19_900), want: "the new object" + longLists},
		{name: "three long lists before", before: withLists(3, 17_000), after: small, want: "the old object" + longLists},
		{name: "managed fields have bounds of their own", before: small, after: things.WithManaged(t, things.Entry("carol", "Update", map[string]any{"f:a": things.Leaves(9000), "f:b": things.Leaves(9000)}))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := (changes.Differ{}).Changes(t.Context(), things.Kind, tc.before, tc.after)
			if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestComparisonsOfEndedRequests: the comparison of objects ends with the request at each of its steps,
// and never with a part of the changes.
func TestComparisonsOfEndedRequests(t *testing.T) {
	t.Parallel()
	before := things.Decoded(t, "metadata: {name: one, finalizers: [a, b]}\nspec: {a: {b: {c: x}}}")
	after := things.Decoded(t, "metadata: {name: one, finalizers: [b, a]}\nspec: {a: {b: {c: y}}}")
	// The two conversions and the comparison; the object, metadata, the finalizers, spec, a and b.
	const steps = 3 + 6
	for left := range steps + 1 {
		ctx := &endingContext{Context: t.Context(), left: left}
		changed, err := (changes.Differ{}).Changes(ctx, things.Kind, before, after)
		switch {
		case left == steps && (err != nil || len(changed.Paths()) != 2):
			t.Errorf("got %v, %v after %d calls, want two changes", changed, err, left)
		case left < steps && (changed != nil || !errors.Is(err, context.Canceled)):
			t.Errorf("got %v, %v after %d calls, want it to be canceled", changed, err, left)
		}
	}
}

// endingContext is a context that ends after it has been asked some times.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestManagedFieldsOfEndedRequests: the comparison of managed fields ends with the request.
func TestManagedFieldsOfEndedRequests(t *testing.T) {
	t.Parallel()
	var updates []map[string]any
	for i := range 100 {
		updates = append(updates, things.Entry("m"+strconv.Itoa(i), "Update", things.Leaves(1)))
	}
	bucket := things.Entry("ancient-changes", "Update", things.Leaves(1))
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		asked         int
	}{
		{name: "in the old entries", before: things.WithManaged(t, updates...), after: things.WithManaged(t), asked: 50},
		{name: "in the new entries", before: things.WithManaged(t), after: things.WithManaged(t, updates...), asked: 50},
		{name: "in the entries that are merged", before: things.WithManaged(t, updates...), after: things.WithManaged(t, append(updates[:9:9], bucket)...), asked: 100 + 10 + 50},
		{name: "in the fields of an entry", before: things.WithManaged(t), after: things.WithManaged(t, things.Entry("m", "Update", things.Leaves(100))), asked: 1 + 50},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := &endingContext{Context: t.Context(), left: tc.asked}
			_, err := (changes.Differ{}).Changes(ctx, things.Kind, tc.before, tc.after)
			if !errors.Is(err, context.Canceled) || ctx.left != -1 {
				t.Errorf("got %v after %d calls more than one, want it to be canceled", err, -1-ctx.left)
			}
		})
	}
}
