/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package nearmiss puts near misses of kubectl proviso explain into objects, so that tests can try them.
package nearmiss

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
)

// NearMiss is a change of one field, as explain prints it with -o json.
type NearMiss struct {
	// Object is object or oldObject.
	Object string
	// Field is written as in CEL, Action is set, remove or select, and Value is JSON.
	Field, Action, Value string
	// Selectors are the flags of kubectl if Action is select.
	Selectors string
}

var steps = regexp.MustCompile(`^\.?([A-Za-z0-9_]+)|^\[("(?:[^"\\]|\\.)*"|[0-9]+)\]`)

// Apply changes an object, which may be nil, and returns it.
func (m *NearMiss) Apply(t *testing.T, object any) any {
	t.Helper()
	var value any
	if m.Action == "set" {
		if err := json.Unmarshal([]byte(m.Value), &value); err != nil {
			t.Fatal(err)
		}
	}
	return change(t, object, m.Field, m.Action == "remove", value)
}

// change sets or removes a field of an object.
func change(t *testing.T, now any, field string, remove bool, value any) any {
	t.Helper()
	if field == "" {
		return value
	}
	m := steps.FindStringSubmatch(field)
	if m == nil {
		t.Fatalf("%q is no field", field)
	}
	name, rest := m[1], field[len(m[0]):]
	if index, err := strconv.Atoi(m[2]); err == nil {
		list := now.([]any)
		if remove && rest == "" {
			return append(list[:index:index], list[index+1:]...)
		}
		list[index] = change(t, list[index], rest, remove, value)
		return list
	}
	if name == "" {
		name, _ = strconv.Unquote(m[2])
	}
	entries, _ := now.(map[string]any)
	if entries == nil {
		entries = map[string]any{}
	}
	if remove && rest == "" {
		delete(entries, name)
	} else {
		entries[name] = change(t, entries[name], rest, remove, value)
	}
	return entries
}
