/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"cmp"
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

// nameRow is a row of can-i-names.yaml.
type nameRow struct {
	User, Verb, Group, Version, Resource, Subresource string
	Want                                              int
	Reason                                            string
}

func (r *nameRow) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: cmp.Or(r.Version, "v1"), Resource: r.Resource}
}

// TestKubectlCanINames asks about objects of any name, and compares the answers with what happens to requests: some pass, all or none. kube-apiserver's own
// review of a write on conditions never says yes.
func TestKubectlCanINames(t *testing.T) {
	applyForTest(t, plane.TestData(t, "names.yaml"))
	var rows []nameRow
	plane.ReadYAML(t, "can-i-names.yaml", &rows)
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
	poll.Holds(t, "writes pass on conditions", func() bool { return passes(t, "alice", "patch", rows[0].gvr(), "", "dev") })
	poll.Holds(t, "every kube-apiserver is known to call the inner door", func() bool {
		_, errOut, _ := plugin(t, "alice", "", "can-i", "--list", "-n", "names")
		return !strings.Contains(errOut, "known to call the inner door")
	})

	lists := map[string]string{}
	for _, user := range []string{"alice", "bob", "carol"} {
		out, errOut, code := plugin(t, user, "", "can-i", "--list", "-n", "names")
		if lists[user] = out; code != 0 || strings.Contains(errOut, "secrets") && user == "alice" {
			t.Errorf("%s: got %d %s", user, code, errOut)
		}
	}
	for _, tc := range rows {
		resource := tc.gvr()
		name := strings.TrimSuffix(resource.GroupResource().String()+"/"+tc.Subresource, "/")
		t.Run(fmt.Sprintf("%s %s %s", tc.User, tc.Verb, name), func(t *testing.T) {
			dev, prod := passes(t, tc.User, tc.Verb, resource, tc.Subresource, "dev"), passes(t, tc.User, tc.Verb, resource, tc.Subresource, "prod")
			if want := map[int][2]bool{0: {true, true}, 1: {}, 3: {true, false}}[tc.Want]; want != [2]bool{dev, prod} {
				t.Errorf("requests pass: %t %t, want %v", dev, prod, want)
			}
			out, errOut, code := plugin(t, tc.User, "", "can-i", tc.Verb, resource.GroupResource().String(), "-n", "names", "--subresource="+tc.Subresource)
			if code != tc.Want || !strings.Contains(out+errOut, tc.Reason) {
				t.Errorf("got %d %s%s, want %d and %s", code, out, errOut, tc.Want, tc.Reason)
			}
			rules, changes, _ := strings.Cut(lists[tc.User], "\n\n")
			if got := listed(rules, changes, name, tc.Verb); tc.User != "admin" && got != tc.Want {
				t.Errorf("the list says %d, want %d: %s", got, tc.Want, lists[tc.User])
			}
			attributes := &authorizationv1.ResourceAttributes{Verb: tc.Verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Subresource: tc.Subresource, Namespace: "names"}
			kube, proviso := clients(t, tc.User)
			self, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}, metav1.CreateOptions{})
			if err != nil || self.Status.Allowed != (tc.Want == 0 || resource.Group == "demo.proviso.dev") {
				t.Errorf("kube-apiserver says %+v, %v", self.Status, err)
			}
			review := &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: attributes, ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
			}}
			if review, err = proviso.AuthorizationProvisoV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || tc.Want == 3 && len(review.Status.ConditionsChain) == 0 {
				t.Errorf("Proviso says %+v, %v", review.Status, err)
			}
			review.Spec.ConditionalAuthorization = nil
			if review, err = proviso.AuthorizationProvisoV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SelfSubjectAccessReview{Spec: review.Spec}, metav1.CreateOptions{}); err != nil || tc.Want == 3 && (review.Status.Allowed || review.Status.Reason == "") {
				t.Errorf("without a mode Proviso says %+v, %v", review.Status, err)
			}
		})
	}
	t.Run("a policy for some names", func(t *testing.T) {
		out, errOut, code := plugin(t, "agent", "", "can-i", "delete", "secrets", "-n", "names")
		if code != 3 || !strings.Contains(out, "names/by-name") || !strings.Contains(errOut, "name the object") {
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
