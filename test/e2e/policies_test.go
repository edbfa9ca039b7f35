/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// volumes is the policy of the documentation, for a user of this test's own.
const volumes = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-dev-volumes}
spec:
  description: dana manages volumes of class dev only
  effect: Allow
  subjects:
  - {kind: User, name: dana}
  rules:
  - verbs: [create, update, delete]
    apiGroups: [""]
    apiVersions: [v1]
    resources: [persistentvolumeclaims]
  variables:
  - {name: subjectOf, expression: "operation == 'DELETE' ? oldObject : object"}
  condition: variables.subjectOf.spec.storageClassName == "dev"
`

// review asks as alice, through kube-apiserver, what a user may do with claims.
func review(t *testing.T, user, verb string, mode authorizationv1alpha1.ConditionsMode) authorizationv1alpha1.SubjectAccessReviewStatus {
	t.Helper()
	_, proviso := clients(t, "alice")
	answer, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated"},
			ResourceAttributes:       &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "persistentvolumeclaims", Namespace: "demo"},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: mode},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status
}

// conditionsReview asks about the creation of a claim.
func conditionsReview(sets []authorizationv1alpha1.SubjectAccessReviewConditionSet, class string) *authorizationv1alpha1.AuthorizationConditionsReview {
	claim := fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"storageClassName": %q}}`, class)
	return &authorizationv1alpha1.AuthorizationConditionsReview{Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
		ConditionSets: sets, Operation: "CREATE",
		Kind:      &metav1.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"},
		Resource:  &metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"},
		Namespace: "demo", UserInfo: &authenticationv1.UserInfo{Username: "dana"},
		Object: &runtime.RawExtension{Raw: []byte(claim)}, Options: &runtime.RawExtension{Raw: []byte(`{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}`)},
	}}
}

func applyPolicy(t *testing.T, name, manifest string) {
	t.Helper()
	if _, errs, err := kubectlWithInput(t, "admin", manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	t.Cleanup(func() {
		_, _, _ = kubectl(t, "admin", "delete", "clusterauthorizationpolicy", name, "--ignore-not-found")
	})
	mustKubectl(t, "admin", "wait", "--for=condition=Ready", "clusterauthorizationpolicy/"+name)
}

// TestPolicyInReviews applies a policy and asks what follows from it.
func TestPolicyInReviews(t *testing.T) {
	t.Parallel()
	applyPolicy(t, "e2e-dev-volumes", volumes)
	condition := func(text string) []authorizationv1alpha1.SubjectAccessReviewConditionSet {
		return []authorizationv1alpha1.SubjectAccessReviewConditionSet{{
			AuthorizerName: "policy.proviso.dev",
			Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{{
				ID: "cluster.policy.proviso.dev/e2e-dev-volumes", Effect: "Allow", Type: "k8s.io/authorization-cel",
				Condition: text, Description: "dana manages volumes of class dev only",
			}},
		}}
	}
	for _, tc := range []struct {
		name, user, verb string
		mode             authorizationv1alpha1.ConditionsMode
		want             []authorizationv1alpha1.SubjectAccessReviewConditionSet
		wantReason       string
	}{
		{name: "a create", user: "dana", verb: "create", mode: "HumanReadable", want: condition(`object.spec.storageClassName == "dev"`)},
		{name: "a delete", user: "dana", verb: "delete", mode: "HumanReadable", want: condition(`oldObject.spec.storageClassName == "dev"`)},
		{name: "an update, which may create", user: "dana", verb: "update", mode: "HumanReadable",
			want: condition(`(operation == "DELETE" ? oldObject : object).spec.storageClassName == "dev"`)},
		{name: "optimized, for a caller who may not read the policy", user: "dana", verb: "create", mode: "Optimized", want: condition(`object.spec.storageClassName == "dev"`)},
		{name: "without conditions", user: "dana", verb: "create", wantReason: "the decision depends on conditions, which cannot be evaluated or shown here"},
		{name: "another verb", user: "dana", verb: "patch", mode: "HumanReadable"},
		{name: "somebody else", user: "bob", verb: "create", mode: "HumanReadable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := review(t, tc.user, tc.verb, tc.mode)
			if diff := cmp.Diff(tc.want, got.ConditionsChain); diff != "" || got.Allowed || got.Denied || !strings.Contains(got.Reason, tc.wantReason) {
				t.Errorf("allowed %v, denied %v, reason %q; conditions (-want +got):\n%s", got.Allowed, got.Denied, got.Reason, diff)
			}
		})
	}
	t.Run("evaluated", func(t *testing.T) {
		t.Parallel()
		_, proviso := clients(t, "alice")
		sets := review(t, "dana", "create", "HumanReadable").ConditionsChain
		for class, want := range map[string]bool{"dev": true, "prod": false} {
			answer, err := proviso.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), conditionsReview(sets, class), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Response.Allowed != want {
				t.Errorf("class %s: got %+v, want allowed %v", class, answer.Response, want)
			}
		}
	})
}

// TestPolicyDecidesRequests denies a request that RBAC allows, at once and not for others.
func TestPolicyDecidesRequests(t *testing.T) {
	t.Parallel()
	applyPolicy(t, "e2e-no-console", `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-no-console}
spec:
  description: nobody touches vm "guarded"
  effect: Deny
  rules:
  - {verbs: [delete, get], apiGroups: [demo.proviso.dev], resources: [virtualmachines], resourceNames: [guarded]}
`)
	_, errs, err := kubectl(t, "bob", "get", "virtualmachine", "guarded", "--namespace", "demo")
	if err == nil || !strings.Contains(errs, `policy=e2e-no-console reason=Denied: nobody touches vm "guarded"`) {
		t.Errorf("got %v: %s\nwant a refusal that names the policy", err, errs)
	}
	if _, errs, _ := kubectl(t, "bob", "get", "virtualmachine", "other", "--namespace", "demo"); !strings.Contains(errs, "NotFound") {
		t.Errorf("another machine: got %s, want that it is not found", errs)
	}
}

// TestPolicyAuthors writes policies as somebody who may, by RBAC, but has less than they
// grant.
func TestPolicyAuthors(t *testing.T) {
	t.Parallel()
	const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-policy-author}
rules:
- {apiGroups: [policy.proviso.dev], resources: [clusterauthorizationpolicies], verbs: [create, update, patch, delete, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-policy-author}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-policy-author}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]
`
	if _, errs, err := kubectlWithInput(t, "admin", rights, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	t.Cleanup(func() {
		_, _, _ = kubectl(t, "admin", "delete", "clusterrolebinding/e2e-policy-author", "clusterrole/e2e-policy-author")
	})
	write := func(name, effect string) error {
		manifest := fmt.Sprintf(`
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: %s}
spec:
  effect: %s
  subjects: [{kind: User, name: nobody}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [persistentvolumeclaims]}]
`, name, effect)
		_, errs, err := kubectlWithInput(t, "agent", manifest, "create", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	}
	for _, tc := range []struct{ name, effect, want string }{
		{"e2e-author-allow", "Allow", "attempting to grant permissions not currently held"},
		{"e2e-author-deny", "Deny", "restrict"},
	} {
		t.Run(tc.effect, func(t *testing.T) {
			t.Parallel()
			if err := write(tc.name, tc.effect); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "Forbidden") {
				t.Errorf("got %v, want a refusal that says %q", err, tc.want)
			}
		})
	}
	t.Run("deletion of a Deny", func(t *testing.T) {
		t.Parallel()
		applyPolicy(t, "e2e-author-kept", `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-author-kept}
spec:
  effect: Deny
  subjects: [{kind: User, name: nobody}]
  rules: [{verbs: [create], apiGroups: [""], resources: [secrets]}]
`)
		_, errs, err := kubectl(t, "agent", "delete", "clusterauthorizationpolicy", "e2e-author-kept")
		if err == nil || !strings.Contains(errs, "restrict") {
			t.Errorf("got %v: %s, want a refusal that names restrict", err, errs)
		}
	})
}

// TestBadPolicies are refused, and say why.
func TestBadPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, spec, want string }{
		{"e2e-bad-syntax", `condition: "object.a =="`, "spec.condition: Invalid value"},
		{"e2e-bad-type", `condition: "1 + 1"`, "must yield bool"},
		{"e2e-bad-variable", `condition: "variables.b"`, "variables.b"},
		{"e2e-bad-cycle", `{variables: [{name: a, expression: variables.b}, {name: b, expression: variables.a}], condition: variables.a}`, "spec.variables[0].expression"},
		{"e2e-bad-twice", `{variables: [{name: a, expression: "true"}, {name: a, expression: "true"}], condition: variables.a}`, `spec.variables[1].name: Duplicate value: "a"`},
		{"e2e-bad-field", `conditoin: "true"`, `unknown field "spec.conditoin"`},
		{"e2e-" + strings.Repeat("x", 60), `condition: "true"`, "63"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			t.Parallel()
			spec := strings.TrimSuffix(strings.TrimPrefix(tc.spec, "{"), "}")
			manifest := fmt.Sprintf(`{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: %s},
  spec: {effect: Allow, subjects: [{kind: User, name: nobody}], rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [pods]}], %s}}`, tc.name, spec)
			_, errs, err := kubectlWithInput(t, "admin", manifest, "create", "-f", "-")
			if err == nil || !strings.Contains(errs, tc.want) {
				t.Errorf("got %v: %s\nwant %s", err, errs, tc.want)
			}
			_, errs, err = kubectl(t, "admin", "get", "clusterauthorizationpolicy", tc.name)
			if err == nil || !strings.Contains(errs, "NotFound") {
				t.Errorf("afterwards: got %v: %s, want that nothing is there", err, errs)
			}
		})
	}
}

// TestPolicyIsWithdrawn deletes a policy, and nothing of it is left.
func TestPolicyIsWithdrawn(t *testing.T) {
	t.Parallel()
	withdrawn := strings.NewReplacer("e2e-dev-volumes", "e2e-withdrawn", "dana", "erin").Replace(volumes)
	applyPolicy(t, "e2e-withdrawn", withdrawn)
	if len(review(t, "erin", "create", "HumanReadable").ConditionsChain) != 1 {
		t.Error("the policy is not in force")
	}
	mustKubectl(t, "admin", "delete", "clusterauthorizationpolicy", "e2e-withdrawn")
	poll.Holds(t, "the policy is gone", func() bool { return len(review(t, "erin", "create", "HumanReadable").ConditionsChain) == 0 })
}
