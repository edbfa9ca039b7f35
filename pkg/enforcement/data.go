/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
)

// requestData is the data about a request at admission, with the objects in the version of the
// request (KEP-5681, "Authorizer requirements"). One call of Enforce uses it, which evaluates the
// conditions one after the other.
type requestData struct {
	admitted  admission.Attributes
	objects   admission.ObjectInterfaces
	namespace func(name string) (map[string]any, error)

	converted   bool
	object, old runtime.Object

	// sent is the object as the user has sent it. It is nil if no value of the object may be shown.
	sent runtime.Object
	// read are the fields that false conditions have read.
	read [][]string

	// cel evaluates CEL conditions of other authorizers within one budget.
	cel *celeval.DataEvaluator
}

var (
	_ authorizer.ConditionsData   = &requestData{}
	_ authorization.NamespaceData = &requestData{}
	_ celeval.FieldsReader        = &requestData{}
)

// convert converts the objects to the version of the request, once.
func (d *requestData) convert() (err error) {
	if d.converted {
		return nil
	}
	convert := func(obj runtime.Object) (runtime.Object, error) {
		if obj == nil {
			return nil, nil
		}
		return inVersion(obj, d.admitted.GetKind(), d.objects)
	}
	if d.object, err = convert(d.admitted.GetObject()); err != nil {
		return err
	}
	if d.old, err = convert(d.admitted.GetOldObject()); err != nil {
		return err
	}
	d.converted = true
	return nil
}

// inVersion returns an object in the version of the request. An object that has the type of that version already is not converted:
// the hub of a kind may be the type of one of its versions, and a scheme cannot convert a type without the method DeepCopyInto to
// itself. It is copied if it does not say its kind, which the copy says. The caller must not change the result.
func inVersion(obj runtime.Object, kind schema.GroupVersionKind, objects admission.ObjectInterfaces) (runtime.Object, error) {
	//guard:enforcement-unstructured-objects-converted
	if _, isUnstructured := obj.(runtime.Unstructured); !isUnstructured { // one type for all versions
		if out, err := objects.GetObjectCreater().New(kind); err == nil && reflect.TypeOf(out) == reflect.TypeOf(obj) {
			if obj.GetObjectKind().GroupVersionKind() == kind {
				return obj, nil
			}
			out = obj.DeepCopyObject()
			out.GetObjectKind().SetGroupVersionKind(kind)
			return out, nil
		}
	}
	return admission.ConvertToGVK(obj, kind, objects)
}

// GetNamespaceObject returns the namespace of the request. It returns nil if the request has none, or if the server cannot read
// namespaces.
func (d *requestData) GetNamespaceObject() (map[string]any, error) {
	if d.namespace == nil || d.admitted.GetNamespace() == "" {
		return nil, nil
	}
	return d.namespace(d.admitted.GetNamespace())
}

func (d *requestData) GetName() string                          { return d.admitted.GetName() }
func (d *requestData) GetNamespace() string                     { return d.admitted.GetNamespace() }
func (d *requestData) GetResource() schema.GroupVersionResource { return d.admitted.GetResource() }
func (d *requestData) GetSubresource() string                   { return d.admitted.GetSubresource() }
func (d *requestData) GetKind() schema.GroupVersionKind         { return d.admitted.GetKind() }
func (d *requestData) GetUserInfo() user.Info                   { return d.admitted.GetUserInfo() }
func (d *requestData) IsDryRun() bool                           { return d.admitted.IsDryRun() }
func (d *requestData) GetOperationOptions() runtime.Object      { return d.admitted.GetOperationOptions() }
func (d *requestData) GetObject() runtime.Object                { return d.object }
func (d *requestData) GetOldObject() runtime.Object             { return d.old }

func (d *requestData) GetOperation() authorizer.AdmissionOperation {
	return d.admitted.GetOperation()
}
