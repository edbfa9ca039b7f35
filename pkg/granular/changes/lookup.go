/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// lookup returns the value of an object at a path, nil if there is none. It returns false in the cases
// that Changes.Values lists.
func lookup(object map[string]any, path fieldpath.Path, proceed func() bool) (found any, ok bool) {
	found = object
	for _, e := range path {
		if found == nil {
			return nil, true
		}
		if found, ok = lookupElement(found, e, proceed); !ok {
			return nil, false
		}
	}
	return found, true
}

func lookupElement(in any, e fieldpath.PathElement, proceed func() bool) (any, bool) {
	if e.FieldName != nil {
		fields, ok := in.(map[string]any)
		return fields[*e.FieldName], ok
	}
	list, ok := in.([]any)
	if !ok {
		return nil, false
	}
	var found any
	seen := false
	for i, element := range list {
		if !proceed() {
			return nil, false
		}
		if !isElement(element, i, e) {
			continue
		}
		if seen {
			return nil, false
		}
		found, seen = element, true
	}
	return found, true
}

// isElement reports whether the element at index i of a list can be the one that e identifies by index, value or keys.
// A key that the element lacks matches every value, because the key may have its default.
func isElement(element any, i int, e fieldpath.PathElement) bool {
	switch {
	case e.Index != nil:
		return *e.Index == i
	case e.Value != nil:
		return Equal(element, (*e.Value).Unstructured())
	case e.Key == nil:
		return false
	}
	fields, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for _, key := range *e.Key {
		if value, ok := fields[key.Name]; ok && !Equal(value, key.Value.Unstructured()) {
			return false
		}
	}
	return true
}

// Equal reports whether structured-merge-diff considers two values equal. The numbers 1 and 1.0 are equal.
func Equal(a, b any) bool {
	return value.Equals(value.NewValueInterface(a), value.NewValueInterface(b))
}
