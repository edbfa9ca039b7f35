/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsreview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// servedKinds decodes objects of the kinds that this server serves, as it does in requests. The
// zero value has no kinds.
type servedKinds struct {
	scheme  *runtime.Scheme
	decoder runtime.Decoder
}

func newServedKinds(scheme *runtime.Scheme) servedKinds {
	if scheme == nil {
		return servedKinds{}
	}
	return servedKinds{scheme: scheme, decoder: json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})}
}

// objectOf decodes a JSON object, or returns nil for null and for an empty value. If this server
// serves the object's kind, fields have the same types as in a request: an integer in a field of
// type float64 is a double. Defaults are not applied. In objects of other kinds, the JSON text
// determines the types. kind is used for an object without a kind of its own, and may be nil.
func (k servedKinds) objectOf(raw *runtime.RawExtension, kind *metav1.GroupVersionKind) (map[string]any, error) {
	value, err := objectOf(raw)
	if value == nil || err != nil || k.scheme == nil {
		return value, err
	}
	gvk, ok := kindIn(value, kind)
	//guard:review-types-served-kinds
	if !ok || gvk.Version == runtime.APIVersionInternal || !k.scheme.Recognizes(gvk) {
		return value, nil
	}
	typed, _, err := k.decoder.Decode(raw.Raw, &gvk, nil)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// kindIn returns the kind in the object, or the given one if the object has none.
func kindIn(object map[string]any, kind *metav1.GroupVersionKind) (schema.GroupVersionKind, bool) {
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	switch {
	case version != "" && name != "":
		return schema.FromAPIVersionAndKind(version, name), true
	case version == "" && name == "" && kind != nil:
		return schema.GroupVersionKind(*kind), true
	}
	return schema.GroupVersionKind{}, false
}
