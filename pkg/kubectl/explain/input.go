/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"cmp"
	"context"
	"errors"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/utils/ptr"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/openapi"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/policytest"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// input is the request and the policies of one call.
type input struct {
	*options

	compilers *simulation.Compilers
	// clients are nil until the cluster is needed.
	clients *command.Clients
	// isOffline says that nothing is read but documents: no file that a document names, and no cluster.
	isOffline bool

	request  simulation.Request
	policies []policyfile.Policy
	// admission has the ValidatingAdmissionPolicies, if they are known.
	admission *admissionpolicy.Set
	// isPermitted says what RBAC does: yes, no, or nothing if it is not known.
	isPermitted *bool
	// isSelf says that the request is about the user of the client.
	isSelf bool
	// isOfCluster says that the policies come from a cluster.
	isOfCluster bool
	// schemas are the schemas of objects that the cluster publishes, or of files.
	schemas         resolver.SchemaResolver
	recorded        map[string]string
	warnings, notes []string
}

// The errors of input.
var (
	errNoRequest  = errors.New("the files have no request: name the verb, as in 'explain create -f FILE --as=USER', or want a SubjectAccessReview, a PolicyTest with --test, or --audit-log")
	errNoTest     = errors.New("--test must name the test: the file is a PolicyTest")
	errNoSuite    = errors.New("--test cannot be set without a PolicyTest")
	errTwoSuites  = errors.New("only one PolicyTest can be given")
	errWithSuite  = errors.New("a PolicyTest has its own request and policies: no other documents can be given")
	errTwice      = errors.New("only one request can be given")
	errSuite      = errors.New("a PolicyTest names files, which are not read: write its policies and the request of one test instead")
	errNoPolicies = errors.New("there are no policies")
	errEmpty      = errors.New("request: Required value")
	errNoProviso  = errors.New("the cluster has no policies of Proviso: it does not serve policy.proviso.dev/v1alpha1; name files with policies with -f")
	errWithLog    = errors.New("a SubjectAccessReview cannot be given together with --audit-log")
	hintVerb      = "; to explain a request with this object, name the verb, as in 'explain create -f FILE --as=USER'"
	notePolicies  = "the policies are those that the cluster has now"
	noteNoSchema  = "the schema of the object is not known, so that the near miss may make the object invalid: see --openapi"
	noteMutations = "the object is the one of the request: defaults and changes by admission do not count"
)

// read reads the request and the policies, and returns all mistakes.
func (in *input) read(ctx context.Context) (errs []error) {
	if in.auditLog != "" {
		if err := in.readAuditLog(); err != nil {
			return []error{err}
		}
	}
	documents, errs := in.files.Read(in.In)
	return in.load(ctx, documents, errs)
}

// load reads the request and the policies from documents. errs are mistakes that were found before.
func (in *input) load(ctx context.Context, documents []document.Document, errs []error) []error {
	loader := policyfile.NewLoader(in.NamespaceFlag(), in.compilers.Policies)
	loader.Errs, loader.AllNamespaces = errs, in.isAsked() // whose --namespace is the namespace of the request
	fail := func(d document.Document, err error) {
		if err != nil {
			loader.Fail(d.Source, "", err)
		}
	}
	suites, others := 0, 0
	for _, d := range documents {
		meta, _ := d.TypeMeta()
		switch {
		case in.isAsked():
			loader.Load(ctx, d)
		//guard:explain-files-policytest-names
		case meta.Kind == policytest.Kind && in.isOffline:
			fail(d, errSuite)
		case meta.Kind == policytest.Kind:
			suites++
			loader.Errs = append(loader.Errs, in.readTest(ctx, d)...)
			continue
		case meta.Kind == "SubjectAccessReview" && isReview(meta):
			fail(d, in.readReview(d))
		case meta.Kind == "AuthorizationConditionsReview" && isReview(meta):
			fail(d, in.readData(d))
		default:
			loader.Load(ctx, d)
		}
		others++
	}
	hasPolicies := len(loader.Sorted()) > 0
	if in.isAsked() && len(loader.Errs) == 0 {
		if err := in.readQuestion(ctx, loader.Others, hasPolicies); err != nil {
			return []error{err}
		}
	} else if !in.isAsked() {
		loader.RejectOthers(hintVerb)
	}
	switch {
	case len(loader.Errs) > 0:
		return loader.Errs
	case suites > 1:
		return []error{errTwoSuites}
	case suites == 1 && others > 0:
		return []error{errWithSuite}
	case suites == 0 && in.test != "":
		return []error{errNoSuite}
	case in.request.Spec == nil:
		return []error{errNoRequest}
	}
	if errs := in.request.Validate(); len(errs) > 0 {
		return errs
	}
	if suites == 1 {
		return nil
	}
	//guard:explain-no-cluster-documents
	if !hasPolicies && in.isOffline {
		return []error{errNoPolicies}
	}
	if !hasPolicies {
		if err := in.loadFromCluster(ctx, loader); err != nil {
			return []error{err}
		}
		in.notes = append(in.notes, notePolicies)
	}
	in.policies, in.warnings = loader.Sorted(), loader.Warnings
	return loader.Errs
}

func isReview(meta metav1.TypeMeta) bool {
	group, _, _ := strings.Cut(meta.APIVersion, "/")
	return group == "authorization.k8s.io" || group == "authorization.proviso.dev"
}

func (in *input) readReview(d document.Document) error {
	review := &authorizationv1alpha1.SubjectAccessReview{}
	switch err := d.Decode(review); {
	case err != nil:
		return err
	case in.auditLog != "":
		return errWithLog
	case in.request.Spec != nil:
		return errTwice
	}
	in.request.Spec = &review.Spec
	return nil
}

// readData reads the data of the request. They replace the data of an audit event.
func (in *input) readData(d document.Document) error {
	review := &authorizationv1alpha1.AuthorizationConditionsReview{}
	switch err := d.Decode(review); {
	case err != nil:
		return err
	case in.request.Data != nil && in.auditLog == "":
		return errTwice
	case review.Request == nil:
		return errEmpty
	}
	in.request.Data, in.request.Absent = review.Request, nil
	return nil
}

func (in *input) readTest(ctx context.Context, d document.Document) []error {
	if in.test == "" {
		return []error{&document.Error{Source: d.Source, Err: errNoTest}}
	}
	test, errs := policytest.ReadTest(ctx, d, in.test, in.compilers.Policies)
	if len(errs) > 0 {
		return errs
	}
	in.policies, in.request, in.admission, in.warnings = test.Policies, *test.Request, test.Admission, test.Warnings
	in.isPermitted = ptr.To(true) // what RBAC allows is part of a test
	return nil
}

// explainer returns the explainer of the request.
func (in *input) explainer() (*explainer, error) {
	source, err := in.compilers.SourceOf(policyfile.SpecsOf(in.policies))
	if err != nil {
		return nil, err
	}
	if in.rbacAllows {
		in.permit()
	}
	read, errs := openapi.Read(in.openAPI)
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if in.schemas == nil || len(in.openAPI) > 0 {
		in.schemas = read
	}
	in.admission = cmp.Or(in.admission, &admissionpolicy.Set{})
	hidden, err := secrecyOf(&in.request, in.hide)
	return &explainer{input: in, source: source, secrecy: hidden}, err
}

// permit adds a permission for this request only: checks that conditions make are about others.
func (in *input) permit() {
	rule := rbacv1.PolicyRule{}
	if a := in.request.Spec.NonResourceAttributes; a != nil {
		rule = rbacv1.PolicyRule{Verbs: []string{a.Verb}, NonResourceURLs: []string{a.Path}}
	} else {
		a := in.request.Spec.ResourceAttributes
		rule = rbacv1.PolicyRule{Verbs: []string{a.Verb}, APIGroups: []string{a.Group}, Resources: []string{strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")}}
		if a.Name != "" {
			rule.ResourceNames = []string{a.Name}
		}
	}
	in.isPermitted, in.request.Permissions = ptr.To(true), append(in.request.Permissions, rule)
}

// requestText returns the request in words.
func requestText(r *simulation.Request) string {
	if a := r.Spec.NonResourceAttributes; a != nil {
		return a.Verb + " " + a.Path
	}
	a := r.Spec.ResourceAttributes
	text := a.Verb + " " + a.Resource
	if a.Group != "" {
		text += "." + a.Group
	}
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}
