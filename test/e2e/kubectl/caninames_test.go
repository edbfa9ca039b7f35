/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// innerDoor lists resources that no other test of the package is about.
const innerDoor = `resources:
- resource: secrets
- {group: apps, resource: deployments}
- {group: apps, resource: deployments, subresource: scale}`

// TestKubectlCanINames asks about objects of any name, and compares the answers with what happens to requests: some pass, all or none. kube-apiserver's own
// review of a write on conditions never says yes.
func TestKubectlCanINames(t *testing.T) {
	applyForTest(t, plane.TestData(t, "names.yaml"))
	secrets, configMaps := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	machines := schema.GroupVersionResource{Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines"}
	admin, err := dynamic.NewForConfig(stack.ClientConfig(t, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	// passes makes a request in a dry run, and reports whether it is not forbidden.
	passes := func(t *testing.T, user, verb string, resource schema.GroupVersionResource, subresource, name string) bool {
		t.Helper()
		client, err := dynamic.NewForConfig(stack.ClientConfig(t, user))
		if err != nil {
			t.Fatal(err)
		}
		below := slices.DeleteFunc([]string{subresource}, func(s string) bool { return s == "" })
		object, err := admin.Resource(resource).Namespace("names").Get(t.Context(), name, metav1.GetOptions{}, below...)
		if err != nil {
			t.Fatal(err)
		}
		in := client.Resource(resource).Namespace("names")
		if verb == "patch" {
			text, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			_, err = in.Patch(t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, below...)
			return allowedBy(t, err)
		}
		return allowedBy(t, tried(t.Context(), in, verb, object))
	}
	poll.Holds(t, "writes pass on conditions", func() bool { return passes(t, "alice", "patch", secrets, "", "dev") })

	lists := map[string]string{}
	for _, user := range []string{"alice", "bob", "carol"} {
		out, errOut, code := plugin(t, user, "", "can-i", "--list", "-n", "names")
		if lists[user] = out; code != 0 || strings.Contains(errOut, "secrets") && user == "alice" {
			t.Errorf("%s: got %d %s", user, code, errOut)
		}
	}
	for _, tc := range []struct {
		user, verb  string
		resource    schema.GroupVersionResource
		subresource string
		// want is the exit code: 0 if all requests pass, 1 if none does, 3 if some do.
		want   int
		reason string
	}{
		{"alice", "update", secrets, "", 3, ""},
		{"alice", "patch", secrets, "", 3, ""},
		{"alice", "delete", secrets, "", 3, ""},
		{"alice", "patch", deployments, "", 3, ""},
		{"alice", "patch", deployments, "scale", 3, ""},
		{"alice", "patch", machines, "", 3, ""},
		{"alice", "delete", machines, "", 3, ""},
		{"alice", "patch", configMaps, "", 1, "kube-apiserver refuses it before any server evaluates them"},
		{"alice", "delete", deployments, "", 1, ""},
		{"bob", "patch", secrets, "", 0, ""},
		{"bob", "update", secrets, "", 1, "kube-apiserver refuses it before any server evaluates them"},
		{"bob", "delete", secrets, "", 1, ""},
		{"carol", "patch", secrets, "", 1, "the answer may show objects, which the user may not read"},
		{"admin", "patch", secrets, "", 0, ""},
	} {
		name := strings.TrimSuffix(tc.resource.GroupResource().String()+"/"+tc.subresource, "/")
		t.Run(fmt.Sprintf("%s %s %s", tc.user, tc.verb, name), func(t *testing.T) {
			dev, prod := passes(t, tc.user, tc.verb, tc.resource, tc.subresource, "dev"), passes(t, tc.user, tc.verb, tc.resource, tc.subresource, "prod")
			if want := map[int][2]bool{0: {true, true}, 1: {}, 3: {true, false}}[tc.want]; want != [2]bool{dev, prod} {
				t.Errorf("requests pass: %t %t, want %v", dev, prod, want)
			}
			out, errOut, code := plugin(t, tc.user, "", "can-i", tc.verb, tc.resource.GroupResource().String(), "-n", "names", "--subresource="+tc.subresource)
			if code != tc.want || !strings.Contains(out+errOut, tc.reason) {
				t.Errorf("got %d %s%s, want %d and %s", code, out, errOut, tc.want, tc.reason)
			}
			rules, changes, _ := strings.Cut(lists[tc.user], "\n\n")
			if got := listed(rules, changes, name, tc.verb); tc.user != "admin" && got != tc.want {
				t.Errorf("the list says %d, want %d: %s", got, tc.want, lists[tc.user])
			}
			attributes := &authorizationv1.ResourceAttributes{Verb: tc.verb, Group: tc.resource.Group, Version: tc.resource.Version, Resource: tc.resource.Resource, Subresource: tc.subresource, Namespace: "names"}
			kube, proviso := clients(t, tc.user)
			self, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}, metav1.CreateOptions{})
			if err != nil || self.Status.Allowed != (tc.want == 0 || tc.resource == machines) {
				t.Errorf("kube-apiserver says %+v, %v", self.Status, err)
			}
			review := &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: attributes, ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
			}}
			if review, err = proviso.AuthorizationProvisoV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || tc.want == 3 && len(review.Status.ConditionsChain) == 0 {
				t.Errorf("Proviso says %+v, %v", review.Status, err)
			}
			review.Spec.ConditionalAuthorization = nil
			if review, err = proviso.AuthorizationProvisoV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SelfSubjectAccessReview{Spec: review.Spec}, metav1.CreateOptions{}); err != nil || tc.want == 3 && (review.Status.Allowed || review.Status.Reason == "") {
				t.Errorf("without a mode Proviso says %+v, %v", review.Status, err)
			}
		})
	}
	t.Run("a policy for some names", func(t *testing.T) {
		out, errOut, code := plugin(t, "agent", "", "can-i", "delete", "secrets", "-n", "names")
		if code != 1 || !strings.Contains(out, "policy=names/by-name") || !strings.Contains(errOut, "Name the object") {
			t.Errorf("got %d %s%s", code, out, errOut)
		}
	})
}

// allowedBy reports whether a request was not forbidden. Other errors fail the test.
func allowedBy(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	return err == nil
}
