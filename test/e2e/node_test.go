/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

const nodeOne = "system:node:e2e-one"

// TestNodeAuthorizer makes requests as a node, whose conditions are opaque to everybody
// but the authorizer that made them.
func TestNodeAuthorizer(t *testing.T) {
	t.Parallel()
	as := config(t, "admin-direct")
	as.Impersonate = rest.ImpersonationConfig{UserName: nodeOne, Groups: []string{"system:nodes"}}
	client, err := versioned.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	machines := client.DemoV1alpha1().VirtualMachines("demo")
	machine := func(name, node string) *demov1alpha1.VirtualMachine {
		return &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian", NodeName: node}}
	}
	if _, err := machines.Create(t.Context(), machine("e2e-node-own", "e2e-one"), metav1.CreateOptions{}); err != nil {
		t.Errorf("its own: %v", err)
	}
	_, err = machines.Create(t.Context(), machine("e2e-node-other", "e2e-two"), metav1.CreateOptions{})
	wantNodeRefusal(t, "another node's", err)
	_, err = machines.Patch(t.Context(), "e2e-node-own", types.MergePatchType, []byte(`{"spec":{"nodeName":"e2e-two"}}`), metav1.PatchOptions{})
	wantNodeRefusal(t, "giving its own away", err)
	if _, err := machines.Patch(t.Context(), "e2e-node-own", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("changing its own: %v", err)
	}
	if err := machines.Delete(t.Context(), "e2e-node-own", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting its own: %v", err)
	}
}

func wantNodeRefusal(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "node e2e-one may write what is placed on it") {
		t.Errorf("%s: got %v, want 403 with the description of the condition", what, err)
	}
}

// TestNodeAuthorizerInReviews asks about pods, which kube-apiserver serves, and which its
// own node authorizer does not let nodes update.
func TestNodeAuthorizerInReviews(t *testing.T) {
	t.Parallel()
	_, proviso := clients(t, "alice")
	access, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: nodeOne, Groups: []string{"system:nodes"},
			ResourceAttributes:       &authorizationv1.ResourceAttributes{Verb: "update", Version: "v1", Resource: "pods", Namespace: "demo"},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(access.Status.ConditionsChain) != 1 {
		t.Fatalf("got %+v, want one set of conditions", access.Status)
	}
	for node, want := range map[string]bool{"e2e-one": true, "e2e-two": false} {
		answer, err := proviso.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{
			Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
				ConditionSets: access.Status.ConditionsChain, Operation: "UPDATE",
				Kind:      &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
				Resource:  &metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
				Namespace: "demo", UserInfo: &authenticationv1.UserInfo{Username: nodeOne},
				OldObject: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"e2e-one"}}`)},
				Object:    &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"` + node + `"}}`)},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Response.Allowed != want {
			t.Errorf("a pod on %s: got %+v, want allowed %v", node, answer.Response, want)
		}
	}
}
