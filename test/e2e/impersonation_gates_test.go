/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// TestImpersonationGates has somebody impersonate by a grant of each kind, on replicas with
// the feature gates on, off and on again (KEP-5284, "Are there any tests for feature
// enablement/disablement?").
func TestImpersonationGates(t *testing.T) {
	t.Parallel()
	const requester = "ig-requester"
	certFile, keyFile, err := stack.NewUser(requester)
	if err != nil {
		t.Fatal(err)
	}
	kube, _ := clients(t, "admin")
	grant := func(name string, rule rbacv1.PolicyRule, subject string) {
		t.Helper()
		meta := metav1.ObjectMeta{Name: name}
		if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: subject}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	machines := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"demo.proviso.dev"}, Resources: []string{"virtualmachines"}, Verbs: verbs}
	}
	user := func(group, name, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"users"}, ResourceNames: []string{name}, Verbs: []string{verb}}
	}
	targets := map[string]string{"legacy": "ig-legacy", "user-info": "ig-constrained", "conditional": "ig-conditional"}
	for _, name := range targets {
		grant("e2e-"+name, machines("list"), name)
	}
	grant("e2e-ig-as-legacy", user("", targets["legacy"], "impersonate"), requester)
	grant("e2e-ig-as-constrained", user("authentication.k8s.io", targets["user-info"], "impersonate:user-info"), requester)
	grant("e2e-ig-on-constrained", machines("impersonate-on:user-info:list"), requester)

	replica := func(gates string) (url string) {
		url, stop, err := stack.Replica(t.Context(), "--feature-gates="+gates)
		t.Cleanup(stop)
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	to := func(url string, c *rest.Config) versioned.Interface {
		t.Helper()
		c.Host, c.CAFile, c.QPS = url, stack.CAFile(), -1
		client, err := versioned.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	const both = "ConditionalImpersonation=true"
	on := replica(both)
	admin := to(on, config(t, "admin-direct"))
	policy := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "e2e-ig"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Subjects: []rbacv1.Subject{{Kind: "User", Name: requester}}, Condition: `impersonatedRequest.verb == "list"`,
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"constrainedimpersonate"}, APIGroups: []string{"authentication.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"users"}, ResourceNames: []string{targets["conditional"]}}},
	}}
	if _, err := admin.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.PolicyV1alpha1().ClusterAuthorizationPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	// attempt lists machines as a target, and asks whether that is possible.
	attempt := func(url, target string) (listed, reviewed bool, err error) {
		c := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: certFile, KeyFile: keyFile}, Impersonate: rest.ImpersonationConfig{UserName: target}}
		_, err = to(url, c).DemoV1alpha1().VirtualMachines("demo").List(t.Context(), metav1.ListOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			return false, false, err
		}
		review, reviewErr := to(url, config(t, "admin-direct")).AuthorizationV1alpha1().ImpersonationReviews().Create(t.Context(), &authorizationv1alpha1.ImpersonationReview{
			Spec: authorizationv1alpha1.ImpersonationReviewSpec{
				User: requester, Groups: []string{"system:authenticated"}, Impersonate: authenticationv1.UserInfo{Username: target},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"},
			},
		}, metav1.CreateOptions{})
		if reviewErr != nil {
			return false, false, reviewErr
		}
		return err == nil, review.Status.Allowed, nil
	}
	for _, tc := range []struct {
		gates string
		want  map[string]bool
	}{
		{both, map[string]bool{"legacy": true, "user-info": true, "conditional": true}},
		{"ConditionalImpersonation=false", map[string]bool{"legacy": true, "user-info": true, "conditional": false}},
		{"ConditionalImpersonation=true,ConstrainedImpersonation=false", map[string]bool{"legacy": true, "user-info": false, "conditional": true}},
		{"ConditionalImpersonation=false,ConstrainedImpersonation=false", map[string]bool{"legacy": true, "user-info": false, "conditional": false}},
		{both, map[string]bool{"legacy": true, "user-info": true, "conditional": true}},
	} {
		url := replica(tc.gates)
		for mode, want := range tc.want {
			// What was just granted, or is not in the cache of policies yet, may take a moment;
			// a refusal must be one from the start.
			check := func() error {
				listed, reviewed, err := attempt(url, targets[mode])
				if err == nil && (listed != want || reviewed != want) {
					err = fmt.Errorf("with %s, a grant of the mode %s: listed %v, reviewed %v, want %v", tc.gates, mode, listed, reviewed, want)
				}
				return err
			}
			if want {
				retry(t, check)
			} else if err := check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPrivilegedImpersonation: what policies deny of impersonation does not bind the groups
// that are always allowed, also for a user whom only the legacy mode impersonates.
func TestPrivilegedImpersonation(t *testing.T) {
	t.Parallel()
	const target = "ip-root"
	url, stop, err := stack.Replica(t.Context(), "--feature-gates=ConditionalImpersonation=true")
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	to := func(c *rest.Config) versioned.Interface {
		t.Helper()
		c.Host, c.CAFile, c.QPS = url, stack.CAFile(), -1
		client, err := versioned.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	certFile, keyFile, err := stack.NewUser("ip-deputy")
	if err != nil {
		t.Fatal(err)
	}
	kube, _ := clients(t, "admin")
	meta := metav1.ObjectMeta{Name: "e2e-ip"}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users", "groups"}, Verbs: []string{"impersonate"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ip-deputy"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policies := to(config(t, "admin-direct")).PolicyV1alpha1().ClusterAuthorizationPolicies()
	if _, err := policies.Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: meta, Spec: policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectDeny,
		Rules:  []policyv1alpha1.PolicyRule{{Verbs: []string{"constrainedimpersonate"}, APIGroups: []string{"authentication.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"users"}, ResourceNames: []string{target}}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = policies.Delete(context.Background(), meta.Name, metav1.DeleteOptions{}) })

	as := func(c *rest.Config) error {
		c.Impersonate = rest.ImpersonationConfig{UserName: target, Groups: []string{"system:masters"}}
		_, err := to(c).DemoV1alpha1().VirtualMachines("demo").List(t.Context(), metav1.ListOptions{})
		return err
	}
	retry(t, func() error { // until the policy takes effect
		err := as(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: certFile, KeyFile: keyFile}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "constrainedimpersonate") {
			return fmt.Errorf("whoever has the legacy permission: got %w, want the policy to deny", err)
		}
		return nil
	})
	if err := as(config(t, "admin-direct")); err != nil {
		t.Errorf("a member of system:masters: %v", err)
	}
}
