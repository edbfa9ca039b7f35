/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
)

func enforcementConfiguration(change func(*policy.EnforcementConfigurationSpec)) *policy.EnforcementConfiguration {
	c := &policy.EnforcementConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "things"}, Spec: policy.EnforcementConfigurationSpec{
		APIGroup: "things.example.com", APIVersions: []string{"v1"}, Resources: []string{"things", "things/status"},
		Service: policy.EnforcementService{Namespace: "things", Name: "things", Port: 443},
	}}
	change(&c.Spec)
	return c
}

// TestEnforcementConfiguration has a row for each mistake: what kube-apiserver or Proviso serves, wildcards, and connections.
func TestEnforcementConfiguration(t *testing.T) {
	t.Parallel()
	type spec = policy.EnforcementConfigurationSpec
	group := func(name string) func(*spec) { return func(s *spec) { s.APIGroup = name } }
	resource := func(name string) func(*spec) { return func(s *spec) { s.Resources = []string{name} } }
	version := func(name string) func(*spec) { return func(s *spec) { s.APIVersions = []string{name} } }
	many := func(n int, format string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return list
	}
	for _, tc := range []struct {
		name   string
		change func(*spec)
		want   string // the field and part of the error, none if valid
	}{
		{name: "valid", change: func(*spec) {}},
		{name: "metrics", change: group("metrics.k8s.io")},
		{name: "a group that ends like one of Proviso", change: group("notproviso.dev")},
		{name: "no group", change: group(""), want: "spec.apiGroup: Required"},
		{name: "any group", change: group("*"), want: "spec.apiGroup: Invalid"},
		{name: "groups of a domain", change: group("*.example.com"), want: "spec.apiGroup: Invalid"},
		{name: "apps", change: group("apps"), want: "spec.apiGroup: Forbidden: kube-apiserver serves this group"},
		{name: "a group without a dot", change: group("things"), want: "spec.apiGroup: Forbidden: kube-apiserver serves this group"},
		{name: "RBAC", change: group("rbac.authorization.k8s.io"), want: "spec.apiGroup: Forbidden: kube-apiserver serves this group"},
		{name: "CRDs", change: group("apiextensions.k8s.io"), want: "spec.apiGroup: Forbidden"},
		{name: "APIServices", change: group("apiregistration.k8s.io"), want: "spec.apiGroup: Forbidden"},
		{name: "reviews", change: group("authorization.k8s.io"), want: "spec.apiGroup: Forbidden"},
		{name: "policies", change: group("policy.proviso.dev"), want: "spec.apiGroup: Forbidden: Proviso serves this group"},
		{name: "a new group of Proviso", change: group("x.y.proviso.dev"), want: "spec.apiGroup: Forbidden: Proviso serves this group"},
		{name: "the domain of Proviso", change: group("proviso.dev"), want: "spec.apiGroup: Forbidden: Proviso serves this group"},
		{name: "a group in upper case", change: group("Things.example.com"), want: "spec.apiGroup: Invalid"},
		{name: "no version", change: func(s *spec) { s.APIVersions = nil }, want: "spec.apiVersions: Required"},
		{name: "any version", change: version("*"), want: "spec.apiVersions[0]: Invalid"},
		{name: "an empty version", change: version(""), want: "spec.apiVersions[0]: Invalid"},
		{name: "a version twice", change: func(s *spec) { s.APIVersions = []string{"v1", "v1"} }, want: "spec.apiVersions[1]: Duplicate"},
		{name: "too many versions", change: func(s *spec) { s.APIVersions = many(17, "v%d") }, want: "spec.apiVersions: Too many"},
		{name: "no resource", change: func(s *spec) { s.Resources = nil }, want: "spec.resources: Required"},
		{name: "any resource", change: resource("*"), want: "spec.resources[0]: Invalid"},
		{name: "any subresource", change: resource("things/*"), want: "spec.resources[0]: Invalid"},
		{name: "a subresource of any resource", change: resource("*/status"), want: "spec.resources[0]: Invalid"},
		{name: "an empty subresource", change: resource("things/"), want: "spec.resources[0]: Invalid"},
		{name: "two subresources", change: resource("things/a/b"), want: "spec.resources[0]: Invalid"},
		{name: "exec", change: resource("things/exec"), want: "spec.resources[0]: Forbidden: the answer to a connection"},
		{name: "finalizers", change: resource("things/finalizers"), want: "spec.resources[0]: Forbidden: components ask for permission on it"},
		{name: "attach", change: resource("things/attach"), want: "spec.resources[0]: Forbidden"},
		{name: "portforward", change: resource("things/portforward"), want: "spec.resources[0]: Forbidden"},
		{name: "proxy", change: resource("things/proxy"), want: "spec.resources[0]: Forbidden"},
		{name: "a resource twice", change: func(s *spec) { s.Resources = []string{"things", "things"} }, want: "spec.resources[1]: Duplicate"},
		{name: "too many resources", change: func(s *spec) { s.Resources = many(65, "things%d") }, want: "spec.resources: Too many"},
		{name: "a long description", change: func(s *spec) { s.Description = strings.Repeat("a", 1025) }, want: "spec.description: Too long"},
		{name: "no namespace", change: func(s *spec) { s.Service.Namespace = "" }, want: "spec.service.namespace: Invalid"},
		{name: "no Service", change: func(s *spec) { s.Service.Name = "" }, want: "spec.service.name: Invalid"},
		{name: "no port", change: func(s *spec) { s.Service.Port = 0 }, want: "spec.service.port: Invalid"},
		{name: "a large port", change: func(s *spec) { s.Service.Port = 65536 }, want: "spec.service.port: Invalid"},
	} {
		errs := validation.ValidateEnforcementConfiguration(enforcementConfiguration(tc.change))
		if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", tc.name, errs, tc.want)
		}
		updated, old := enforcementConfiguration(tc.change), enforcementConfiguration(func(*spec) {})
		updated.ResourceVersion, old.ResourceVersion = "1", "1"
		if got := validation.ValidateEnforcementConfigurationUpdate(updated, old); len(got) != len(errs) {
			t.Errorf("%s: an update has the errors %v", tc.name, got)
		}
	}
}

// TestGroupsOfKubernetes has all groups that clients of Kubernetes know.
func TestGroupsOfKubernetes(t *testing.T) {
	t.Parallel()
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if strings.Contains(version.Group, ".") && !validation.GroupsOfKubernetes.Has(version.Group) {
			t.Errorf("%s is missing", version.Group)
		}
	}
}
