/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

func namesOf(c *changes.Changes) []string {
	names := []string{}
	for _, path := range c.Paths() {
		names = append(names, changes.NameOf(path))
	}
	return names
}

func checkPair(t *testing.T, differ changes.Differ, seed uint64) (changed int) {
	t.Helper()
	before, after := things.RandomPair(seed)
	c, err := differ.Changes(t.Context(), things.Kind, things.Object(before), things.Object(after))
	if err != nil {
		t.Fatalf("seed %d: %v\nbefore %v\nafter %v", seed, err, before, after)
	}
	got := namesOf(c)
	sort.Strings(got)
	if diff := cmp.Diff(things.Changes(before, after), got); diff != "" {
		t.Fatalf("seed %d: changes (-naive +got):\n%s\nbefore %v\nafter %v", seed, diff, before, after)
	}
	return len(got)
}

// FuzzChanges compares with a diff that was written for the test.
func FuzzChanges(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	differ := changes.Differ{Types: things.Types(f)}
	f.Fuzz(func(t *testing.T, seed uint64) { checkPair(t, differ, seed) })
}

// TestRandomPairsChange makes sure that FuzzChanges compares something.
func TestRandomPairsChange(t *testing.T) {
	t.Parallel()
	differ := changes.Differ{Types: things.Types(t)}
	total := 0
	for seed := range uint64(100) {
		total += checkPair(t, differ, seed)
	}
	if total < 300 {
		t.Errorf("only %d changes in 100 pairs", total)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	type row struct {
		Untyped       bool
		Before, After map[string]any
		Want          []string
	}
	rows.Run(t, "testdata/changes.yaml", func(t *testing.T, tc row) {
		differ := changes.Differ{Types: things.Types(t)}
		if tc.Untyped {
			differ = changes.Differ{}
		}
		got := changesOf(t, differ, things.Object(tc.Before), things.Object(tc.After))
		names := namesOf(got)
		slices.Sort(names)
		if diff := cmp.Diff(tc.Want, names, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

// TestTypedObjects are what a server has in memory, whose kind may be lost.
func TestTypedObjects(t *testing.T) {
	t.Parallel()
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	after := before.DeepCopy()
	after.Labels = map[string]string{"super.safe.com/x": "y"}
	after.Spec.NodeName = "n"
	got, err := changes.Differ{Types: things.Types(t)}.Changes(t.Context(), kind, before, after)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`metadata.labels["super.safe.com/x"]`, "spec.nodeName"}, namesOf(got)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	var none *corev1.Pod
	if got, err = (changes.Differ{}).Changes(t.Context(), kind, none, before); err != nil || len(namesOf(got)) == 0 {
		t.Errorf("a create: got %v, %v, want changes", got, err)
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	t.Parallel()
	good, bad := "metadata: {name: a}", "metadata: {name: a}\nsecret: fortytwo"
	for _, tc := range []struct {
		name, before, after, want string
	}{
		{"no object", good, "", "no object"},
		{"an unknown field in the new object", good, bad, "the new object does not fit the schema"},
		{"an unknown field in the old object", bad, good, "the old object does not fit the schema"},
		{"another type", good, "spec: {tags: fortytwo}", "the new object does not fit"},
		{"an element without key", good, "status: {conditions: [{reason: fortytwo}]}", "the new object does not fit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := changes.Differ{Types: things.Types(t)}.Changes(t.Context(), things.Kind, things.Object(things.Parse(t, tc.before)), things.Object(things.Parse(t, tc.after)))
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "fortytwo") {
				t.Errorf("got %v, %v, want an error with %q and without the content", got, err, tc.want)
			}
		})
	}
	if _, err := (changes.Differ{}).Changes(t.Context(), things.Kind, nil, failing{}); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("an object that cannot be converted: got %v", err)
	}
}

// failing is an object that cannot be converted.
type failing struct{}

func (failing) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (failing) DeepCopyObject() runtime.Object   { return failing{} }

func TestBadSchemas(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, extension string
		value           any
		wantErr         bool
	}{
		{name: "a kind", extension: "x-kubernetes-group-version-kind", value: []any{map[string]any{"group": "example.com", "version": "v1", "kind": "Thing"}}},
		{name: "a kind that is a text", extension: "x-kubernetes-group-version-kind", value: "Thing", wantErr: true},
		{name: "a list of texts for kinds", extension: "x-kubernetes-group-version-kind", value: []any{"Thing"}, wantErr: true},
		{name: "an unknown type of map", extension: "x-kubernetes-map-type", value: "loose", wantErr: true},
		{name: "a type of map that is a number", extension: "x-kubernetes-map-type", value: int64(1), wantErr: true},
	} {
		s := things.Thing.OpenAPI()
		s.AddExtension(tc.extension, tc.value)
		types, err := changes.NewTypes(map[string]*spec.Schema{"thing": &s})
		if (err != nil) != tc.wantErr || (types == nil) != tc.wantErr {
			t.Errorf("%s: got %v, want an error %v", tc.name, err, tc.wantErr)
		}
	}
}

// TestTypesOfSeveralKinds has a schema that describes several kinds, as that of the options of requests does.
func TestTypesOfSeveralKinds(t *testing.T) {
	t.Parallel()
	kind := func(version, name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: name}
	}
	many, none := things.Thing.OpenAPI(), things.Thing.OpenAPI()
	many.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": "example.com", "version": "v1", "kind": "Thing"}, map[string]any{"group": "example.com", "version": "v2", "kind": "Item"},
	})
	types, err := changes.NewTypes(map[string]*spec.Schema{"many": &many, "none": &none})
	if err != nil {
		t.Fatal(err)
	}
	before := things.Object(things.Parse(t, "metadata: {name: a}\nstatus: {conditions: [{type: A, status: x}]}"))
	after := things.Object(things.Parse(t, "metadata: {name: a}\nstatus: {conditions: [{type: A, status: yy}]}"))
	for of, want := range map[schema.GroupVersionKind]string{
		kind("v1", "Thing"): `status.conditions[type="A"].status`, kind("v2", "Item"): `status.conditions[type="A"].status`,
		kind("v2", "Thing"): "status.conditions", kind("v1", "thing"): "status.conditions",
		{Version: "v1", Kind: "Thing"}: "status.conditions",
	} {
		c, err := changes.Differ{Types: types}.Changes(t.Context(), of, before, after)
		if err != nil {
			t.Errorf("%s: %v", of, err)
			continue
		}
		if got := strings.Join(namesOf(c), " "); got != want {
			t.Errorf("%s: got %s, want %s", of, got, want)
		}
	}
}

// TestInputsAreNotChanged compares objects that share memory with what a server stores afterwards.
func TestInputsAreNotChanged(t *testing.T) {
	t.Parallel()
	text := "metadata: {name: a, uid: u, managedFields: [{manager: m, operation: Update, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {'f:spec': {}}}]}\nspec: {tags: [b, a]}\nstatus: {}"
	before, after := things.Object(things.Parse(t, text)), things.Object(things.Parse(t, strings.Replace(text, "[b, a]", "[a, b]", 1)))
	copies := []runtime.Object{before.DeepCopyObject(), after.DeepCopyObject()}
	for _, differ := range []changes.Differ{{}, {Types: things.Types(t)}} {
		c := changesOf(t, differ, before, after)
		first := c.Paths()
		first[0][0] = fieldpath.PathElement{}
		if got := namesOf(c); len(got) != 1 || !strings.HasPrefix(got[0], "spec.tags") {
			t.Errorf("got %v, want the order of the tags", got)
		}
		for i, object := range []runtime.Object{before, after} {
			if diff := cmp.Diff(copies[i], object); diff != "" {
				t.Errorf("object %d has changed (-before +after):\n%s", i, diff)
			}
		}
	}
	changes.ServerOwned()[0][0] = fieldpath.PathElement{}
	if got := changes.NameOf(changes.ServerOwned()[0]); got != "apiVersion" {
		t.Errorf("the first field that the server owns is %s now", got)
	}
}

// TestChangesOfLargeObjects refuses what would take minutes to compare.
func TestChangesOfLargeObjects(t *testing.T) {
	t.Parallel()
	differ := changes.Differ{Types: things.Types(t)}
	small := things.Object(map[string]any{"metadata": map[string]any{}})
	for _, tc := range []struct {
		name, field string
		n           int
		allowed     bool
	}{
		{"a list as long as may be", "finalizers", 20_000, true}, {"a longer list", "finalizers", 20_001, false},
		{"a map as large as may be", "labels", 20_000, true}, {"a larger map", "labels", 20_001, false},
	} {
		list, entries := []any{}, map[string]any{}
		for i := range tc.n {
			key := fmt.Sprintf("a/%05d", i)
			list, entries[key] = append(list, key), "x"
		}
		large := things.Object(map[string]any{"metadata": map[string]any{tc.field: map[string]any{"finalizers": list, "labels": entries}[tc.field]}})
		for of, pair := range map[string][2]runtime.Object{"the new object": {small, large}, "the old object": {large, small}} {
			_, err := differ.Changes(t.Context(), things.Kind, pair[0], pair[1])
			if (err == nil) != tc.allowed || err != nil && !strings.Contains(err.Error(), of+" has a list or map of more than 20000 entries") {
				t.Errorf("%s, %s: got %v, want it to be compared: %t", tc.name, of, err, tc.allowed)
			}
		}
	}
}

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
