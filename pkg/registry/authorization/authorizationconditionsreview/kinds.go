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

// servedKinds decodes objects of the kinds that the server serves, as it decodes them in
// requests. The zero value knows none.
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

// objectOf decodes a JSON object, or returns nil for null and for nothing. An object of a kind
// that is served has the fields and the types that it has in a request: a whole number in a
// field of type float64 is a double. Nothing is defaulted. Other objects have the types of
// their text. An object that does not say its kind has the given one, if any.
func (k servedKinds) objectOf(raw *runtime.RawExtension, kind *metav1.GroupVersionKind) (map[string]any, error) {
	value, err := objectOf(raw)
	if value == nil || err != nil || k.scheme == nil {
		return value, err
	}
	gvk, ok := kindIn(value, kind)
	if !ok || gvk.Version == runtime.APIVersionInternal || !k.scheme.Recognizes(gvk) {
		return value, nil
	}
	typed, _, err := k.decoder.Decode(raw.Raw, &gvk, nil)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// kindIn returns the kind that an object says it has, or else the given one.
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
