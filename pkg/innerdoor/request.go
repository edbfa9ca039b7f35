/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

var (
	errNotDecided   = errors.New("the inner door does not decide this kind of request")
	errNoResource   = errors.New("the review has no requestResource")
	errOtherVersion = errors.New("the review has its objects in another version than the request")
	errNoObject     = errors.New("the review lacks an object that this operation has")
	errNotAnObject  = errors.New("is not a JSON object")
)

// Write is a write that has reached admission, as kube-apiserver describes it in an AdmissionReview. One goroutine uses
// it.
type Write struct {
	request   *admissionv1.AdmissionRequest
	resource  Resource
	kind      *Kind
	namespace func(name string) (map[string]any, error)

	decoded              bool
	object, old, options runtime.Object
}

// NewWrite reads the request of an AdmissionReview. namespace returns a Namespace as it is decoded from JSON; it may be nil. The
// error says why the inner door cannot decide the request.
func NewWrite(request *admissionv1.AdmissionRequest, namespace func(name string) (map[string]any, error)) (*Write, error) {
	if request.RequestResource == nil || request.RequestKind == nil {
		return nil, errNoResource
	}
	//guard:inner-door-another-version
	if *request.RequestResource != request.Resource || *request.RequestKind != request.Kind || request.RequestSubResource != request.SubResource {
		return nil, errOtherVersion
	}
	w := &Write{
		request: request, namespace: namespace,
		resource: Resource{Group: request.Resource.Group, Resource: request.Resource.Resource, Subresource: request.SubResource},
	}
	for i, k := range Kinds {
		if string(k.Operation) == string(request.Operation) && k.Has(w.resource) {
			w.kind = &Kinds[i]
			return w, nil
		}
	}
	return nil, fmt.Errorf("%w: %s of %s", errNotDecided, request.Operation, w.resource)
}

// Ways returns the requests that kube-apiserver has authorized if the write was sent in one of its ways.
func (w *Write) Ways() [][]authorizer.AttributesRecord {
	ways := w.kind.Ways
	if w.isOfCollection() {
		ways = []Way{w.kind.Collection}
	}
	all := make([][]authorizer.AttributesRecord, 0, len(ways))
	for _, way := range ways {
		requests := make([]authorizer.AttributesRecord, 0, len(way))
		for _, check := range way {
			requests = append(requests, w.attributes(check))
		}
		all = append(all, requests)
	}
	return all
}

// isOfCollection reports whether the write is about one object of a collection.
//
//guard:inner-door-collection-no-object
func (w *Write) isOfCollection() bool { return w.kind.Collection != nil && w.request.Name == "" }

// read returns the request that reads the stored object, or the collection that it is in, and which of the two that is. A subresource
// has parts of the object, so that the permission on the object itself counts.
func (w *Write) read() (request authorizer.AttributesRecord, objects string) {
	check, objects := Check{Verb: "get", Named: true}, "object"
	if w.isOfCollection() {
		//guard:inner-door-reading-collection
		check, objects = Check{Verb: "list"}, "objects"
	}
	request = w.attributes(check)
	//guard:inner-door-reading-object-not-subresource
	request.Subresource = ""
	return request, objects
}

// attributes returns the request that has a check.
func (w *Write) attributes(check Check) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{
		User: w.user(), Verb: check.Verb, ResourceRequest: true,
		APIGroup: w.resource.Group, APIVersion: w.request.Resource.Version, Resource: w.resource.Resource, Subresource: w.resource.Subresource,
		Namespace: w.request.Namespace,
	}
	if check.Named {
		a.Name = w.request.Name
	}
	if w.resource.isNamespaces() {
		a.Namespace = a.Name // a namespace is in itself, but for a POST
	}
	return a
}

// Decode decodes the objects of the write, once. An update has both, a create only the new one, a delete only the old one.
func (w *Write) Decode() (err error) {
	if w.decoded {
		return nil
	}
	if w.object, err = decode(w.request.Object); err != nil {
		return fmt.Errorf("object: %w", err)
	}
	if w.old, err = decode(w.request.OldObject); err != nil {
		return fmt.Errorf("oldObject: %w", err)
	}
	if w.options, err = decode(w.request.Options); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	operation := admissionregistrationv1.OperationType(w.request.Operation)
	//guard:inner-door-objects-missing
	if (w.object != nil) != (operation != admissionregistrationv1.Delete) || (w.old != nil) != (operation != admissionregistrationv1.Create) {
		return errNoObject
	}
	w.decoded = true
	return nil
}

// changesOwners reports whether an update changes the owners of its object. The objects must have been decoded. Owners that cannot be
// read count as changed.
func (w *Write) changesOwners() bool {
	if w.request.Operation != admissionv1.Update {
		return false
	}
	before, known := ownersOf(w.old)
	after, alsoKnown := ownersOf(w.object)
	//guard:inner-door-owners-cannot-read
	return !known || !alsoKnown || len(before)+len(after) > 0 && !reflect.DeepEqual(before, after)
}

func ownersOf(object runtime.Object) (owners []any, ok bool) {
	fields, isUnstructured := object.(*unstructured.Unstructured)
	if !isUnstructured {
		return nil, false
	}
	value, _, err := unstructured.NestedFieldNoCopy(fields.Object, "metadata", "ownerReferences")
	if err != nil || value == nil {
		return nil, err == nil
	}
	owners, ok = value.([]any)
	return owners, ok
}

// decode returns an object, or nil if there is none. The error does not quote it.
func decode(raw runtime.RawExtension) (runtime.Object, error) {
	content := bytes.TrimSpace(raw.Raw)
	if len(content) == 0 || string(content) == "null" {
		return nil, nil
	}
	var fields map[string]any
	if json.Unmarshal(content, &fields) != nil || fields == nil {
		return nil, errNotAnObject
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// user returns the user who sent the write.
func (w *Write) user() user.Info { return authorization.UserOf(&w.request.UserInfo) }

// data is what conditions read of a write. Its objects must have been decoded.
type data struct{ *Write }

var (
	_ authorizer.ConditionsData   = &data{}
	_ authorization.NamespaceData = &data{}
)

func (w *data) GetUserInfo() user.Info { return w.user() }

// GetNamespaceObject returns the namespace of the write, or nil if it has none. kube-apiserver says of a namespace that it is in itself,
// also before it exists; it has none here, as in admission policies.
func (w *data) GetNamespaceObject() (map[string]any, error) {
	//guard:inner-door-namespace-namespace
	if w.namespace == nil || w.request.Namespace == "" || w.resource.isNamespaces() {
		return nil, nil
	}
	return w.namespace(w.request.Namespace)
}

func (w *data) GetName() string                     { return w.request.Name }
func (w *data) GetNamespace() string                { return w.request.Namespace }
func (w *data) GetSubresource() string              { return w.request.SubResource }
func (w *data) IsDryRun() bool                      { return w.request.DryRun != nil && *w.request.DryRun }
func (w *data) GetOperationOptions() runtime.Object { return w.options }
func (w *data) GetObject() runtime.Object           { return w.object }
func (w *data) GetOldObject() runtime.Object        { return w.old }
func (w *data) GetOperation() authorizer.AdmissionOperation {
	return authorizer.AdmissionOperation(w.request.Operation)
}

func (w *data) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource(w.request.Resource)
}

func (w *data) GetKind() schema.GroupVersionKind {
	return schema.GroupVersionKind(w.request.Kind)
}
