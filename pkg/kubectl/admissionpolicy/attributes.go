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
	errNoResource = errors.New("admission policies decide about resources only: data must not be given for a path")
	errVersion    = errors.New("request.resourceAttributes.version: Required value: rules of admission policies have versions")
	errObject     = errors.New("data.object: Required value for the operations CREATE and UPDATE")
	errOldObject  = errors.New("data.oldObject: Required value for the operations UPDATE and DELETE")
	errKinds      = errors.New("data: object and oldObject must be of one kind and version")
	errCollection = errors.New("deletecollection is about a collection: request.resourceAttributes.name and data.name must be empty")
)

const verbCollection = "deletecollection"

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// attributesOf returns the attributes of a request with data.
func attributesOf(r *simulation.Request) (*attributes, error) {
	asked := r.Spec.ResourceAttributes
	switch {
	case asked == nil:
		return nil, errNoResource
	case asked.Version == "" || asked.Version == "*":
		return nil, errVersion
	}
	parts := map[string]runtime.Object{}
	for _, part := range []struct {
		name string
		raw  *runtime.RawExtension
	}{{"object", r.Data.Object}, {"oldObject", r.Data.OldObject}, {"options", r.Data.Options}} {
		if part.raw == nil {
			continue
		}
		object, err := decode(part.raw.Raw)
		if err != nil {
			return nil, fmt.Errorf("data.%s: %w", part.name, err)
		}
		parts[part.name] = object
	}
	object, old := parts["object"], parts["oldObject"]
	operation := admission.Operation(r.Data.Operation)
	switch {
	case object == nil && (operation == admission.Create || operation == admission.Update):
		return nil, errObject
	case old == nil && (operation == admission.Update || operation == admission.Delete):
		return nil, errOldObject
	case object != nil && old != nil && object.GetObjectKind().GroupVersionKind() != old.GetObjectKind().GroupVersionKind():
		return nil, errKinds
	case asked.Verb == verbCollection && cmp.Or(r.Data.Name, asked.Name) != "":
		return nil, errCollection
	}
	var kind schema.GroupVersionKind
	name := cmp.Or(r.Data.Name, asked.Name)
	for _, part := range []runtime.Object{old, object} {
		if part == nil {
			continue
		}
		kind = part.GetObjectKind().GroupVersionKind()
		// Of a collection, policies see each object, but a request without a name.
		if accessor, err := meta.Accessor(part); err == nil && asked.Subresource == "" && asked.Verb != verbCollection {
			name = cmp.Or(name, accessor.GetName())
		}
	}
	resource := schema.GroupVersionResource{Group: asked.Group, Version: asked.Version, Resource: asked.Resource}
	if asked.Subresource == "" && kind.GroupVersion() != resource.GroupVersion() {
		return nil, fmt.Errorf("data: the objects are of %s, and the request is for %s", kind.GroupVersion(), resource.GroupVersion())
	}
	namespace := asked.Namespace
	if namespace == "" && resource == namespaces {
		namespace = name // as kube-apiserver has it
	}
	record := admission.NewAttributesRecord(object, old, kind, namespace, name, resource, asked.Subresource, operation, parts["options"], r.Data.DryRun, r.User())
	return &attributes{Attributes: record, annotations: map[string]string{}}, nil
}
