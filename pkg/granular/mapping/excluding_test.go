/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// TestExcluding names the mappings that exclude a field, also those that are not valid.
func TestExcluding(t *testing.T) {
	t.Parallel()
	includes := things.Mapping("includes", things.Spec(things.Field("spec.a", "beauty")))
	excludes := things.Mapping("excludes", things.Spec(things.Field("spec.a", "beauty"), things.Excluded("spec.b", "bravery", "")))
	invalid := things.Mapping("invalid", things.Spec(things.Excluded("spec.c", "courage", "value ==")))
	nowhere := things.Mapping("nowhere", things.Spec(things.Excluded("spec.d", "daring", "")))
	nowhere.Spec.Resources = nil
	for _, tc := range []struct {
		name     string
		mappings []*policy.FieldPermissionMapping
		want     []string
	}{
		{"no mapping", nil, []string{}},
		{"a mapping that excludes nothing", []*policy.FieldPermissionMapping{includes}, []string{}},
		{"a mapping that excludes a field", []*policy.FieldPermissionMapping{includes, excludes}, []string{`FieldPermissionMapping "excludes"`}},
		{"a mapping that is not valid", []*policy.FieldPermissionMapping{invalid, excludes}, []string{`FieldPermissionMapping "excludes"`, `FieldPermissionMapping "invalid"`}},
		{"a mapping without resources", []*policy.FieldPermissionMapping{nowhere}, []string{`FieldPermissionMapping "nowhere"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, mapping.NewTable(tc.mappings...).Excluding()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMappingReviewGroups checks that a mapping of reviews in one of their two groups excludes fields in both, once.
func TestMappingReviewGroups(t *testing.T) {
	t.Parallel()
	in := func(groups ...string) *policy.FieldPermissionMapping {
		m := things.Mapping("m", things.Spec(things.Excluded("spec.user", "others", "")))
		m.Spec.Resources = nil
		for _, group := range groups {
			m.Spec.Resources = append(m.Spec.Resources, policy.FieldPermissionResource{APIGroup: group, APIVersions: []string{"v1alpha1"}, Resource: "subjectaccessreviews"})
		}
		return m
	}
	for _, tc := range []struct {
		name   string
		groups []string
		want   int
		// wantBuiltIn says that the mapping closes the version that kube-apiserver serves, as mappings do with versions that they do
		// not name.
		wantBuiltIn bool
	}{
		{"authorization.k8s.io", []string{"authorization.k8s.io"}, 1, true},
		{"authorization.proviso.dev", []string{"authorization.proviso.dev"}, 1, false},
		{"both", []string{"authorization.proviso.dev", "authorization.k8s.io"}, 1, true},
		{"another group", []string{"example.com"}, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			table := mapping.NewTable(in(tc.groups...))
			for _, group := range []string{"authorization.k8s.io", "authorization.proviso.dev"} {
				resource := schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "subjectaccessreviews"}
				excluded := 0
				for rule := range table.For(resource).All() {
					if rule.Excludes() {
						excluded++
					}
				}
				if excluded != tc.want || table.Excludes(resource) != (tc.want > 0) {
					t.Errorf("%s: got %d rules that exclude a field, want %d", group, excluded, tc.want)
				}
			}
			builtIn := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
			rules := 0
			for range table.For(builtIn).All() {
				rules++
			}
			for range table.For(schema.GroupVersionResource{}).All() { // what is built in
				rules--
			}
			if table.Excludes(builtIn) != tc.wantBuiltIn || (rules > 0) != tc.wantBuiltIn {
				t.Errorf("%s: excluded %v, with %d rules, want %v", builtIn, table.Excludes(builtIn), rules, tc.wantBuiltIn)
			}
		})
	}
}

// TestReviewGroupsAndVersions has mappings for one of the two groups of reviews, in all versions or in some. In authorization.k8s.io the mapping of the
// other group is about the version with the same kinds only: kube-apiserver serves the others.
func TestReviewGroupsAndVersions(t *testing.T) {
	t.Parallel()
	type row struct {
		Mapped       []policy.FieldPermissionResource
		Want, Others []string
	}
	rows.Run(t, "testdata/reviewgroups.yaml", func(t *testing.T, tc row) {
		m := things.Mapping("m", things.Spec(things.Excluded("spec.user", "others", "")))
		m.Spec.Resources = tc.Mapped
		table := mapping.NewTable(m)
		for _, text := range append(slices.Clone(tc.Want), tc.Others...) {
			parts := strings.Split(text, "/")
			resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
			want := slices.Contains(tc.Want, text)
			if table.Excludes(resource) != want {
				t.Errorf("%s: excludes %v, want %v", text, !want, want)
			}
			if strings.Contains(text, "*") || resource.Version == "" {
				continue // requests and reviews of all versions, for which there are no rules
			}
			excluded := false
			for rule := range table.For(resource).All() {
				excluded = excluded || rule.Excludes()
			}
			if excluded != want {
				t.Errorf("%s: has a rule that excludes: %v, want %v", text, excluded, want)
			}
		}
		if got := len(m.Spec.Resources); got != len(tc.Mapped) {
			t.Errorf("the mapping has %d resources now", got)
		}
	})
}
