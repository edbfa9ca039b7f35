/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// impersonationPolicies let a deputy do one thing as bob and another as carol, which
// permissions of KEP-5284 cannot keep apart, and be lucas only together with a group.
func impersonationPolicies() []policyv1alpha1.AuthorizationPolicySpec {
	policy := func(condition, resource, name string) policyv1alpha1.AuthorizationPolicySpec {
		return policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Subjects: []rbacv1.Subject{{Kind: "User", Name: "e2e-deputy"}}, Condition: condition,
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"constrainedimpersonate"}, APIGroups: []string{"authentication.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{resource}, ResourceNames: []string{name}}},
		}
	}
	return []policyv1alpha1.AuthorizationPolicySpec{
		policy(`impersonatedRequest.verb == "list" && impersonatedRequest.resource == "pods"`, "users", "bob"),
		policy(`"ai-agent" in impersonatedUser.groups`, "users", "lucas"),
		policy(``, "groups", "ai-agent"),
		policy(`impersonatedRequest.verb == "create" && impersonatedRequest.resource == "secrets"`, "users", "carol"),
	}
}

// TestConditionalImpersonationReview reviews with policies, on a replica with the feature
// gate on and on a server with it off.
func TestConditionalImpersonationReview(t *testing.T) {
	t.Parallel()
	replica := func(gate string) versioned.Interface {
		t.Helper()
		url, stop, err := stack.Replica(t.Context(), "--feature-gates="+gate)
		t.Cleanup(stop)
		if err != nil {
			t.Fatal(err)
		}
		return stack.ClientAt(t, "admin-direct", url)
	}
	on, off := replica("ConditionalImpersonation=true"), replica("ConditionalImpersonation=false")
	for i, spec := range impersonationPolicies() {
		policy := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("e2e-impersonation-%d", i)}, Spec: spec}
		if _, err := on.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = on.PolicyV1alpha1().ClusterAuthorizationPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
		})
	}
	ask := func(client versioned.Interface, user authenticationv1.UserInfo, verb, resource string) (authorizationv1alpha1.ImpersonationReviewStatus, error) {
		review, err := client.AuthorizationV1alpha1().ImpersonationReviews().Create(t.Context(), &authorizationv1alpha1.ImpersonationReview{
			Spec: authorizationv1alpha1.ImpersonationReviewSpec{
				User: "e2e-deputy", Impersonate: user,
				ResourceAttributes:       &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: resource, Namespace: "demo"},
				ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return authorizationv1alpha1.ImpersonationReviewStatus{}, err
		}
		return review.Status, nil
	}
	bob, carol := authenticationv1.UserInfo{Username: "bob"}, authenticationv1.UserInfo{Username: "carol"}
	retry(t, func() error { // the last policy is in force, and so are those before it
		status, err := ask(on, carol, "create", "secrets")
		if err == nil && !status.Allowed {
			err = fmt.Errorf("not allowed yet: %+v", status)
		}
		return err
	})
	for _, tc := range []struct {
		name           string
		user           authenticationv1.UserInfo
		verb, resource string
		want           bool
	}{
		{"list pods as bob", bob, "list", "pods", true},
		{"create secrets as carol", carol, "create", "secrets", true},
		{"create secrets as bob", bob, "create", "secrets", false},
		{"list pods as carol", carol, "list", "pods", false},
		{"lucas together with the group", authenticationv1.UserInfo{Username: "lucas", Groups: []string{"ai-agent"}}, "get", "pods", true},
		{"lucas alone", authenticationv1.UserInfo{Username: "lucas"}, "get", "pods", false},
	} {
		status, err := ask(on, tc.user, tc.verb, tc.resource)
		if err != nil {
			t.Fatal(err)
		}
		if status.Allowed != tc.want || (status.Mode == authorizationv1alpha1.ImpersonationModeConditional) != tc.want || (status.Constraint == "constrainedimpersonate") != tc.want {
			t.Errorf("%s: got %+v, want allowed %v", tc.name, status, tc.want)
		}
		shown := false
		for _, check := range status.Checks {
			shown = shown || len(check.ConditionsChain) > 0
		}
		if !shown {
			t.Errorf("%s: no check shows the conditions that it depended on: %+v", tc.name, status.Checks)
		}
		status, err = ask(off, tc.user, tc.verb, tc.resource)
		if err != nil {
			t.Fatal(err)
		}
		if status.Allowed {
			t.Errorf("%s: got %+v with the gate off", tc.name, status)
		}
	}
}
