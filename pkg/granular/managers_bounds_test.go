/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// maxAllocated bounds the bytes that the comparison of the objects in these tests may allocate. They
// have at most 2 MiB; a comparison that takes memory in the square of the size takes hundreds.
const maxAllocated = 48 << 20

// allocated returns the bytes that a function allocates. Tests that call it must not be parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// ownLabel is the path of a label that the user of these tests may change, in fieldsV1.
var ownLabel = []string{"f:metadata", "f:labels", "f:super.safe.com/a"}

const labelVerbs = "granular granular:label(super.safe.com)"

// entryOf is an entry of managedFields.
func entryOf(manager, operation string, fields map[string]any) map[string]any {
	return map[string]any{
		"manager": manager, "operation": operation, "apiVersion": thing.GroupVersion().String(),
		"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
	}
}

// below is fieldsV1 with a node under some keys.
func below(node map[string]any, keys ...string) map[string]any {
	for i := len(keys) - 1; i >= 0; i-- {
		node = map[string]any{keys[i]: node}
	}
	return node
}

// chain is a node with a path of some levels, each of which is owned.
func chain(levels int) map[string]any {
	node := map[string]any{}
	for range levels {
		node = map[string]any{".": map[string]any{}, "f:a": node}
	}
	return node
}

// leaves are a node with some owned fields.
func leaves(n int) map[string]any {
	node := map[string]any{}
	for i := range n {
		node["f:"+strconv.Itoa(i)] = map[string]any{}
	}
	return node
}

// withManaged is a thing with managed fields.
func withManaged(t testing.TB, entries ...map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := thingOf(t, "metadata: {name: one, uid: u, labels: {super.safe.com/a: x}}")
	var list []any
	for _, e := range entries {
		list = append(list, e)
	}
	setManaged(o, list)
	return o
}

// TestDeepManagedFields: a path below each level took memory in the square of the depth.
func TestDeepManagedFields(t *testing.T) {
	own := func(levels int) *unstructured.Unstructured {
		return withManaged(t, entryOf("carol", "Update", below(chain(levels-len(ownLabel)), ownLabel...)))
	}
	labelled := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetLabels(map[string]string{"super.safe.com/a": "y"})
		return o
	}
	other := own(9000)
	managed(other)[0].(map[string]any)["apiVersion"] = "example.com/v0"
	manyDeep := func(leaf string) *unstructured.Unstructured {
		node := leaves(5000)
		node[leaf] = map[string]any{}
		return withManaged(t, entryOf("carol", "Update", below(below(node, strings.Split(strings.Repeat("f:a ", 120)+"f:a", " ")...), ownLabel...)))
	}
	none := withManaged(t)
	notUnderstood := "an entry of which cannot be understood"
	replicas := excludedField("spec.replicas", "replicas", "")
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		verbs         string
		excluded      []policy.FieldPermission
		want          string
	}{
		{name: "as deep as may be", before: none, after: own(128), verbs: labelVerbs},
		{name: "one level deeper", before: none, after: own(129), verbs: labelVerbs, want: notUnderstood},
		{name: "a deep entry", before: none, after: own(9000), verbs: labelVerbs, want: notUnderstood},
		{name: "a deep entry of every permission on fields", before: none, after: own(9000), verbs: "*", want: notUnderstood},
		{name: "a deep entry of another version", before: none, after: other, verbs: "*", want: notUnderstood},
		{name: "a deep entry that goes", before: own(9000), after: none, verbs: labelVerbs, want: notUnderstood},
		{name: "a deep entry that grows", before: own(9000), after: own(9001), verbs: labelVerbs, want: notUnderstood},
		{name: "a deep entry that stays", before: own(9000), after: labelled(own(9000)), verbs: labelVerbs},
		{name: "a deep entry, where a field is excluded", before: none, after: own(9000), verbs: "update", excluded: []policy.FieldPermission{replicas}, want: notUnderstood},
		{name: "a deep entry, with the permission of what is excluded", before: none, after: own(9000), verbs: "update granular:replicas", excluded: []policy.FieldPermission{replicas}},
		{name: "many fields on a low level, one of which changes", before: manyDeep("f:x"), after: manyDeep("f:y"), verbs: labelVerbs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := updateFrom(tc.before, tc.after, "carol")
			if got := allocated(func() { checkDecision(t, data, tc.verbs, tc.want, tc.excluded...) }); got > maxAllocated {
				t.Errorf("the decision allocated %d MiB", got>>20)
			}
		})
	}
}

// TestDeepObjects: the paths of the changed fields of an object without schema took memory in the
// square of its depth, too.
func TestDeepObjects(t *testing.T) {
	nested := func(levels int) *unstructured.Unstructured {
		o := thingOf(t, "metadata: {name: one}")
		var value any = "x"
		for range levels - 1 {
			value = map[string]any{"a": value, "b": "x"}
		}
		o.Object["spec"] = value
		return o
	}
	small := thingOf(t, "metadata: {name: one}")
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
			got := allocated(func() {
				var changes *granular.Changes
				if changes, err = (granular.Differ{}).Changes(t.Context(), thing, tc.before, tc.after); err == nil {
					changes.Paths()
				}
			})
			if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want+", which takes too much memory to compare" {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if got > maxAllocated {
				t.Errorf("the comparison allocated %d MiB", got>>20)
			}
		})
	}
}

// TestManyClaims: the claims of one request are bounded, and so are their paths.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	const tooMany = "the request changes the managers of too many fields"
	own := func(node map[string]any, keys ...string) *unstructured.Unstructured {
		return withManaged(t, entryOf("carol", "Update", below(below(node, keys...), ownLabel...)))
	}
	halves := func(n int) map[string]any { // no map of its own is too large
		return map[string]any{"f:a": leaves(n / 2), "f:b": leaves(n - n/2)}
	}
	deep := strings.Split(strings.Repeat("f:a ", 120)+"f:a", " ")
	changed := withManaged(t)
	labels, keys := map[string]string{}, map[string]any{}
	for i := range 20_000 {
		label := fmt.Sprintf("super.safe.com/%05d", i)
		labels[label], keys["f:"+label] = "x", map[string]any{}
	}
	changed.SetLabels(labels)
	setManaged(changed, []any{entryOf("carol", "Update", below(keys, ownLabel[:2]...))})
	for _, tc := range []struct {
		name  string
		after *unstructured.Unstructured
		verbs string
		want  string
	}{
		{name: "as many as may be", after: own(halves(20_000)), verbs: labelVerbs},
		{name: "one more", after: own(halves(20_001)), verbs: labelVerbs, want: tooMany},
		{name: "one more, with every permission on fields", after: own(halves(20_001)), verbs: "*", want: tooMany},
		{name: "as many elements of paths as may be", after: own(leaves(4000), deep...), verbs: labelVerbs},
		{name: "more elements of paths", after: own(leaves(4001), deep...), verbs: labelVerbs, want: tooMany},
		{name: "a long key over some fields", after: own(leaves(31), "f:"+strings.Repeat("a", 1<<20)), verbs: labelVerbs},
		{name: "a long key over more fields", after: own(leaves(32), "f:"+strings.Repeat("a", 1<<20)), verbs: labelVerbs, want: tooMany},
		{name: "many fields that the request changes", after: changed, verbs: labelVerbs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := withManaged(t)
			if tc.name == "many fields that the request changes" {
				before.SetLabels(nil)
			}
			checkDecision(t, updateFrom(before, tc.after, "carol"), tc.verbs, tc.want)
		})
	}
}

// TestManyManagedFieldsEntries: work that one entry needs is not done again for each of many.
func TestManyManagedFieldsEntries(t *testing.T) {
	annotated := withManaged(t)
	annotations := map[string]string{}
	for i := range 2000 {
		annotations["a/"+strconv.Itoa(i)] = "x"
	}
	annotated.SetAnnotations(annotations)
	adopted := annotated.DeepCopy()
	var firsts, merged, applied, buckets []any
	merged = append(merged, entryOf("m", "Update", below(leaves(5000), ownLabel...)))
	for i := range 1000 {
		first := entryOf("before-first-apply", "Update", below(map[string]any{}, "f:metadata", "f:annotations", "f:a/1"))
		first["subresource"] = "s" + strconv.Itoa(i)
		firsts = append(firsts, first)
		merged = append(merged, entryOf("m"+strconv.Itoa(i), "Update", below(map[string]any{}, append(ownLabel[:3:3], "f:1")...)))
	}
	setManaged(adopted, firsts)
	for i := range 9 {
		kept := entryOf("kept"+strconv.Itoa(i), "Update", leaves(1))
		merged, buckets = append(merged, kept), append(buckets, maps.Clone(kept))
	}
	buckets = append(buckets, entryOf("ancient-changes", "Update", below(leaves(5000), ownLabel...)))
	for i := range 19_000 {
		applied = append(applied, entryOf("m"+strconv.Itoa(i), "Apply", leaves(1)))
	}
	thingWith := func(entries []any) *unstructured.Unstructured {
		o := withManaged(t)
		setManaged(o, entries)
		return o
	}
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		want          string
	}{
		{name: "entries before the first apply", before: annotated, after: adopted},
		{name: "entries that the server merges", before: thingWith(merged), after: thingWith(buckets)},
		{name: "entries that come", before: thingWith(nil), after: thingWith(applied), want: "what other field managers own"},
		{name: "entries that stay", before: thingWith(applied), after: thingWith(applied[:18_999]), want: `the field ["0"] (metadata.managedFields)`},
		{name: "an entry twice, behind many", before: thingWith(nil), after: thingWith(append(applied[:18_999:18_999], applied[0])), want: "an entry of which cannot be understood"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := updateFrom(tc.before, tc.after, "carol")
			if got := allocated(func() { checkDecision(t, data, labelVerbs, tc.want) }); got > maxAllocated {
				t.Errorf("the decision allocated %d MiB", got>>20)
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
		updates = append(updates, entryOf("m"+strconv.Itoa(i), "Update", leaves(1)))
	}
	bucket := entryOf("ancient-changes", "Update", leaves(1))
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		asked         int
	}{
		{name: "in the old entries", before: withManaged(t, updates...), after: withManaged(t), asked: 50},
		{name: "in the new entries", before: withManaged(t), after: withManaged(t, updates...), asked: 50},
		{name: "in the entries that are merged", before: withManaged(t, updates...), after: withManaged(t, append(updates[:9:9], bucket)...), asked: 100 + 10 + 50},
		{name: "in the fields of an entry", before: withManaged(t), after: withManaged(t, entryOf("m", "Update", leaves(100))), asked: 1 + 50},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := &endingContext{Context: t.Context(), left: tc.asked}
			_, err := (granular.Differ{}).Changes(ctx, thing, tc.before, tc.after)
			if !errors.Is(err, context.Canceled) || ctx.left != -1 {
				t.Errorf("got %v after %d questions more than one, want it to be canceled", err, -1-ctx.left)
			}
		})
	}
}

// endingGrants grants every verb, and ends the request with the first.
type endingGrants struct{ end context.CancelFunc }

func (g endingGrants) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	g.end()
	return authorizer.DecisionAllow, "", nil
}

// TestChecksOfEndedRequests: the check of many fields ends with the request, also where it has no
// more verbs to ask for.
func TestChecksOfEndedRequests(t *testing.T) {
	t.Parallel()
	labelled := withManaged(t)
	labelled.SetLabels(map[string]string{"super.safe.com/a": "y", "super.safe.com/b": "y"})
	excluded := granular.NewTable(mapping("m", machines(excludedField("metadata.labels", "labels", "")))).For(machinesResource)
	for _, tc := range []struct {
		name  string
		after *unstructured.Unstructured
	}{
		{name: "of fields", after: labelled},
		{name: "of claims", after: withManaged(t, entryOf("carol", "Update", below(leaves(2), ownLabel...)))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			changes, err := (granular.Differ{}).Changes(t.Context(), thing, withManaged(t), tc.after)
			if err != nil {
				t.Fatal(err)
			}
			for side, check := range map[string]func(granular.Checker, context.Context, *granular.Rules, *granular.Changes, authorizer.Attributes) granular.Result{
				"include": granular.Checker.Include, "exclude": granular.Checker.Exclude,
			} {
				ctx, end := context.WithCancel(t.Context())
				result := check(granular.Checker{Authorizer: endingGrants{end}}, ctx, excluded, changes, updateByBob)
				if result.Allowed || !errors.Is(result.Err, context.Canceled) || result.Fields != 1 {
					t.Errorf("%s: got %+v, want it to end after one field", side, result)
				}
			}
		})
	}
}
