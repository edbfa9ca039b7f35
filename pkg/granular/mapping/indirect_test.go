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
