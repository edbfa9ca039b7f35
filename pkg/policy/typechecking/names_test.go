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
		{Name: "pods", Namespaced: true, SingularName: "pod", Kind: "Pod", ShortNames: []string{"po"}, Verbs: every},
		{Name: "pods/exec", Namespaced: true, Kind: "PodExecOptions", Verbs: metav1.Verbs{"create", "get"}},
		{Name: "pods/status", Kind: "Pod", Verbs: metav1.Verbs{"get", "patch", "update"}},
		{Name: "nodes", SingularName: "node", Kind: "Node", ShortNames: []string{"no"}, Verbs: every},
		{Name: "nodes/proxy", Kind: "NodeProxyOptions", Verbs: metav1.Verbs{"create", "delete", "get", "patch", "update"}},
		{Name: "serviceaccounts", SingularName: "serviceaccount", Kind: "ServiceAccount", ShortNames: []string{"sa"}, Verbs: every},
		{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", Verbs: every},
		{Name: "secrets", SingularName: "secret", Kind: "Secret", Verbs: every},
	})
	p.Add(schema.GroupVersion{Group: "apps", Version: "v1"}, []metav1.APIResource{
		{Name: "deployments", Namespaced: true, SingularName: "deployment", Kind: "Deployment", ShortNames: []string{"deploy"}, Verbs: every},
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
	const noNamespace = ` has no namespace, so that this policy, which is about requests in the namespace "shop", never matches: write a ClusterAuthorizationPolicy`
	for _, tc := range []struct {
		name      string
		rule      policyv1alpha1.PolicyRule
		want      []string
		namespace string
	}{
		{name: "all known", rule: verbs("get,create,*", "core,apps", "v1", "pods,deployments,pods/exec,deployments/scale,*/scale")},
		{name: "wildcards", rule: verbs("*", "*", "*", "*")},
		{name: "a resource of one of several groups", rule: rule("core,apps", "", "deployments")},
		{name: "a resource of some group", rule: rule("*", "", "deployments")},
		{name: "a singular", rule: rule("core", "", "pod"), want: []string{`spec.rules[0].resources[0]: no resource "pod" in the core API group ""; did you mean "pods"?`}},
		{name: "a resource with its group", rule: rule("apps", "", "deployments.apps"), want: []string{`spec.rules[0].resources[0]: no resource "deployments.apps" in the API group "apps"; did you mean "deployments"? Groups belong into apiGroups`}},
		{name: "a short name", rule: rule("core", "", "pods,sa"), want: []string{`spec.rules[0].resources[1]: no resource "sa" in the core API group ""; did you mean "serviceaccounts"?`}},
		{name: "a spelling mistake", rule: rule("core", "", "scerets"), want: []string{`spec.rules[0].resources[0]: no resource "scerets" in the core API group ""; did you mean "secrets"?`}},
		{name: "another group", rule: rule("core", "", "deployments"), want: []string{`spec.rules[0].resources[0]: no resource "deployments" in the core API group ""; it is in the API group "apps"`}},
		{name: "a spelling mistake and another group", rule: rule("apps,autoscaling", "", "scerets"), want: []string{`spec.rules[0].resources[0]: no resource "scerets" in the API groups "apps" or "autoscaling"; did you mean "secrets"?`}},
		{name: "nothing like it", rule: rule("*", "", "elephants"), want: []string{`spec.rules[0].resources[0]: no resource "elephants" in the 5 API groups`}},
		{name: "the core group by name", rule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"core"}, Resources: []string{"pods"}}, want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "core"; the core group is ""`}},
		{name: "a group with a version", rule: rule("apps/v1", "", "deployments"), want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "apps/v1"; did you mean "apps"? Versions belong into apiVersions`}},
		{name: "the beginning of a group", rule: rule("certificates", "", "x"), want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "certificates"; did you mean "certificates.k8s.io"?`}},
		{name: "a spelling mistake in a group", rule: rule("app", "", "x"), want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "app"; did you mean "apps"?`}},
		{name: "a group of a CustomResourceDefinition to come", rule: rule("later.example.com", "v7", "widgets"), want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "later.example.com"`}},
		{name: "a version", rule: rule("autoscaling", "v1,v3", "horizontalpodautoscalers"), want: []string{`spec.rules[0].apiVersions[1]: no resource of the rule is served in the version "v3": the versions are v1, v2`}},
		{name: "a version of one of several resources", rule: rule("autoscaling,apps", "v2", "deployments,horizontalpodautoscalers")},
		{name: "a version beside an unknown resource", rule: rule("core", "v7", "pod"), want: []string{`spec.rules[0].resources[0]: no resource "pod" in the core API group ""; did you mean "pods"?`}},
		{name: "a subresource", rule: rule("core", "", "pods/exce"), want: []string{`spec.rules[0].resources[0]: no subresource "exce" of "pods"; did you mean "exec"?`}},
		{name: "a subresource unlike any", rule: rule("core", "", "pods/zoom"), want: []string{`spec.rules[0].resources[0]: no subresource "zoom" of "pods"; there are "exec" and "status"`}},
		{name: "a subresource of one without", rule: rule("core", "", "secrets/data"), want: []string{`spec.rules[0].resources[0]: no subresource "data" of "secrets", which has none`}},
		{name: "a subresource of all resources", rule: rule("core,apps", "", "*/scal"), want: []string{`spec.rules[0].resources[0]: no subresource "scal" of any resource in the API groups "" or "apps"; did you mean "scale"?`}},
		{name: "what is not published", rule: verbs("get", "core,apps", "v1", "nodes/metrics,nodes/stats,deployments/finalizers,*/finalizers")},
		{name: "what is only authorized", rule: verbs("impersonate,sign,approve", "core,authentication.k8s.io,certificates.k8s.io", "", "users,groups,userextras/scopes,uids,signers,serviceaccounts")},
		{name: "a verb that is not served", rule: verbs("create,update", "authentication.k8s.io", "", "tokenreviews"), want: []string{`spec.rules[0].verbs[1]: no resource of the rule has the verb "update": the verbs are create`}},
		{name: "a verb of one of several resources", rule: verbs("list", "core", "", "pods,pods/exec")},
		{name: "a verb of no subresource", rule: verbs("list", "core", "", "pods/exec"), want: []string{`spec.rules[0].verbs[0]: no resource of the rule has the verb "list": the verbs are create, get`}},
		{name: "a spelling mistake in a verb", rule: verbs("craete", "core", "", "pods"), want: []string{`spec.rules[0].verbs[0]: no request for a resource has the verb "craete"; did you mean "create"?`}},
		{name: "a verb of another system", rule: verbs("read", "core", "", "pods"), want: []string{`spec.rules[0].verbs[0]: no request for a resource has the verb "read"; did you mean "get", "list" and "watch"?`}},
		{name: "verbs of authorizers", rule: verbs("bind,escalate,use,impersonate,approve,sign,attest,restrict,granular,granular:spec,impersonate:user-info,request-serviceaccounts-token-audience", "core", "", "pods")},
		{name: "paths", rule: policyv1alpha1.PolicyRule{Verbs: []string{"get", "*", "list"}, NonResourceURLs: []string{"/x"}}, want: []string{`spec.rules[0].verbs[2]: no request for a path has the verb "list": the verbs are get, post, put, patch, delete, head, options`}},
		{name: "a wildcard for versions beside one", rule: rule("autoscaling", "*,v1", "horizontalpodautoscalers")},
		{name: "a version beside a wildcard for resources", rule: rule("autoscaling", "v9", "*,horizontalpodautoscalers")},
		{name: "a version beside what is not published", rule: rule("core", "v9", "nodes/log,pods")},
		{name: "a version in no resource", rule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, APIVersions: []string{"v9"}}},
		{
			name: "a version of another group", rule: rule("core", "v2", "pods,secrets"),
			want: []string{`spec.rules[0].apiVersions[0]: no resource of the rule is served in the version "v2": the versions are v1`},
		},
		{
			name: "a version of another resource", rule: rule("core,autoscaling", "v2", "pods"),
			want: []string{`spec.rules[0].apiVersions[0]: no resource of the rule is served in the version "v2": the versions are v1`},
		},
		{
			name: "an unknown group beside one that is known", rule: verbs("list", "core,app", "v9", "tokenreviews"), // the resource could be in the former
			want: []string{`spec.rules[0].apiGroups[1]: no server has the API group "app"; did you mean "apps"?`},
		},
		{
			name: "a subresource of an unknown resource", rule: rule("core", "", "pod/exec"),
			want: []string{`spec.rules[0].resources[0]: no resource "pod" in the core API group ""; did you mean "pods"?`},
		},
		{
			name: "a subresource of another resource", rule: rule("core,apps", "", "pods/scale"),
			want: []string{`spec.rules[0].resources[0]: no subresource "scale" of "pods"; there are "exec" and "status"`},
		},
		{
			name: "a subresource of any resource that none has", rule: rule("autoscaling", "", "*/scale"),
			want: []string{`spec.rules[0].resources[0]: no subresource "scale" of any resource in the API group "autoscaling", which has none`},
		},
		{
			name: "a kind", rule: rule("core", "", "ServiceAccount"),
			want: []string{`spec.rules[0].resources[0]: no resource "ServiceAccount" in the core API group ""; did you mean "serviceaccounts"?`},
		},
		{
			name: "the kind of a subresource", rule: rule("core", "", "PodExecOptions"),
			want: []string{`spec.rules[0].resources[0]: no resource "PodExecOptions" in the core API group ""`},
		},
		{
			name: "in other letters", rule: rule("core", "", "Pods"),
			want: []string{`spec.rules[0].resources[0]: no resource "Pods" in the core API group ""; did you mean "pods"?`},
		},
		{
			name: "a resource of one group only, in two others", rule: rule("apps,autoscaling", "", "pods"),
			want: []string{`spec.rules[0].resources[0]: no resource "pods" in the API groups "apps" or "autoscaling"; it is in the core API group ""`},
		},
		{
			name: "users of another group", rule: rule("apps", "", "users"),
			want: []string{`spec.rules[0].resources[0]: no resource "users" in the API group "apps"`},
		},
		{
			name: "the first version of the core group as a group", rule: rule("v1", "", "pods"),
			want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "v1"; the core group is ""`},
		},
		{
			name: "an unknown group with a version", rule: rule("nothing.example.com/v1", "", "x"),
			want: []string{`spec.rules[0].apiGroups[0]: no server has the API group "nothing.example.com/v1"`},
		},
		{
			name: "a verb of paths", rule: verbs("options", "core", "", "pods"), // it is like no verb of resources, and may be that of an authorizer
		},
		{
			name: "a verb in other letters", rule: verbs("GET", "core", "", "pods"),
			want: []string{`spec.rules[0].verbs[0]: no request for a resource has the verb "GET"; did you mean "get"?`},
		},
		{
			name: "a verb of a resource that is not known", rule: verbs("update,craete", "authentication.k8s.io", "", "tokenreviews,elephants"),
			want: []string{
				`spec.rules[0].resources[1]: no resource "elephants" in the API group "authentication.k8s.io"`,
				`spec.rules[0].verbs[1]: no request for a resource has the verb "craete"; did you mean "create"?`,
			},
		},
		{name: "a verb with a parameter", rule: verbs("granular:label(x),get:x,reed:x", "core", "", "pods")},
		{
			name: "paths and resources in one rule", // validation refuses it
			rule: policyv1alpha1.PolicyRule{Verbs: []string{"watch"}, NonResourceURLs: []string{"/x"}, APIGroups: []string{"nothing"}, Resources: []string{"x"}},
			want: []string{`spec.rules[0].verbs[0]: no request for a path has the verb "watch": the verbs are get, post, put, patch, delete, head, options`},
		},
		{name: "every verb of paths", rule: policyv1alpha1.PolicyRule{Verbs: []string{"get", "post", "put", "patch", "delete", "head", "options"}, NonResourceURLs: []string{"*"}}},
		{name: "nothing", rule: policyv1alpha1.PolicyRule{}},
		{name: "resources with a namespace", namespace: "shop", rule: rule("core,apps", "", "pods,pods/exec,deployments,*/scale,namespaces,*")},
		{name: "names that no server publishes, in a namespace", namespace: "shop", rule: verbs("get", "core", "", "serviceaccounts,pods/finalizers")},
		{
			name: "resources without a namespace", namespace: "shop", rule: rule("core", "", "pods,nodes,nodes/proxy"),
			want: []string{"spec.rules[0].resources[1]: \"nodes\"" + noNamespace, "spec.rules[0].resources[2]: \"nodes/proxy\"" + noNamespace},
		},
		{name: "what is only authorized, without a namespace", namespace: "shop", rule: verbs("sign", "certificates.k8s.io", "", "signers"), want: []string{"spec.rules[0].resources[0]: \"signers\"" + noNamespace}},
		{name: "a spelling mistake in a namespace", namespace: "shop", rule: rule("core", "", "nods"), want: []string{`spec.rules[0].resources[0]: no resource "nods" in the core API group ""; did you mean "nodes" or "pods"?`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := checker(t, &schemas{}, mapper(nil)).WithResources(kubernetes)
			got, err := c.Check(tc.namespace, &policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{tc.rule}})
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
	got, err := c.Check("", &policyv1alpha1.AuthorizationPolicySpec{Rules: rules})
	if err != nil || len(got.ExpressionWarnings) != typechecking.MaxWarnings || calls != 1 {
		t.Errorf("got %d warnings, %d lists of resources, %v", len(got.ExpressionWarnings), calls, err)
	}
}

// TestVerbsOfOtherSystems suggests the verbs of Kubernetes. A verb that a resource has is no mistake, whatever it means elsewhere.
func TestVerbsOfOtherSystems(t *testing.T) {
	t.Parallel()
	published := typechecking.NewPublished()
	published.Add(schema.GroupVersion{Version: "v1"}, []metav1.APIResource{{Name: "pods", Kind: "Pod", Verbs: metav1.Verbs{"get", "connect"}}})
	for verb, want := range map[string]string{
		"read": `"get", "list" and "watch"`, "view": `"get", "list" and "watch"`, "head": `"get"`,
		"write": `"create", "update" and "patch"`, "edit": `"update" and "patch"`, "modify": `"update" and "patch"`, "put": `"update"`, "apply": `"patch"`,
		"post": `"create"`, "add": `"create"`, "remove": `"delete"`, "destroy": `"delete"`,
		"connect": "", // a verb of the pods
		"approve": "", // of an authorizer
	} {
		c := checker(t, &schemas{}, mapper(nil)).WithResources(func() *typechecking.Published { return published })
		got, err := c.Check("", &policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{verbs(verb, "core", "", "pods")}})
		if err != nil {
			t.Fatal(err)
		}
		var wantLines []string
		if want != "" {
			wantLines = []string{fmt.Sprintf("spec.rules[0].verbs[0]: no request for a resource has the verb %q; did you mean %s?", verb, want)}
		}
		if diff := cmp.Diff(wantLines, warningsOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", verb, diff)
		}
	}
}

// TestSuggestionsAreBounded has more of everything than a warning can list.
func TestSuggestionsAreBounded(t *testing.T) {
	t.Parallel()
	published := typechecking.NewPublished()
	var groups []string
	for i := range 6 {
		group := fmt.Sprintf("storage.g%d.example.com", i)
		groups = append(groups, group)
		list := []metav1.APIResource{{Name: fmt.Sprintf("disks%d", i), Kind: "Disk"}, {Name: "same", Kind: "Same"}}
		for j := range 3 {
			list = append(list, metav1.APIResource{Name: fmt.Sprintf("same/sub%d%d", i, j), Kind: "Same"})
		}
		published.Add(schema.GroupVersion{Group: group, Version: "v1"}, list)
	}
	published.Add(schema.GroupVersion{Group: "empty.example.com", Version: "v1"}, nil)
	names := func(n int) string { return strings.Join(groups[:n], ",") }
	for _, tc := range []struct {
		name string
		rule policyv1alpha1.PolicyRule
		want string
	}{
		{
			name: "resources with one kind", rule: rule(names(6), "", "disk"),
			want: `spec.rules[0].resources[0]: no resource "disk" in the 6 API groups; did you mean "disks0", "disks1" or "disks2"?`,
		},
		{
			name: "groups with one beginning", rule: rule("storage", "", "x"),
			want: `spec.rules[0].apiGroups[0]: no server has the API group "storage"; did you mean "storage.g0.example.com", "storage.g1.example.com" or "storage.g2.example.com"?`,
		},
		{
			name: "groups that have it", rule: rule("empty.example.com", "", "same"),
			want: `spec.rules[0].resources[0]: no resource "same" in the API group "empty.example.com"; it is in the 6 API groups`,
		},
		{
			name: "four groups", rule: rule(names(4), "", "elephants"),
			want: `spec.rules[0].resources[0]: no resource "elephants" in the API groups "storage.g0.example.com", "storage.g1.example.com", "storage.g2.example.com" or "storage.g3.example.com"`,
		},
		{name: "five groups", rule: rule(names(5), "", "elephants"), want: `spec.rules[0].resources[0]: no resource "elephants" in the 5 API groups`},
		{
			name: "subresources", rule: rule(names(6), "", "same/elephant"),
			want: `spec.rules[0].resources[0]: no subresource "elephant" of "same"; there are "sub00", "sub01", "sub02", "sub10", "sub11", "sub12", "sub20" and "sub21"`,
		},
	} {
		c := checker(t, &schemas{}, mapper(nil)).WithResources(func() *typechecking.Published { return published })
		got, err := c.Check("", &policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{tc.rule}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{tc.want}, warningsOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestNamesEndAtTheirBound looks up 1024 names of resources of a policy and no more, and counts warnings of names and of expressions together.
func TestNamesEndAtTheirBound(t *testing.T) {
	t.Parallel()
	repeated := func(n int, resource string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: slices.Repeat([]string{resource}, n)}
	}
	wrong := repeated(1, "elephants")
	for _, tc := range []struct {
		name         string
		rules        []policyv1alpha1.PolicyRule
		condition    string
		wantWarnings int
	}{
		{name: "the last name that is looked up", rules: []policyv1alpha1.PolicyRule{repeated(1023, "pods"), wrong}, wantWarnings: 1},
		{name: "the first that is not", rules: []policyv1alpha1.PolicyRule{repeated(1024, "pods"), wrong}},
		{name: "in one rule", rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: append(slices.Repeat([]string{"pods"}, 1024), "elephants")}}},
		{name: "a warning less than there may be", rules: slices.Repeat([]policyv1alpha1.PolicyRule{wrong}, 31), wantWarnings: 31},
		{name: "a warning more", rules: slices.Repeat([]policyv1alpha1.PolicyRule{wrong}, 33), wantWarnings: 32},
		{
			name: "names and an expression", condition: "object.nope",
			rules: append(slices.Repeat([]policyv1alpha1.PolicyRule{wrong}, 31), rule("example.com", "v1", "widgets")), wantWarnings: 32,
		},
		{
			name: "names, and an expression for which no room is left", condition: "object.nope",
			rules: append([]policyv1alpha1.PolicyRule{rule("example.com", "v1", "widgets")}, slices.Repeat([]policyv1alpha1.PolicyRule{wrong}, 40)...), wantWarnings: 32,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			published := kubernetes()
			published.Add(schema.GroupVersion{Group: "example.com", Version: "v1"}, []metav1.APIResource{{Name: "widgets", Kind: "Widget", Verbs: metav1.Verbs{"create"}}})
			c := checker(t, &schemas{table: widgets}, mapper(widgets)).WithResources(func() *typechecking.Published { return published })
			got, err := c.Check("", &policyv1alpha1.AuthorizationPolicySpec{Rules: tc.rules, Condition: tc.condition})
			if err != nil || len(got.ExpressionWarnings) != tc.wantWarnings {
				t.Errorf("got %d warnings, %v, want %d", len(got.ExpressionWarnings), err, tc.wantWarnings)
			}
		})
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
			got, err := checker(t, &schemas{}, mapper(nil)).WithResources(resources).Check("", &policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{tc.rule}})
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
		if result, err := c.Check("", policy); err != nil || len(result.ExpressionWarnings) != typechecking.MaxWarnings {
			t.Errorf("got %d warnings and %v", len(result.ExpressionWarnings), err)
		}
	})
	const most = 16 * 200 * typechecking.MaxWarnings
	if allocations > most {
		t.Errorf("%.0f allocations, want at most %d", allocations, most)
	}
}

// TestFailuresAreReportedOnce has a server that answers neither about its resources nor about its kinds, and one that fails in the latter only.
func TestFailuresAreReportedOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		down       bool
		want, miss string
	}{
		{name: "no answer at all", down: true, want: `the resources of the API group "": `, miss: "the kind of pods"},
		{name: "no answer about kinds", want: "the kind of pods: no answer", miss: "the resources of the API group"},
	} {
		kube := &publisher{down: tc.down, resources: map[string][]metav1.APIResource{"v1": published("Pod")}}
		c := checker(t, &schemas{}, failingKinds{mapper(nil), ""}).WithResources(typechecking.NewDiscovery(kube.client(t)).Published)
		got, err := c.Check("", &policyv1alpha1.AuthorizationPolicySpec{Condition: "true", Rules: []policyv1alpha1.PolicyRule{rule("core", "v1", "pods")}})
		if !errors.Is(err, typechecking.ErrIncomplete) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), tc.miss) || len(got.ExpressionWarnings) > 0 {
			t.Errorf("%s: got %v and %q, want an error with %q once", tc.name, err, warningsOf(got), tc.want)
		}
	}
}
