/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"encoding/json"
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

// texts returns n keys of a map with a prefix, and the fieldsV1 node that claims all of them.
func texts(prefix string, n int) (values, claims map[string]any) {
	values, claims = map[string]any{}, map[string]any{}
	for i := range n {
		key := fmt.Sprintf("%s%05d", prefix, i)
		values[key], claims["f:"+key] = "x", map[string]any{}
	}
	return values, claims
}

// thingOf is a thing with annotations and a specification. Nil is no value.
func thingOf(t *testing.T, annotations, spec map[string]any, entries ...map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := things.WithManaged(t, entries...)
	if annotations != nil {
		o.Object["metadata"].(map[string]any)["annotations"] = annotations
	}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// TestNewValuesOfLargeFields: newValues was evaluated with a copy of the whole value for each field
// that changes in it, or is claimed in it.
func TestNewValuesOfLargeFields(t *testing.T) {
	const many = 12_000 // more than the evaluations of one check
	annotations, claims := texts("k", many)
	secret := map[string]any{"secret": "x"}
	spec := map[string]any{}
	for i := range 10 {
		spec[fmt.Sprintf("m%d", i)], _ = texts("k", 1000)
	}
	spec["z"] = secret
	withoutSecret := map[string]any{"m0": spec["m0"], "m1": spec["m1"], "m9": spec["m9"]}
	large, largeClaims := texts("k", 9000)
	var inTurn []map[string]any // 40 × 2 × 3 × 9000 parts
	for i := range 40 {
		inTurn = append(inTurn, things.Entry(fmt.Sprint("carol", i), "Apply", below(map[string]any{"f:a": map[string]any{}, "f:b": map[string]any{}}, "f:spec")))
	}
	hasSecret := things.Excluded("metadata.annotations", "annotations", "has(value.secret)")
	eachHasSecret := policy.FieldPermission{Path: "spec[*]", Permission: "part", Parameter: &policy.FieldPermissionParameter{}, Exclusion: &policy.FieldExclusion{NewValues: "type(value) == map && has(value.secret)"}}
	valueOrNone := things.Excluded("metadata.annotations", "annotations", "value == null || has(value.secret)")
	claim := func(keys ...string) map[string]any { return things.Entry("carol", "Update", below(claims, keys...)) }
	for _, tc := range []struct {
		name          string
		excluded      policy.FieldPermission
		before, after *unstructured.Unstructured
		verbs         string
		want          string
	}{
		{name: "changed fields", excluded: hasSecret, before: thingOf(t, nil, nil), after: thingOf(t, annotations, nil)},
		{name: "claimed fields", excluded: things.Excluded("metadata.annotations", "annotations", "type(value) == map && has(value.secret)"),
			before: thingOf(t, annotations, nil), after: thingOf(t, annotations, nil, claim("f:metadata", "f:annotations"))},
		{name: "claimed fields whose removal is excluded", excluded: valueOrNone,
			before: thingOf(t, annotations, nil), after: thingOf(t, annotations, nil, claim("f:metadata", "f:annotations")), want: "the managers of the field metadata.annotations.k00000"},
		{name: "a changed field, and claimed ones whose removal is excluded", excluded: valueOrNone,
			before: thingOf(t, large, nil), after: thingOf(t, map[string]any{"a": "x"}, nil, things.Entry("carol", "Update", below(map[string]any{"f:a": map[string]any{}, "f:b": map[string]any{}}, "f:metadata", "f:annotations"))),
			want: "the managers of the field metadata.annotations.b"},
		{name: "each of several fields", excluded: eachHasSecret, before: thingOf(t, nil, nil), after: thingOf(t, nil, withoutSecret)},
		{name: "one of several fields has the value", excluded: eachHasSecret, before: thingOf(t, nil, nil), after: thingOf(t, nil, spec), want: `"granular:part(z)"`},
		{name: "one of several fields has the value, with its permission", excluded: eachHasSecret, before: thingOf(t, nil, nil), after: thingOf(t, nil, spec), verbs: "granular:part(z)"},
		{name: "claims on two fields in turn", excluded: eachHasSecret, before: thingOf(t, nil, map[string]any{"a": large, "b": large}),
			after: thingOf(t, nil, map[string]any{"a": large, "b": large}, inTurn...), want: `; the request changes too much to look at all values`},
		{name: "claims on one field by many managers", excluded: hasSecretIfAny("spec.a"), before: thingOf(t, nil, map[string]any{"a": large, "b": large}),
			after: thingOf(t, nil, map[string]any{"a": large, "b": large}, inTurn...)},
		{name: "claims in one field, with the value", excluded: hasSecretIfAny("spec.a"), before: thingOf(t, nil, map[string]any{"a": secret}),
			after: thingOf(t, nil, map[string]any{"a": secret}, things.Entry("carol", "Apply", below(largeClaims, "f:spec", "f:a"))), want: "spec.a.k00000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := changesOf(t, changes.Differ{}, tc.before, tc.after)
			rules := mapping.NewTable(things.Mapping("m", things.Spec(tc.excluded))).For(things.Machines)
			checker := granular.Checker{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}}
			var result granular.Result
			got := things.Allocated(func() { result = checker.Exclude(t.Context(), rules, changed, updateByBob) })
			checkResult(t, result, tc.want)
			if got > maxCheckAllocated {
				t.Errorf("the check allocated %d MiB", got>>20)
			}
		})
	}
}

// maxCheckAllocated bounds the bytes that one check in these tests may allocate.
const maxCheckAllocated = 128 << 20

// hasSecretIfAny is an exclusion of values with a secret.
func hasSecretIfAny(path string) policy.FieldPermission {
	return things.Excluded(path, "part", "type(value) == map && has(value.secret)")
}

// TestClaimsInOtherVersions: the rules of another version were made again for each claim in it.
func TestClaimsInOtherVersions(t *testing.T) {
	const many = 5000
	fields := []policy.FieldPermission{things.Excluded("spec.admin", "adminDevices", "")}
	for i := range 31 {
		fields = append(fields, things.Field(fmt.Sprintf("spec.field%d", i), fmt.Sprintf("concept%d", i)))
	}
	var excluded []policy.FieldPermission
	for i := range 60 {
		excluded = append(excluded, things.Excluded(fmt.Sprintf("spec.field%d", i), fmt.Sprintf("concept%d", i), ""))
	}
	inVersion := func(apiVersion string, entry map[string]any) map[string]any {
		entry["apiVersion"] = apiVersion
		return entry
	}
	one := []map[string]any{inVersion("example.com/v2", things.Entry("carol", "Update", below(things.Leaves(many), "f:spec")))}
	var each []map[string]any
	for i := range many {
		each = append(each, inVersion(fmt.Sprintf("example.com/v1beta%d", i), things.Entry("carol", "Update", below(things.Leaves(1), "f:spec"))))
	}
	for _, tc := range []struct {
		name     string
		versions []string // of the mapping
		fields   []policy.FieldPermission
		entries  []map[string]any
		verbs    string
		want     string
	}{
		{name: "in a version that the mapping knows", fields: fields, entries: one},
		{name: "in a version that no mapping knows", versions: []string{"v1"}, fields: fields, entries: one, verbs: "granular:adminDevices"},
		{name: "in a version that no mapping knows, without permission", versions: []string{"v1"}, fields: fields, entries: one, want: `the verb "granular:adminDevices"`},
		{name: "in many versions that the mapping knows", fields: fields, entries: each},
		{name: "in many versions that no mapping knows", versions: []string{"v1"}, fields: fields, entries: each, verbs: "granular:adminDevices"},
		{name: "in many versions without a mapping, with many exclusions", versions: []string{"v1"}, fields: excluded, entries: each, verbs: "*"},
		{name: "in many versions that no mapping knows, without permission", versions: []string{"v1"}, fields: fields, entries: each, want: `the verb "granular:adminDevices"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := changesOf(t, changes.Differ{}, things.WithManaged(t), things.WithManaged(t, tc.entries...))
			rules := mapping.NewTable(things.Mapping("m", things.Spec(tc.fields...), tc.versions...)).For(things.Machines)
			checker := granular.Checker{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}}
			var result granular.Result
			got := things.Allocated(func() { result = checker.Exclude(t.Context(), rules, changed, updateByBob) })
			if result.Allowed != (tc.want == "") || !strings.Contains(result.Reason, tc.want) || result.Allowed && result.Fields != many {
				t.Errorf("got allowed %t of %d fields: %s, want %q", result.Allowed, result.Fields, result.Reason, tc.want)
			}
			if got > things.MaxAllocated/2 {
				t.Errorf("the check allocated %d MiB", got>>20)
			}
		})
	}
}

// TestParametersOfLargeFields: the expression of a parameter was evaluated for each field below one key.
func TestParametersOfLargeFields(t *testing.T) {
	const many = 12_000 // more than the evaluations of one check
	values, claims := texts("k", many)
	computed := &policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentExpression, Expression: "parameter.lowerAscii()"}
	part := policy.FieldPermission{Path: "spec[*]", Permission: "part", Parameter: computed, Exclusion: &policy.FieldExclusion{}}
	after := map[string]any{"A": values, "B": map[string]any{"a": "x"}}
	entry := things.Entry("carol", "Update", below(claims, "f:spec", "f:A"))
	for _, tc := range []struct {
		name          string
		before, after *unstructured.Unstructured
		verbs         string
		want          string
	}{
		{name: "changed fields", before: thingOf(t, nil, nil), after: thingOf(t, nil, after), verbs: "granular:part(a) granular:part(b)"},
		{name: "changed fields of one key without permission", before: thingOf(t, nil, nil), after: thingOf(t, nil, after), verbs: "granular:part(a)", want: `the verb "granular:part(b)"`},
		{name: "claimed fields", before: thingOf(t, nil, after), after: thingOf(t, nil, after, entry), verbs: "granular:part(a)"},
		{name: "claimed fields without permission", before: thingOf(t, nil, after), after: thingOf(t, nil, after, entry), verbs: "granular:part(b)", want: `the verb "granular:part(a)"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			changed := changesOf(t, changes.Differ{}, tc.before, tc.after)
			rules := mapping.NewTable(things.Mapping("m", things.Spec(part))).For(things.Machines)
			checker := granular.Checker{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}}
			result := checker.Exclude(t.Context(), rules, changed, updateByBob)
			checkResult(t, result, tc.want)
			checker = granular.Checker{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}}
			result = checker.Include(t.Context(), rules, changed, updateByBob)
			if result.Allowed != (tc.want == "") {
				t.Errorf("included: got allowed %t: %s, want %q", result.Allowed, result.Reason, tc.want)
			}
		})
	}
}

// sized makes a thing of about so many bytes.
func sized(size int) map[string]any {
	o := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"super.safe.com/x": "a"}}}
	var containers []any
	for i := 0; ; i++ {
		containers = append(containers, map[string]any{
			"name": fmt.Sprintf("c%d", i), "image": "registry.example.com/image:tag", "args": []any{"--one", "--two"},
			"ports": []any{map[string]any{"port": "p", "protocol": "TCP"}, map[string]any{"port": "q", "protocol": "TCP"}},
		})
		o["spec"] = map[string]any{"containers": containers}
		if text, err := json.Marshal(o); err != nil || len(text) >= size {
			return o
		}
	}
}

func BenchmarkInclude(b *testing.B) {
	for _, tc := range []struct {
		name  string
		size  int
		types changes.Types
	}{
		{"2KiB/schema", 2 << 10, things.Types(b)}, {"2KiB/none", 2 << 10, nil},
		{"100KiB/schema", 100 << 10, things.Types(b)}, {"100KiB/none", 100 << 10, nil},
	} {
		b.Run(tc.name, func(b *testing.B) {
			before, after := sized(tc.size), sized(tc.size)
			after["metadata"].(map[string]any)["labels"] = map[string]any{"super.safe.com/x": "b"}
			rules := mapping.NewTable().For(things.Machines)
			differ := changes.Differ{Types: tc.types}
			b.ReportAllocs()
			for b.Loop() {
				changed, err := differ.Changes(b.Context(), things.Kind, things.Object(before), things.Object(after))
				if err != nil {
					b.Fatal(err)
				}
				g := &grants{verbs: []string{"granular:label(super.safe.com)"}}
				if result := (granular.Checker{Authorizer: g}).Include(b.Context(), rules, changed, updateByBob); !result.Allowed {
					b.Fatal(result.Reason)
				}
			}
		})
	}
}
