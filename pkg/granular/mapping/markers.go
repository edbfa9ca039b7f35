/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

// Markers are the rules that the schemas of this server define for fields. They are immutable. A nil pointer has no
// rules.
type Markers struct {
	rules    []markedRule
	warnings []string
}

type markedRule struct {
	resource schema.GroupVersionResource
	rule     Rule
}

// Warnings returns warnings for the authors of the schemas.
func (m *Markers) Warnings() []string { return slices.Clone(m.warnings) }

var errNoKind = errors.New("there is no schema of it")

// NewMarkers reads the markers in the schemas of an OpenAPI v3 document. The key of a schema must be the
// name by which other schemas refer to it. Resources are the resources of the kinds that are served. The error
// lists all mistakes in markers, with the names of the fields: a server that cannot understand its schemas does
// not know which fields they protect.
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
			result.rules = append(result.rules, markedRule{resource: r.resource, rule: r.rules[i]})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return result, nil
}

// The markers of KEP-3617 in a schema, "Permission Description System". A schema has no place
// for the keys of a map or of a list, so that the source of a parameter is at the field of the
// map or list, or at the field of its elements that is the key.
const (
	markerPrefix = "x-kubernetes-permission-"
	// markerVerb is the permission of a field, and of what is below it.
	markerVerb = markerPrefix + "verb"
	// markerSource gives a name to keys, to which markerBy refers. On a map, set or list it names the keys of
	// its elements; on a field that is a key of list elements it names this key.
	markerSource = markerPrefix + "parameter-source"
	// markerBy is the name, by markerSource, of the key that is the permission's parameter. If it is the key of
	// the field's own elements, the permission is for each element instead of the field.
	markerBy = markerPrefix + "parameterized-by"
	// markerTreatment is the treatment of the key: none, or treatmentPrefix.
	markerTreatment = markerPrefix + "parameter-treatment"
	// markerExcluded excludes the field from what permission on the whole object includes.
	markerExcluded = markerPrefix + "excluded"

	treatmentPrefix = "slash-delimited-prefix"
)

// marker has the values of the markers of one field.
type marker struct {
	verb, source, by string
	treatment        treatment
	excluded         bool
}

var (
	errMarkerText    = errors.New("must be a text that is not empty")
	errMarkerBool    = errors.New("must be true or false")
	errMarkerUnknown = errors.New("is no marker that is known")
	errMarkerTwice   = errors.New("says one thing at the field and another at its type")
	errMarkerNoVerb  = errors.New("needs " + markerVerb + " beside it")
	errMarkerNoBy    = errors.New("needs " + markerBy + " beside it")
	errTreatment     = errors.New("must be " + treatmentPrefix + ", or not be there")
)

// markerOf reads the markers of a field in layers: the schema of the field, and the schemas that it
// refers to. A marker is a text, as generators of Go types write it, or a boolean. Markers that are unknown, that
// contradict each other or that need another marker are an error.
func markerOf(layers []*spec.Schema) (marker, error) {
	texts := map[string]string{}
	for _, layer := range layers {
		for _, key := range slices.Sorted(maps.Keys(layer.Extensions)) {
			name := strings.ToLower(key)
			if !strings.HasPrefix(name, markerPrefix) {
				continue
			}
			text, err := markerText(name, layer.Extensions[key])
			if err != nil {
				return marker{}, fmt.Errorf("%s %w", name, err)
			}
			if other, ok := texts[name]; ok && other != text {
				return marker{}, fmt.Errorf("%s %w: %q and %q", name, errMarkerTwice, other, text)
			}
			texts[name] = text
		}
	}
	m := marker{verb: texts[markerVerb], source: texts[markerSource], by: texts[markerBy], excluded: texts[markerExcluded] == "true"}
	text, treated := texts[markerTreatment]
	switch {
	case treated && text != treatmentPrefix:
		return marker{}, fmt.Errorf("%s %w", markerTreatment, errTreatment)
	case treated && m.by == "":
		return marker{}, fmt.Errorf("%s %w", markerTreatment, errMarkerNoBy)
	case m.by != "" && m.verb == "":
		return marker{}, fmt.Errorf("%s %w", markerBy, errMarkerNoVerb)
	case m.excluded && m.verb == "":
		return marker{}, fmt.Errorf("%s %w", markerExcluded, errMarkerNoVerb)
	case treated:
		m.treatment = slashDelimitedPrefix
	}
	return m, nil
}

func markerText(name string, value any) (string, error) {
	switch name {
	case markerVerb, markerSource, markerBy, markerTreatment:
		if text, ok := value.(string); ok && text != "" {
			return text, nil
		}
		return "", errMarkerText
	case markerExcluded:
		if text := fmt.Sprint(value); text == "true" || text == "false" {
			return text, nil
		}
		return "", errMarkerBool
	}
	return "", errMarkerUnknown
}

// hasMarkers reports whether a schema itself has markers, of any name.
func hasMarkers(s *spec.Schema) bool {
	for key := range s.Extensions {
		if strings.HasPrefix(strings.ToLower(key), markerPrefix) {
			return true
		}
	}
	return false
}
