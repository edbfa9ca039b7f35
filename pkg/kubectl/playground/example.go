/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/artifacts"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policytest"
	requests "github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
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
	Policies    []string            `json:"policies"`
	Permissions []rbacv1.PolicyRule `json:"permissions"`
	Tests       []struct {
		Name        string              `json:"name"`
		Request     map[string]any      `json:"request"`
		RequestFile string              `json:"requestFile"`
		Data        map[string]any      `json:"data"`
		DataFile    string              `json:"dataFile"`
		Permissions []rbacv1.PolicyRule `json:"permissions"`
	} `json:"tests"`
}

// requests returns the requests of the tests. read reads the files that they name.
func (s *exampleSuite) requests(read func(name string) (string, error)) (requests []exampleRequest, err error) {
	for i := range s.Tests {
		t := &s.Tests[i]
		r := exampleRequest{Title: t.Name}
		if r.Request, err = review(read, t.RequestFile, kindRequest, "spec", t.Request); err != nil {
			return nil, err
		}
		if r.Object, err = review(read, t.DataFile, kindData, "request", t.Data); err != nil {
			return nil, err
		}
		if t.Permissions == nil {
			t.Permissions = s.Permissions
		}
		r.RBACAllows = cover(t.Permissions, r.Request)
		requests = append(requests, r)
	}
	return requests, nil
}

// cover reports whether permissions allow the request of a review. They may have been given for what a condition checks.
func cover(permissions []rbacv1.PolicyRule, text string) bool {
	review := &authorizationv1alpha1.SubjectAccessReview{}
	request := &simulation.Request{Spec: &review.Spec}
	if yaml.Unmarshal([]byte(text), review) != nil || len(request.Validate()) > 0 {
		return false // the page says so
	}
	attributes := authorization.AttributesOf(request.User(), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return len(rbac.RulesOf(permissions).Matching(attributes)) > 0
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

// maxFileRequests bounds the requests that files give: the page lists them.
const maxFileRequests = 200

// exampleUser is the user of a request, if the policies name none.
const exampleUser = "alice"

// The errors of files.
var (
	errNoFilePolicies = errors.New("the files of -f have no policy")
	errNoTests        = errors.New("has no tests")
	errManyRequests   = fmt.Errorf("the files of -f have more than %d tests, requests or objects: name fewer files", maxFileRequests)
)

// fileReader sorts the documents of files by their editors.
type fileReader struct {
	document.Errors

	policies, reviews, objects, suites []document.Document
}

// readFiles returns the policies of files as an example. Its requests are the tests of a PolicyTest. Without tests they are the SubjectAccessReviews, and without those the
// creations of the objects.
func readFiles(files *command.Files, o *command.Options) (*example, error) {
	documents, errs := files.Read(o.In)
	r := &fileReader{}
	r.Errs = errs
	r.Each(documents, r.add)
	e := &example{Name: "files", Title: strings.Join(files.Names, ", ")}
	if len(r.Errs) == 0 {
		e.Requests = r.requests(o.Warn)
	}
	var policies []string
	for _, d := range r.policies {
		policies = append(policies, documentText(d))
	}
	e.Policies = strings.Join(policies, "---\n")
	switch {
	case len(r.Errs) > 0:
		return nil, utilerrors.NewAggregate(r.Errs)
	case len(policies) == 0:
		return nil, errNoFilePolicies
	case len(e.Requests) > maxFileRequests:
		return nil, errManyRequests
	}
	return e, nil
}

// add sorts a document.
func (r *fileReader) add(d document.Document, meta metav1.TypeMeta) {
	switch group := meta.GroupVersionKind().Group; {
	case meta.Kind == policytest.Kind:
		r.suites = append(r.suites, d)
	case group == policyv1alpha1.GroupName:
		r.policies = append(r.policies, d)
	case meta.Kind == kindRequest && strings.HasPrefix(group, "authorization."):
		r.reviews = append(r.reviews, d)
	default:
		r.objects = append(r.objects, d)
	}
}

// requests returns the requests of the files.
func (r *fileReader) requests(warn func(string)) (found []exampleRequest) {
	readsPolicies := len(r.policies) == 0
	for _, d := range r.suites {
		found = append(found, r.ofSuite(d, readsPolicies)...)
	}
	if len(r.suites) > 0 {
		return append([]exampleRequest{}, found...)
	}
	if len(r.reviews) > 0 {
		var objects []string
		for _, d := range r.objects {
			objects = append(objects, documentText(d))
		}
		for i, d := range r.reviews {
			of := objects
			if len(r.reviews) > 1 && len(objects) == len(r.reviews) {
				of = objects[i : i+1] // one for each
			}
			found = append(found, exampleRequest{Title: d.Source.String(), Request: documentText(d), Object: strings.Join(of, "---\n")})
		}
		return found
	}
	for _, d := range r.objects {
		if request, err := r.creation(d, warn); err != nil {
			r.Fail(d.Source, "", err)
		} else {
			found = append(found, exampleRequest{Title: "create " + d.Source.String(), Request: request, Object: documentText(d)})
		}
	}
	if len(found) == 0 {
		found = []exampleRequest{{Title: "write a request"}}
	}
	return found
}

// ofSuite returns the requests of a PolicyTest. If no file of -f has policies, it reads those that the PolicyTest names.
func (r *fileReader) ofSuite(d document.Document, readsPolicies bool) []exampleRequest {
	dir := filepath.Dir(d.Source.Path)
	suite := &exampleSuite{}
	if err := json.Unmarshal(d.JSON, suite); err != nil {
		r.Fail(d.Source, "", err)
		return nil
	}
	if len(suite.Tests) == 0 {
		r.Fail(d.Source, "", errNoTests)
	}
	if readsPolicies {
		for _, name := range suite.Policies {
			documents, errs := document.Read(strings.NewReader(""), []string{filepath.Join(dir, name)}, false)
			r.Errs = append(r.Errs, errs...)
			r.Each(documents, func(d document.Document, meta metav1.TypeMeta) {
				if meta.GroupVersionKind().Group == policyv1alpha1.GroupName {
					r.policies = append(r.policies, d)
				}
			})
		}
	}
	found, err := suite.requests(func(name string) (string, error) {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxBodyBytes)) // the page could send no more
		return string(text), err
	})
	if err != nil {
		r.Fail(d.Source, "", err)
	}
	return found
}

// creation returns the review of a request that creates an object, by the first user whom a policy names.
func (r *fileReader) creation(d document.Document, warn func(string)) (string, error) {
	q := &requests.Question{Verb: "create"}
	if _, err := q.ReadObject(d, requests.WithoutServer(warn), ""); err != nil {
		return "", err
	}
	user := ""
	for _, d := range r.policies {
		policy := &policyv1alpha1.ClusterAuthorizationPolicy{} // an AuthorizationPolicy has the same subjects
		if json.Unmarshal(d.JSON, policy) != nil {
			continue // the page says so
		}
		for _, s := range policy.Spec.Subjects {
			if s.Kind == "User" {
				user = cmp.Or(user, s.Name)
			}
		}
	}
	return review(nil, "", kindRequest, "spec", map[string]any{"user": cmp.Or(user, exampleUser), "resourceAttributes": map[string]any{
		"verb": q.Verb, "group": q.Resource.Group, "version": q.Resource.Version, "resource": q.Resource.Resource, "namespace": q.Namespace,
	}})
}

// documentText returns a document as text.
func documentText(d document.Document) string {
	if d.Text != "" {
		return d.Text
	}
	text, err := yaml.JSONToYAML(d.JSON)
	if err != nil {
		return string(d.JSON) // is valid YAML, too
	}
	return string(text)
}
