/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	clientpolicyv1alpha1 "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// apply runs kubectl apply against the server itself, as the admin.
func (s *separate) apply(t *testing.T, manifest string) {
	t.Helper()
	cert, key := stack.UserCertificate("admin")
	cmd := exec.CommandContext(t.Context(), filepath.Join(stack.Bin, "kubectl"), "--server="+s.URL(), "--certificate-authority="+stack.CAFile(),
		"--client-certificate="+cert, "--client-key="+key, "--cache-dir="+t.TempDir(), "apply", "-f", "-")
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(manifest), &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, &output)
	}
}

// workedExample are the policies of KEP-5681, "What is partial evaluation?". They match every
// request of everybody, for which a server of their own is best.
const workedExample = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: one}
spec:
  effect: Allow
  subjects: [{kind: Group, name: "system:authenticated"}]
  rules: [{verbs: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
  condition: request.apiGroup == "" && request.userInfo.username == "bob"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: two}
spec:
  effect: Allow
  subjects: [{kind: Group, name: "system:authenticated"}]
  rules: [{verbs: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
  condition: |
    request.apiGroup == ""
    && request.resource == "persistentvolumeclaims"
    && request.verb == "create"
    && request.userInfo.username == "alice"
    && object.spec.storageClassName == "dev"
`

// TestWorkedExample asks what the KEP's worked example asks, of a real server.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	s := newSeparate(t, "example")
	s.apply(t, workedExample)
	for _, name := range []string{"one", "two"} {
		poll.Holds(t, name+" is in force", func() bool { return s.ready(t, name).Status == metav1.ConditionTrue })
	}
	chain := []authorizationv1alpha1.SubjectAccessReviewConditionSet{{
		AuthorizerName: "policy.proviso.dev",
		Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{{
			ID: "cluster.policy.proviso.dev/two", Effect: "Allow", Type: "k8s.io/authorization-cel", Condition: `object.spec.storageClassName == "dev"`,
		}},
	}}
	for _, tc := range []struct {
		name, user  string
		mode        authorizationv1alpha1.ConditionsMode
		wantAllowed bool
		wantChain   []authorizationv1alpha1.SubjectAccessReviewConditionSet
	}{
		{name: "alice, on a condition", user: "alice", mode: "HumanReadable", wantChain: chain},
		{name: "bob, always", user: "bob", mode: "HumanReadable", wantAllowed: true},
		{name: "eve, never", user: "eve", mode: "HumanReadable"},
		{name: "alice, for who does not know of conditions", user: "alice"},
		{name: "bob, for who does not know of conditions", user: "bob", wantAllowed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer, err := s.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
				Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
					User: tc.user, Groups: []string{"system:authenticated"},
					ResourceAttributes:       &authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "persistentvolumeclaims", Namespace: "demo"},
					ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: tc.mode},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantChain, answer.Status.ConditionsChain); diff != "" || answer.Status.Allowed != tc.wantAllowed || answer.Status.Denied {
				t.Errorf("got %+v, want allowed %v; conditions (-want +got):\n%s", answer.Status, tc.wantAllowed, diff)
			}
		})
	}
}

// weakenRights lets carol write policies like any other resource, but not restrict.
const weakenRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-weaken}
rules:
- {apiGroups: [policy.proviso.dev], resources: [clusterauthorizationpolicies], verbs: [create, update, patch, delete, deletecollection, get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-weaken}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-weaken}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
`

// restriction is a Deny policy for server-side apply, with more in its specification.
func restriction(more string) []byte {
	return []byte(`{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy", "metadata": {"name": "guard"}, "spec": {
  "effect": "Deny", "subjects": [
    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dana"}, {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "erin"}],
  "rules": [{"verbs": ["get", "list"], "apiGroups": ["faults.example.com"], "apiVersions": ["v1"], "resources": ["secrets", "keys"]}]` + more + `}}`)
}

// TestWeakeningADeny tries every way to make less of a Deny policy, without the permission
// to restrict.
func TestWeakeningADeny(t *testing.T) {
	t.Parallel()
	if _, errs, err := kubectlWithInput(t, "admin", weakenRights, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	t.Cleanup(func() {
		_, _, _ = kubectl(t, "admin", "delete", "clusterrolebinding/e2e-weaken", "clusterrole/e2e-weaken")
	})
	s := newSeparate(t, "weaken")
	carol, err := versioned.NewForConfig(s.Client("carol"))
	if err != nil {
		t.Fatal(err)
	}
	admins, carols := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies(), carol.PolicyV1alpha1().ClusterAuthorizationPolicies()
	force := true
	as := func(manager string) metav1.PatchOptions { return metav1.PatchOptions{FieldManager: manager} }
	forced := func(manager string) metav1.PatchOptions {
		return metav1.PatchOptions{FieldManager: manager, Force: &force}
	}
	if _, err := admins.Patch(t.Context(), "guard", types.ApplyPatchType, restriction(`, "condition": "request.verb == \"get\""`), as("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := admins.Patch(t.Context(), "guard", types.ApplyPatchType, restriction(`, "description": "two"`), as("two")); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "it is in force", func() bool {
		ready := s.ready(t, "guard")
		return ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == 2
	})
	// Whoever may write, may write what restricts nobody: it is not RBAC that refuses.
	poll.Holds(t, "carol may write", func() bool {
		_, err := carols.Patch(t.Context(), "guard", types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`), metav1.PatchOptions{})
		return err == nil
	})
	stored, err := admins.Get(t.Context(), "guard", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	type policies = clientpolicyv1alpha1.ClusterAuthorizationPolicyInterface
	update := func(change func(*policyv1alpha1.AuthorizationPolicySpec)) func(context.Context, policies) error {
		return func(ctx context.Context, client policies) error {
			p := stored.DeepCopy()
			change(&p.Spec)
			_, err := client.Update(ctx, p, metav1.UpdateOptions{})
			return err
		}
	}
	patch := func(kind types.PatchType, body []byte, options metav1.PatchOptions) func(context.Context, policies) error {
		return func(ctx context.Context, client policies) error {
			_, err := client.Patch(ctx, "guard", kind, body, options)
			return err
		}
	}
	for _, tc := range []struct {
		name string
		do   func(context.Context, policies) error
	}{
		{"update of the condition", update(func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Condition = "false" })},
		{"update of the effect to Allow", update(func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Effect = "Allow" })},
		{"update of the effect to NoOpinion", update(func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Effect = "NoOpinion" })},
		{"update to fewer subjects", update(func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Subjects = s.Subjects[1:] })},
		{"update to fewer resources", update(func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Rules[0].Resources = s.Rules[0].Resources[1:] })},
		{"update to fewer verbs", update(func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Rules[0].Verbs = s.Rules[0].Verbs[1:] })},
		{"JSON patch", patch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/condition", "value": "false"}]`), metav1.PatchOptions{})},
		{"JSON patch of a list", patch(types.JSONPatchType, []byte(`[{"op": "remove", "path": "/spec/subjects/0"}]`), metav1.PatchOptions{})},
		{"merge patch", patch(types.MergePatchType, []byte(`{"spec": {"condition": "false"}}`), metav1.PatchOptions{})},
		{"merge patch of the effect", patch(types.MergePatchType, []byte(`{"spec": {"effect": "Allow"}}`), metav1.PatchOptions{})},
		{"apply by force", patch(types.ApplyPatchType, restriction(`, "condition": "false"`), forced("carol"))},
		{"apply as the manager who owns the condition", patch(types.ApplyPatchType, restriction(`, "condition": "false"`), as("one"))},
		{"apply without the condition, as its manager", patch(types.ApplyPatchType, restriction(""), as("one"))},
		{"apply without the description, as its manager", patch(types.ApplyPatchType, restriction(""), as("two"))},
		{"delete", func(ctx context.Context, client policies) error {
			return client.Delete(ctx, "guard", metav1.DeleteOptions{})
		}},
		{"delete collection", func(ctx context.Context, client policies) error {
			return client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.do(t.Context(), carols); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the verb restrict on") {
				t.Errorf("got %v, want 403 that names restrict", err)
			}
			got, err := admins.Get(t.Context(), "guard", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored, got); diff != "" {
				t.Errorf("it was stored (-before +after):\n%s", diff)
			}
		})
	}
	// Two managers of one policy: neither takes from the other without force.
	if _, err := admins.Patch(t.Context(), "guard", types.ApplyPatchType, restriction(`, "condition": "false"`), as("two")); !apierrors.IsConflict(err) {
		t.Errorf("apply over another manager: got %v, want 409", err)
	}
	got, err := admins.Patch(t.Context(), "guard", types.ApplyPatchType, restriction(""), as("two"))
	if err != nil || got.Spec.Description != "" || got.Spec.Condition != stored.Spec.Condition || len(got.Spec.Subjects) != 2 {
		t.Errorf("apply without the manager's own field: got %+v, %v, want only that field to be gone", got.Spec, err)
	}
	if err := admins.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("as who may: %v", err)
	}
}
