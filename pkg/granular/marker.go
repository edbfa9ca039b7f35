/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The markers of KEP-3617 in a schema, "Permission Description System". A schema has no place
// for the keys of a map or of a list, so that the source of a parameter is at the field of the
// map or list, or at the field of its elements that is the key.
const (
	markerPrefix = "x-kubernetes-permission-"
	// markerVerb is the permission of a field, and of what is below it.
	markerVerb = markerPrefix + "verb"
	// markerSource names the parameter that the keys of a map or list are, or this key.
	markerSource = markerPrefix + "parameter-source"
	// markerBy names the source of the permission's parameter. A map or list whose own keys
	// are the source has the permission for each element.
	markerBy = markerPrefix + "parameterized-by"
	// markerTreatment is what is made of the key: nothing, or treatmentPrefix.
	markerTreatment = markerPrefix + "parameter-treatment"
	// markerExcluded excludes the field from what permission on the whole object includes.
	markerExcluded = markerPrefix + "excluded"

	treatmentPrefix = "slash-delimited-prefix"
)

// marker is what a schema says about a field.
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

// markerOf reads the markers of a field: at the schema of the field, and at those that it
// refers to. A marker is a text, as generators of Go types write it, or a boolean.
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
