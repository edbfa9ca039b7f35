/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// ErrNoSchema means that a kind is known to have no schema.
var ErrNoSchema = errors.New("the kind has no schema")

// Types has the schemas of kinds, which define the keys of lists. It must be safe for
// concurrent use.
type Types interface {
	// TypeOf returns the type of a kind. The error wraps ErrNoSchema if the kind is known to
	// have none: its objects are compared without. After every other error they cannot be
	// compared.
	TypeOf(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error)
}

// TypesFunc is a function that implements Types.
type TypesFunc func(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error)

// TypeOf implements Types.
func (f TypesFunc) TypeOf(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	return f(ctx, kind)
}

// Divide returns Types that use own for every kind of the given versions, also for kinds that own does
// not have, and others for all other kinds. A server that has the schemas of the kinds that it serves
// thus depends on no other server for decisions about them.
func Divide(own Types, versions []schema.GroupVersion, others Types) Types {
	return TypesFunc(func(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
		if slices.Contains(versions, kind.GroupVersion()) {
			return own.TypeOf(ctx, kind)
		}
		return others.TypeOf(ctx, kind)
	})
}

// groupVersionKinds is the extension with the kinds that a schema describes.
const groupVersionKinds = "x-kubernetes-group-version-kind"

// NewTypes makes Types of the schemas of an OpenAPI v3 document. The key of a schema must be the name by
// which other schemas refer to it.
func NewTypes(schemas map[string]*spec.Schema) (Types, error) {
	converted, err := schemaconv.ToSchemaFromOpenAPI(schemas, false)
	if err != nil {
		return nil, fmt.Errorf("reading schemas: %w", err)
	}
	parser := &typed.Parser{Schema: smdschema.Schema{Types: converted.Types}}
	types := map[schema.GroupVersionKind]typed.ParseableType{}
	for name, s := range schemas {
		described, err := KindsOf(s)
		if err != nil {
			return nil, fmt.Errorf("schema %q: %w", name, err)
		}
		for _, kind := range described {
			types[kind] = parser.Type(name)
		}
	}
	return TypesFunc(func(_ context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
		if found, ok := types[kind]; ok {
			return found, nil
		}
		return typed.ParseableType{}, fmt.Errorf("%w: %s", ErrNoSchema, kind)
	}), nil
}

// KindsOf returns the kinds that a schema describes: several for the options of requests.
func KindsOf(s *spec.Schema) ([]schema.GroupVersionKind, error) {
	var kinds []schema.GroupVersionKind
	if err := s.Extensions.GetObject(groupVersionKinds, &kinds); err != nil {
		return nil, fmt.Errorf("%s: %w", groupVersionKinds, err)
	}
	return kinds, nil
}

// typeWithoutSchema is the type of objects without schema. It has the types of some metadata: finalizers are a set, and
// ownerReferences a list with the key uid. All other lists are atomic, and the type of every other field is deduced from
// its value.
var typeWithoutSchema = mustParse(`types:
- name: object
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: metadata}}
    elementType: {namedType: __untyped_deduced_}
- name: metadata
  map:
    fields:
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: annotations, type: {map: {elementType: {scalar: string}}}}
    - {name: finalizers, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - {name: ownerReferences, type: {list: {elementType: {namedType: __untyped_deduced_}, elementRelationship: associative, keys: [uid]}}}
    elementType: {namedType: __untyped_deduced_}
`)

// mustParse parses types that may refer to the types of structured-merge-diff for values without a schema, such as __untyped_deduced_.
func mustParse(text typed.YAMLObject) typed.ParseableType {
	parser, err := typed.NewParser(text)
	if err != nil {
		panic(err) // a constant does not parse
	}
	parser.Schema.Types = append(parser.Schema.Types, typed.DeducedParseableType.Schema.Types...)
	return parser.Type("object")
}
