/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/openapi"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/policytest"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// input is the request and the policies of one call.
type input struct {
	*options

	compilers *simulation.Compilers
	// isOffline says that nothing is read but documents: no file that a document names, and no cluster.
	isOffline bool

	request  simulation.Request
	policies []policyfile.Policy
	// admission has the ValidatingAdmissionPolicies, if they are known.
	admission *admissionpolicy.Set
	// isPermitted says what RBAC does: yes, no, or nothing if it is not known.
	isPermitted *bool
	// schemas are the schemas of objects that the cluster publishes, or of files.
	schemas         resolver.SchemaResolver
	recorded        map[string]string
	warnings, notes []string
}

// The errors of input.
var (
	errNoRequest  = errors.New("the files have no request: want a SubjectAccessReview, a PolicyTest with --test, or --audit-log")
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
	loader.Errs = errs
	fail := func(d document.Document, err error) {
		if err != nil {
			loader.Fail(d.Source, "", err)
		}
	}
	suites, others, hasPolicies := 0, 0, false
	for _, d := range documents {
		meta, _ := d.TypeMeta()
		switch {
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
			hasPolicies = true
			loader.Load(ctx, d)
		}
		others++
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

// loadFromCluster loads all policies of the cluster, and the namespace of the request.
func (in *input) loadFromCluster(ctx context.Context, loader *policyfile.Loader) error {
	config, err := in.Config()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	cluster, err := client.PolicyV1alpha1().ClusterAuthorizationPolicies().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errNoProviso
	case err != nil:
		return fmt.Errorf("listing the policies of the cluster: %w", err)
	}
	namespaced, err := client.PolicyV1alpha1().AuthorizationPolicies("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the policies of the cluster: %w", err)
	}
	cluster.TypeMeta = metav1.TypeMeta{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: "ClusterAuthorizationPolicyList"}
	namespaced.TypeMeta = metav1.TypeMeta{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: "AuthorizationPolicyList"}
	for _, list := range []any{cluster, namespaced} {
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		loader.Load(ctx, document.Document{Source: document.Named("the policies of the cluster"), JSON: text})
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	in.schemas = typechecking.NewDiscovery(clients.Discovery())
	return in.readNamespace(ctx, clients)
}

// readNamespace reads the namespace of the request from the cluster, if the files do not have it.
func (in *input) readNamespace(ctx context.Context, client kubernetes.Interface) error {
	r := &in.request
	if r.Data == nil || r.Data.NamespaceObject != nil || r.Spec.ResourceAttributes == nil || r.Spec.ResourceAttributes.Namespace == "" {
		return nil
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, r.Spec.ResourceAttributes.Namespace, metav1.GetOptions{})
	if err != nil {
		in.notes = append(in.notes, "the namespace of the request is not known: "+err.Error())
		r.Absent = append(r.Absent, cel.NamespaceObject)
		return nil //nolint:nilerr // the explanation says so, and goes on without it
	}
	namespace.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
	text, err := json.Marshal(namespace)
	if err != nil {
		return err
	}
	r.Data.NamespaceObject = &runtime.RawExtension{Raw: text}
	r.Absent = slices.DeleteFunc(r.Absent, func(v cel.Variable) bool { return v == cel.NamespaceObject })
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
