/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// attributes are the attributes of a request, which keep the annotations for the audit event.
type attributes struct {
	admission.Attributes

	annotations map[string]string
	isAudited   bool
}

// keyFailure is the key of the annotation with failed validations. The plugin does not export it.
const keyFailure = "validation.policy.admission.k8s.io/validation_failure"

// AddAnnotation keeps an annotation.
func (a *attributes) AddAnnotation(key, value string) error {
	if key == keyFailure {
		a.isAudited = true
		return nil
	}
	a.annotations[key] = value
	return a.Attributes.AddAnnotation(key, value)
}

// The errors of requests.
var (
	errVersion    = errors.New("request.resourceAttributes.version: Required value: rules of admission policies have versions")
	errObject     = errors.New("data.object: Required value for the operations CREATE and UPDATE")
	errOldObject  = errors.New("data.oldObject: Required value for the operations UPDATE and DELETE")
	errKinds      = errors.New("data: object and oldObject must be of one kind and version")
	errCollection = errors.New("deletecollection is about a collection: request.resourceAttributes.name and data.name must be empty")
)

const verbCollection = "deletecollection"

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// parts are the decoded objects of a request. They are nil if the request does not have them.
type parts struct{ object, old, options runtime.Object }

// partsOf decodes the objects of a request. They get the namespace of the request, as in kube-apiserver.
func partsOf(r *simulation.Request, resource schema.GroupVersionResource) (p parts, err error) {
	for _, part := range []struct {
		name string
		raw  *runtime.RawExtension
		into *runtime.Object
	}{{"object", r.Data.Object, &p.object}, {"oldObject", r.Data.OldObject, &p.old}, {"options", r.Data.Options, &p.options}} {
		if part.raw == nil {
			continue
		}
		if *part.into, err = decode(part.raw.Raw); err != nil {
			return p, fmt.Errorf("data.%s: %w", part.name, err)
		}
		accessor, err := meta.Accessor(*part.into)
		if err != nil || part.name == "options" || admission.Operation(r.Data.Operation) == admission.Connect {
			continue // options have no namespace
		}
		if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(r.Spec.ResourceAttributes.Namespace, resource), accessor); err != nil {
			return p, fmt.Errorf("data.%s: %w", part.name, err)
		}
	}
	return p, nil
}

// attributesOf returns the attributes of a request with data.
func attributesOf(r *simulation.Request) (*attributes, error) {
	asked := r.Spec.ResourceAttributes
	switch {
	case asked.Version == "" || asked.Version == "*":
		return nil, errVersion
	case asked.Verb == verbCollection && cmp.Or(r.Data.Name, asked.Name) != "":
		return nil, errCollection
	}
	resource := schema.GroupVersionResource{Group: asked.Group, Version: asked.Version, Resource: asked.Resource}
	p, err := partsOf(r, resource)
	if err != nil {
		return nil, err
	}
	operation := admission.Operation(r.Data.Operation)
	switch {
	case p.object == nil && (operation == admission.Create || operation == admission.Update):
		return nil, errObject
	case p.old == nil && (operation == admission.Update || operation == admission.Delete):
		return nil, errOldObject
	case p.object != nil && p.old != nil && p.object.GetObjectKind().GroupVersionKind() != p.old.GetObjectKind().GroupVersionKind():
		return nil, errKinds
	}
	var kind schema.GroupVersionKind
	name := cmp.Or(r.Data.Name, asked.Name)
	for _, part := range []runtime.Object{p.old, p.object} {
		if part == nil {
			continue
		}
		kind = part.GetObjectKind().GroupVersionKind()
		// Of a collection, policies see each object, but a request without a name.
		if accessor, err := meta.Accessor(part); err == nil && asked.Subresource == "" && asked.Verb != verbCollection {
			name = cmp.Or(name, accessor.GetName())
		}
	}
	if asked.Subresource == "" && kind.GroupVersion() != resource.GroupVersion() {
		return nil, fmt.Errorf("data: the objects are of %s, and the request is for %s", kind.GroupVersion(), resource.GroupVersion())
	}
	namespace := asked.Namespace
	if resource == namespaces {
		if namespace != "" && namespace != name {
			return nil, fmt.Errorf("request.resourceAttributes.namespace: a Namespace is in itself: must be %q or empty", name)
		}
		namespace = name // as kube-apiserver has it
	}
	record := admission.NewAttributesRecord(p.object, p.old, kind, namespace, name, resource, asked.Subresource, operation, p.options, r.Data.DryRun, r.User())
	return &attributes{Attributes: record, annotations: map[string]string{}}, nil
}
