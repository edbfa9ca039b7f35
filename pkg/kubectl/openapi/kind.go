/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package openapi

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Kind is the schema of one kind of objects. Nil is a kind whose schema is not known: it lists no values, and accepts every change.
//
// A path has the names of fields, and indices of lists as int64.
type Kind struct {
	schema    *spec.Schema
	validator *validate.SchemaValidator
}

// KindOf returns the schema of a kind, or nil if it is not known.
func KindOf(schemas resolver.SchemaResolver, kind schema.GroupVersionKind) *Kind {
	found, err := schemas.ResolveSchema(kind)
	if err != nil || found == nil {
		return nil
	}
	return &Kind{schema: found, validator: validate.NewSchemaValidator(found, nil, "", strfmt.Default)}
}

// EnumOf returns the values that the schema lists for a field, or nothing if it lists none.
func (k *Kind) EnumOf(path []any) []any {
	if k == nil {
		return nil
	}
	now := k.schema
	for _, step := range path {
		if now = below(now, step); now == nil {
			return nil
		}
	}
	return now.Enum
}

// Accepts reports whether a server with this schema can accept the change of one field. A change is refused if the schema has no such field, if
// the changed object breaks the schema in a way in which the object before does not, or if a required field becomes empty: most required lists
// must not be empty, although few schemas say so.
func (k *Kind) Accepts(before, after map[string]any, path []any) bool {
	if k == nil {
		return true
	}
	return k.hasField(path) && !k.empties(before, after, path) && !k.breaks(before, after)
}

// breaks reports whether the schema refuses the object after a change for a reason that the object before does not give. A schema that is invalid
// refuses every change: the validator panics.
func (k *Kind) breaks(before, after map[string]any) (is bool) {
	defer func() { is = recover() != nil || is }()
	known := map[string]bool{}
	for _, err := range k.validator.Validate(before).Errors {
		known[err.Error()] = true
	}
	return slices.ContainsFunc(k.validator.Validate(after).Errors, func(err error) bool { return !known[err.Error()] })
}

// hasField reports whether the schema has a field. Servers drop a field that the schema does not have.
func (k *Kind) hasField(path []any) bool {
	now := k.schema
	for _, step := range path {
		isFree := len(now.Properties) == 0 && now.AdditionalProperties == nil && now.Items == nil
		keeps, _ := now.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
		if now = below(now, step); now == nil {
			return isFree || keeps
		}
	}
	return true
}

// empties reports whether a required field on the path has a value before and none after, or an empty one.
func (k *Kind) empties(before, after map[string]any, path []any) bool {
	now := k.schema
	var old, changed any = before, after
	for _, step := range path {
		isRequired := false
		if name, isName := step.(string); isName {
			isRequired = slices.Contains(now.Required, name)
		}
		old, _ = ValueOf(old, step)
		changed, _ = ValueOf(changed, step)
		if isRequired && isEmpty(changed) && !isEmpty(old) {
			return true
		}
		if now = below(now, step); now == nil {
			return false
		}
	}
	return false
}

// ValueOf returns the field of an object, or the element of a list, to which a step of a path leads.
func ValueOf(v, step any) (value any, has bool) {
	switch step := step.(type) {
	case string:
		fields, _ := v.(map[string]any)
		value, has = fields[step]
	case int64:
		list, _ := v.([]any)
		if has = step >= 0 && step < int64(len(list)); has {
			value = list[step]
		}
	}
	return value, has
}

// isEmpty reports whether there is no value, or one that servers take for none.
func isEmpty(v any) bool {
	switch kind := reflect.ValueOf(v); kind.Kind() {
	case reflect.Invalid:
		return true
	case reflect.String, reflect.Slice, reflect.Map:
		return kind.Len() == 0
	default:
		return false
	}
}
