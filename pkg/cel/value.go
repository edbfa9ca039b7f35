/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Value is a value of CEL.
type Value = ref.Val

// Text returns a string as a value of CEL.
func Text(text string) Value { return types.String(text) }

// Texts returns a list of CEL with texts as its elements. It shares the slice: the caller must not change it afterwards.
func Texts(texts []string) Value { return types.NewStringList(types.DefaultTypeAdapter, texts) }

// Known converts data, as decoded from JSON, to a CEL value for a known variable. It converts maps of Go at every depth,
// because a CEL map over a map of Go does not treat keys of all types alike.
func Known(data any) Value {
	switch value := data.(type) {
	case map[string]any:
		entries := make(map[Value]Value, len(value))
		for k, v := range value {
			entries[types.String(k)] = Known(v)
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, entries)
	case []any:
		elements := make([]Value, 0, len(value))
		for _, v := range value {
			elements = append(elements, Known(v))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	default:
		return types.DefaultTypeAdapter.NativeToValue(data)
	}
}
