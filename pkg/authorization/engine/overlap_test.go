/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestRestriction asks about requests of which a policy restricts some.
func TestRestriction(t *testing.T) {
	t.Parallel()
	resources := func(verb, group, resource string, names ...string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}, ResourceNames: names}
	}
	paths := func(verb, path string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{path}}
	}
	ask := func(verb, group, resource, sub, namespace, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: group, APIVersion: "*", Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true}
	}
	for _, tc := range []struct {
		name      string
		effect    policyv1alpha1.PolicyEffect
		namespace string
		rule      policyv1alpha1.PolicyRule
		check     authorizer.AttributesRecord
		want      bool
	}{
		{"one verb of all", "Deny", "", resources("delete", "", "secrets"), ask("*", "*", "*", "", "", ""), true},
		{"the same", "Deny", "", resources("delete", "", "secrets"), ask("delete", "", "secrets", "", "", ""), true},
		{"a NoOpinion policy", "NoOpinion", "", resources("delete", "", "secrets"), ask("*", "", "secrets", "", "", ""), true},
		{"an Allow policy", "Allow", "", resources("delete", "", "secrets"), ask("*", "", "secrets", "", "", ""), false},
		{"another verb", "Deny", "", resources("delete", "", "secrets"), ask("get", "*", "*", "", "", ""), false},
		{"another group", "Deny", "", resources("*", "apps", "deployments"), ask("*", "", "*", "", "", ""), false},
		{"another resource", "Deny", "", resources("*", "", "secrets"), ask("*", "*", "pods", "", "", ""), false},
		{"a subresource of everything", "Deny", "", resources("*", "", "pods/exec"), ask("*", "", "*", "", "", ""), true},
		{"a subresource of the resource", "Deny", "", resources("*", "", "pods/exec"), ask("*", "", "pods", "", "", ""), false},
		{"that subresource of all", "Deny", "", resources("*", "", "*/exec"), ask("*", "", "pods", "exec", "", ""), true},
		{"another subresource", "Deny", "", resources("*", "", "pods/exec"), ask("*", "", "*", "log", "", ""), false},
		{"one name of all", "Deny", "", resources("get", "", "secrets", "ca"), ask("get", "", "secrets", "", "", ""), true},
		{"another name", "Deny", "", resources("get", "", "secrets", "ca"), ask("get", "", "secrets", "", "", "web"), false},
		{"a namespace of all", "Deny", "kube-system", resources("get", "", "secrets"), ask("get", "", "secrets", "", "", ""), true},
		{"another namespace", "Deny", "kube-system", resources("get", "", "secrets"), ask("get", "", "secrets", "", "demo", ""), false},
		{"a version that the rule is not about", "Deny", "", resources("get", "", "secrets"), ask("get", "", "secrets", "", "", ""), true},
		{"a path beneath", "Deny", "", paths("get", "/metrics/secret"), authorizer.AttributesRecord{Verb: "get", Path: "/metrics/*"}, true},
		{"a path above", "Deny", "", paths("get", "/metrics*"), authorizer.AttributesRecord{Verb: "get", Path: "/metrics/slis"}, true},
		{"patterns of which one has the other", "Deny", "", paths("*", "/a/*"), authorizer.AttributesRecord{Verb: "*", Path: "/a/b*"}, true},
		{"another path", "Deny", "", paths("get", "/metrics"), authorizer.AttributesRecord{Verb: "*", Path: "/healthz"}, false},
		{"a path, but resources are asked about", "Deny", "", paths("*", "*"), ask("*", "*", "*", "", "", ""), false},
		{"resources, but a path is asked about", "Deny", "", resources("*", "*", "*"), authorizer.AttributesRecord{Verb: "*", Path: "*"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for subjects, of := range map[string]rbacv1.Subject{"the user": {Kind: "User", Name: "ann"}, "a group": {Kind: "Group", Name: "devs"}} {
				key := engine.Key{Namespace: tc.namespace, Name: "p"}
				p, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Subjects: []rbacv1.Subject{of}, Rules: []policyv1alpha1.PolicyRule{tc.rule}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				source := &engine.Source{}
				source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: p}))
				check := tc.check
				check.User = &user.DefaultInfo{Name: "ann", Groups: []string{"devs"}}
				if got, found := source.Restriction(t.Context(), check); found != tc.want || found && got != key {
					t.Errorf("of %s: got %v, %v, want %v", subjects, got, found, tc.want)
				}
				check.User = &user.DefaultInfo{Name: "bob"}
				if _, found := source.Restriction(t.Context(), check); found {
					t.Errorf("of %s: somebody else is restricted", subjects)
				}
			}
		})
	}
}

func TestRestrictionBeforeThereArePolicies(t *testing.T) {
	t.Parallel()
	if _, found := (&engine.Source{}).Restriction(t.Context(), authorizer.AttributesRecord{Verb: "get", Path: "/"}); !found {
		t.Error("nothing is known, but nobody is restricted")
	}
}
