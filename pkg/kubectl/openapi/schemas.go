/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package openapi reads the schemas of kinds in documents of OpenAPI v3, for commands.
//
// Invariants:
//
//   - No network is used.
//   - A kind that no document has is an error, and not an empty schema.
package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// Schemas are the kinds and the schemas in documents of OpenAPI v3. The zero value has none.
type Schemas struct {
	documents []*openAPI
}

var (
	_ typechecking.Kinds      = &Schemas{}
	_ resolver.SchemaResolver = &Schemas{}
)

// openAPI is what is read of a document.
type openAPI struct {
	Version    string                     `json:"openapi"`
	Paths      map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]*spec.Schema `json:"schemas"`
	} `json:"components"`
}

var errOpenAPI = errors.New("is not a document of OpenAPI v3: want the output of kubectl get --raw /openapi/v3/api/v1, or of another group")

// Read reads files with documents.
func Read(files []string) (*Schemas, []error) {
	documents, errs := document.Read(nil, files, false)
	s := &Schemas{}
	for _, d := range documents {
		read := &openAPI{}
		if err := json.Unmarshal(d.JSON, read); err != nil || !strings.HasPrefix(read.Version, "3.") {
			errs = append(errs, fmt.Errorf("%v: %w", d.Source, errOpenAPI))
			continue
		}
		s.documents = append(s.documents, read)
	}
	return s, errs
}

// resourcePath is the path of an object of a resource, or of all of them.
var resourcePath = regexp.MustCompile(`^/(?:api|apis/([^/]+))/([^/]+)/(?:namespaces/\{namespace\}/)?([^/{]+)(?:/\{name\})?$`)

// operationKind is the kind of the objects of one operation.
type operationKind struct {
	Kind *schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// KindsFor returns the kinds of the objects that are written to a resource.
func (s *Schemas) KindsFor(resource schema.GroupVersionResource) (kinds []schema.GroupVersionKind, err error) {
	for _, d := range s.documents {
		for path, text := range d.Paths {
			m := resourcePath.FindStringSubmatch(path)
			if m == nil || m[1] != resource.Group || m[3] != resource.Resource || resource.Version != "" && m[2] != resource.Version {
				continue
			}
			operations := struct{ Post, Put, Get *operationKind }{}
			if json.Unmarshal(text, &operations) != nil {
				continue
			}
			for _, o := range []*operationKind{operations.Post, operations.Put, operations.Get} {
				if o != nil && o.Kind != nil && !slices.Contains(kinds, *o.Kind) {
					kinds = append(kinds, *o.Kind)
				}
			}
		}
	}
	return kinds, nil
}

// ResolveSchema returns the schema of a kind.
func (s *Schemas) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	const prefix = "#/components/schemas/"
	for _, d := range s.documents {
		for name, found := range d.Components.Schemas {
			var kinds []schema.GroupVersionKind
			if found == nil || found.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds) != nil || !slices.Contains(kinds, kind) {
				continue
			}
			return resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
				referred, ok := d.Components.Schemas[strings.TrimPrefix(ref, prefix)]
				return referred, ok && referred != nil
			}, name)
		}
	}
	return nil, fmt.Errorf("%s: %w", kind, resolver.ErrSchemaNotFound)
}

// below returns the schema of a field or an element, or nil.
func below(s *spec.Schema, step any) *spec.Schema {
	name, isName := step.(string)
	switch {
	case !isName && s.Items != nil:
		return s.Items.Schema
	case !isName:
		return nil
	}
	if field, ok := s.Properties[name]; ok {
		return &field
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

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
