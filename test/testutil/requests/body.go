/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package requests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholder is a placeholder in a string. A string that is one placeholder can become a value of another type.
var placeholder = regexp.MustCompile(`\{([a-z]+(?: [a-z]+)?)\}`)

// Placeholders that the sender replaces: the resourceVersion of the stored object, and the index of the entry of a manager in its managedFields.
const (
	storedVersion = "rv"
	storedEntry   = "entry "
)

// useNumber keeps numbers as they are written.
func useNumber(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// decode reads JSON strictly.
func decode(text []byte, into any) error {
	d := useNumber(json.NewDecoder(bytes.NewReader(text)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// marshal writes JSON in one line, with < and > as they are.
func marshal(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // all values have been decoded from JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// replace returns a copy of a value with the placeholders that have a value replaced, in keys, too.
func replace(value any, by map[string]any) any {
	switch v := value.(type) {
	case string:
		if m := placeholder.FindStringSubmatch(v); m != nil && m[0] == v {
			if whole, isKnown := by[m[1]]; isKnown {
				return whole
			}
		}
		return placeholder.ReplaceAllStringFunc(v, func(text string) string {
			if part, isKnown := by[strings.Trim(text, "{}")]; isKnown {
				return fmt.Sprint(part)
			}
			return text
		})
	case map[string]any:
		fields := make(map[string]any, len(v))
		for key, field := range v {
			fields[fmt.Sprint(replace(key, by))] = replace(field, by)
		}
		return fields
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = replace(element, by)
		}
		return list
	}
	return value
}

// check finds placeholders that nothing replaces.
func (t *Table) check(values any) error {
	for _, m := range placeholder.FindAllStringSubmatch(marshal(values), -1) {
		if name := m[1]; name != storedVersion && !strings.HasPrefix(name, storedEntry) && !slices.Contains(t.values, name) {
			return fmt.Errorf("the placeholder {%s} has no value", name)
		}
	}
	return nil
}

// compose merges the parts of an object, which are the names of objects of the file or objects, and a body.
func (t *Table) compose(parts, body any) (any, error) {
	list, isList := parts.([]any)
	if !isList && parts != nil {
		list = []any{parts}
	}
	if list == nil {
		return body, nil
	}
	var object any = map[string]any{}
	for _, part := range append(slices.Clone(list), body) {
		if name, isName := part.(string); isName {
			if part = t.file.Objects[name]; part == nil {
				return nil, fmt.Errorf("there is no object %q", name)
			}
		}
		if part == nil {
			continue
		}
		if _, isObject := part.(map[string]any); !isObject {
			return nil, fmt.Errorf("%v cannot be merged into an object", part)
		}
		object = merge(object, part)
	}
	return object, nil
}

// merge applies a merge patch to a copy of a value.
func merge(value, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	fields, _ := value.(map[string]any)
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]any{}
	}
	for key, change := range changes {
		if change == nil {
			delete(fields, key)
		} else {
			fields[key] = merge(fields[key], change)
		}
	}
	return fields
}
