/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package admissionpolicy decides requests by ValidatingAdmissionPolicies without a cluster: policies, bindings and parameters come
// from files.
//
// Invariants:
//
//   - Expressions are compiled, and policies matched and dispatched, by the packages of kube-apiserver's admission plugin.
//   - A decision that depends on data that only a server has is an error, never a guess.
//   - No server is called.
//
// The package must not import the server, pkg/apiserver.
package admissionpolicy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// Set is a set of policies with their bindings and parameters.
type Set struct {
	// Warnings are about policies that are valid, but decide nothing.
	Warnings []string

	policies   []*policy // in the order of their names
	parameters map[schema.GroupVersionKind]*parameters
	namespaces map[string]*corev1.Namespace
}

// IsEmpty reports whether the set has no policy.
func (s *Set) IsEmpty() bool { return len(s.policies) == 0 }

// The kinds of admission policies.
const (
	kindPolicy  = "ValidatingAdmissionPolicy"
	kindBinding = "ValidatingAdmissionPolicyBinding"
)

// The errors of documents.
var (
	errNoObject = errors.New("is not an object with apiVersion and kind")
	errUnbound  = errors.New("no binding names the policy, so that it decides nothing")
	errNoParam  = errors.New("paramRef is ignored, because the policy has no paramKind")
)

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// Load reads admission policies and their bindings in policies, and parameters and Namespaces in objects. It returns the documents of other
// API groups in policies.
func Load(policies, objects []document.Document) (set *Set, others []document.Document, errs []error) {
	l := &loader{set: &Set{parameters: map[schema.GroupVersionKind]*parameters{}, namespaces: map[string]*corev1.Namespace{}}, policies: map[string]*policy{}}
	l.Each(policies, l.policyOrBinding)
	l.bind()
	l.Each(objects, l.object)
	l.checkScopes()
	return l.set, l.others, l.Errs
}

type loader struct {
	document.Errors
	set      *Set
	policies map[string]*policy
	bindings []*binding
	others   []document.Document
}

// binding is a binding with its place in the files.
type binding struct {
	*admissionregistrationv1.ValidatingAdmissionPolicyBinding

	source document.Source
}

func (l *loader) policyOrBinding(d document.Document, typeMeta metav1.TypeMeta) {
	gvk := typeMeta.GroupVersionKind()
	if gvk.Group != admissionregistrationv1.GroupName {
		l.others = append(l.others, d)
		return
	}
	if gvk.Version != admissionregistrationv1.SchemeGroupVersion.Version || gvk.Kind != kindPolicy && gvk.Kind != kindBinding {
		l.Fail(d.Source, "", fmt.Errorf("kind %q of apiVersion %q is not read: want %s or %s of %s", gvk.Kind, typeMeta.APIVersion, kindPolicy, kindBinding, admissionregistrationv1.SchemeGroupVersion))
		return
	}
	object, _, err := strict.Decode(d.JSON, nil, nil)
	if err != nil {
		l.Fail(d.Source, "", err)
		return
	}
	switch object := object.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if l.IsNew(d.Source, titleOf(kindPolicy, object), "object", object.Name) {
			p := &policy{ValidatingAdmissionPolicy: object, source: d.Source}
			l.policies[object.Name] = p
			object.Spec = *barrier.DefaultedPolicy(object) // as kube-apiserver does
			errs := validatePolicy(object)
			if len(errs) == 0 {
				errs = p.compile()
			}
			for _, err := range errs {
				l.Fail(d.Source, p.title(), err)
			}
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		if l.IsNew(d.Source, titleOf(kindBinding, object), "object", object.Name) {
			object.Spec = *barrier.DefaultedBinding(object)
			for _, err := range validateBinding(object) {
				l.Fail(d.Source, titleOf(kindBinding, object), err)
			}
			l.bindings = append(l.bindings, &binding{ValidatingAdmissionPolicyBinding: object, source: d.Source})
		}
	}
}

func titleOf(kind string, object metav1.Object) string {
	return fmt.Sprintf("%s %q", kind, cache.MetaObjectToName(object))
}

// bind gives each policy its bindings, and each kind of parameters a place.
func (l *loader) bind() {
	for _, b := range l.bindings {
		title := titleOf(kindBinding, b)
		p, found := l.policies[b.Spec.PolicyName]
		if !found {
			l.Fail(b.source, title, fmt.Errorf("spec.policyName: Not found: %q: no file of the suite has this %s", b.Spec.PolicyName, kindPolicy))
			continue
		}
		if b.Spec.ParamRef != nil && p.Spec.ParamKind == nil {
			l.warn(b.source, title, errNoParam)
		}
		p.bindings = append(p.bindings, b)
	}
	for _, name := range slices.Sorted(maps.Keys(l.policies)) {
		p := l.policies[name]
		slices.SortFunc(p.bindings, func(a, b *binding) int { return cmp.Compare(a.Name, b.Name) })
		l.set.policies = append(l.set.policies, p)
		if len(p.bindings) == 0 {
			l.warn(p.source, p.title(), errUnbound)
		}
		if kind := paramKindOf(p.ValidatingAdmissionPolicy); kind != nil {
			if l.set.parameters[*kind] == nil {
				l.set.parameters[*kind] = &parameters{kind: *kind}
			}
			l.set.parameters[*kind].policies = append(l.set.parameters[*kind].policies, p)
		}
	}
}

func (l *loader) warn(at document.Source, title string, err error) {
	l.set.Warnings = append(l.set.Warnings, fmt.Sprintf("%v: %s: %v", at, title, err))
}

// object reads a parameter or a Namespace.
func (l *loader) object(d document.Document, typeMeta metav1.TypeMeta) {
	gvk := typeMeta.GroupVersionKind()
	object, err := decode(d.JSON)
	if err != nil {
		l.Fail(d.Source, gvk.Kind, err)
		return
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		l.Fail(d.Source, gvk.Kind, err)
		return
	}
	if !l.IsNew(d.Source, titleOf(gvk.Kind+" of "+typeMeta.APIVersion, accessor), "object", accessor.GetName()) {
		return
	}
	namespace, isNamespace := object.(*corev1.Namespace)
	if isNamespace {
		l.set.namespaces[namespace.Name] = namespace
	}
	switch kind := l.set.parameters[gvk]; {
	case kind != nil:
		kind.add(d.Source, object, accessor)
	case !isNamespace:
		l.Fail(d.Source, titleOf(gvk.Kind, accessor), fmt.Errorf("kind %q of apiVersion %q is the paramKind of no policy, and not Namespace of v1", gvk.Kind, typeMeta.APIVersion))
	}
}

// checkScopes finds parameters of a namespaced kind that have no namespace, and parameters of another scope than their references.
func (l *loader) checkScopes() {
	for _, kind := range slices.SortedFunc(maps.Values(l.set.parameters), func(a, b *parameters) int { return cmp.Compare(a.kind.String(), b.kind.String()) }) {
		if !kind.isNamespaced() {
			continue
		}
		for _, p := range kind.objects {
			if p.meta.GetNamespace() == "" {
				l.Fail(p.source, titleOf(kind.kind.Kind, p.meta), errors.New("metadata.namespace: Required value: the kind is namespaced"))
			}
		}
	}
}

// decode reads an object. Objects of the kinds of client-go are read strictly, as kubectl and kube-apiserver do. A Namespace gets the label that every
// Namespace has.
func decode(raw []byte) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	if object.UnmarshalJSON(raw) != nil { // the error quotes the object, which may have secrets
		return nil, errNoObject
	}
	gvk := object.GroupVersionKind()
	if !scheme.Scheme.Recognizes(gvk) {
		return object, nil
	}
	typed, _, err := strict.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(gvk)
	if namespace, ok := typed.(*corev1.Namespace); ok {
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		namespace.Labels[corev1.LabelMetadataName] = namespace.Name
	}
	return typed, nil
}

// parameters are the parameters of one kind, in the order of the files. For the admission plugin they are an informer that has synced.
type parameters struct {
	kind     schema.GroupVersionKind
	objects  []parameter
	policies []*policy // which have the kind as paramKind
}

var _ informers.GenericInformer = &parameters{}

type parameter struct {
	runtime.Object

	meta   metav1.Object
	source document.Source
}

func (p *parameters) add(at document.Source, object runtime.Object, accessor metav1.Object) {
	if scheme.Scheme.Recognizes(p.kind) {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in an informer; the plugin sets it again
	}
	p.objects = append(p.objects, parameter{Object: object, meta: accessor, source: at})
}

// clusterScopedCore are the kinds of the core group without namespaces.
var clusterScopedCore = []string{"Namespace", "Node", "PersistentVolume"}

// isNamespaced reports whether the kind has namespaces: kinds of the core group are known, and a parameter or a reference of another kind
// shows it by a namespace.
func (p *parameters) isNamespaced() bool {
	if p.kind.Group == "" {
		return !slices.Contains(clusterScopedCore, p.kind.Kind)
	}
	return slices.ContainsFunc(p.objects, func(o parameter) bool { return o.meta.GetNamespace() != "" }) ||
		slices.ContainsFunc(p.policies, func(p *policy) bool {
			return slices.ContainsFunc(p.bindings, func(b *binding) bool { return b.Spec.ParamRef != nil && b.Spec.ParamRef.Namespace != "" })
		})
}

func (p *parameters) scope() meta.RESTScope {
	if p.isNamespaced() {
		return meta.RESTScopeNamespace
	}
	return meta.RESTScopeRoot
}

// Informer returns an informer that has synced.
func (p *parameters) Informer() cache.SharedIndexInformer { return synced{} }

type synced struct{ cache.SharedIndexInformer }

// HasSynced returns true.
func (synced) HasSynced() bool { return true }

// Lister returns a lister of the parameters.
func (p *parameters) Lister() cache.GenericLister { return parameterLister{parameters: p} }

// parameterLister lists parameters. An empty namespace stands for all.
type parameterLister struct {
	parameters *parameters
	namespace  string
}

// ByNamespace returns a lister of one namespace.
func (l parameterLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return parameterLister{parameters: l.parameters, namespace: namespace}
}

// List returns the parameters with the labels.
func (l parameterLister) List(selector labels.Selector) (found []runtime.Object, err error) {
	for _, object := range l.parameters.objects {
		if (l.namespace == "" || object.meta.GetNamespace() == l.namespace) && selector.Matches(labels.Set(object.meta.GetLabels())) {
			found = append(found, object.Object)
		}
	}
	return found, nil
}

// Get returns the parameter with a name.
func (l parameterLister) Get(name string) (runtime.Object, error) {
	for _, object := range l.parameters.objects {
		if object.meta.GetNamespace() == l.namespace && object.meta.GetName() == name {
			return object.Object, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: l.parameters.kind.Group, Resource: l.parameters.kind.Kind}, name)
}
