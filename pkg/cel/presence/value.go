/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package presence

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

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

type valueKind uint8

const (
	// unknown is a value. At most its place and its shape are known.
	unknown valueKind = iota
	constant
	list
	entries
	optional
	failure
)

// value is the result of an expression in one run.
type value struct {
	kind valueKind
	// key identifies the value: values with the same key are equal in a run.
	key string
	// place is the place in an object for readers, or "" if the expression makes the value, and shape its shape. Elements of a list have the same place.
	place string
	shape *Shape
	// constant is a constant. If isLeast is set, it is a number that is at least as large.
	constant ref.Val
	isLeast  bool
	// items are the elements of a list. If mayHaveMore is set, there may be more of them.
	items       []value
	mayHaveMore bool
	// byKey has the values of a map that the expression makes.
	byKey map[string]value
	// inner is the value of an optional, or nil.
	inner *value
	// keyOf is the key of the map in which this value is a key.
	keyOf string
	// missing is why there is a failure, or why an optional is none.
	missing missing
}

// missing is a value that does not exist, or is null, and the expression that reads it.
type missing struct {
	place  string
	isNull bool
	// isArgument says that the expression is what is null.
	isArgument bool
	id         int64
	expression int
}

func constantOf(v ref.Val) value {
	return value{kind: constant, constant: v, key: fmt.Sprintf("%s %v", v.Type().TypeName(), v.Value())}
}

func boolOf(b bool) value { return constantOf(types.Bool(b)) }

func unknownOf(key string) value { return value{key: key} }

func failureOf(m missing) value { return value{kind: failure, missing: m} }

func someOf(v value) value { return value{kind: optional, inner: &v, key: "some " + v.key} }

// isBool reports whether v is the given bool.
func (v *value) isBool(b bool) bool { return v.kind == constant && v.constant == types.Bool(b) }

// text returns the text of v if v is a constant text.
func (v *value) text() (string, bool) {
	if v.kind != constant {
		return "", false
	}
	text, ok := v.constant.(types.String)
	return string(text), ok
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// placeIn returns the place of a field, a key or an element in a value, or "" if the value has none.
func placeIn(v *value, key value) string {
	if v.place == "" {
		return ""
	}
	return v.place + step(key)
}

// step is how a place shows the step to a field, a key or an element.
func step(key value) string {
	text, isText := key.text()
	switch {
	case isText && identifier.MatchString(text):
		return "." + text
	case isText:
		return "[" + strconv.Quote(text) + "]"
	case key.kind == constant:
		return fmt.Sprintf("[%v]", key.constant.Value())
	case key.place != "":
		return "[" + key.place + "]"
	}
	return "[…]"
}
