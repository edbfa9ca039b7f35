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
	a := func() map[string]any { return things.Entry("a", "Update", labelled("f:x", "f:y")) }
	for _, tc := range []struct {
		name          string
		before, after []map[string]any
		want          []string
	}{
		{name: "nothing changes", before: []map[string]any{a()}, after: []map[string]any{a()}},
		{name: "only the time changes", before: []map[string]any{a()}, after: []map[string]any{with(a(), "time", "2027-01-01T00:00:00Z")}},
		{name: "the entries change places", before: []map[string]any{a(), things.Entry("b", "Apply", owned("f:spec"))}, after: []map[string]any{things.Entry("b", "Apply", owned("f:spec")), a()}},
		{name: "gained", before: []map[string]any{a()}, after: []map[string]any{things.Entry("a", "Update", labelled("f:x", "f:y", "f:z"))}, want: []string{"metadata.labels.z"}},
		{name: "lost", before: []map[string]any{a()}, after: []map[string]any{things.Entry("a", "Update", labelled("f:x"))}, want: []string{"metadata.labels.y"}},
		{name: "handed to another manager", before: []map[string]any{a()}, after: []map[string]any{things.Entry("b", "Update", labelled("f:x", "f:y"))},
			want: []string{"metadata.labels.x", "metadata.labels.x", "metadata.labels.y", "metadata.labels.y"}},
		{name: "an entry is removed", before: []map[string]any{a()}, after: nil, want: []string{"metadata.labels.x", "metadata.labels.y"}},
		{name: "an applier becomes an updater", before: []map[string]any{things.Entry("a", "Apply", labelled("f:x"))}, after: []map[string]any{things.Entry("a", "Update", labelled("f:x"))},
			want: []string{"metadata.labels.x", "metadata.labels.x"}},
		{name: "the version of an updater changes", before: []map[string]any{things.Entry("a", "Update", labelled("f:x"))}, after: []map[string]any{with(things.Entry("a", "Update", labelled("f:x")), "apiVersion", "example.com/v2")},
			want: []string{"metadata.labels.x", "metadata.labels.x in example.com/v2"}},
		{name: "the version of an applier changes", before: []map[string]any{things.Entry("a", "Apply", labelled("f:x"))}, after: []map[string]any{with(things.Entry("a", "Apply", labelled("f:x")), "apiVersion", "example.com/v2")},
			want: []string{"metadata.labels.x", "metadata.labels.x in example.com/v2"}},
		{name: "a field and what is in it", before: []map[string]any{a()}, after: []map[string]any{things.Entry("a", "Update", map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{".": map[string]any{}, "f:x": map[string]any{}, "f:y": map[string]any{}}}})},
			want: []string{"metadata.labels"}},
		{name: "an element of a list", before: []map[string]any{a()}, after: []map[string]any{a(), things.Entry("b", "Apply", map[string]any{"f:spec": map[string]any{"f:containers": owned(`k:{"name":"a"}`)}})},
			want: []string{`spec.containers[name="a"]`}},
		{name: "an element of a set", before: []map[string]any{a()}, after: []map[string]any{a(), things.Entry("b", "Apply", map[string]any{"f:spec": map[string]any{"f:tags": owned(`v:"t"`)}})}, want: []string{`spec.tags["t"]`}},

		{name: "an unknown type of fields", before: []map[string]any{a()}, after: []map[string]any{with(a(), "fieldsType", "FieldsV2")}, want: []string{whole}},
		{name: "no type of fields", before: []map[string]any{a()}, after: []map[string]any{with(a(), "fieldsType", nil)}, want: []string{whole}},
		{name: "an unknown operation", before: []map[string]any{a()}, after: []map[string]any{with(a(), "operation", "Replace")}, want: []string{whole}},
		{name: "no version", before: []map[string]any{a()}, after: []map[string]any{with(a(), "apiVersion", nil)}, want: []string{whole}},
		{name: "a manager that is a number", before: []map[string]any{a()}, after: []map[string]any{with(a(), "manager", int64(1))}, want: []string{whole}},
		{name: "a subresource that is a list", before: []map[string]any{a()}, after: []map[string]any{with(a(), "subresource", []any{})}, want: []string{whole}},
		{name: "fields that are a text", before: []map[string]any{a()}, after: []map[string]any{with(a(), "fieldsV1", "{}")}, want: []string{whole}},
		{name: "a field that is a number", before: []map[string]any{a()}, after: []map[string]any{things.Entry("a", "Update", map[string]any{"f:x": int64(1)})}, want: []string{whole}},
		{name: "a field that is null", before: []map[string]any{a()}, after: []map[string]any{a(), things.Entry("b", "Update", map[string]any{"f:spec": nil})}, want: []string{whole}},
		{name: "a key of no kind", before: []map[string]any{a()}, after: []map[string]any{things.Entry("a", "Update", owned("x:y"))}, want: []string{whole}},
		{name: "a key that is no JSON", before: []map[string]any{a()}, after: []map[string]any{things.Entry("a", "Update", owned("k:{"))}, want: []string{whole}},
		{name: "the same entry twice", before: []map[string]any{a()}, after: []map[string]any{a(), a()}, want: []string{whole}},
		{name: "what is wrong stays, and nothing else changes", before: []map[string]any{things.Entry("a", "Update", map[string]any{"f:x": int64(1)})}, after: []map[string]any{things.Entry("a", "Update", map[string]any{"f:x": int64(1)})}},
		{name: "what is wrong in a field stays, another field is gained", before: []map[string]any{things.Entry("a", "Update", map[string]any{"f:x": int64(1)})}, after: []map[string]any{things.Entry("a", "Update", map[string]any{"f:x": int64(1), "f:spec": map[string]any{}})}, want: []string{"spec"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, differ := range []changes.Differ{{}, {Types: things.Types(t)}} {
				c, err := differ.Changes(t.Context(), things.Kind, things.WithManaged(t, tc.before...), things.WithManaged(t, tc.after...))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, claimsOf(c)); diff != "" {
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
}

// TestWriters has requests that write their own entry, the entry of another manager, or several.
func TestWriters(t *testing.T) {
	t.Parallel()
	kubectl := changes.Writer{FieldManager: "kubectl", APIVersion: "example.com/v1"}
	mine := func(operation string) map[string]any { return things.Entry("kubectl", operation, labelled("f:x")) }
	other := func(operation string) map[string]any { return things.Entry("argo", operation, labelled("f:x")) }
	for _, tc := range []struct {
		name          string
		writer        changes.Writer
		before, after []map[string]any
		wantErr       bool
	}{
		{name: "no entry changes", writer: kubectl, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply")}},
		{name: "its own entry, new", writer: kubectl, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Update")}},
		{name: "its own entry, by apply", writer: kubectl, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Apply")}},
		{name: "its own entry, of two operations", writer: kubectl, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Apply"), mine("Update")}, wantErr: true},
		{name: "another manager's", writer: kubectl, before: []map[string]any{mine("Update")}, after: []map[string]any{mine("Update"), other("Apply")}, wantErr: true},
		{name: "the time of another manager", writer: kubectl, before: []map[string]any{other("Apply")}, after: []map[string]any{with(other("Apply"), "time", "2027-01-01T00:00:00Z")}, wantErr: true},
		{name: "another manager loses a field", writer: kubectl, before: []map[string]any{other("Apply")}, after: []map[string]any{things.Entry("argo", "Apply", labelled())}, wantErr: true},
		{name: "another manager's entry is removed", writer: kubectl, before: []map[string]any{other("Apply"), mine("Update")}, after: []map[string]any{mine("Update")}},
		{name: "a request without a name, by update", writer: changes.Writer{APIVersion: "example.com/v1"}, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Update")}},
		{name: "a request without a name, by apply", writer: changes.Writer{APIVersion: "example.com/v1"}, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Apply")}, wantErr: true},
		{name: "of another version", writer: changes.Writer{FieldManager: "kubectl", APIVersion: "example.com/v2"}, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Update")}, wantErr: true},
		{name: "of another subresource", writer: changes.Writer{FieldManager: "kubectl", APIVersion: "example.com/v1", Subresource: "status"}, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Update")}, wantErr: true},
		{name: "of its subresource", writer: changes.Writer{FieldManager: "kubectl", APIVersion: "example.com/v1", Subresource: "status"}, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), with(mine("Update"), "subresource", "status")}},
		{name: "in other letters", writer: changes.Writer{FieldManager: "Kubectl", APIVersion: "example.com/v1"}, before: []map[string]any{other("Apply")}, after: []map[string]any{other("Apply"), mine("Update")}, wantErr: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := (changes.Differ{}).Changes(t.Context(), things.Kind, things.WithManaged(t, tc.before...), things.WithManaged(t, tc.after...))
			if err != nil {
				t.Fatal(err)
			}
			err = c.CheckWriter(tc.writer)
			if (err != nil) != tc.wantErr {
				t.Errorf("got %v, want an error %v", err, tc.wantErr)
			}
			if err != nil && strings.Contains(err.Error(), "argo") {
				t.Errorf("got %v, which names a manager to a requester who may not read the object", err)
			}
		})
	}
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
			c, err := (changes.Differ{}).Changes(t.Context(), things.Kind, things.WithManaged(t, before...), things.WithManaged(t, after...))
			if err != nil {
				t.Fatal(err)
			}
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
	entry := func(fields map[string]any) map[string]any {
		return things.Entry("before-first-apply", "Update", fields)
	}
	existing := func() map[string]any {
		return map[string]any{
			"f:metadata": map[string]any{"f:labels": map[string]any{".": map[string]any{}, "f:super.safe.com/a": map[string]any{}}},
		}
	}
	more := existing()
	more["f:spec"] = map[string]any{"f:replicas": map[string]any{}}
	other := things.Entry("argo", "Apply", owned("f:spec"))
	const label, labels = `metadata.labels["super.safe.com/a"]`, "metadata.labels"
	for _, tc := range []struct {
		name          string
		before, after []map[string]any
		create        bool
		want          []string
		wantWritten   bool // the entry counts as one that the request writes
	}{
		{name: "all fields of the object", after: []map[string]any{entry(existing())}},
		{name: "a part of them", after: []map[string]any{entry(labelled("f:super.safe.com/a"))}},
		{name: "a field that is not there", after: []map[string]any{entry(more)}, want: []string{"spec.replicas"}},
		{name: "by apply", after: []map[string]any{with(entry(existing()), "operation", "Apply")}, want: []string{labels, label}, wantWritten: true},
		{name: "in another version", after: []map[string]any{with(entry(existing()), "apiVersion", "example.com/v2")}, want: []string{labels + " in example.com/v2", label + " in example.com/v2"}, wantWritten: true},
		{name: "of another manager", after: []map[string]any{with(entry(existing()), "manager", "after-first-apply")}, want: []string{labels, label}, wantWritten: true},
		{name: "of a subresource", after: []map[string]any{with(entry(existing()), "subresource", "status")}},
		{name: "with a manager before", before: []map[string]any{other}, after: []map[string]any{other, entry(existing())}, want: []string{labels, label}, wantWritten: true},
		{name: "of a new object", create: true, after: []map[string]any{entry(existing())}, wantWritten: true},
		{name: "of a new object, without the field", create: true, after: []map[string]any{entry(more)}, want: []string{"spec.replicas"}, wantWritten: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, differ := range []changes.Differ{{}, {Types: things.Types(t)}} {
				var before runtime.Object
				if !tc.create {
					before = things.WithManaged(t, tc.before...)
				}
				c, err := differ.Changes(t.Context(), things.Kind, before, things.WithManaged(t, tc.after...))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, claimsOf(c)); diff != "" {
					t.Errorf("with schemas %v (-want +got):\n%s", differ.Types != nil, diff)
				}
				if err := c.CheckWriter(changes.Writer{FieldManager: "carol", APIVersion: "example.com/v1"}); (err != nil) != tc.wantWritten {
					t.Errorf("with schemas %v: another writer: got %v, want an error %v", differ.Types != nil, err, tc.wantWritten)
				}
			}
		})
	}
}
