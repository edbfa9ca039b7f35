/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package things

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

// Shape describes a type. The schema for the code under test, random values and the independent comparison are
// derived from it.
type Shape struct {
	Kind     string // scalar, object, map, listMap, set, atomicList or atomicMap
	Fields   map[string]*Shape
	Element  *Shape
	Keys     []string
	Defaults map[string]any // of keys
}

var (
	// Text is the shape of every scalar.
	Text    = &Shape{Kind: "scalar"}
	textMap = &Shape{Kind: "map", Element: Text}
	textSet = &Shape{Kind: "set"}

	conditionShape = &Shape{Kind: "object", Fields: map[string]*Shape{"type": Text, "status": Text, "reason": Text}}
	portShape      = &Shape{Kind: "object", Fields: map[string]*Shape{"port": Text, "protocol": Text, "extra": textMap}}
	containerShape = &Shape{Kind: "object", Fields: map[string]*Shape{
		"name": Text, "image": Text, "args": {Kind: "atomicList"},
		"ports": {Kind: "listMap", Element: portShape, Keys: []string{"port", "protocol"}, Defaults: map[string]any{"protocol": "TCP"}},
	}}
	// Thing is the shape of a thing.
	Thing = &Shape{Kind: "object", Fields: map[string]*Shape{
		"apiVersion": Text, "kind": Text,
		"metadata": {Kind: "object", Fields: map[string]*Shape{
			"name": Text, "labels": textMap, "annotations": textMap, "finalizers": textSet, "generation": Text, "resourceVersion": Text, "uid": Text,
			"ownerReferences": {Kind: "listMap", Keys: []string{"uid"}, Element: &Shape{Kind: "object", Fields: map[string]*Shape{"uid": Text, "name": Text}}},
		}},
		"spec": {Kind: "object", Fields: map[string]*Shape{
			"replicas": Text, "selector": {Kind: "atomicMap"}, "tags": textSet,
			"containers": {Kind: "listMap", Element: containerShape, Keys: []string{"name"}},
		}},
		"status": {Kind: "object", Fields: map[string]*Shape{
			"phase": Text, "conditions": {Kind: "listMap", Element: conditionShape, Keys: []string{"type"}},
		}},
	}}

	// Kind is the kind of things.
	Kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
)

// OpenAPI returns the schema of the shape.
func (s *Shape) OpenAPI() spec.Schema {
	result := spec.Schema{}
	extend := func(key string, value any) { result.AddExtension(key, value) }
	switch s.Kind {
	case "scalar":
		result.Type = spec.StringOrArray{"string"}
	case "object":
		result.Type = spec.StringOrArray{"object"}
		result.Properties = map[string]spec.Schema{}
		for name, field := range s.Fields {
			result.Properties[name] = field.OpenAPI()
		}
	case "map":
		result = *spec.MapProperty(ptr.To(s.Element.OpenAPI()))
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
		element := s.Element.OpenAPI()
		for name, value := range s.Defaults {
			property := element.Properties[name]
			property.Default = value
			element.Properties[name] = property
		}
		result = *spec.ArrayProperty(&element)
		extend("x-kubernetes-list-type", "map")
		keys := make([]any, 0, len(s.Keys))
		for _, k := range s.Keys {
			keys = append(keys, k)
		}
		extend("x-kubernetes-list-map-keys", keys)
	}
	return result
}

// Schemas returns the schemas of things. Managed fields are not in the shape, because they are
// not compared like other fields.
func Schemas() map[string]*spec.Schema {
	s := Thing.OpenAPI()
	managed := spec.ArrayProperty(&spec.Schema{VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}}, SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}})
	managed.AddExtension("x-kubernetes-list-type", "atomic")
	s.Properties["metadata"].Properties["managedFields"] = *managed
	s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": Kind.Group, "version": Kind.Version, "kind": Kind.Kind}})
	return map[string]*spec.Schema{"thing": &s}
}

// Types returns types that know things.
func Types(t testing.TB) changes.Types {
	t.Helper()
	types, err := changes.NewTypes(Schemas())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := types.TypeOf(t.Context(), Kind); err != nil {
		t.Fatal("the types do not know things, so the test proves nothing")
	}
	return types
}

// NameOf returns the name of an element of a list of this shape.
func (s *Shape) NameOf(element any) string {
	if s.Kind == "set" {
		return fmt.Sprintf("[%q]", element)
	}
	result := ""
	for _, key := range s.Keys {
		value := Child(element, key)
		if value == (missing{}) {
			if s.Defaults[key] == nil {
				continue
			}
			value = s.Defaults[key]
		}
		if result != "" {
			result += ","
		}
		result += fmt.Sprintf("%s=%q", key, value)
	}
	return "[" + result + "]"
}

var words = []string{"a", "b", "c", "d", "example.com/a", "super.safe.com/b", ""}

// random makes a value of a Shape.
func (s *Shape) random(r *rand.Rand, depth int) any {
	if depth > 1 && s.Kind != "scalar" && r.IntN(12) == 0 {
		return nil
	}
	word := func() string { return words[r.IntN(len(words))] }
	switch s.Kind {
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
		for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
			if depth < 1 || r.IntN(3) > 0 {
				result[name] = s.Fields[name].random(r, depth+1)
			}
		}
		return result
	}
	return s.randomList(r, depth)
}

func (s *Shape) randomList(r *rand.Rand, depth int) any {
	result := []any{}
	seen := map[string]bool{}
	for range r.IntN(5) {
		var element any = words[r.IntN(len(words))]
		if s.Kind == "listMap" {
			fields, _ := s.Element.random(r, max(depth+1, 2)).(map[string]any)
			if fields == nil {
				continue
			}
			for _, key := range s.Keys {
				fields[key] = words[r.IntN(len(words))]
				if s.Defaults[key] != nil && r.IntN(2) == 0 {
					delete(fields, key)
				}
			}
			element = fields
		}
		if name := s.NameOf(element); !seen[name] {
			seen[name] = true
			result = append(result, element)
		}
	}
	return result
}

// Edit returns a copy of a value in which some things are different.
func (s *Shape) Edit(r *rand.Rand, value any, depth int) any {
	if value == nil || depth > 0 && r.IntN(12) == 0 {
		return s.random(r, depth)
	}
	switch value := value.(type) {
	case map[string]any:
		result := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			field := s.Element
			if s.Kind == "object" {
				field = s.Fields[name]
			}
			switch {
			case depth > 0 && r.IntN(10) == 0: // removed
			case field == nil:
				result[name] = value[name]
			default:
				result[name] = field.Edit(r, value[name], depth+1)
			}
		}
		return result
	case []any:
		return s.editList(r, value, depth)
	}
	return value
}

func (s *Shape) editList(r *rand.Rand, list []any, depth int) any {
	result := []any{}
	added, _ := s.random(r, depth).([]any)
	for _, e := range append(slices.Clone(list), added...) {
		same := func(other any) bool { return s.Kind != "atomicList" && s.NameOf(other) == s.NameOf(e) }
		switch {
		case slices.ContainsFunc(result, same), r.IntN(8) == 0:
			continue
		case s.Kind == "listMap":
			edited, ok := s.Element.Edit(r, e, depth+2).(map[string]any)
			if !ok {
				continue
			}
			for _, key := range s.Keys {
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

// RandomPair makes an object and what became of it; there is no object before a create.
func RandomPair(seed uint64) (before, after map[string]any) {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test must be repeatable
	before = Thing.random(r, 0).(map[string]any)
	after, _ = Thing.Edit(r, before, 0).(map[string]any)
	for _, o := range []map[string]any{before, after} {
		o["apiVersion"], o["kind"] = Kind.ToAPIVersionAndKind()
	}
	if r.IntN(20) == 0 {
		before = nil
	}
	return before, after
}
