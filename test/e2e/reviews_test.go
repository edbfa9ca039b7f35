/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// examples returns the review objects in artifacts/examples/reviews.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(stack.Repository, "artifacts", "examples", "reviews", "*.yaml"))
	must(t, err)
	var reviews []string
	for _, file := range files {
		if !strings.HasSuffix(file, ".golden.yaml") {
			reviews = append(reviews, file)
		}
	}
	if len(reviews) < 12 {
		t.Fatalf("there are %d examples, want at least twelve", len(reviews))
	}
	return reviews
}

// The two groups of the same reviews, with the version.
const (
	officialReviews = "authorization.k8s.io/v1alpha1"
	ownReviews      = "authorization.proviso.dev/v1alpha1"
)

// TestExampleReviews creates every example as alice in both groups, both ways, and compares the answers with the golden
// files beside them. The answers in the two groups differ in apiVersion alone.
func TestExampleReviews(t *testing.T) {
	t.Parallel()
	for _, file := range examples(t) {
		for _, user := range []string{"alice", "alice-direct"} {
			for _, version := range []string{officialReviews, ownReviews} {
				t.Run(user+"/"+version+"/"+filepath.Base(file), func(t *testing.T) {
					t.Parallel()
					got, errs, err := kubectlWithInput(t, user, exampleIn(t, file, version), "create", "-f", "-", "-o", "yaml")
					if err != nil {
						t.Fatalf("%v: %s", err, errs)
					}
					if !strings.Contains(got, "apiVersion: "+version+"\n") {
						t.Errorf("the answer is not in the version %s:\n%s", version, got)
					}
					golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".golden.yaml", strings.Replace(got, "apiVersion: "+version, "apiVersion: "+officialReviews, 1))
				})
			}
		}
	}
}

// exampleIn returns an example with its reviews in a version.
func exampleIn(t *testing.T, file, version string) string {
	t.Helper()
	content := readText(t, file)
	if !strings.Contains(content, "apiVersion: "+officialReviews+"\n") {
		t.Fatalf("%s has no review of %s", file, officialReviews)
	}
	return strings.ReplaceAll(content, "apiVersion: "+officialReviews+"\n", "apiVersion: "+version+"\n")
}

func TestExampleReviewsHaveNoOrphans(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(stack.Repository, "artifacts", "examples", "reviews", "*.golden.yaml"))
	must(t, err)
	for _, file := range files {
		if _, err := os.Stat(strings.TrimSuffix(file, ".golden.yaml") + ".yaml"); err != nil {
			t.Errorf("%s is the answer to nothing", file)
		}
	}
}

// TestExampleReviewsNeedPermission creates every example as carol, who may not. Asking
// about oneself is open to everybody.
func TestExampleReviewsNeedPermission(t *testing.T) {
	t.Parallel()
	for _, file := range examples(t) {
		for _, user := range []string{"carol", "carol-direct"} {
			for _, version := range []string{officialReviews, ownReviews} {
				t.Run(user+"/"+version+"/"+filepath.Base(file), func(t *testing.T) {
					t.Parallel()
					_, errs, err := kubectlWithInput(t, user, exampleIn(t, file, version), "create", "-f", "-")
					if strings.HasPrefix(filepath.Base(file), "self-") {
						if err != nil {
							t.Errorf("asking about oneself: got %v: %s", err, errs)
						}
						return
					}
					if err == nil || !strings.Contains(errs, "(Forbidden)") || !strings.Contains(errs, `User "carol" cannot create resource "`) ||
						!strings.Contains(errs, `in API group "`+strings.TrimSuffix(version, "/v1alpha1")+`"`) {
						t.Errorf("got %v: %s\nwant a refusal that names what is missing", err, errs)
					}
				})
			}
		}
	}
}
