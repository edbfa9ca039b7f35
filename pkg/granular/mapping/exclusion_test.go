/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"errors"
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

// TestExclusions has the exclusions of one mapping, beside another one.
func TestExclusions(t *testing.T) {
	t.Parallel()
	boom := things.Excluded("spec.boom", "booms", "value == true")
	everywhere := mapping.Exclusion{Resource: things.Machines.GroupResource(), Others: true, Path: "spec.boom", Names: []string{"spec", "boom"}, Verb: "granular:booms", NewValues: "value == true"}
	inV1 := everywhere
	inV1.Versions, inV1.Others = []string{"v1"}, false
	elsewhere := mapping.Exclusion{Resource: things.Machines.GroupResource(), Others: true, Except: []string{"v1"}, Verb: "granular:booms"}
	scale := mapping.Exclusion{Resource: things.Machines.GroupResource(), Subresource: "scale", Others: true, Verb: "granular:booms"}
	scaleInV1 := scale
	scaleInV1.Versions, scaleInV1.Others = []string{"v1"}, false
	broken, brokenScale := everywhere, scale
	broken.Broken = `spec.boom has permission "booms" by FieldPermissionMapping "a" and "others" by FieldPermissionMapping "b"`
	brokenScale.Broken = broken.Broken
	sizes, disks := scale, scale
	disks.Verb, sizes.Verb, sizes.Field = "granular:disks", "granular:sizes", 1
	for name, tc := range map[string]struct {
		mapping, other *policy.FieldPermissionMapping
		want           []mapping.Exclusion
	}{
		"all versions":   {mapping: things.Mapping("a", things.Spec(boom, things.Field("spec.replicas", "replicas"))), want: []mapping.Exclusion{everywhere, scale}},
		"one version":    {mapping: things.Mapping("a", things.Spec(boom), "v1"), want: []mapping.Exclusion{inV1, elsewhere, scaleInV1}},
		"no exclusion":   {mapping: things.Mapping("a", things.Spec(things.Field("spec.boom", "booms")))},
		"contradictions": {mapping: things.Mapping("a", things.Spec(boom)), other: things.Mapping("b", things.Spec(things.Field("spec.boom", "others"))), want: []mapping.Exclusion{broken, brokenScale}},
		"the permission in another mapping": {
			mapping: things.Mapping("a", things.Spec(boom), "v1"), other: things.Mapping("b", things.Spec(things.Excluded("spec.bang", "booms", ""))), want: []mapping.Exclusion{inV1, scaleInV1},
		},
		"elements": {mapping: things.Mapping("a", things.Spec(things.Excluded("spec.disks[*]", "disks", ""), things.Excluded(`spec.disks[name="a"].size`, "sizes", ""))), want: []mapping.Exclusion{
			{Resource: things.Machines.GroupResource(), Others: true, Path: "spec.disks[*]", Names: []string{"spec", "disks"}, Every: true, Verb: "granular:disks"},
			{Field: 1, Resource: things.Machines.GroupResource(), Others: true, Path: `spec.disks[name="a"].size`, Names: []string{"spec", "disks"}, InElements: true, Verb: "granular:sizes"},
			disks, sizes,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mappings := []*policy.FieldPermissionMapping{tc.mapping}
			if tc.other != nil {
				mappings = append(mappings, tc.other)
			}
			got, err := mapping.NewTable(mappings...).Exclusions("a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := mapping.NewTable(things.Mapping("a", things.Spec(things.Excluded("spec.boom", "booms", "value =")))).Exclusions("a"); !errors.Is(err, mapping.ErrInvalid) {
		t.Errorf("an invalid mapping: %v", err)
	}
}

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

// excluding returns a mapping that excludes a field of a resource, such as deployments.apps.
func excluding(of string, field policy.FieldPermission, versions ...string) *policy.FieldPermissionMapping {
	return things.MappingRow{Resource: of, Versions: versions, Fields: []policy.FieldPermission{field}}.Mapping()
}

// permissionOf returns the built-in permission of a field, or another one for a field without one.
func permissionOf(path string) string {
	if permission, ok := map[string]string{
		"metadata": "metadata", "metadata.finalizers": "finalizers", "metadata.ownerReferences": "ownerReferences", "spec": "specification", "spec.nodeName": "nodeAssignment",
		"spec.replicas": "replicas", "status": "status", "status.conditions": "conditions",
	}[path]; ok {
		return permission
	}
	return "fields"
}

// TestIndirectWrites has the endpoints that change a field without showing it, so that every write needs the permission of its exclusion,
// and others that do not.
func TestIndirectWrites(t *testing.T) {
	t.Parallel()
	type row struct {
		Mapping things.MappingRow
		Want    map[string]string // what each endpoint needs
	}
	rows.Run(t, "testdata/indirect.yaml", func(t *testing.T, tc row) {
		table := mapping.NewTable(tc.Mapping.Mapping())
		got := map[string]string{}
		for endpoint := range tc.Want {
			parsed := schema.ParseGroupResource(endpoint)
			resource, subresource, _ := strings.Cut(parsed.Resource, "/")
			to := schema.GroupVersionResource{Group: parsed.Group, Version: "v1", Resource: resource}
			got[endpoint] = "nothing"
			for rule := range table.ForSubresource(to, subresource).All() {
				if !rule.Excludes() {
					continue
				}
				_, err := rule.Verb(t.Context(), nil, nil)
				switch {
				case rule.IsOfEveryWrite() && err != nil:
					got[endpoint] = err.Error()
				case rule.IsOfEveryWrite():
					got[endpoint] = "every write"
				case got[endpoint] == "nothing":
					got[endpoint] = "some"
				}
			}
			if got[endpoint] != "nothing" && !table.Excludes(to) {
				t.Errorf("%s: the table excludes nothing", endpoint)
			}
			if got[endpoint] != "nothing" && !slices.Contains(table.Excluded(), to.GroupResource()) {
				t.Errorf("%s: not among the resources with exclusions %v", endpoint, table.Excluded())
			}
		}
		if diff := cmp.Diff(tc.Want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestIndirectExclusions has the exclusions of a mapping of pods at all endpoints.
func TestIndirectExclusions(t *testing.T) {
	t.Parallel()
	exclusions, err := mapping.NewTable(excluding("pods", things.Excluded("spec.nodeName", "nodeAssignment", ""), "v1")).Exclusions("m")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range exclusions {
		got = append(got, strings.Join([]string{e.Endpoint(), e.Path, e.Verb}, " "))
	}
	want := []string{
		"pods spec.nodeName granular:nodeAssignment", "bindings  granular:nodeAssignment", "bindings spec.nodeName granular:nodeAssignment", "pods/binding  granular:nodeAssignment",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMappingUnseen has the requests that an exclusion cannot see.
func TestMappingUnseen(t *testing.T) {
	t.Parallel()
	const (
		versions   = "name the apiVersions in which the objects have it"
		finalizers = "the finalizers orphan and foregroundDeletion"
	)
	for name, tc := range map[string]struct {
		of, path string
		versions []string
		want     []string
	}{
		"the core group":          {of: "pods", path: "spec.nodeName"},
		"any version":             {of: "deployments.apps", path: "spec.paused", want: []string{versions}},
		"one version":             {of: "deployments.apps", path: "spec.paused", versions: []string{"v1"}},
		"finalizers":              {of: "pods", path: "metadata.finalizers", want: []string{finalizers}},
		"the metadata":            {of: "pods", path: "metadata", want: []string{finalizers}},
		"an owner":                {of: "pods", path: "metadata.ownerReferences"},
		"the phase":               {of: "namespaces", path: "status", want: []string{"changes status.phase"}},
		"another field":           {of: "namespaces", path: "status.other"},
		"the phase of a pod":      {of: "pods", path: "status.phase"},
		"conditions of a CRD":     {of: "customresourcedefinitions.apiextensions.k8s.io", path: "status.conditions", versions: []string{"v1"}, want: []string{"changes status.conditions"}},
		"finalizers, any version": {of: "deployments.apps", path: `metadata.finalizers["a"]`, want: []string{versions, finalizers}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exclusions, err := mapping.NewTable(excluding(tc.of, things.Excluded(tc.path, permissionOf(tc.path), ""), tc.versions...)).Exclusions("m")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range exclusions {
				got = append(got, e.Unseen()...)
			}
			if got = slices.Compact(got); !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
