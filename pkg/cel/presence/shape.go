/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package presence

// Shape describes the values at one place of an object. Nothing is known of a value whose shape is nil. A Shape must not be changed once it
// is used.
type Shape struct {
	// Fields are the fields of an object, or keys that a map is known to have.
	Fields map[string]*Shape
	// Element is the shape of the values of a map, or of the elements of a list.
	Element *Shape
	// IsList says that Element is about the elements of a list.
	IsList bool
	// Always says that the value exists if the object around it exists. For Element it says that the list is not empty.
	Always bool
	// Nullable says that the value may be null.
	Nullable bool
	// Free says that there may be other fields, with any values.
	Free bool
}

var (
	free = &Shape{Free: true}
	leaf = &Shape{}
	sure = &Shape{Always: true}
)

// Request is the shape of the variable request. All its fields exist, but a user need not have a key of extra.
var Request = &Shape{Fields: map[string]*Shape{"userInfo": {Always: true, Fields: map[string]*Shape{
	"username": sure, "uid": sure, "groups": sure, "extra": {Always: true, Element: leaf},
}}, "verb": sure, "apiGroup": sure, "apiVersion": sure, "resource": sure, "subresource": sure, "namespace": sure, "name": sure, "path": sure, "fieldSelector": nil, "labelSelector": nil}}

// Namespace is the shape of the variable namespaceObject. kube-apiserver gives each namespace a label with its name.
var Namespace = &Shape{Fields: map[string]*Shape{"metadata": {Always: true, Fields: map[string]*Shape{
	"name": sure, "uid": sure, "resourceVersion": sure, "creationTimestamp": sure,
	"labels":      {Always: true, Element: leaf, Fields: map[string]*Shape{"kubernetes.io/metadata.name": sure}},
	"annotations": {Element: leaf}, "finalizers": {IsList: true, Element: leaf}, "generation": leaf, "deletionTimestamp": leaf,
}}}}
