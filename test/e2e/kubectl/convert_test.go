/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestKubectlConvert replaces bindings by their policies: kube-apiserver must answer as before.
func TestKubectlConvert(t *testing.T) {
	bindings := plane.TestData(t, "convert-bindings.yaml")
	rbac := plane.TestData(t, "convert.yaml") + "---\n" + bindings
	applyForTest(t, rbac)
	time.Sleep(time.Second) // until the authorizer of kube-apiserver has the roles
	before := convertAnswers(t)
	golden.Compare(t, filepath.Join("testdata", "convert.golden.txt"), transcript(t, "convert"))

	policies, errOut, code := plugin(t, "admin", rbac, "convert", "rbac", "-f", "-")
	if code != 0 {
		t.Fatalf("%d: %s", code, errOut)
	}
	remove(t, bindings)
	awaitAnswers(t, func(now map[string]bool) bool { return !slices.Contains(slices.Collect(maps.Values(now)), true) })
	applyForTest(t, policies)
	awaitAnswers(t, func(now map[string]bool) bool { return maps.Equal(before, now) })
	count := 0
	for _, allowed := range before {
		if allowed {
			count++
		}
	}
	if count < 5 || count > len(before)-5 {
		t.Errorf("%d of %d questions are allowed", count, len(before))
	}
}

// awaitAnswers waits until the answers of kube-apiserver are as they should be. It may reuse earlier ones for some seconds.
func awaitAnswers(t *testing.T, wanted func(map[string]bool) bool) {
	t.Helper()
	var last map[string]bool
	if !poll.Until(t.Context(), 40*time.Second, func() bool { last = convertAnswers(t); return wanted(last) }) {
		t.Fatalf("got %v", last)
	}
}

// convertAnswers returns the answers of kube-apiserver.
func convertAnswers(t *testing.T) map[string]bool {
	t.Helper()
	kube, _ := clients(t, "admin")
	answers := map[string]bool{}
	ask := func(name string, spec authorizationv1.SubjectAccessReviewSpec) {
		for user, groups := range map[string][]string{
			"member": {"convert-editors", "system:authenticated"}, "convert-scaler": {"system:authenticated"},
			"system:serviceaccount:convert:robot": {"system:serviceaccounts", "system:serviceaccounts:convert", "system:authenticated"},
		} {
			spec.User, spec.Groups = user, groups
			review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			answers[user+" "+name] = review.Status.Allowed
		}
	}
	for _, namespace := range []string{"convert", "demo", ""} {
		for _, request := range []string{"get /configmaps/", "create /configmaps/", "delete /configmaps/a", "get /secrets/a", "get /secrets/b", "list /secrets/", "patch apps/deployments/a/scale", "patch apps/deployments/a"} {
			verb, resource, _ := strings.Cut(request, " ")
			parts := append(strings.Split(resource, "/"), "")
			ask(namespace+": "+request, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: parts[0], Version: "v1", Resource: parts[1], Name: parts[2], Subresource: parts[3],
			}})
		}
	}
	for _, path := range []string{"/convert/a", "/convert", "/other"} {
		ask(path, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: path}})
	}
	return answers
}
