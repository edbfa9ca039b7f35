/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// maxSchemaNodes bounds how much of a schema is looked at; what follows has the type dyn.
// A Deployment has some 1250 nodes, which take 300 KiB as types.
const maxSchemaNodes = 20_000

// The extensions of OpenAPI that change the type of a value. A value with one of the first two has the type dyn. An object
// with embeddedResource also has the fields apiVersion, kind and metadata, if its schema does not have them.
const (
	intOrString           = "x-kubernetes-int-or-string"
	preserveUnknownFields = "x-kubernetes-preserve-unknown-fields"
	embeddedResource      = "x-kubernetes-embedded-resource"
)

// typeOf returns the type of the objects of a kind, or nil if their schema has no fields.
// The types of nested objects are named by their path. No name is an identifier, so that
// none can be taken for a variable.
func typeOf(kind schema.GroupVersionKind, s *spec.Schema) *apiservercel.DeclType {
	c := converter{budget: maxSchemaNodes}
	name := kind.GroupVersion().String() + "/" + kind.Kind
	if t := c.resource(name, s); t.IsObject() {
		return t
	}
	return nil
}

// converter makes types of schemas. It differs from the converter of Kubernetes, which is
// for data that carries its schema along: here formats do not matter, fields keep their
// names, and what may hold anything is dyn rather than hidden.
type converter struct {
	budget int
}

// resource returns the type of a whole object, which has a kind and metadata whatever its
// schema says.
func (c *converter) resource(name string, s *spec.Schema) *apiservercel.DeclType {
	t := c.value(name, s)
	if !t.IsObject() {
		return t
	}
	for field, fallback := range map[string]*apiservercel.DeclType{
		"apiVersion": apiservercel.StringType,
		"kind":       apiservercel.StringType,
		"metadata":   apiservercel.DynType,
	} {
		if _, ok := t.Fields[field]; !ok {
			t.Fields[field] = apiservercel.NewDeclField(field, fallback, false, nil, nil)
		}
	}
	return t
}

func (c *converter) value(name string, s *spec.Schema) *apiservercel.DeclType {
	c.budget--
	if s == nil || c.budget < 0 || isOpen(s) {
		return apiservercel.DynType
	}
	switch s.Type[0] {
	case "object":
		return c.object(name, s)
	case "array":
		if s.Nullable || s.Items == nil || s.Items.Schema == nil {
			return apiservercel.DynType
		}
		return apiservercel.NewListType(c.nested(name+".@idx", s.Items.Schema), -1)
	}
	if s.Nullable {
		return apiservercel.DynType
	}
	switch s.Type[0] {
	case "string":
		return apiservercel.StringType
	case "boolean":
		return apiservercel.BoolType
	case "integer":
		return apiservercel.IntType
	default:
		// A number is an int or a double, as it is written.
		return apiservercel.DynType
	}
}

func (c *converter) nested(name string, s *spec.Schema) *apiservercel.DeclType {
	if isExtension(s, embeddedResource) {
		return c.resource(name, s)
	}
	return c.value(name, s)
}

// object returns the type of an object with fields, or of a map. It returns dyn for a schema
// that has neither fields nor elements, or both: it is free in what it holds, or refers to
// itself.
func (c *converter) object(name string, s *spec.Schema) *apiservercel.DeclType {
	switch isMap := s.AdditionalProperties != nil; {
	case isMap && (len(s.Properties) > 0 || s.AdditionalProperties.Schema == nil || s.Nullable):
		return apiservercel.DynType
	case isMap:
		return apiservercel.NewMapType(apiservercel.StringType, c.nested(name+".@elem", s.AdditionalProperties.Schema), -1)
	case len(s.Properties) == 0:
		return apiservercel.DynType
	}
	fields := make(map[string]*apiservercel.DeclField, len(s.Properties))
	for _, property := range slices.Sorted(maps.Keys(s.Properties)) { // sorted, so that what the budget leaves out does not depend on chance
		value := s.Properties[property]
		t := c.nested(fmt.Sprintf("%s.%s", name, property), &value)
		fields[property] = apiservercel.NewDeclField(property, t, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, fields)
}

// isOpen reports whether a schema leaves open the type of a value, or the fields of an object.
func isOpen(s *spec.Schema) bool {
	return len(s.Type) != 1 || s.Format == (intstr.IntOrString{}).OpenAPISchemaFormat() ||
		isExtension(s, intOrString) || isExtension(s, preserveUnknownFields)
}

func isExtension(s *spec.Schema, name string) bool {
	set, ok := s.Extensions.GetBool(name)
	return ok && set
}
