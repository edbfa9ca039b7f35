/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

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
