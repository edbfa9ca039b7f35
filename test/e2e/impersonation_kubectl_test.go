/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

const impersonationPath = "/apis/authorization.k8s.io/v1alpha1/authorizationconditionsreviews/"

// TestImpersonationReviewByKubectl creates every example in each way that there is. The
// answers must be the same, also where the body leaves the user to the path.
func TestImpersonationReviewByKubectl(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(stack.Repository, "artifacts", "examples", "reviews", "impersonation-*.yaml"))
	must(t, err)
	tried := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.yaml") {
			continue
		}
		tried++
		for _, user := range []string{"alice", "alice-direct"} {
			t.Run(user+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				want := impersonationReviewOf(t, mustKubectl(t, user, "create", "-f", file, "-o", "json"))
				username := want.Spec.Impersonate.Username
				body := mustKubectl(t, user, "create", "-f", file, "--dry-run=client", "-o", "json")
				for _, way := range []struct{ name, path, body string }{
					{"the user in both", username, body},
					{"the user in the body", "-", body},
					{"the user in the path", username, withoutImpersonated(t, body)},
				} {
					out, errs, err := kubectlWithInput(t, user, way.body, "create", "--raw", impersonationPath+way.path+"/impersonation", "-f", "-")
					if err != nil {
						t.Fatalf("%s: %v: %s", way.name, err, errs)
					}
					got := impersonationReviewOf(t, out)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-create +raw):\n%s", way.name, diff)
					}
				}
			})
		}
	}
	if tried < 6 {
		t.Errorf("there are %d examples, want at least six", tried)
	}
}

// TestImpersonationReviewOfOneself: kubectl shows what a user may do themselves, as the
// server does it.
func TestImpersonationReviewOfOneself(t *testing.T) {
	t.Parallel()
	const review = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"ImpersonationReview","spec":{"impersonate":{"username":"alice"},
		"resourceAttributes":{"verb":"list","group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"demo"}}}`
	for _, user := range []string{"bob", "bob-direct"} {
		out, errs, err := kubectlWithInput(t, user, review, "create", "-f", "-", "-o", "json")
		if err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		status := impersonationReviewOf(t, out).Status
		if status.Mode != "legacy" || status.RequestDecision == nil || !status.RequestDecision.Allowed {
			t.Errorf("%s: got %+v", user, status)
		}
	}
	mustKubectl(t, "bob", "--as", "alice", "get", "virtualmachines", "--namespace", "demo")
}

func impersonationReviewOf(t *testing.T, content string) authorizationv1alpha1.ImpersonationReview {
	t.Helper()
	var review authorizationv1alpha1.ImpersonationReview
	if err := json.Unmarshal([]byte(content), &review); err != nil || review.Kind != "ImpersonationReview" {
		t.Fatalf("%v: %s", err, content)
	}
	review.ManagedFields = nil // kubectl hides them
	return review
}

// withoutImpersonated takes the name of the user to impersonate out of a review.
func withoutImpersonated(t *testing.T, body string) string {
	t.Helper()
	review := impersonationReviewOf(t, body)
	review.Spec.Impersonate.Username = ""
	content, err := json.Marshal(review)
	must(t, err)
	return string(content)
}
