/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// kubernetes are some resources of Kubernetes.
func kubernetes() *typechecking.Published {
	every := metav1.Verbs(typechecking.ResourceVerbs)
	p := typechecking.NewPublished()
	p.Add(schema.GroupVersion{Version: "v1"}, []metav1.APIResource{
		{Name: "pods", SingularName: "pod", Kind: "Pod", ShortNames: []string{"po"}, Verbs: every},
		{Name: "pods/exec", Kind: "PodExecOptions", Verbs: metav1.Verbs{"create", "get"}},
		{Name: "pods/status", Kind: "Pod", Verbs: metav1.Verbs{"get", "patch", "update"}},
		{Name: "nodes", SingularName: "node", Kind: "Node", ShortNames: []string{"no"}, Verbs: every},
		{Name: "nodes/proxy", Kind: "NodeProxyOptions", Verbs: metav1.Verbs{"create", "delete", "get", "patch", "update"}},
		{Name: "serviceaccounts", SingularName: "serviceaccount", Kind: "ServiceAccount", ShortNames: []string{"sa"}, Verbs: every},
		{Name: "secrets", SingularName: "secret", Kind: "Secret", Verbs: every},
	})
	p.Add(schema.GroupVersion{Group: "apps", Version: "v1"}, []metav1.APIResource{
		{Name: "deployments", SingularName: "deployment", Kind: "Deployment", ShortNames: []string{"deploy"}, Verbs: every},
		{Name: "deployments/scale", Kind: "Scale", Verbs: metav1.Verbs{"get", "patch", "update"}},
	})
	p.Add(schema.GroupVersion{Group: "autoscaling", Version: "v1"}, []metav1.APIResource{{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Verbs: every}})
	p.Add(schema.GroupVersion{Group: "autoscaling", Version: "v2"}, []metav1.APIResource{{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Verbs: every}})
	p.Add(schema.GroupVersion{Group: "authentication.k8s.io", Version: "v1"}, []metav1.APIResource{{Name: "tokenreviews", Kind: "TokenReview", Verbs: metav1.Verbs{"create"}}})
	p.Add(schema.GroupVersion{Group: "certificates.k8s.io", Version: "v1"}, []metav1.APIResource{{Name: "certificatesigningrequests", Kind: "CertificateSigningRequest", ShortNames: []string{"csr"}, Verbs: every}})
	return p
}

// verbs makes a rule for verbs. The other lists are those of rule.
func verbs(names string, groups, versions, resources string) policyv1alpha1.PolicyRule {
	r := rule(groups, versions, resources)
	r.Verbs = strings.Split(names, ",")
	return r
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		rule policyv1alpha1.PolicyRule
		want []string
	}{
		{"all known", verbs("get,create,*", "core,apps", "v1", "pods,deployments,pods/exec,deployments/scale,*/scale"), nil},
		{"wildcards", verbs("*", "*", "*", "*"), nil},
		{"a resource of one of several groups", rule("core,apps", "", "deployments"), nil},
		{"a resource of some group", rule("*", "", "deployments"), nil},
		{"a singular", rule("core", "", "pod"), []string{`spec.rules[0].resources[0]: no resource "pod" in the core API group ""; did you mean "pods"?`}},
		{"a short name", rule("core", "", "pods,sa"), []string{`spec.rules[0].resources[1]: no resource "sa" in the core API group ""; did you mean "serviceaccounts"?`}},
		{"a spelling mistake", rule("core", "", "scerets"), []string{`spec.rules[0].resources[0]: no resource "scerets" in the core API group ""; did you mean "secrets"?`}},
		{"another group", rule("core", "", "deployments"), []string{`spec.rules[0].resources[0]: no resource "deployments" in the core API group ""; it is in the API group "apps"`}},
		{"a spelling mistake and another group", rule("apps,autoscaling", "", "scerets"), []string{`spec.rules[0].resources[0]: no resource "scerets" in the API groups "apps" or "autoscaling"; did you mean "secrets"?`}},
		{"nothing like it", rule("*", "", "elephants"), []string{`spec.rules[0].resources[0]: no resource "elephants" in the 5 API groups`}},
		{"the core group by name", policyv1alpha1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"core"}, Resources: []string{"pods"}}, []string{`spec.rules[0].apiGroups[0]: no server has the API group "core"; the core group is ""`}},
		{"a group with a version", rule("apps/v1", "", "deployments"), []string{`spec.rules[0].apiGroups[0]: no server has the API group "apps/v1"; did you mean "apps"? Versions belong into apiVersions`}},
		{"the beginning of a group", rule("certificates", "", "x"), []string{`spec.rules[0].apiGroups[0]: no server has the API group "certificates"; did you mean "certificates.k8s.io"?`}},
		{"a spelling mistake in a group", rule("app", "", "x"), []string{`spec.rules[0].apiGroups[0]: no server has the API group "app"; did you mean "apps"?`}},
		{"a group of a CustomResourceDefinition to come", rule("later.example.com", "v7", "widgets"), []string{`spec.rules[0].apiGroups[0]: no server has the API group "later.example.com"`}},
		{"a version", rule("autoscaling", "v1,v3", "horizontalpodautoscalers"), []string{`spec.rules[0].apiVersions[1]: no resource of the rule is served in the version "v3": the versions are v1, v2`}},
		{"a version of one of several resources", rule("autoscaling,apps", "v2", "deployments,horizontalpodautoscalers"), nil},
		{"a version beside an unknown resource", rule("core", "v7", "pod"), []string{`spec.rules[0].resources[0]: no resource "pod" in the core API group ""; did you mean "pods"?`}},
		{"a subresource", rule("core", "", "pods/exce"), []string{`spec.rules[0].resources[0]: no subresource "exce" of "pods"; did you mean "exec"?`}},
		{"a subresource unlike any", rule("core", "", "pods/zoom"), []string{`spec.rules[0].resources[0]: no subresource "zoom" of "pods"; there are "exec" and "status"`}},
		{"a subresource of one without", rule("core", "", "secrets/data"), []string{`spec.rules[0].resources[0]: no subresource "data" of "secrets", which has none`}},
		{"a subresource of all resources", rule("core,apps", "", "*/scal"), []string{`spec.rules[0].resources[0]: no subresource "scal" of any resource in the API groups "" or "apps"; did you mean "scale"?`}},
		{"what is not published", verbs("get", "core,apps", "v1", "nodes/metrics,nodes/stats,deployments/finalizers,*/finalizers"), nil},
		{"what is only authorized", verbs("impersonate,sign,approve", "core,authentication.k8s.io,certificates.k8s.io", "", "users,groups,userextras/scopes,uids,signers,serviceaccounts"), nil},
		{"a verb that is not served", verbs("create,update", "authentication.k8s.io", "", "tokenreviews"), []string{`spec.rules[0].verbs[1]: no resource of the rule has the verb "update": the verbs are create`}},
		{"a verb of one of several resources", verbs("list", "core", "", "pods,pods/exec"), nil},
		{"a verb of no subresource", verbs("list", "core", "", "pods/exec"), []string{`spec.rules[0].verbs[0]: no resource of the rule has the verb "list": the verbs are create, get`}},
		{"a spelling mistake in a verb", verbs("craete", "core", "", "pods"), []string{`spec.rules[0].verbs[0]: no request for a resource has the verb "craete"; did you mean "create"?`}},
		{"a verb of another system", verbs("read", "core", "", "pods"), []string{`spec.rules[0].verbs[0]: no request for a resource has the verb "read"; did you mean "get", "list" and "watch"?`}},
		{"verbs of authorizers", verbs("bind,escalate,use,impersonate,approve,sign,attest,restrict,granular,granular:spec,impersonate:user-info,request-serviceaccounts-token-audience", "core", "", "pods"), nil},
		{"paths", policyv1alpha1.PolicyRule{Verbs: []string{"get", "*", "list"}, NonResourceURLs: []string{"/x"}}, []string{`spec.rules[0].verbs[2]: no request for a path has the verb "list": the verbs are get, post, put, patch, delete, head, options`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := checker(t, &schemas{}, mapper(nil)).WithResources(kubernetes)
			got, err := c.Check(&policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{tc.rule}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, warningsOf(got)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesAreBounded checks a policy with as many names as a policy may have.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf("pods%d", i))
	}
	rules := slices.Repeat([]policyv1alpha1.PolicyRule{{Verbs: names, APIGroups: []string{"", "apps"}, Resources: names}}, 64)
	calls := 0
	c := checker(t, &schemas{}, mapper(nil)).WithResources(func() *typechecking.Published { calls++; return kubernetes() })
	got, err := c.Check(&policyv1alpha1.AuthorizationPolicySpec{Rules: rules})
	if err != nil || len(got.ExpressionWarnings) != typechecking.MaxWarnings || calls != 1 {
		t.Errorf("got %d warnings, %d lists of resources, %v", len(got.ExpressionWarnings), calls, err)
	}
}

// TestNamesOfUnknownServers checks that nothing is said of groups whose server does not answer.
func TestNamesOfUnknownServers(t *testing.T) {
	t.Parallel()
	const down = "down.example.com"
	for _, tc := range []struct {
		name  string
		stale bool
		down  bool
		rule  policyv1alpha1.PolicyRule
		want  int
		fails bool
	}{
		{name: "all answer", rule: rule("core,"+down, "v2", "pod"), want: 1},
		{name: "another server does not", stale: true, rule: rule("core", "", "pod"), want: 1},
		{name: "the server of the group does not", stale: true, rule: rule(down, "v7", "x"), fails: true},
		{name: "nor that of one of the groups", stale: true, rule: rule("core,"+down, "v7", "x"), fails: true},
		{name: "a wildcard", stale: true, rule: rule("*", "v7", "x")},
		{name: "no server does", down: true, rule: rule("core", "", "x"), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kube := &publisher{down: tc.down, resources: map[string][]metav1.APIResource{"v1": published("Pod")}}
			if tc.stale {
				kube.resources[down+"/v1"] = nil
			}
			resources := typechecking.NewDiscovery(kube.client(t)).Published
			got, err := checker(t, &schemas{}, mapper(nil)).WithResources(resources).Check(&policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{tc.rule}})
			if len(got.ExpressionWarnings) != tc.want || (err != nil) != tc.fails || (tc.fails && !errors.Is(err, typechecking.ErrIncomplete)) {
				t.Errorf("got %q, %v", warningsOf(got), err)
			}
		})
	}
}

// TestUnknownGroupsAreBounded checks a policy that names as many groups as it may, all of them unknown. Only as many are looked
// for as there can be warnings.
func TestUnknownGroupsAreBounded(t *testing.T) {
	published := kubernetes()
	for i := range 100 {
		published.Add(schema.GroupVersion{Group: fmt.Sprintf("group%d.example.com", i), Version: "v1"}, nil)
	}
	policy := &policyv1alpha1.AuthorizationPolicySpec{}
	for r := range 64 {
		rule := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"things"}}
		for g := range 64 {
			rule.APIGroups = append(rule.APIGroups, fmt.Sprintf("%04d%s", 64*r+g, strings.Repeat("a", 60)))
		}
		policy.Rules = append(policy.Rules, rule)
	}
	c := checker(t, &schemas{}, mapper(nil)).WithResources(func() *typechecking.Published { return published })
	allocations := testing.AllocsPerRun(1, func() {
		if result, err := c.Check(policy); err != nil || len(result.ExpressionWarnings) != typechecking.MaxWarnings {
			t.Errorf("got %d warnings and %v", len(result.ExpressionWarnings), err)
		}
	})
	const most = 16 * 200 * typechecking.MaxWarnings
	if allocations > most {
		t.Errorf("%.0f allocations, want at most %d", allocations, most)
	}
}
