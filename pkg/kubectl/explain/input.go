/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/utils/ptr"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/openapi"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/policytest"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
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
	text := a.Verb + " " + question.ResourceText(a.Resource+"/"+a.Subresource, a.Group)
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// The errors of requests in arguments.
var (
	errNoUser   = errors.New("with policies in files, --as must name the user: no kubeconfig is read")
	errNoObject = errors.New("must specify TYPE, or a file with the object of the request")
)

// The notes about requests in arguments.
const (
	noteNameless  = "the request has no name, and every request with the verb has one: policies can also depend on it"
	noteStored    = "the stored object is not known: give it with -f, after the new one"
	noteNamespace = "the namespace of the request is not known without a cluster"
)

// isAsked reports whether the request is in the arguments.
func (in *input) isAsked() bool { return in.asked.Verb != "" }

// readQuestion reads the request in the arguments, with the plain objects in files. If the files have policies, no server is called.
func (in *input) readQuestion(ctx context.Context, objects []document.Document, hasPolicies bool) error {
	q := &in.asked
	if in.target == "" && len(objects) == 0 {
		return errNoObject
	}
	checked := *q
	checked.AllNamespaces = q.AllNamespaces && !hasPolicies // without a cluster, the flag says that the object has no namespace
	if err := checked.Check(in.args, len(objects) > 0); err != nil {
		return err
	}
	var read []*unstructured.Unstructured
	readObjects := func(mapper meta.RESTMapper) error {
		for _, d := range objects {
			object, err := q.ReadObject(d, mapper, in.NamespaceFlag())
			if err != nil {
				return err
			}
			read = append(read, object)
		}
		return nil
	}
	if hasPolicies {
		if err := in.readWithoutServer(readObjects); err != nil {
			return err
		}
	} else if err := in.readWithServer(ctx, readObjects); err != nil {
		return err
	}
	in.request.Spec.ResourceAttributes, in.request.Spec.NonResourceAttributes = q.Attributes(q.Resource.Version)
	if q.IsNameless() {
		in.notes = append(in.notes, noteNameless)
	}
	if len(read) == 0 {
		return nil
	}
	if !hasPolicies && len(read) == 1 && simulation.Operations[q.Verb] == authorizationv1alpha1.OperationUpdate {
		stored, err := in.clients.Dynamic.Resource(q.Resource).Namespace(q.Namespace).Get(ctx, q.Name, metav1.GetOptions{})
		if err != nil {
			in.notes = append(in.notes, "the stored object is not known: "+err.Error())
		} else {
			read = append(read, stored)
		}
	}
	return in.setData(read, hasPolicies)
}

// readWithoutServer reads the request and its user without a cluster.
func (in *input) readWithoutServer(readObjects func(meta.RESTMapper) error) error {
	q, subject := &in.asked, question.SubjectWithoutServer(in.Flags)
	if subject == nil {
		return errNoUser
	}
	in.request.Spec = question.SpecOf(subject)
	if q.ReadWithoutServer(&in.Options, in.target); q.NonResourceURL != "" {
		return nil
	}
	if err := readObjects(question.WithoutServer(in.WarnOnce)); err != nil {
		return err
	}
	if q.Namespace == "" && !q.AllNamespaces && !q.IsClusterScoped {
		return question.ErrNamespace
	}
	return nil
}

// readWithServer reads the request with the resources of a cluster. The user is the one of --as, about whom the caller asks, or the caller.
func (in *input) readWithServer(ctx context.Context, readObjects func(meta.RESTMapper) error) error {
	if err := in.connect(); err != nil {
		return err
	}
	if in.request.Spec == nil {
		self, err := question.Self(ctx, in.clients.Kube.AuthenticationV1())
		if err != nil {
			return fmt.Errorf("who you are is not known: %w", err)
		}
		in.request.Spec, in.isSelf = question.SpecOf(self), true
	}
	if err := in.asked.Read(&in.Options, in.target, readObjects); err != nil {
		return err
	}
	switch {
	case in.asked.IsClusterScoped:
		in.asked.Namespace = ""
	case in.asked.IsOfNamespaces():
		in.asked.Namespace = in.asked.Name // a Namespace is in itself
	}
	return nil
}

// connect sets the clients of the caller, and the user of --as if the request is in the arguments.
func (in *input) connect() error {
	if in.clients != nil {
		return nil
	}
	config, err := in.Config()
	if err != nil {
		return err
	}
	if in.isAsked() {
		var subject *authenticationv1.UserInfo
		if config, subject = question.AsCaller(in.Flags, config); subject != nil {
			in.request.Spec = question.SpecOf(subject)
		}
	}
	in.clients, err = command.NewClients(config)
	return err
}

// setData sets the data of the request from plain objects.
func (in *input) setData(objects []*unstructured.Unstructured, isOffline bool) error {
	data, err := question.DataOf(in.asked.Verb, objects...)
	if err != nil {
		return err
	}
	in.request.Data, in.notes = data, append(in.notes, noteMutations)
	if data.Operation == authorizationv1alpha1.OperationUpdate && data.OldObject == nil {
		in.request.Absent = append(in.request.Absent, cel.OldObject)
		if isOffline {
			in.notes = append(in.notes, noteStored)
		}
	}
	if isOffline && in.asked.Namespace != "" {
		in.request.Absent, in.notes = append(in.request.Absent, cel.NamespaceObject), append(in.notes, noteNamespace)
	}
	return nil
}
