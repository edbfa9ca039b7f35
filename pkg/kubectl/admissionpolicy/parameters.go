/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

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
