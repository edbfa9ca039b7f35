/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"encoding/json"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

const (
	// maxValueBytes bounds the text of one value.
	maxValueBytes = 160
	// maxValueParts bounds the parts of a value that is converted.
	maxValueParts = 2000
)

// notShown stands for the value of a secret.
const notShown = "(not shown)"

// dataOf returns a value as decoded JSON. It returns false for values that are no JSON, and for large ones. An optional is its value; an
// optional without a value is no JSON.
func dataOf(v cel.Value) (any, bool) {
	left := maxValueParts
	return convert(v, &left)
}

func convert(v cel.Value, left *int) (any, bool) {
	if *left--; *left < 0 || v == nil {
		return nil, false
	}
	switch v := v.(type) {
	case types.String:
		return string(v), true
	case types.Bool:
		return bool(v), true
	case types.Int:
		return int64(v), true
	case types.Double:
		return float64(v), true
	case types.Null:
		return nil, true
	case *types.Optional:
		if !v.HasValue() {
			return nil, false
		}
		return convert(v.GetValue(), left)
	case traits.Mapper:
		entries := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, isText := key.(types.String)
			entry, ok := convert(v.Get(key), left)
			if !isText || !ok {
				return nil, false
			}
			entries[string(name)] = entry
		}
		return entries, true
	case traits.Lister:
		elements := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, ok := convert(it.Next(), left)
			if !ok {
				return nil, false
			}
			elements = append(elements, element)
		}
		return elements, true
	}
	return nil, false
}

// textOf returns a value as JSON in at most maxValueBytes, and an empty text for a value that is not JSON.
func textOf(v cel.Value) string {
	if optional, ok := v.(*types.Optional); ok && !optional.HasValue() {
		return "none"
	}
	data, ok := dataOf(v)
	if !ok {
		return ""
	}
	return jsonText(data, maxValueBytes)
}

// jsonText returns data as JSON in at most a number of bytes.
func jsonText(data any, most int) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(data) != nil {
		return ""
	}
	return excerpt.Of(strings.TrimSuffix(b.String(), "\n"), most)
}
