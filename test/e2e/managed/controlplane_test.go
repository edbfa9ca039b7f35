/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// kept denies everybody to delete a ConfigMap that has the label keep.
const kept = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: kept}
spec:
  effect: Deny
  rules: [{verbs: [delete], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: oldObject.metadata.?labels["keep"].hasValue()
`

// testControlPlane checks that barriers, their guard and kube-controller-manager stay out of each other's way: it writes their status, and deletes what
// the client's user may not.
func testControlPlane(t *testing.T, r *rig, client kubernetes.Interface, policies []*admissionregistrationv1.ValidatingAdmissionPolicy) {
	t.Helper()
	r.kubectl(t, kept, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Effective", "--timeout=1m", "clusterauthorizationpolicy/kept")
	maps := client.CoreV1().ConfigMaps("controlled")
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "controlled"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		created, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"keep": ""}, OwnerReferences: owners}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	owner, err := client.CoreV1().Secrets("controlled").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create("stays")
	create("owned", metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID})
	for _, name := range []string{"stays", "owned"} {
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "kept.cluster.policy.proviso.dev") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := client.CoreV1().Secrets("controlled").Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	isGone := func(err error) string {
		if !apierrors.IsNotFound(err) {
			return "it is there: " + errorText(err)
		}
		return ""
	}
	poll.Eventually(t, "the garbage collector deletes what the owner had", func() string {
		_, err := maps.Get(t.Context(), "owned", metav1.GetOptions{})
		return isGone(err)
	})
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "controlled", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "the namespace is deleted with its content", func() string {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "controlled", metav1.GetOptions{})
		return isGone(err)
	})
	// kube-controller-manager checks the types of admission policies and writes what it found, which Proviso must not take for tampering.
	for i, before := range policies {
		poll.Eventually(t, "the status of "+before.Name+" is written", func() string {
			policy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), before.Name, metav1.GetOptions{})
			switch {
			case err != nil:
				return err.Error()
			case policy.Generation != before.Generation:
				t.Errorf("%s: generation %d, was %d", before.Name, policy.Generation, before.Generation)
			case policy.Status.ObservedGeneration != policy.Generation || policy.Status.TypeChecking == nil:
				return "no status"
			case len(policy.Status.TypeChecking.ExpressionWarnings) > 0:
				t.Errorf("%s: warnings %v", before.Name, policy.Status.TypeChecking.ExpressionWarnings)
			}
			return isRestored(t, client, i, before, bindingOf(t, client, before.Name))
		})
	}
}

func bindingOf(t *testing.T, client kubernetes.Interface, name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	binding, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return binding
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}
