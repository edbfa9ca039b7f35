/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
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

// lastApplied is the annotation in which kubectl apply stores the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secrets are the fields of built-in kinds that hold secrets, by kind.
var secrets = map[string][][]string{
	"Secret":       {{"data"}, {"stringData"}, {"metadata", "annotations", lastApplied}},
	"TokenReview":  {{"spec", "token"}, {"metadata", "annotations", lastApplied}},
	"TokenRequest": {{"status", "token"}},
}

// secretResources are the kinds of secrets, by resource.
var secretResources = map[string]string{"secrets": "Secret", "tokenreviews": "TokenReview", "serviceaccounts/token": "TokenRequest"}

// secrecy has the fields of an object whose values are not shown.
type secrecy [][]string

// secrecyOf returns the fields of a request that are not shown: those that hold secrets, by the resource or by the kind of its objects, and
// further fields, with dots between their names.
func secrecyOf(r *simulation.Request, further []string) (s secrecy, err error) {
	//guard:explain-secrets-resource
	if a := r.Spec.ResourceAttributes; a != nil {
		s = append(s, secrets[secretResources[strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")]]...)
	}
	if r.Data != nil {
		for _, raw := range objectsOf(r) {
			kind, _ := raw["kind"].(string)
			//guard:explain-secrets-kind-object
			s = append(s, secrets[kind]...)
		}
	}
	for _, field := range further {
		path := strings.Split(field, ".")
		if slices.Contains(path, "") {
			return s, fmt.Errorf("--hide must be a field such as spec.password, not %q", field)
		}
		s = append(s, path)
	}
	return s, nil
}

// hidesAny reports whether a value that may depend on these fields may depend on a secret.
func (s secrecy) hidesAny(reads []explanation.Read) bool {
	return slices.ContainsFunc(reads, func(read explanation.Read) bool {
		return (read.Variable == cel.Object || read.Variable == cel.OldObject) && s.hides(read.Path)
	})
}

// hides reports whether a field is a secret, is in one, or has one in it.
func (s secrecy) hides(path []string) bool {
	return slices.ContainsFunc(s, func(field []string) bool {
		//guard:explain-parts-holds-secrets
		common := min(len(field), len(path))
		return slices.Equal(field[:common], path[:common])
	})
}
