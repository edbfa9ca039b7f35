/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

// Markers are what schemas say about the permissions of fields. They are immutable; nil is
// none.
type Markers struct {
	rules    []markedRule
	warnings []string
}

type markedRule struct {
	resource schema.GroupVersionResource
	rule     rule
}

func (m *Markers) all() []markedRule {
	if m == nil {
		return nil
	}
	return m.rules
}

// Warnings are what the authors of the schemas should know.
func (m *Markers) Warnings() []string { return slices.Clone(m.warnings) }

var errNoKind = errors.New("there is no schema of it")

// NewMarkers reads the markers in the schemas of an OpenAPI v3 document, whose names must be
// those by which they refer to each other. Resources are those of the kinds that are served.
// All that is wrong is an error, which names the fields: whoever serves schemas that cannot
// be understood does not know what they protect.
func NewMarkers(schemas map[string]*spec.Schema, resources map[schema.GroupVersionKind]string) (*Markers, error) {
	result := &Markers{}
	roots := map[schema.GroupVersionKind]*spec.Schema{}
	for name, s := range schemas {
		kinds, err := changes.KindsOf(s)
		if err != nil {
			return nil, fmt.Errorf("schema %q: %w", name, err)
		}
		for _, kind := range kinds {
			roots[kind] = s
		}
	}
	var errs []error
	kinds := slices.SortedFunc(maps.Keys(resources), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	for _, kind := range kinds {
		source := fmt.Sprintf("the schema of %s in %s", kind.Kind, kind.GroupVersion())
		if roots[kind] == nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, errNoKind))
			continue
		}
		r := &markerReader{schemas: schemas, resource: kind.GroupVersion().WithResource(resources[kind]), source: source}
		r.read(roots[kind])
		errs = append(errs, r.errs...)
		result.warnings = append(result.warnings, r.warnings...)
		for i := range r.rules {
			result.rules = append(result.rules, markedRule{r.resource, r.rules[i]})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return result, nil
}
