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
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// gatesPolicies let carol write machines of class dev and look at all, and keep bob, who may
// do everything by RBAC, from machines of class locked.
func gatesPolicies() []*policyv1alpha1.ClusterAuthorizationPolicy {
	machines := func(verbs ...string) []policyv1alpha1.PolicyRule {
		return []policyv1alpha1.PolicyRule{{Verbs: verbs, APIGroups: []string{"demo.proviso.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"virtualmachines"}}}
	}
	user := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", Name: name}}
	}
	return []*policyv1alpha1.ClusterAuthorizationPolicy{
		{ObjectMeta: metav1.ObjectMeta{Name: "e2e-gates-look"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Subjects: user("carol"), Rules: machines("get"),
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "e2e-gates-dev"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Subjects: user("carol"), Rules: machines("create", "patch", "delete"),
			Condition: `(object == null || object.spec.storageClassName == "dev") && (oldObject == null || oldObject.spec.storageClassName == "dev")`,
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "e2e-gates-locked"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectDeny, Subjects: user("bob"), Rules: machines("create"),
			// Other tests share the store.
			Condition: `has(object.spec.storageClassName) && object.spec.storageClassName == "locked"`,
		}},
	}
}

// TestFeatureGates runs two replicas on one store, of which one has the feature gate
// ConditionalAuthorization off, and one that had it off and has it on again.
func TestFeatureGates(t *testing.T) {
	t.Parallel()
	replica := func(args ...string) string {
		url, stop, err := stack.Replica(t.Context(), args...)
		t.Cleanup(stop)
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	client := func(user, url string) versioned.Interface {
		return stack.ClientAt(t, user+"-direct", url)
	}
	on, off := replica(), replica("--feature-gates=ConditionalAuthorization=false")
	admin := client("admin", on)
	for _, p := range gatesPolicies() {
		if _, err := admin.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = admin.PolicyV1alpha1().ClusterAuthorizationPolicies().Delete(context.Background(), p.Name, metav1.DeleteOptions{})
		})
	}
	before := map[string]string{}
	for _, p := range gatesPolicies() {
		before[p.Name] = writtenOf(t, admin, p.Name)
	}
	again := replica() // as if the one without the gate had been restarted with it
	attempt := func(url, user, name string, do func(versioned.Interface) error) string {
		switch err := do(client(user, url)); {
		case err == nil:
			return "allowed"
		case apierrors.IsForbidden(err):
			return "forbidden"
		default:
			t.Errorf("%s: %v", name, err)
			return "failed"
		}
	}
	create := func(name, class string) func(versioned.Interface) error {
		return func(c versioned.Interface) error {
			vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian", StorageClassName: class}}
			_, err := c.DemoV1alpha1().VirtualMachines("demo").Create(t.Context(), vm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	if err := makeMachine(t, admin, "e2e-gates-dev", "dev"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, user      string
		do              func(versioned.Interface) error
		wantOn, wantOff string
	}{
		{"an unconditional Allow", "carol", func(c versioned.Interface) error {
			_, err := c.DemoV1alpha1().VirtualMachines("demo").Get(t.Context(), "e2e-gates-dev", metav1.GetOptions{})
			return err
		}, "allowed", "allowed"},
		{"no Allow", "carol", func(c versioned.Interface) error {
			_, err := c.DemoV1alpha1().VirtualMachines("demo").List(t.Context(), metav1.ListOptions{})
			return err
		}, "forbidden", "forbidden"},
		{"an Allow whose condition holds", "carol", create("e2e-gates-1", "dev"), "allowed", "forbidden"},
		{"an Allow whose condition does not", "carol", create("e2e-gates-2", "prod"), "forbidden", "forbidden"},
		{"a patch", "carol", func(c versioned.Interface) error {
			_, err := c.DemoV1alpha1().VirtualMachines("demo").Patch(t.Context(), "e2e-gates-dev", types.MergePatchType, []byte(`{"spec":{"image":"other"}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, "allowed", "forbidden"},
		{"a Deny whose condition holds", "bob", create("e2e-gates-3", "locked"), "forbidden", "forbidden"},
		{"a Deny whose condition does not", "bob", create("e2e-gates-4", "dev"), "allowed", "forbidden"},
	} {
		for url, want := range map[string]string{on: tc.wantOn, off: tc.wantOff, again: tc.wantOn} {
			if got := settled(t, want, func() string { return attempt(url, tc.user, tc.name, tc.do) }); got != want {
				t.Errorf("%s, %s: got %s, want %s", tc.name, map[string]string{on: "on", off: "off", again: "on again"}[url], got, want)
			}
		}
	}
	for url, want := range map[string]bool{on: true, off: false, again: true} {
		status := reviewOn(t, client("alice", url))
		if got := len(status.ConditionsChain) > 0; got != want || status.Allowed || status.Denied || (!want && !strings.Contains(status.Reason, "the decision depends on conditions")) {
			t.Errorf("review: got %+v, want conditions %v", status, want)
		}
	}
	for name, want := range before {
		if got := writtenOf(t, admin, name); got != want {
			t.Errorf("policy %s: its specification was written: %s, before %s", name, got, want)
		}
	}
}

// settled tries until the policies have arrived at a replica.
func settled(t *testing.T, want string, attempt func() string) (got string) {
	t.Helper()
	poll.Until(t.Context(), 10*time.Second, func() bool {
		got = attempt()
		return got == want
	})
	return got
}

func makeMachine(t *testing.T, admin versioned.Interface, name, class string) error {
	t.Helper()
	vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian", StorageClassName: class}}
	_, err := admin.DemoV1alpha1().VirtualMachines("demo").Create(t.Context(), vm, metav1.CreateOptions{})
	t.Cleanup(func() {
		_ = admin.DemoV1alpha1().VirtualMachines("demo").Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return err
}

// writtenOf says how often the specification of a policy was written.
func writtenOf(t *testing.T, admin versioned.Interface, name string) string {
	t.Helper()
	p, err := admin.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, %d times", p.UID, p.Generation)
}

func reviewOn(t *testing.T, alice versioned.Interface) authorizationv1alpha1.SubjectAccessReviewStatus {
	t.Helper()
	answer, err := alice.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: "carol",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "create", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo",
			},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status
}
