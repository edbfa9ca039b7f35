/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// Kind is the kind of suites.
const (
	Kind            = "PolicyTest"
	suiteAPIVersion = "test.proviso.dev/v1alpha1"
)

// suite is a document with tests.
type suite struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	// Policies are files with policies and ValidatingAdmissionPolicies, from the directory of the suite.
	Policies []string `json:"policies"`
	// Objects are files with what ValidatingAdmissionPolicies read: parameters and Namespaces.
	Objects []string `json:"objects"`
	// Permissions are the permissions of tests that have none.
	Permissions []rbacv1.PolicyRule `json:"permissions"`
	Tests       []test              `json:"tests"`

	path      string
	policies  []policyfile.Policy
	admission *admissionpolicy.Set
	// warnings are about policies that are valid, but do not do what they say.
	warnings []string
}

// test is one request with the expected decisions.
type test struct {
	Name string `json:"name"`
	// Request is the specification of a SubjectAccessReview, and RequestFile a file with such a review. Exactly one of them is given.
	Request     *authorizationv1alpha1.SubjectAccessReviewSpec `json:"request"`
	RequestFile string                                         `json:"requestFile"`
	// Data is the request of an AuthorizationConditionsReview without condition sets, and DataFile a file with such a review. At most one
	// of them is given.
	Data     *authorizationv1alpha1.AuthorizationConditionsRequest `json:"data"`
	DataFile string                                                `json:"dataFile"`
	// Permissions are what other authorizers, such as RBAC, allow the user.
	Permissions []rbacv1.PolicyRule `json:"permissions"`
	Expect      expectation         `json:"expect"`
}

// asked returns the request of the test.
func (t *test) asked() *simulation.Request {
	return &simulation.Request{Spec: t.Request, Data: t.Data, Permissions: t.Permissions}
}

// expectation has the expected decisions.
type expectation struct {
	// Decision is the decision at authorization: yes, no or yes-if. It is required.
	Decision answer.Verdict `json:"decision"`
	// Outcome is the decision at admission: yes or no. It is given if and only if there are data.
	Outcome answer.Verdict `json:"outcome"`
	// Policies are the policies in the reason of the last decision that is expected, as NAME or NAMESPACE/NAME: those that deny, if
	// ValidatingAdmissionPolicies do. Empty means any.
	Policies []string `json:"policies"`
	admissionExpectation
}

// admissionExpectation has what is expected of ValidatingAdmissionPolicies.
type admissionExpectation struct {
	// Message is a part of the message of a refusal. Empty means any.
	Message string `json:"message"`
	// Warnings are parts of the warnings, one for each. Nil means any.
	Warnings []string `json:"warnings"`
	// Audited are the policies of which a failed validation is only recorded. Nil means any.
	Audited []string `json:"audited"`
	// AuditAnnotations are annotations of the audit event, by POLICY/KEY. There may be more.
	AuditAnnotations map[string]string `json:"auditAnnotations"`
}

func (e *admissionExpectation) isEmpty() bool {
	return e.Message == "" && e.Warnings == nil && e.Audited == nil && e.AuditAnnotations == nil
}

// The errors of suites.
var (
	errNoSuites   = fmt.Errorf("has no suite: no document of kind %s of %s", Kind, suiteAPIVersion)
	errNoTests    = errors.New("tests: Required value: a suite without tests proves nothing")
	errNoPolicies = errors.New("policies: Required value: name the files with the policies")
	errNoName     = errors.New("name: Required value")
	errRequest    = errors.New("exactly one of request and requestFile is required")
	errData       = errors.New("at most one of data and dataFile can be given")
	errDecision   = errors.New("expect.decision: must be yes, no or yes-if")
	errOutcome    = errors.New("expect.outcome: must be yes or no if there are data, and must not be given otherwise")
	errAdmission  = errors.New("expect: message, warnings, audited and auditAnnotations need data, and a ValidatingAdmissionPolicy in the files of the suite")
	errKind       = errors.New("is not of the kind that this field needs")
)

// readSuites reads all suites below a directory, or in a file. Documents of other kinds are read only if a suite names their file.
func readSuites(ctx context.Context, root string, compiler *partial.Compiler) (suites []*suite, errs []error) {
	documents, errs := document.Read(strings.NewReader(""), []string{root}, true)
	for _, d := range documents {
		if meta, _ := d.TypeMeta(); meta.Kind == Kind {
			s, suiteErrs := readSuite(ctx, d, compiler)
			suites, errs = append(suites, s), append(errs, suiteErrs...)
		}
	}
	if len(suites) == 0 && len(errs) == 0 {
		errs = []error{fmt.Errorf("%s: %w", root, errNoSuites)}
	}
	return suites, errs
}

func readSuite(ctx context.Context, d document.Document, compiler *partial.Compiler) (*suite, []error) {
	s := &suite{path: d.Source.Path}
	var errs []error
	fail := func(err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", d.Source, err))
		}
	}
	if err := d.Decode(s); err != nil {
		fail(err)
		return s, errs
	}
	if s.APIVersion != suiteAPIVersion {
		fail(fmt.Errorf("apiVersion %q of kind %s: want %s", s.APIVersion, Kind, suiteAPIVersion))
	}
	if len(s.Tests) == 0 {
		fail(errNoTests)
	}
	if len(s.Policies) == 0 {
		fail(errNoPolicies)
	}
	errs = append(errs, s.readFiles(ctx, compiler)...)
	names := map[string]bool{}
	for i := range s.Tests {
		t := &s.Tests[i]
		prefix := fmt.Sprintf("tests[%d]", i)
		if names[t.Name] {
			fail(fmt.Errorf("%s: the name %q occurs twice", prefix, t.Name))
		}
		names[t.Name] = true
		for _, err := range t.complete(s) {
			fail(fmt.Errorf("%s: %w", prefix, err))
		}
	}
	return s, errs
}

// readFiles reads the files with policies and objects.
func (s *suite) readFiles(ctx context.Context, compiler *partial.Compiler) (errs []error) {
	read := func(files []string) (all []document.Document) {
		for _, file := range files {
			documents, readErrs := document.Read(strings.NewReader(""), []string{filepath.Join(filepath.Dir(s.path), file)}, false)
			all, errs = append(all, documents...), append(errs, readErrs...)
		}
		return all
	}
	policies, objects := read(s.Policies), read(s.Objects)
	set, others, admissionErrs := admissionpolicy.Load(policies, objects)
	l := policyfile.NewLoader("", compiler)
	l.Load(ctx, others...)
	l.RejectOthers("")
	s.policies, s.admission, s.warnings = l.Sorted(), set, slices.Concat(l.Warnings, set.Warnings)
	return append(append(errs, admissionErrs...), l.Errs...)
}

// complete reads the files of a test of a suite and validates it.
func (t *test) complete(s *suite) (errs []error) {
	dir := filepath.Dir(s.path)
	if t.Permissions == nil {
		t.Permissions = s.Permissions
	}
	fail := func(failed bool, err error) {
		if failed {
			errs = append(errs, err)
		}
	}
	fail(t.Name == "", errNoName)
	fail((t.Request == nil) == (t.RequestFile == ""), errRequest)
	fail(t.Data != nil && t.DataFile != "", errData)
	if t.RequestFile != "" && t.Request == nil {
		review := &authorizationv1alpha1.SubjectAccessReview{}
		if err := readKind(filepath.Join(dir, t.RequestFile), "SubjectAccessReview", review); err != nil {
			return append(errs, err)
		}
		t.Request = &review.Spec
	}
	if t.DataFile != "" && t.Data == nil {
		review := &authorizationv1alpha1.AuthorizationConditionsReview{}
		if err := readKind(filepath.Join(dir, t.DataFile), "AuthorizationConditionsReview", review); err != nil {
			return append(errs, err)
		}
		t.Data = review.Request
	}
	errs = append(errs, t.asked().Validate()...)
	if !s.admission.IsEmpty() && t.Data != nil && len(errs) == 0 {
		if err := s.admission.Validate(t.asked()); err != nil {
			errs = append(errs, err)
		}
	}
	fail(!t.Expect.isEmpty() && (s.admission.IsEmpty() || t.Data == nil), errAdmission)
	hasOutcome := t.Expect.Outcome == answer.Yes || t.Expect.Outcome == answer.No
	fail(t.Expect.Decision != answer.Yes && t.Expect.Decision != answer.No && t.Expect.Decision != answer.YesIf, errDecision)
	fail(t.Data != nil && !hasOutcome || t.Data == nil && t.Expect.Outcome != "", errOutcome)
	return errs
}

// Test is a test of a suite, with the policies of the suite.
type Test struct {
	Request   *simulation.Request
	Policies  []policyfile.Policy
	Admission *admissionpolicy.Set
	Warnings  []string
}

// ReadTest reads a test of a suite. It returns all mistakes in the suite.
func ReadTest(ctx context.Context, d document.Document, name string, compiler *partial.Compiler) (*Test, []error) {
	s, errs := readSuite(ctx, d, compiler)
	if len(errs) > 0 {
		return nil, errs
	}
	for i := range s.Tests {
		if s.Tests[i].Name == name {
			return &Test{Request: s.Tests[i].asked(), Policies: s.policies, Admission: s.admission, Warnings: s.warnings}, nil
		}
	}
	return nil, []error{fmt.Errorf("%v: has no test %q", d.Source, name)}
}

// readKind reads a file with one object of a kind of the reviews.
func readKind(path, kind string, into any) error {
	documents, errs := document.Read(nil, []string{path}, false)
	if len(errs) > 0 {
		return errs[0]
	}
	if len(documents) == 1 {
		if meta, _ := documents[0].TypeMeta(); meta.Kind == kind {
			if err := documents[0].Decode(into); err != nil {
				return &document.Error{Source: documents[0].Source, Err: err}
			}
			return nil
		}
	}
	return fmt.Errorf("%s: %w: want one %s", path, errKind, kind)
}
