/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

var (
	errRoot      = errors.New("must be on a field: the permission on the whole object is the verb of the request")
	errNoSource  = errors.New("names no source: a map, a set or a list with keys must have it as " + markerSource + ", the field itself or one that it is in")
	errNotKey    = errors.New("must be at a map, at a set, at a list with one key or at the key of a list: there is no key here")
	errTwoKeys   = errors.New("names two keys in the path of one field")
	errNowhere   = errors.New("there are markers where a schema describes no field: in anyOf, oneOf, not, patternProperties, allOf or tuples, for any field beside others, or beside a reference")
	errEndless   = errors.New("the schema contains itself, so that its markers are about endlessly many fields")
	errReference = errors.New("the schema refers to one that is not there, or to itself")
	errSamePath  = errors.New("the field has two permissions")
	errTwoNames  = errors.New("has another parameter in another place of the schema, so that its verb would mean two things")
)

// markerReader reads the markers in the schema of one kind, and collects rules, warnings and errors.
type markerReader struct {
	schemas  map[string]*spec.Schema
	resource schema.GroupVersionResource
	source   string

	rules    []Rule
	warnings []string
	errs     []error
}

// read reads the schema of the kind.
func (r *markerReader) read(root *spec.Schema) {
	r.visit(root, place{})
	paths, parameters := map[string]bool{}, map[string]string{}
	for i := range r.rules {
		one := &r.rules[i]
		path, parameter := one.pattern.String(), one.parameter.String()
		if paths[path] {
			r.fail(one.pattern, errSamePath)
		}
		if other, ok := parameters[one.permission]; ok && other != parameter {
			r.fail(one.pattern, fmt.Errorf("permission %q %w", one.permission, errTwoNames))
		}
		paths[path], parameters[one.permission] = true, parameter
	}
}

func (r *markerReader) fail(at pattern, err error) {
	path := at.String()
	if path == "" {
		path = "the object"
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s: %w", r.source, path, err))
}

// place is the place of a schema in a kind, with facts about the schemas that contain it.
type place struct {
	pattern pattern
	sources map[string]key // the keys in the path, by the name that markerSource gives them
	within  []string       // the names of the schemas that contain the schema
	keys    []string       // if the schema is of list elements, their fields that are keys of the list
	isKey   bool           // the schema is of such a field, or of an element of a set
	atomic  bool           // the schema is in an atomic list or map
}

// key identifies the key of a map or list that the [*] at a step stands for. If the list has several
// keys, name selects one.
type key struct {
	step int
	name string
}

// in returns the place of a schema that is one step below p.
func (p place) in(s step) place {
	p.pattern = append(slices.Clip(p.pattern), s)
	p.keys, p.isKey = nil, false
	return p
}

// addSource returns a place whose sources also have the key k with a name. If they have the name already, it records an
// error and returns the place unchanged.
func (r *markerReader) addSource(at place, name string, k key) place {
	if _, ok := at.sources[name]; ok {
		r.fail(at.pattern, fmt.Errorf("%s %q %w", markerSource, name, errTwoKeys))
		return at
	}
	sources := map[string]key{name: k}
	maps.Copy(sources, at.sources)
	at.sources = sources
	return at
}

// node is the schema that is reached by the references of another schema.
type node struct {
	*spec.Schema
	layers []*spec.Schema // all schemas on the way, from the first to the one that is reached
	names  []string       // the names of the schemas that were referred to
}

// resolve follows the references of a schema. It returns an error if a schema does not exist, or refers to itself.
func (r *markerReader) resolve(s *spec.Schema) (node, error) {
	n := node{Schema: s, layers: []*spec.Schema{s}}
	for {
		name := reference(n.Schema)
		if name == "" {
			return n, nil
		}
		if n.Schema = r.schemas[name]; n.Schema == nil || slices.Contains(n.names, name) {
			return node{}, fmt.Errorf("%w: %s", errReference, name)
		}
		n.layers, n.names = append(n.layers, n.Schema), append(n.names, name)
	}
}

// reference returns the name of the schema that s refers to, or nothing if s is no reference. A reference that
// has other properties beside it is the only member of allOf.
func reference(s *spec.Schema) string {
	text := s.Ref.String()
	if text == "" && len(s.AllOf) == 1 {
		text = s.AllOf[0].Ref.String()
	}
	return text[strings.LastIndexByte(text, '/')+1:]
}

// extension returns an extension that is a text, from the first layer that has it, or nothing.
func (n node) extension(name string) string {
	for _, layer := range n.layers {
		if text, ok := layer.Extensions.GetString(name); ok {
			return text
		}
	}
	return ""
}

func (n node) isArray() bool { return n.Items != nil && n.Items.Schema != nil }

func (n node) isSet() bool { return n.isArray() && n.extension("x-kubernetes-list-type") == "set" }

// isMap reports whether the schema is of a map: an object with fields of any name, and no named ones.
func (n node) isMap() bool {
	return n.AdditionalProperties != nil && n.AdditionalProperties.Schema != nil && len(n.Properties) == 0
}

// listKeys returns the names of the fields that are the keys of the elements of a list, or nil if the list has no keys.
func (n node) listKeys() []string {
	if !n.isArray() || n.extension("x-kubernetes-list-type") != "map" {
		return nil
	}
	for _, layer := range n.layers {
		if keys, ok := layer.Extensions.GetStringSlice("x-kubernetes-list-map-keys"); ok {
			return keys
		}
	}
	return nil
}

// isAtomic reports whether structured-merge-diff compares the list or map as a whole.
func (n node) isAtomic() bool {
	if n.isArray() {
		return !n.isSet() && len(n.listKeys()) == 0
	}
	return n.extension("x-kubernetes-map-type") == "atomic"
}

// key returns the key of the elements of the map, set or list, whose [*] is at the step at. It returns false for an atomic
// map or list, for a list with several keys, and for all other schemas.
func (n node) key(at int) (key, bool) {
	keys := n.listKeys()
	switch {
	case n.isMap() && !n.isAtomic(), n.isSet():
		return key{step: at}, true
	case len(keys) == 1:
		return key{step: at, name: keys[0]}, true
	}
	return key{}, false
}

// visit reads the markers of a schema and of the schemas of its fields and elements. It returns at once if they have no
// markers, as most have none.
func (r *markerReader) visit(s *spec.Schema, at place) {
	if !r.reaches(s, map[string]bool{}) {
		return
	}
	n, err := r.resolve(s)
	if err == nil {
		err = r.check(n, at)
	}
	if err != nil {
		r.fail(at.pattern, err)
		return
	}
	m, err := markerOf(n.layers)
	if err != nil {
		r.fail(at.pattern, err)
		return
	}
	below := at
	below.within, below.atomic = append(slices.Clip(at.within), n.names...), at.atomic || n.isAtomic()
	if m.source != "" && !at.isKey {
		k, ok := n.key(len(at.pattern))
		if !ok {
			r.fail(at.pattern, fmt.Errorf("%s %w", markerSource, errNotKey))
			return
		}
		below = r.addSource(below, m.source, k)
	}
	if m.verb != "" {
		r.addRule(m, at, below)
	}
	r.visitFields(n, below)
	r.visitElements(n, below)
}

// check returns an error if visit could not read all markers in a schema. The reader visits the fields of the schema that
// is reached by references only, so there must be no markers in fields beside a reference.
func (r *markerReader) check(n node, at place) error {
	inField := func(field *spec.Schema) bool { return r.reaches(field, map[string]bool{}) }
	beside := func(layer *spec.Schema) bool { return slices.ContainsFunc(fieldsOf(layer), inField) }
	switch {
	case len(at.pattern) > maxSteps:
		return errPathDeep
	case slices.ContainsFunc(n.names, func(name string) bool { return slices.Contains(at.within, name) }):
		return errEndless
	case slices.ContainsFunc(n.layers, r.hidesMarkers), slices.ContainsFunc(n.layers[:len(n.layers)-1], beside):
		return errNowhere
	}
	return nil
}

func (r *markerReader) visitFields(n node, at place) {
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		property := n.Properties[name]
		field := at.in(step{kind: stepName, name: name})
		field.isKey = slices.Contains(at.keys, name)
		r.visit(&property, field)
	}
	if n.isMap() {
		r.visit(n.AdditionalProperties.Schema, at.in(step{kind: stepAny}))
	}
}

// visitElements visits the schema of the elements of a list. The markers in it can refer to the keys of the list.
func (r *markerReader) visitElements(n node, at place) {
	if !n.isArray() {
		return
	}
	element := at.in(step{kind: stepAny})
	fields, err := r.resolve(n.Items.Schema)
	if err != nil {
		r.fail(element.pattern, err)
		return
	}
	if n.isSet() {
		element.isKey = true
		element = r.addKey(element, fields.layers, key{step: len(at.pattern)})
	}
	element.keys = n.listKeys()
	for _, name := range element.keys {
		property, ok := fields.Properties[name]
		if !ok {
			continue
		}
		resolved, err := r.resolve(&property)
		if err != nil {
			r.fail(element.pattern, err)
			return
		}
		element = r.addKey(element, resolved.layers, key{step: len(at.pattern), name: name})
	}
	r.visit(n.Items.Schema, element)
}

// addKey adds the key k to the sources of a place, if the schema of the key has the marker markerSource with its name.
// Mistakes in the markers of that schema are found when it is visited.
func (r *markerReader) addKey(at place, layers []*spec.Schema, k key) place {
	if m, err := markerOf(layers); err == nil && m.source != "" {
		return r.addSource(at, m.source, k)
	}
	return at
}

// addRule adds the rule that the marker m defines for the field at the place at, or records an error. The place below is the place
// at as the schemas inside the field see it: its sources also have the key of the elements of the field, if m gives this key a name.
// If this key is the parameter of the rule, the rule is for each element of the field. Otherwise it is for the field itself.
func (r *markerReader) addRule(m marker, at, below place) {
	result := Rule{pattern: at.pattern, permission: m.verb, excluded: m.excluded, source: r.source}
	if m.by != "" {
		k, ok := below.sources[m.by]
		if !ok {
			r.fail(at.pattern, fmt.Errorf("%s %q %w", markerBy, m.by, errNoSource))
			return
		}
		if k.step == len(at.pattern) {
			result.pattern = below.in(step{kind: stepAny}).pattern
		}
		result.parameter = &parameter{step: k.step, key: k.name, treatment: m.treatment}
	}
	if len(result.pattern) == 0 {
		r.fail(nil, fmt.Errorf("%s %w", markerVerb, errRoot))
		return
	}
	if reason := result.pattern.isOwned(); reason != "" {
		r.fail(result.pattern, errors.New(reason))
		return
	}
	warnings, err := ValidatePermission(m.verb, result.pattern.names())
	if err != nil {
		r.fail(result.pattern, fmt.Errorf("%s %q %w", markerVerb, m.verb, err))
		return
	}
	if at.atomic && !m.excluded {
		warnings = append(warnings, fmt.Sprintf("permission %q is of no use: what the field is in changes as a whole", m.verb))
	}
	for _, w := range warnings {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: %s: %s", r.source, result.pattern, w))
	}
	if err := r.againstBuiltIn(&result); err != nil {
		r.fail(result.pattern, err)
		return
	}
	r.rules = append(r.rules, result)
}

// againstBuiltIn refuses a rule that contradicts a built-in one.
func (r *markerReader) againstBuiltIn(result *Rule) error {
	for _, b := range builtInFor(r.resource.GroupResource()) {
		if b.pattern.String() == result.pattern.String() && b.grants() != result.grants() {
			return fmt.Errorf("%s %q is not the built-in permission %s of the field, which is the same for every object", markerVerb, result.permission, b.permission)
		}
	}
	return nil
}

// reaches reports whether there are markers in a schema, in schemas inside it, or in schemas that these refer to. It
// follows no reference that is in seen, and adds those that it follows.
func (r *markerReader) reaches(s *spec.Schema, seen map[string]bool) bool {
	if s == nil {
		return false
	}
	if name := s.Ref.String(); name != "" && !seen[name] {
		seen[name] = true
		if r.reaches(r.schemas[reference(s)], seen) {
			return true
		}
	}
	return r.reachesBesideReference(s, seen)
}

// reachesBesideReference is reaches without the reference that a schema itself is.
func (r *markerReader) reachesBesideReference(s *spec.Schema, seen map[string]bool) bool {
	reaches := func(other *spec.Schema) bool { return r.reaches(other, seen) }
	return hasMarkers(s) || slices.ContainsFunc(fieldsOf(s), reaches) || slices.ContainsFunc(partsOf(s), reaches)
}

// hidesMarkers reports whether a schema has markers where it describes no field. Of the reference in allOf that resolve
// follows, this is everything beside the reference.
func (r *markerReader) hidesMarkers(s *spec.Schema) bool {
	return slices.ContainsFunc(partsOf(s), func(part *spec.Schema) bool {
		//guard:granular-markers-second-reference
		if s.Ref.String() == "" && len(s.AllOf) == 1 && part == &s.AllOf[0] && part.Ref.String() != "" {
			//guard:granular-markers-beside-reference-allof
			return r.reachesBesideReference(part, map[string]bool{})
		}
		return r.reaches(part, map[string]bool{})
	})
}

// fieldsOf returns the schemas of the fields of a struct, of the values of a map, and of the elements of a list.
func fieldsOf(s *spec.Schema) []*spec.Schema {
	var fields []*spec.Schema
	for _, property := range s.Properties {
		fields = append(fields, &property)
	}
	if len(s.Properties) == 0 && s.AdditionalProperties != nil {
		fields = append(fields, s.AdditionalProperties.Schema)
	}
	if s.Items != nil {
		fields = append(fields, s.Items.Schema)
	}
	return fields
}

// partsOf returns the schemas in a schema that do not describe one of its fields or its elements, such as anyOf and not.
func partsOf(s *spec.Schema) []*spec.Schema {
	parts := []*spec.Schema{s.Not}
	for _, list := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			parts = append(parts, &list[i])
		}
	}
	if s.Items != nil {
		for i := range s.Items.Schemas {
			parts = append(parts, &s.Items.Schemas[i])
		}
	}
	for _, some := range s.PatternProperties {
		parts = append(parts, &some)
	}
	if len(s.Properties) > 0 && s.AdditionalProperties != nil {
		parts = append(parts, s.AdditionalProperties.Schema)
	}
	return parts
}
