/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/artifacts"
)

// example is an example or a template of the project, or what -f names: its policies, and the requests of its tests.
type example struct {
	Name       string           `json:"name"`
	Title      string           `json:"title"`
	IsTemplate bool             `json:"isTemplate,omitempty"`
	Policies   string           `json:"policies"`
	Requests   []exampleRequest `json:"requests"`
}

// exampleRequest has the texts of two editors.
type exampleRequest struct {
	Title      string `json:"title"`
	Request    string `json:"request"`
	Object     string `json:"object"`
	RBACAllows bool   `json:"rbacAllows,omitempty"`
}

// exampleSuite is what an example needs of a PolicyTest.
type exampleSuite struct {
	Policies    []string         `json:"policies"`
	Permissions []map[string]any `json:"permissions"`
	Tests       []struct {
		Name        string           `json:"name"`
		Request     map[string]any   `json:"request"`
		RequestFile string           `json:"requestFile"`
		Data        map[string]any   `json:"data"`
		DataFile    string           `json:"dataFile"`
		Permissions []map[string]any `json:"permissions"`
	} `json:"tests"`
}

// requests returns the requests of the tests. read reads the files that they name.
func (s *exampleSuite) requests(read func(name string) (string, error)) (requests []exampleRequest, err error) {
	for i := range s.Tests {
		t := &s.Tests[i]
		r := exampleRequest{Title: t.Name, RBACAllows: len(t.Permissions) > 0 || t.Permissions == nil && len(s.Permissions) > 0}
		if r.Request, err = review(read, t.RequestFile, kindRequest, "spec", t.Request); err != nil {
			return nil, err
		}
		if r.Object, err = review(read, t.DataFile, kindData, "request", t.Data); err != nil {
			return nil, err
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// readExamples returns the examples that have tests, the cookbook before the templates, in the order of their names.
func readExamples() ([]example, error) {
	suites, err := fs.Glob(artifacts.Files, "*/*/test.yaml")
	if err != nil {
		return nil, err
	}
	all := make([]example, 0, len(suites))
	for _, suite := range suites {
		e, err := readExample(path.Dir(suite))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", suite, err)
		}
		all = append(all, *e)
	}
	return all, nil
}

func readExample(dir string) (*example, error) {
	read := func(name string) (string, error) {
		text, err := artifacts.Files.ReadFile(path.Join(dir, name))
		return string(text), err
	}
	readme, err := read("README.md")
	if err != nil {
		return nil, err
	}
	title, _, _ := strings.Cut(readme, "\n")
	e := &example{Name: path.Base(dir), IsTemplate: path.Dir(dir) == "templates", Title: strings.TrimPrefix(title, "# ")}
	if e.Policies, err = read("policy.yaml"); err != nil {
		return nil, err
	}
	text, err := read("test.yaml")
	if err != nil {
		return nil, err
	}
	suite := exampleSuite{}
	if err := yaml.Unmarshal([]byte(text), &suite); err != nil {
		return nil, err
	}
	e.Requests, err = suite.requests(read)
	return e, err
}

// review returns the text of a review: of a file, or with the value of a field. There is none without both.
func review(read func(string) (string, error), file, kind, field string, value map[string]any) (string, error) {
	switch {
	case file != "":
		return read(file)
	case value == nil:
		return "", nil
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": authorizationv1alpha1.SchemeGroupVersion.String(), "kind": kind, field: value})
	return string(text), err
}
