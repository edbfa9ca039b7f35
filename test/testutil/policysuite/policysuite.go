/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policysuite reads suites of kubectl proviso test, so that tests can send their requests to servers.
package policysuite

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

// Suite is a PolicyTest.
type Suite struct {
	// Dir is the directory of the suite, and Name the name of the directory.
	Dir, Name         string `json:"-"`
	Policies, Objects []string
	Permissions       []rbacv1.PolicyRule
	Tests             []Test
}

// Test is one request. Read resolves the names of files, and permissions of the suite.
type Test struct {
	Name                  string
	Request               authorizationv1alpha1.SubjectAccessReviewSpec
	Data                  *authorizationv1alpha1.AuthorizationConditionsRequest
	RequestFile, DataFile string
	Permissions           []rbacv1.PolicyRule
	Expect                Expectation
}

// Expectation is what a test expects.
type Expectation struct {
	Decision, Outcome any // a boolean or a string
	Message           string
	Policies          []string
	Warnings          []string
	Audited           []string
	AuditAnnotations  map[string]string
}

// IsDenied reports whether the request is refused, at authorization or with the object.
func (tc *Test) IsDenied() bool {
	for _, answer := range []any{tc.Expect.Decision, tc.Expect.Outcome} {
		if answer == false || answer == "no" {
			return true
		}
	}
	return false
}

// PathOf returns the path of a resource.
func PathOf(a *authorizationv1.ResourceAttributes) string {
	path := "/apis/" + a.Group + "/" + a.Version
	if a.Group == "" {
		path = "/api/" + a.Version
	}
	if a.Namespace != "" {
		path += "/namespaces/" + a.Namespace
	}
	path += "/" + a.Resource
	for _, part := range []string{a.Name, a.Subresource} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

// File returns the file of a suite.
func (s *Suite) File() string { return filepath.Join(s.Dir, "test.yaml") }

// Read reads all suites below a directory.
func Read(t *testing.T, directory string) (suites []Suite) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "test.yaml" {
			return err
		}
		s := Suite{Dir: filepath.Dir(path), Name: filepath.Base(filepath.Dir(path))}
		readFile(t, path, &s)
		for i := range s.Tests {
			s.resolve(t, &s.Tests[i])
		}
		suites = append(suites, s)
		return nil
	})
	if err != nil || len(suites) == 0 {
		t.Fatalf("%s: %d suites, %v", directory, len(suites), err)
	}
	return suites
}

func (s *Suite) resolve(t *testing.T, tc *Test) {
	t.Helper()
	if tc.RequestFile != "" {
		review := authorizationv1alpha1.SubjectAccessReview{}
		readFile(t, filepath.Join(s.Dir, tc.RequestFile), &review)
		tc.Request = review.Spec
	}
	if tc.DataFile != "" {
		review := authorizationv1alpha1.AuthorizationConditionsReview{}
		readFile(t, filepath.Join(s.Dir, tc.DataFile), &review)
		tc.Data = review.Request
	}
	if tc.Permissions == nil {
		tc.Permissions = slices.Clone(s.Permissions)
	}
}

func readFile(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
