/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

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
