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
	files, err := filepath.Glob(filepath.Join(repository, "artifacts", "examples", "reviews", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
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

// TestExampleReviews creates every example as alice, both ways, and compares the answers
// with the golden files beside them.
func TestExampleReviews(t *testing.T) {
	t.Parallel()
	for _, file := range examples(t) {
		for _, user := range []string{"alice", "alice-direct"} {
			t.Run(user+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".golden.yaml", mustKubectl(t, user, "create", "-f", file, "-o", "yaml"))
			})
		}
	}
}

func TestExampleReviewsHaveNoOrphans(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(repository, "artifacts", "examples", "reviews", "*.golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
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
			t.Run(user+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				_, errs, err := kubectl(t, user, "create", "-f", file)
				if strings.HasPrefix(filepath.Base(file), "self-") {
					if err != nil {
						t.Errorf("asking about oneself: got %v: %s", err, errs)
					}
					return
				}
				if err == nil || !strings.Contains(errs, "(Forbidden)") || !strings.Contains(errs, `User "carol" cannot create resource "`) || !strings.Contains(errs, `in API group "authorization.k8s.io"`) {
					t.Errorf("got %v: %s\nwant a refusal that names what is missing", err, errs)
				}
			})
		}
	}
}
