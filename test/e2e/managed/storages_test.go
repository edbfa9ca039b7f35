/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestStorages has every endpoint with writes that kube-apiserver serves, with all versions and features: either requests have the object
// that they write, so that its fields can be compared, or the endpoint is in storages.yaml. There every write needs the verb of an excluded field
// that it may change.
func TestStorages(t *testing.T) {
	t.Parallel()
	args := []string{"--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"}
	r := newRig(t, cluster.Config{Managed: true, KubeAPIServerArgs: args}, func(c *cluster.Cluster, ctx context.Context) error {
		return errors.Join(c.StartEtcd(ctx), c.StartKubeAPIServer(ctx))
	})
	r.MustApply(t, plane.TestData(t, "engines.yaml"))
	config, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	client := discovery.NewDiscoveryClientForConfigOrDie(config)
	client.UseLegacyDiscovery = true // aggregated discovery has no hashes
	seen, storages := map[string]bool{}, map[string]string{}
	plane.ReadYAML(t, "storages.yaml", &storages)
	poll.Eventually(t, "the custom resource is discovered", func() string {
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			return err.Error()
		}
		seen = unshown(lists)
		if !seen["engines/scale.example.com"] {
			return "it is not"
		}
		return ""
	})
	for endpoint := range seen {
		if storages[endpoint] == "" {
			t.Errorf("%s: do requests show all fields that they change? See pkg/granular/mapping/indirect.go", endpoint)
		}
	}
	for endpoint, writes := range storages {
		if !seen[endpoint] {
			t.Errorf("%s: kube-apiserver does not serve it", endpoint)
		}
		if of, path, ok := strings.Cut(writes, " "); ok && !strings.HasPrefix(writes, "-") && !needsEveryVerb(t.Context(), endpoint, of, path) {
			t.Errorf("%s: not every write needs the verb of an excluded %s of %s", endpoint, path, of)
		}
	}
}

// unshown returns the endpoints with writes whose requests may not have the object that they write: subresources of another kind than their
// resource, resources that cannot be read, and resources with the storage of another one.
func unshown(lists []*metav1.APIResourceList) map[string]bool {
	found, stored := map[string]bool{}, map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		kinds := map[string]string{}
		for _, r := range list.APIResources {
			kinds[r.Name] = r.Kind
		}
		for _, r := range list.APIResources {
			endpoint := schema.GroupResource{Group: gv.Group, Resource: r.Name}.String()
			isWritten := slices.ContainsFunc(r.Verbs, func(verb string) bool { return slices.Contains([]string{"create", "patch", "update"}, verb) })
			resource, _, isSubresource := strings.Cut(r.Name, "/")
			isOther := isSubresource && (kinds[resource] != r.Kind || r.Group != "" && r.Group != gv.Group)
			if isWritten && (isOther || !isSubresource && !slices.Contains(r.Verbs, "get")) {
				found[endpoint] = true
			}
			if r.StorageVersionHash != "" && !slices.Contains(stored[r.StorageVersionHash], endpoint) {
				stored[r.StorageVersionHash] = append(stored[r.StorageVersionHash], endpoint)
			}
		}
	}
	for _, endpoints := range stored {
		if len(endpoints) > 1 {
			for _, endpoint := range endpoints {
				found[endpoint] = true
			}
		}
	}
	return found
}

// needsEveryVerb reports whether every write at an endpoint needs the verb of an excluded field of a resource.
func needsEveryVerb(ctx context.Context, endpoint, of, path string) bool {
	m := &policy.FieldPermissionMapping{}
	resource := schema.ParseGroupResource(of)
	m.Spec.Resources = []policy.FieldPermissionResource{{APIGroup: resource.Group, Resource: resource.Resource}}
	permission := cmp.Or(map[string]string{"spec.nodeName": "nodeAssignment", "status.conditions": "conditions", "spec.replicas": "replicas"}[path], "fields")
	m.Spec.Fields = []policy.FieldPermission{{Path: path, Permission: permission, Exclusion: &policy.FieldExclusion{}}}
	to := schema.ParseGroupResource(endpoint)
	name, subresource, _ := strings.Cut(to.Resource, "/")
	for rule := range mapping.NewTable(m).ForSubresource(schema.GroupVersionResource{Group: to.Group, Version: "v1", Resource: name}, subresource).All() {
		if verb, err := rule.Verb(ctx, nil, nil); rule.IsOfEveryWrite() && err == nil && verb != "" {
			return true
		}
	}
	return false
}
