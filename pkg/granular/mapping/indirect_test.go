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
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// excluding returns a mapping that excludes a field of a resource, such as deployments.apps.
func excluding(of string, field policy.FieldPermission, versions ...string) *policy.FieldPermissionMapping {
	m := things.Mapping("m", things.Spec(field), versions...)
	resource := schema.ParseGroupResource(of)
	m.Spec.Resources[0].APIGroup, m.Spec.Resources[0].Resource = resource.Group, resource.Resource
	return m
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
	excluded := func(path string) policy.FieldPermission { return things.Excluded(path, permissionOf(path), "") }
	limited := func(path string) policy.FieldPermission {
		return things.Excluded(path, permissionOf(path), "value == 1")
	}
	withParameter := things.Parameterized("status.conditions[*]", "condition", policy.FieldPermissionParameter{Key: "type"})
	withParameter.Exclusion = &policy.FieldExclusion{}
	const (
		every = "every write"
		own   = "some"
	)
	for name, tc := range map[string]struct {
		of    string
		field policy.FieldPermission
		// want has what each endpoint needs.
		want map[string]string
	}{
		"the node":                           {"pods", excluded("spec.nodeName"), map[string]string{"pods": own, "pods/binding": every, "bindings": every, "pods/eviction": own, "pods/status": own, "pods/scale": own, "nodes": ""}},
		"some nodes":                         {"pods", limited("spec.nodeName"), map[string]string{"pods": own, "pods/binding": every, "bindings": every}},
		"the specification":                  {"pods", excluded("spec"), map[string]string{"pods": own, "pods/binding": every, "bindings": every, "pods/resize": own}},
		"another field of the specification": {"pods", excluded("spec.hostNetwork"), map[string]string{"pods": own, "pods/binding": own, "bindings": own}},
		"a label":                            {"pods", excluded(`metadata.labels["a"]`), map[string]string{"pods": own, "pods/binding": own, "bindings": own, "pods/eviction": own}},
		"values of a label":                  {"pods", limited(`metadata.labels["a"]`), map[string]string{"pods": own, "pods/binding": every, "bindings": every, "pods/eviction": own}},
		"values of an annotation":            {"pods", limited(`metadata.annotations["a"]`), map[string]string{"pods": own, "pods/binding": every, "bindings": every}},
		"conditions":                         {"pods", excluded("status.conditions"), map[string]string{"pods": own, "pods/status": own, "pods/binding": every, "bindings": every, "pods/eviction": every}},
		"the nomination":                     {"pods", excluded("status.nominatedNodeName"), map[string]string{"pods/binding": every, "bindings": every, "pods/eviction": own}},
		"a condition by its type":            {"pods", withParameter, map[string]string{"pods/eviction": `FieldPermissionMapping "m" excludes a field, but has no path for it in pods/eviction`}},
		"finalizers":                         {"pods", excluded("metadata.finalizers"), map[string]string{"pods/eviction": every, "pods/binding": own}},
		"a field of bindings":                {"bindings", excluded("target.name"), map[string]string{"bindings": own, "pods/binding": own, "pods": ""}},
		"a budget":                           {"poddisruptionbudgets.policy", excluded("status.disruptionsAllowed"), map[string]string{"poddisruptionbudgets.policy": own, "pods/eviction": every, "pods/binding": "", "pods": ""}},
		"the specification of a budget":      {"poddisruptionbudgets.policy", excluded("spec"), map[string]string{"pods/eviction": ""}},
		"events":                             {"events", excluded("message"), map[string]string{"events": own, "events.events.k8s.io": every}},
		"events of the group":                {"events.events.k8s.io", excluded("note"), map[string]string{"events": every, "events.events.k8s.io": own}},
		"replicas of a deployment":           {"deployments.apps", excluded("spec.replicas"), map[string]string{"deployments.apps": own, "deployments/scale.apps": every, "deployments/status.apps": own, "replicasets/scale.apps": ""}},
		"another field of one":               {"deployments.apps", excluded("spec.paused"), map[string]string{"deployments.apps": own, "deployments/scale.apps": own}},
		"a field of a custom resource":       {"engines.example.com", excluded("spec.cylinders"), map[string]string{"engines.example.com": own, "engines/scale.example.com": every}},
		"elements of one":                    {"engines.example.com", excluded("spec.parts[*].count"), map[string]string{"engines/scale.example.com": every}},
		"the status of one":                  {"engines.example.com", excluded("status.cylinders"), map[string]string{"engines.example.com": own, "engines/scale.example.com": own}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := mapping.NewTable(excluding(tc.of, tc.field))
			got := map[string]string{}
			for endpoint := range tc.want {
				parsed := schema.ParseGroupResource(endpoint)
				resource, subresource, _ := strings.Cut(parsed.Resource, "/")
				to := schema.GroupVersionResource{Group: parsed.Group, Version: "v1", Resource: resource}
				got[endpoint] = ""
				for rule := range table.ForSubresource(to, subresource).All() {
					if !rule.Excludes() {
						continue
					}
					_, err := rule.Verb(t.Context(), nil, nil)
					switch {
					case rule.IsOfEveryWrite() && err != nil:
						got[endpoint] = err.Error()
					case rule.IsOfEveryWrite():
						got[endpoint] = every
					case got[endpoint] == "":
						got[endpoint] = own
					}
				}
				if got[endpoint] != "" && !table.Excludes(to) {
					t.Errorf("%s: the table excludes nothing", endpoint)
				}
				if got[endpoint] != "" && !slices.Contains(table.Excluded(), to.GroupResource()) {
					t.Errorf("%s: not among the resources with exclusions %v", endpoint, table.Excluded())
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
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
