/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"context"
	"errors"
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
				t.Errorf("got %v after %d questions more than one, want it to be canceled", err, -1-ctx.left)
			}
		})
	}
}
