/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/pkg/granular"
)

// shape is what the tests know of a type. The schema that the code gets is made of it, and
// so is what it is compared with.
type shape struct {
	kind     string // scalar, object, map, listMap, set, atomicList or atomicMap
	fields   map[string]*shape
	element  *shape
	keys     []string
	defaults map[string]any // of keys
}

var (
	text    = &shape{kind: "scalar"}
	textMap = &shape{kind: "map", element: text}
	textSet = &shape{kind: "set"}

	conditionShape = &shape{kind: "object", fields: map[string]*shape{"type": text, "status": text, "reason": text}}
	portShape      = &shape{kind: "object", fields: map[string]*shape{"port": text, "protocol": text, "extra": textMap}}
	containerShape = &shape{kind: "object", fields: map[string]*shape{
		"name": text, "image": text, "args": {kind: "atomicList"},
		"ports": {kind: "listMap", element: portShape, keys: []string{"port", "protocol"}, defaults: map[string]any{"protocol": "TCP"}},
	}}
	thingShape = &shape{kind: "object", fields: map[string]*shape{
		"apiVersion": text, "kind": text,
		"metadata": {kind: "object", fields: map[string]*shape{
			"name": text, "labels": textMap, "annotations": textMap, "finalizers": textSet, "generation": text, "resourceVersion": text, "uid": text,
			"ownerReferences": {kind: "listMap", keys: []string{"uid"}, element: &shape{kind: "object", fields: map[string]*shape{"uid": text, "name": text}}},
		}},
		"spec": {kind: "object", fields: map[string]*shape{
			"replicas": text, "selector": {kind: "atomicMap"}, "tags": textSet,
			"containers": {kind: "listMap", element: containerShape, keys: []string{"name"}},
		}},
		"status": {kind: "object", fields: map[string]*shape{
			"phase": text, "conditions": {kind: "listMap", element: conditionShape, keys: []string{"type"}},
		}},
	}}

	thing = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
)

// openAPI is the schema of a shape.
func (s *shape) openAPI() spec.Schema {
	result := spec.Schema{}
	extend := func(key string, value any) { result.AddExtension(key, value) }
	switch s.kind {
	case "scalar":
		result.Type = spec.StringOrArray{"string"}
	case "object":
		result.Type = spec.StringOrArray{"object"}
		result.Properties = map[string]spec.Schema{}
		for name, field := range s.fields {
			result.Properties[name] = field.openAPI()
		}
	case "map":
		result = *spec.MapProperty(ptrTo(s.element.openAPI()))
	case "atomicMap":
		result = *spec.MapProperty(spec.StringProperty())
		extend("x-kubernetes-map-type", "atomic")
	case "set":
		result = *spec.ArrayProperty(spec.StringProperty())
		extend("x-kubernetes-list-type", "set")
	case "atomicList":
		result = *spec.ArrayProperty(spec.StringProperty())
		extend("x-kubernetes-list-type", "atomic")
	case "listMap":
		element := s.element.openAPI()
		for name, value := range s.defaults {
			property := element.Properties[name]
			property.Default = value
			element.Properties[name] = property
		}
		result = *spec.ArrayProperty(&element)
		extend("x-kubernetes-list-type", "map")
		keys := make([]any, 0, len(s.keys))
		for _, k := range s.keys {
			keys = append(keys, k)
		}
		extend("x-kubernetes-list-map-keys", keys)
	}
	return result
}

func ptrTo[T any](v T) *T { return &v }

// thingSchemas are the schemas of things. Managed fields are not in the shape, because they are
// not compared like other fields.
func thingSchemas() map[string]*spec.Schema {
	s := thingShape.openAPI()
	managed := spec.ArrayProperty(&spec.Schema{VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}}, SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}})
	managed.AddExtension("x-kubernetes-list-type", "atomic")
	s.Properties["metadata"].Properties["managedFields"] = *managed
	s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": thing.Group, "version": thing.Version, "kind": thing.Kind}})
	return map[string]*spec.Schema{"thing": &s}
}

// thingTypes are the types that know things.
func thingTypes(t testing.TB) granular.Types {
	t.Helper()
	types, err := granular.NewTypes(thingSchemas())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := types.TypeOf(t.Context(), thing); err != nil {
		t.Fatal("the types do not know things, so the test proves nothing")
	}
	return types
}

// naive is the independent diff. A value that is absent is missing.
type naive struct{ found []string }

type missing struct{}

var plain = regexp.MustCompile(`^[a-zA-Z]+$`)

func (n *naive) add(path string) { n.found = append(n.found, path) }

func isEmpty(v any) bool {
	switch v := v.(type) {
	case missing, nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func child(v any, name string) any {
	fields, _ := v.(map[string]any)
	if value, ok := fields[name]; ok {
		return value
	}
	return missing{}
}

func (n *naive) diff(s *shape, before, after any, path string) {
	leaf := s.kind == "scalar" || s.kind == "atomicList" || s.kind == "atomicMap"
	if leaf || isEmpty(before) && isEmpty(after) {
		if !reflect.DeepEqual(before, after) {
			n.add(path)
		}
		return
	}
	switch s.kind {
	case "object", "map":
		names := map[string]bool{}
		for _, v := range []any{before, after} {
			fields, _ := v.(map[string]any)
			for name := range fields {
				names[name] = true
			}
		}
		for name := range names {
			field, at := s.element, fmt.Sprintf("%s[%q]", path, name)
			if s.kind == "object" {
				field = s.fields[name]
			}
			if plain.MatchString(name) {
				at = path + "." + name
			}
			n.diff(field, child(before, name), child(after, name), at)
		}
	case "set", "listMap":
		n.diffList(s, before, after, path)
	}
}

func (n *naive) diffList(s *shape, before, after any, path string) {
	index := func(v any) (order []string, byName map[string]any) {
		list, _ := v.([]any)
		byName = map[string]any{}
		for _, e := range list {
			name := s.nameOf(e)
			order, byName[name] = append(order, name), e
		}
		return order, byName
	}
	orderBefore, inBefore := index(before)
	orderAfter, inAfter := index(after)
	common := func(order []string, in map[string]any) (kept []string) {
		for _, name := range order {
			if _, ok := in[name]; ok {
				kept = append(kept, name)
			}
		}
		return kept
	}
	if !slices.Equal(common(orderBefore, inAfter), common(orderAfter, inBefore)) {
		n.add(path)
	}
	element := s.element
	if s.kind == "set" {
		element = text
	}
	for _, name := range append(orderBefore, orderAfter...) {
		get := func(in map[string]any) any {
			if e, ok := in[name]; ok {
				return e
			}
			return missing{}
		}
		n.diff(element, get(inBefore), get(inAfter), path+name)
	}
}

func (s *shape) nameOf(element any) string {
	if s.kind == "set" {
		return fmt.Sprintf("[%q]", element)
	}
	result := ""
	for _, key := range s.keys {
		value := child(element, key)
		if value == (missing{}) {
			if s.defaults[key] == nil {
				continue
			}
			value = s.defaults[key]
		}
		if result != "" {
			result += ","
		}
		result += fmt.Sprintf("%s=%q", key, value)
	}
	return "[" + result + "]"
}

var owned = []string{".apiVersion", ".kind", ".metadata.generation", ".metadata.resourceVersion", ".metadata.uid"}

func naiveChanges(before, after map[string]any) []string {
	n := &naive{}
	var old any = missing{}
	if before != nil {
		old = withoutEmptyStatus(before)
	}
	n.diff(thingShape, old, withoutEmptyStatus(after), "")
	result := []string{}
	for _, path := range n.found {
		if !slices.Contains(owned, path) {
			result = append(result, path[1:])
		}
	}
	sort.Strings(result)
	return slices.Compact(result)
}

// withoutEmptyStatus leaves out a status that says nothing.
func withoutEmptyStatus(object map[string]any) map[string]any {
	if status, ok := object["status"].(map[string]any); ok && len(status) == 0 {
		object = maps.Clone(object)
		delete(object, "status")
	}
	return object
}

var words = []string{"a", "b", "c", "d", "example.com/a", "super.safe.com/b", ""}

// random makes a value of a shape.
func (s *shape) random(r *rand.Rand, depth int) any {
	if depth > 1 && s.kind != "scalar" && r.IntN(12) == 0 {
		return nil
	}
	word := func() string { return words[r.IntN(len(words))] }
	switch s.kind {
	case "scalar":
		return word()
	case "atomicMap", "map":
		result := map[string]any{}
		for range r.IntN(4) {
			result[word()] = word()
		}
		return result
	case "atomicList":
		result := []any{}
		for range r.IntN(4) {
			result = append(result, word())
		}
		return result
	case "object":
		result := map[string]any{}
		for _, name := range sortedNames(s.fields) {
			if depth < 1 || r.IntN(3) > 0 {
				result[name] = s.fields[name].random(r, depth+1)
			}
		}
		return result
	}
	return s.randomList(r, depth)
}

func (s *shape) randomList(r *rand.Rand, depth int) any {
	result := []any{}
	seen := map[string]bool{}
	for range r.IntN(5) {
		var element any = words[r.IntN(len(words))]
		if s.kind == "listMap" {
			fields, _ := s.element.random(r, max(depth+1, 2)).(map[string]any)
			if fields == nil {
				continue
			}
			for _, key := range s.keys {
				fields[key] = words[r.IntN(len(words))]
				if s.defaults[key] != nil && r.IntN(2) == 0 {
					delete(fields, key)
				}
			}
			element = fields
		}
		if name := s.nameOf(element); !seen[name] {
			seen[name] = true
			result = append(result, element)
		}
	}
	return result
}

func sortedNames(fields map[string]*shape) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// edit returns a copy of a value in which some things are different.
func (s *shape) edit(r *rand.Rand, value any, depth int) any {
	if value == nil || depth > 0 && r.IntN(12) == 0 {
		return s.random(r, depth)
	}
	switch value := value.(type) {
	case map[string]any:
		result := map[string]any{}
		for _, name := range keysOf(value) {
			field := s.element
			if s.kind == "object" {
				field = s.fields[name]
			}
			switch {
			case depth > 0 && r.IntN(10) == 0: // removed
			case field == nil:
				result[name] = value[name]
			default:
				result[name] = field.edit(r, value[name], depth+1)
			}
		}
		return result
	case []any:
		return s.editList(r, value, depth)
	}
	return value
}

func (s *shape) editList(r *rand.Rand, list []any, depth int) any {
	result := []any{}
	added, _ := s.random(r, depth).([]any)
	for _, e := range append(slices.Clone(list), added...) {
		same := func(other any) bool { return s.kind != "atomicList" && s.nameOf(other) == s.nameOf(e) }
		switch {
		case slices.ContainsFunc(result, same), r.IntN(8) == 0:
			continue
		case s.kind == "listMap":
			edited, ok := s.element.edit(r, e, depth+2).(map[string]any)
			if !ok {
				continue
			}
			for _, key := range s.keys {
				delete(edited, key)
				if value, ok := e.(map[string]any)[key]; ok {
					edited[key] = value
				}
			}
			e = edited
		}
		if r.IntN(8) == 0 {
			result = append([]any{e}, result...)
		} else {
			result = append(result, e)
		}
	}
	return result
}

func keysOf(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// randomPair makes an object and what became of it; there is no object before a create.
func randomPair(seed uint64) (before, after map[string]any) {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test must be repeatable
	before = thingShape.random(r, 0).(map[string]any)
	after, _ = thingShape.edit(r, before, 0).(map[string]any)
	for _, o := range []map[string]any{before, after} {
		o["apiVersion"], o["kind"] = thing.ToAPIVersionAndKind()
	}
	if r.IntN(20) == 0 {
		before = nil
	}
	return before, after
}
