/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package question

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// The errors of arguments.
var (
	errEmptyParts = errors.New("the verb and the resource must not be empty")
	errURLFile    = errors.New("--filename can not be used with NonResourceURL")
	errFileAll    = errors.New("--filename can not be used with --all-namespaces: an object has one namespace")
	errFileSub    = errors.New("--filename can be used with --subresource only for the verbs update and patch")
)

// Check returns an error for arguments, one or two, that are about no request, or with a file about none with an object.
func (q *Question) Check(args []string, hasFile bool) error {
	isURL := len(args) == 2 && IsURL(args[1])
	if err := q.readSelectors(args[0], isURL); err != nil {
		return err
	}
	switch {
	case slices.Contains(args, ""):
		return errEmptyParts
	case isURL && q.Subresource != "":
		return ErrURLSubresource
	case !hasFile:
		return nil
	case isURL:
		return errURLFile
	case q.AllNamespaces:
		return errFileAll
	case simulation.Operations[args[0]] == "":
		return fmt.Errorf("--filename can not be used with the verb %q: only create, update, patch and delete have an object", args[0])
	case q.Subresource != "" && args[0] != "update" && args[0] != "patch":
		return errFileSub
	}
	return nil
}

// ReadObject reads the object of the request, and sets the resource, the name and the namespace. The object must be of the type in the arguments, if they have
// one. namespace is the value of --namespace.
func (q *Question) ReadObject(d document.Document, mapper meta.RESTMapper, namespace string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(d.JSON); err != nil {
		return nil, fmt.Errorf("%v: %w", d.Source, errNoObject) // err quotes the file, which may have secrets
	}
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", d.Source, err)
	}
	if !q.Resource.Empty() && q.Resource.GroupResource() != mapping.Resource.GroupResource() {
		return nil, fmt.Errorf("%v: the object is of the resource %s, and not of %s", d.Source, mapping.Resource.GroupResource(), q.Resource.GroupResource())
	}
	q.Resource = mapping.Resource
	hasNamespaces := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	err = q.locate(d.Source, object, hasNamespaces && !q.AllNamespaces, namespace)
	q.IsClusterScoped = !hasNamespaces && q.Namespace == ""
	return object, err
}

var errNoObject = errors.New("is not one object with apiVersion and kind")

// locate sets the name and the namespace of the request, and of the object.
func (q *Question) locate(at document.Source, object *unstructured.Unstructured, isNamespaced bool, flag string) error {
	name, namespace := object.GetName(), object.GetNamespace()
	if q.Name != "" && name != "" && q.Name != name {
		return fmt.Errorf("%v: the name of the object is %q, and not %q", at, name, q.Name)
	}
	switch {
	case !isNamespaced:
		q.Namespace = ""
	case namespace == "":
		object.SetNamespace(q.Namespace)
	case flag != "" && namespace != q.Namespace:
		return fmt.Errorf("%v: the namespace of the object is %q, and not %q", at, namespace, q.Namespace)
	default:
		q.Namespace = namespace
	}
	switch {
	case q.Verb == "create": // requests that create have no name at authorization
		if q.Name != "" {
			object.SetName(q.Name)
		}
		q.Name = ""
	case q.Name == "" && name == "":
		return fmt.Errorf("%v: the object has no name", at)
	case q.Name == "":
		q.Name = name
	default:
		object.SetName(q.Name)
	}
	if q.IsOfNamespaces() {
		q.Namespace = q.Name // a Namespace is in itself, once it exists
	}
	return nil
}

// DataOf returns the data of a request without parameters about plain objects, as simulation.DataOf has them.
func DataOf(verb string, objects ...*unstructured.Unstructured) (*authorizationv1alpha1.AuthorizationConditionsRequest, error) {
	raw := make([]*runtime.RawExtension, len(objects))
	for i, object := range objects {
		var err error
		if raw[i], err = Raw(object); err != nil {
			return nil, err
		}
	}
	data, err := simulation.DataOf(verb, raw...)
	if err != nil {
		return nil, err
	}
	kind := map[authorizationv1alpha1.Operation]string{
		authorizationv1alpha1.OperationCreate: "CreateOptions", authorizationv1alpha1.OperationUpdate: "UpdateOptions", authorizationv1alpha1.OperationDelete: "DeleteOptions",
	}[data.Operation]
	data.Options, err = Raw(metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: kind})
	return data, err
}

// Raw returns an object as a review has it.
func Raw(object any) (*runtime.RawExtension, error) {
	text, err := json.Marshal(object)
	return &runtime.RawExtension{Raw: text}, err
}
