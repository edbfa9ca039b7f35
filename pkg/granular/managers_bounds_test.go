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
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// ownLabel is the path of a label that the user of these tests may change, in fieldsV1.
var ownLabel = []string{"f:metadata", "f:labels", "f:super.safe.com/a"}

const labelVerbs = "granular granular:label(super.safe.com)"

// below is fieldsV1 with a node under some keys.
func below(node map[string]any, keys ...string) map[string]any {
	for i := len(keys) - 1; i >= 0; i-- {
		node = map[string]any{keys[i]: node}
	}
	return node
}

// chain is a node with a path of some levels. Each level is owned.
func chain(levels int) map[string]any {
	node := map[string]any{}
	for range levels {
		node = map[string]any{".": map[string]any{}, "f:a": node}
	}
	return node
}

// TestDeepManagedFields: a path below each level took memory in the square of the depth.
func TestDeepManagedFields(t *testing.T) {
	own := func(levels int) *unstructured.Unstructured {
		return things.WithManaged(t, things.Entry("carol", "Update", below(chain(levels-len(ownLabel)), ownLabel...)))
	}
	labelled := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetLabels(map[string]string{"super.safe.com/a": "y"})
		return o
	}
	other := own(9000)
	things.Managed(other)[0].(map[string]any)["apiVersion"] = "example.com/v0"
	manyDeep := func(leaf string) *unstructured.Unstructured {
		node := things.Leaves(5000)
		node[leaf] = map[string]any{}
		return things.WithManaged(t, things.Entry("carol", "Update", below(below(node, strings.Split(strings.Repeat("f:a ", 120)+"f:a", " ")...), ownLabel...)))
	}
	none := things.WithManaged(t)
	notUnderstood := "with an entry that cannot be understood"
	replicas := things.Excluded("spec.replicas", "replicas", "")
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
		{name: "many fields on a low level, and one of them changes", before: manyDeep("f:x"), after: manyDeep("f:y"), verbs: labelVerbs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := updateFrom(tc.before, tc.after, "carol")
			if got := things.Allocated(func() { checkDecision(t, data, tc.verbs, tc.want, tc.excluded...) }); got > things.MaxAllocated {
				t.Errorf("the decision allocated %d MiB", got>>20)
			}
		})
	}
}

// TestManyClaims: the claims of one request are bounded, and so are their paths.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	const tooMany = "the request changes the managers of too many fields"
	own := func(node map[string]any, keys ...string) *unstructured.Unstructured {
		return things.WithManaged(t, things.Entry("carol", "Update", below(below(node, keys...), ownLabel...)))
	}
	halves := func(n int) map[string]any { // no map of its own is too large
		return map[string]any{"f:a": things.Leaves(n / 2), "f:b": things.Leaves(n - n/2)}
	}
	deep := strings.Split(strings.Repeat("f:a ", 120)+"f:a", " ")
	changed := things.WithManaged(t)
	labels, keys := map[string]string{}, map[string]any{}
	for i := range 20_000 {
		label := fmt.Sprintf("super.safe.com/%05d", i)
		labels[label], keys["f:"+label] = "x", map[string]any{}
	}
	changed.SetLabels(labels)
	things.SetManaged(changed, []any{things.Entry("carol", "Update", below(keys, ownLabel[:2]...))})
	for _, tc := range []struct {
		name  string
		after *unstructured.Unstructured
		verbs string
		want  string
	}{
		{name: "as many as may be", after: own(halves(20_000)), verbs: labelVerbs},
		{name: "one more", after: own(halves(20_001)), verbs: labelVerbs, want: tooMany},
		{name: "one more, with every permission on fields", after: own(halves(20_001)), verbs: "*", want: tooMany},
		{name: "as many elements of paths as may be", after: own(things.Leaves(4000), deep...), verbs: labelVerbs},
		{name: "more elements of paths", after: own(things.Leaves(4001), deep...), verbs: labelVerbs, want: tooMany},
		{name: "a long key over some fields", after: own(things.Leaves(31), "f:"+strings.Repeat("a", 1<<20)), verbs: labelVerbs},
		{name: "a long key over more fields", after: own(things.Leaves(32), "f:"+strings.Repeat("a", 1<<20)), verbs: labelVerbs, want: tooMany},
		{name: "many fields that the request changes", after: changed, verbs: labelVerbs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := things.WithManaged(t)
			if tc.name == "many fields that the request changes" {
				before.SetLabels(nil)
			}
			checkDecision(t, updateFrom(before, tc.after, "carol"), tc.verbs, tc.want)
		})
	}
}

// TestManyManagedFieldsEntries: work that one entry needs is not done again for each of many.
func TestManyManagedFieldsEntries(t *testing.T) {
	annotated := things.WithManaged(t)
	annotations := map[string]string{}
	for i := range 2000 {
		annotations["a/"+strconv.Itoa(i)] = "x"
	}
	annotated.SetAnnotations(annotations)
	adopted := annotated.DeepCopy()
	var firsts, merged, applied, buckets []any
	merged = append(merged, things.Entry("m", "Update", below(things.Leaves(5000), ownLabel...)))
	for i := range 1000 {
		first := things.Entry("before-first-apply", "Update", below(map[string]any{}, "f:metadata", "f:annotations", "f:a/1"))
		first["subresource"] = "s" + strconv.Itoa(i)
		firsts = append(firsts, first)
		merged = append(merged, things.Entry("m"+strconv.Itoa(i), "Update", below(map[string]any{}, append(ownLabel[:3:3], "f:1")...)))
	}
	things.SetManaged(adopted, firsts)
	for i := range 9 {
		kept := things.Entry("kept"+strconv.Itoa(i), "Update", things.Leaves(1))
		merged, buckets = append(merged, kept), append(buckets, maps.Clone(kept))
	}
	buckets = append(buckets, things.Entry("ancient-changes", "Update", below(things.Leaves(5000), ownLabel...)))
	for i := range 19_000 {
		applied = append(applied, things.Entry("m"+strconv.Itoa(i), "Apply", things.Leaves(1)))
	}
	thingWith := func(entries []any) *unstructured.Unstructured {
		o := things.WithManaged(t)
		things.SetManaged(o, entries)
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
		{name: "an entry twice, behind many", before: thingWith(nil), after: thingWith(append(applied[:18_999:18_999], applied[0])), want: "with an entry that cannot be understood"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := updateFrom(tc.before, tc.after, "carol")
			if got := things.Allocated(func() { checkDecision(t, data, labelVerbs, tc.want) }); got > things.MaxAllocated {
				t.Errorf("the decision allocated %d MiB", got>>20)
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
	labelled := things.WithManaged(t)
	labelled.SetLabels(map[string]string{"super.safe.com/a": "y", "super.safe.com/b": "y"})
	excluded := mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded("metadata.labels", "labels", "")))).For(things.Machines)
	for _, tc := range []struct {
		name  string
		after *unstructured.Unstructured
	}{
		{name: "of fields", after: labelled},
		{name: "of claims", after: things.WithManaged(t, things.Entry("carol", "Update", below(things.Leaves(2), ownLabel...)))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			changed := changesOf(t, changes.Differ{}, things.WithManaged(t), tc.after)
			for side, check := range map[string]func(granular.Checker, context.Context, *mapping.Rules, *changes.Changes, authorizer.Attributes) granular.Result{
				"include": granular.Checker.Include, "exclude": granular.Checker.Exclude,
			} {
				ctx, end := context.WithCancel(t.Context())
				result := check(granular.Checker{Authorizer: endingGrants{end}}, ctx, excluded, changed, updateByBob)
				if result.Allowed || !errors.Is(result.Err, context.Canceled) || result.Fields != 1 {
					t.Errorf("%s: got %+v, want it to end after one field", side, result)
				}
			}
		})
	}
}
