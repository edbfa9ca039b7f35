/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package things has a kind, Thing, for the tests of permission on fields: its schema, things at
// random, a comparison that is independent of the code, and mappings for its fields.
package things

import (
	goruntime "runtime"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Object returns an object with the given content, or nil if that is nil.
func Object(content map[string]any) runtime.Object {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

// Parse reads YAML. An empty text is nil.
func Parse(t testing.TB, text string) map[string]any {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	if len(content) == 0 {
		return nil
	}
	return content
}

// Decoded is a thing in YAML as a server decodes it, with its kind.
func Decoded(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	content := Parse(t, text)
	if content == nil {
		content = map[string]any{}
	}
	content["apiVersion"], content["kind"] = Kind.ToAPIVersionAndKind()
	return &unstructured.Unstructured{Object: content}
}

// Managed returns the managed fields of an object, which share its memory.
func Managed(object *unstructured.Unstructured) []any {
	entries, _ := object.Object["metadata"].(map[string]any)["managedFields"].([]any)
	return entries
}

// SetManaged sets the managed fields of an object. Nil removes them.
func SetManaged(object *unstructured.Unstructured, entries []any) {
	metadata := object.Object["metadata"].(map[string]any)
	if delete(metadata, "managedFields"); entries != nil {
		metadata["managedFields"] = entries
	}
}

// WithManaged is a thing with managed fields.
func WithManaged(t testing.TB, entries ...map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := Decoded(t, "metadata: {name: one, uid: u, labels: {super.safe.com/a: x}}")
	var list []any
	for _, e := range entries {
		list = append(list, e)
	}
	SetManaged(o, list)
	return o
}

// Entry is an entry of managed fields; fields are its fieldsV1.
func Entry(manager, operation string, fields map[string]any) map[string]any {
	return map[string]any{
		"manager": manager, "operation": operation, "apiVersion": Kind.GroupVersion().String(),
		"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
	}
}

// Leaves is a node of fieldsV1 with n owned fields.
func Leaves(n int) map[string]any {
	node := map[string]any{}
	for i := range n {
		node["f:"+strconv.Itoa(i)] = map[string]any{}
	}
	return node
}

// MaxAllocated bounds the bytes that a comparison of the objects in these tests may allocate. They
// have at most 2 MiB; a comparison that takes memory in the square of the size takes hundreds.
const MaxAllocated = 48 << 20

// Allocated returns the bytes that a function allocates. Tests that call it must not be parallel.
func Allocated(f func()) uint64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
