/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// with returns an entry with one of its members replaced, or removed if the value is nil.
func with(entry map[string]any, member string, v any) map[string]any {
	if entry[member] = v; v == nil {
		delete(entry, member)
	}
	return entry
}

func owned(keys ...string) map[string]any {
	node := map[string]any{}
	for _, key := range keys {
		node[key] = map[string]any{}
	}
	return node
}

// labelled is a fieldsV1 with labels.
func labelled(labels ...string) map[string]any {
	return map[string]any{"f:metadata": map[string]any{"f:labels": owned(labels...)}}
}

func claimsOf(c *changes.Changes) []string {
	var texts []string
	for _, claim := range c.Claims() {
		text := changes.NameOf(claim.Field())
		if claim.APIVersion != "" {
			text += " in " + claim.APIVersion
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// TestClaims changes metadata.managedFields and nothing else. What an entry gains or loses is a claim on the field; an
// entry that cannot be understood is a claim on the whole object.
func TestClaims(t *testing.T) {
	t.Parallel()
	const whole = "metadata.managedFields"
	type row struct {
		Before, After entryRows
		Want          []string
	}
	rows.Run(t, "testdata/claims.yaml", func(t *testing.T, tc row) {
		for _, differ := range []changes.Differ{{}, {Types: things.Types(t)}} {
			c := changesOf(t, differ, tc.Before.thing(t), tc.After.thing(t))
			if diff := cmp.Diff(tc.Want, claimsOf(c)); diff != "" {
				t.Errorf("with schemas %v (-want +got):\n%s", differ.Types != nil, diff)
			}
			if fields := namesOf(c); len(fields) > 0 {
				t.Errorf("got changes of %v, want none: managed fields are no changes of a field", fields)
			}
			for _, claim := range c.Claims() {
				if opaque := claim.APIVersion != "" || changes.NameOf(claim.Field()) == whole; claim.IsOpaque() != opaque || !strings.Contains(claim.String(), "metadata.managedFields") {
					t.Errorf("%s: opaque %v, want %v", claim, claim.IsOpaque(), opaque)
				}
			}
		}
	})
}

// entryRows are entries of managed fields as claims.yaml describes them.
type entryRows []map[string]any

// thing is a thing with the entries.
func (r entryRows) thing(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	var entries []map[string]any
	for _, row := range r {
		entry := things.Entry("", "", nil)
		for member, v := range row {
			entry = with(entry, member, v)
		}
		entries = append(entries, entry)
	}
	return things.WithManaged(t, entries...)
}

func changesOf(t *testing.T, differ changes.Differ, before, after runtime.Object) *changes.Changes {
	t.Helper()
	c, err := differ.Changes(t.Context(), things.Kind, before, after)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWriters has requests that write their own entry, the entry of another manager, or several.
func TestWriters(t *testing.T) {
	t.Parallel()
	type row struct {
		Writer        changes.Writer
		Before, After entryRows
		Refused       bool
	}
	rows.Run(t, "testdata/writers.yaml", func(t *testing.T, tc row) {
		err := changesOf(t, changes.Differ{}, tc.Before.thing(t), tc.After.thing(t)).CheckWriter(tc.Writer)
		if (err != nil) != tc.Refused {
			t.Errorf("got %v, want an error %v", err, tc.Refused)
		}
		if err != nil && strings.Contains(err.Error(), "argo") {
			t.Errorf("got %v, which names a manager to a requester who may not read the object", err)
		}
	})
}

// TestBucketOfTheServer merges old Update entries into the bucket, as the server does once there are ten. That is no
// claim; the same change by a client with fewer entries is one.
func TestBucketOfTheServer(t *testing.T) {
	t.Parallel()
	update := func(i int) map[string]any {
		return things.Entry(fmt.Sprintf("m%d", i), "Update", labelled(fmt.Sprintf("f:l%d", i)))
	}
	merged := func(labels ...string) map[string]any {
		return things.Entry("ancient-changes", "Update", labelled(labels...))
	}
	for _, tc := range []struct {
		name    string
		entries int // that stay
		bucket  map[string]any
		want    []string
	}{
		{name: "ten entries, with the bucket", entries: 9, bucket: merged("f:l100", "f:l101")},
		{name: "nine entries, with the bucket", entries: 8, bucket: merged("f:l100", "f:l101"),
			want: []string{"metadata.labels.l100", "metadata.labels.l100", "metadata.labels.l101", "metadata.labels.l101"}},
		{name: "a field too many in the bucket", entries: 9, bucket: merged("f:l100", "f:l101", "f:stolen"), want: []string{"metadata.labels.stolen"}},
		{name: "a field too few in the bucket", entries: 9, bucket: merged("f:l100"), want: []string{"metadata.labels.l101"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before, after := []map[string]any{update(100), update(101)}, []map[string]any{tc.bucket}
			for i := range tc.entries {
				before, after = append(before, update(i)), append(after, update(i))
			}
			c := changesOf(t, changes.Differ{}, things.WithManaged(t, before...), things.WithManaged(t, after...))
			if diff := cmp.Diff(tc.want, claimsOf(c)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestManagedFieldsOfOtherTypes has clients that send something else in their place.
func TestManagedFieldsOfOtherTypes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		sent any
		want []string
	}{
		{name: "nothing", sent: nil, want: []string{"metadata.labels.x"}},
		{name: "an empty list", sent: []any{}, want: []string{"metadata.labels.x"}},
		{name: "a text", sent: "x", want: []string{"metadata.managedFields"}},
		{name: "a map", sent: map[string]any{}, want: []string{"metadata.managedFields"}},
		{name: "a list of null", sent: []any{nil}, want: []string{"metadata.managedFields"}},
		{name: "a list of texts", sent: []any{"x"}, want: []string{"metadata.managedFields"}},
	} {
		before, after := things.WithManaged(t, things.Entry("a", "Update", labelled("f:x"))), things.WithManaged(t)
		after.Object["metadata"].(map[string]any)["managedFields"] = tc.sent
		c, err := (changes.Differ{}).Changes(t.Context(), things.Kind, before, after)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, claimsOf(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if len(things.Managed(before)) != 1 {
			t.Errorf("%s: the comparison has changed the object", tc.name)
		}
	}
}

// TestServersClaimNothing has the field manager of the API server write managedFields for updates by many managers, one after the other. An update owns what
// it changes, old entries go into the bucket of the server, and neither is a claim. The only entry that is written is the
// one of the request.
func TestServersClaimNothing(t *testing.T) {
	t.Parallel()
	converter, err := managedfields.NewTypeConverter(things.Schemas(), false)
	if err != nil {
		t.Fatal(err)
	}
	differ, manager := changes.Differ{Types: things.Types(t)}, managedfieldstest.NewFakeFieldManager(converter, things.Kind)
	buckets, changed := 0, 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 4)) //nolint:gosec // a test must be repeatable
		_, content := things.RandomPair(seed)
		created, err := manager.Update(things.Decoded(t, ""), &unstructured.Unstructured{Object: content}, "creator")
		if err != nil {
			t.Fatal(err)
		}
		before := created.(*unstructured.Unstructured)
		for i := range 24 {
			name, edited := fmt.Sprintf("m%d", r.IntN(20)), before.DeepCopy()
			if seed%2 == 0 { // a field for each manager, so that there are many managers
				if err := unstructured.SetNestedField(edited.Object, name, "metadata", "labels", name); err != nil {
					t.Fatal(err)
				}
			} else {
				edited.Object = things.Thing.Edit(r, edited.Object, 0).(map[string]any)
				edited.SetGroupVersionKind(things.Kind)
				if _, ok := edited.Object["metadata"].(map[string]any); !ok {
					continue
				}
				things.SetManaged(edited, things.Managed(before.DeepCopy()))
			}
			updated, err := manager.Update(before.DeepCopy(), edited, name)
			if err != nil {
				continue // what a server refuses is not stored
			}
			after := updated.(*unstructured.Unstructured)
			c, err := differ.Changes(t.Context(), things.Kind, before, after)
			if err != nil {
				t.Fatalf("seed %d, update %d: %v", seed, i, err)
			}
			if got := claimsOf(c); len(got) > 0 {
				t.Fatalf("seed %d, update %d by %s claims %q\nbefore %v\nafter %v", seed, i, name, got, before, after)
			}
			if err := c.CheckWriter(changes.Writer{FieldManager: name, APIVersion: "example.com/v1"}); err != nil {
				t.Fatalf("seed %d, update %d by %s: %v", seed, i, name, err)
			}
			if len(namesOf(c)) > 0 {
				changed++
			}
			if slices.ContainsFunc(things.Managed(after), func(e any) bool { return e.(map[string]any)["manager"] == "ancient-changes" }) {
				buckets++
			}
			before = after
		}
	}
	if changed < 80 || buckets < 20 {
		t.Errorf("%d updates changed something, and %d had a bucket, so that the test proves little", changed, buckets)
	}
}

// TestFirstApply has an object without managed fields. After the first apply to it the manager before-first-apply owns all of its fields, by which nothing is
// claimed; the same entry of a client is a claim if there are managers already, or if it owns what is not in the object.
func TestFirstApply(t *testing.T) {
	t.Parallel()
	type row struct {
		Create        bool
		Before, After entryRows
		Want          []string
		Written       bool // the entry counts as one that the request writes
	}
	rows.Run(t, "testdata/firstapply.yaml", func(t *testing.T, tc row) {
		for _, differ := range []changes.Differ{{}, {Types: things.Types(t)}} {
			var before runtime.Object
			if !tc.Create {
				before = tc.Before.thing(t)
			}
			c := changesOf(t, differ, before, tc.After.thing(t))
			if diff := cmp.Diff(tc.Want, claimsOf(c)); diff != "" {
				t.Errorf("with schemas %v (-want +got):\n%s", differ.Types != nil, diff)
			}
			if err := c.CheckWriter(changes.Writer{FieldManager: "carol", APIVersion: "example.com/v1"}); (err != nil) != tc.Written {
				t.Errorf("with schemas %v: another writer: got %v, want an error %v", differ.Types != nil, err, tc.Written)
			}
		}
	})
}
