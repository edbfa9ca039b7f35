/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package things

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
)

// naive is the independent comparison. A value that is absent is missing.
type naive struct{ found []string }

type missing struct{}

// PlainName matches names that a path has without quotes.
var PlainName = regexp.MustCompile(`^[a-zA-Z]+$`)

func (n *naive) add(path string) { n.found = append(n.found, path) }

// IsEmpty reports whether a value is null, empty or missing.
func IsEmpty(v any) bool {
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

// Child returns a field of an object; a field that is absent has a value of its own.
func Child(v any, name string) any {
	fields, _ := v.(map[string]any)
	if value, ok := fields[name]; ok {
		return value
	}
	return missing{}
}

func (n *naive) diff(s *Shape, before, after any, path string) {
	leaf := s.Kind == "scalar" || s.Kind == "atomicList" || s.Kind == "atomicMap"
	if leaf || IsEmpty(before) && IsEmpty(after) {
		if !reflect.DeepEqual(before, after) {
			n.add(path)
		}
		return
	}
	switch s.Kind {
	case "object", "map":
		names := map[string]bool{}
		for _, v := range []any{before, after} {
			fields, _ := v.(map[string]any)
			for name := range fields {
				names[name] = true
			}
		}
		for name := range names {
			field, at := s.Element, fmt.Sprintf("%s[%q]", path, name)
			if s.Kind == "object" {
				field = s.Fields[name]
			}
			if PlainName.MatchString(name) {
				at = path + "." + name
			}
			n.diff(field, Child(before, name), Child(after, name), at)
		}
	case "set", "listMap":
		n.diffList(s, before, after, path)
	}
}

func (n *naive) diffList(s *Shape, before, after any, path string) {
	index := func(v any) (order []string, byName map[string]any) {
		list, _ := v.([]any)
		byName = map[string]any{}
		for _, e := range list {
			name := s.NameOf(e)
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
	element := s.Element
	if s.Kind == "set" {
		element = Text
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

// Owned are the paths of the fields that the server owns.
var Owned = []string{".apiVersion", ".kind", ".metadata.generation", ".metadata.resourceVersion", ".metadata.uid"}

// Changes returns the names of the fields that differ between two things, in alphabetical order.
func Changes(before, after map[string]any) []string {
	n := &naive{}
	var old any = missing{}
	if before != nil {
		old = WithoutEmptyStatus(before)
	}
	n.diff(Thing, old, WithoutEmptyStatus(after), "")
	result := []string{}
	for _, path := range n.found {
		if !slices.Contains(Owned, path) {
			result = append(result, path[1:])
		}
	}
	sort.Strings(result)
	return slices.Compact(result)
}

// WithoutEmptyStatus leaves out a status that says nothing.
func WithoutEmptyStatus(object map[string]any) map[string]any {
	if status, ok := object["status"].(map[string]any); ok && len(status) == 0 {
		object = maps.Clone(object)
		delete(object, "status")
	}
	return object
}
