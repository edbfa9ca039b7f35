/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// goTypes are the Go types that a value may have in kube-apiserver. Without any, it may be any JSON.
type goTypes []reflect.Type

// typesOf returns types without pointers. It returns none if one of them may be any JSON.
func typesOf(found []reflect.Type) (result goTypes) {
	for _, t := range found {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if isUntyped(t) {
			return nil
		}
		if !slices.Contains(result, t) {
			result = append(result, t)
		}
	}
	return result
}

// isUntyped reports whether values of a type may have any shape as JSON.
func isUntyped(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t == reflect.TypeFor[intstr.IntOrString]() ||
		!isTime(t) && t != reflect.TypeFor[resource.Quantity]() && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[metav1.MicroTime]() || t == reflect.TypeFor[metav1.Duration]()
}

// shape returns the shape that values of all types have.
func (ts goTypes) shape() shape {
	if len(ts) == 0 || slices.ContainsFunc(ts, func(t reflect.Type) bool { return shapeOf(t) != shapeOf(ts[0]) }) {
		return unknown
	}
	return shapeOf(ts[0])
}

func shapeOf(t reflect.Type) shape {
	switch {
	case isTime(t):
		return scalar
	case t == reflect.TypeFor[resource.Quantity](), t.Kind() == reflect.String, t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return text
	case t.Kind() == reflect.Slice:
		return list
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return mapping
	}
	return scalar
}

// areQuantities reports whether values of the types are quantities.
func (ts goTypes) areQuantities() bool {
	return len(ts) > 0 && !slices.ContainsFunc(ts, func(t reflect.Type) bool { return t != reflect.TypeFor[resource.Quantity]() })
}

// field returns the types of a field with a JSON name. A newer kube-apiserver may have fields that no type has.
func (ts goTypes) field(name string) goTypes {
	var found []reflect.Type
	for _, t := range ts {
		if f, ok := fieldOf(t, name); ok {
			found = append(found, f)
		}
	}
	return typesOf(found)
}

// fieldOf returns the type of a field, or of the values of a map.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && tag != "" {
			return f.Type, true
		}
		if tag == "" && f.Anonymous || options == "inline" {
			if found, ok := fieldOf(f.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// elements returns the types of the elements of lists, and of the values of maps.
func (ts goTypes) elements() goTypes {
	var found []reflect.Type
	for _, t := range ts {
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			found = append(found, t.Elem())
		}
	}
	if len(found) < len(ts) {
		return nil
	}
	return typesOf(found)
}

// leastElement returns the least number of bytes of an element of a list, or of an entry of a map, with a comma.
func (ts goTypes) leastElement() float64 {
	least := 0
	for _, t := range ts {
		n := unknownElement
		if t.Kind() == reflect.Slice {
			n = leastBytes(t.Elem())
		} else if t.Kind() == reflect.Map {
			n = keyBytes + leastBytes(t.Elem())
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return float64(max(least, unknownElement))
}

// leastBytes returns the least size of a value of a type as JSON, with a comma.
func leastBytes(t reflect.Type) int {
	switch shape := typesOf([]reflect.Type{t}).shape(); {
	case shape == text || shape == list || shape == mapping && t.Kind() == reflect.Map:
		return len(`"",`)
	case shape == mapping && t.Kind() == reflect.Struct:
		if encoded, err := json.Marshal(reflect.Zero(t).Interface()); err == nil {
			return len(encoded) + 1
		}
	}
	return unknownElement
}

// typesOfObject returns the types of the objects that constraints match. It returns none if there may be others.
func typesOfObject(constraints *admissionregistrationv1.MatchResources) goTypes {
	if constraints == nil {
		return nil
	}
	var found []reflect.Type
	for _, rule := range constraints.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				of := typesByResource()[schema.GroupResource{Group: group, Resource: resourceWithKind(path)}]
				if len(of) == 0 {
					return nil
				}
				found = append(found, of...)
			}
		}
	}
	return typesOf(found)
}

// areValidated reports whether kube-apiserver validates the metadata of the objects that constraints match before admission. Of what is created with the
// name of its object, such as a binding, it does not.
func areValidated(constraints *admissionregistrationv1.MatchResources) bool {
	return constraints == nil || !slices.ContainsFunc(constraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(rule.Resources, func(path string) bool {
			_, sub, _ := strings.Cut(path, "/")
			return !slices.Contains([]string{"", "status", "scale", "resize", "ephemeralcontainers", "finalize", "approval"}, sub)
		})
	})
}

// resourceWithKind returns the resource whose kind the objects of a resource or subresource have.
func resourceWithKind(path string) string {
	name, sub, _ := strings.Cut(path, "/")
	switch sub {
	case "status", "resize", "ephemeralcontainers", "finalize", "approval":
		return name
	}
	return path
}

// typesByResource are the types of built-in resources, in all versions.
var typesByResource = sync.OnceValue(func() map[schema.GroupResource][]reflect.Type {
	found := map[schema.GroupResource][]reflect.Type{}
	for kind, t := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := reflect.New(t).Interface().(metav1.Object); isObject {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			found[plural.GroupResource()] = append(found[plural.GroupResource()], t)
		}
	}
	for _, scaled := range []schema.GroupResource{{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "replicasets"}, {Group: "apps", Resource: "statefulsets"}, {Resource: "replicationcontrollers"}} {
		scaled.Resource += "/scale"
		found[scaled] = []reflect.Type{reflect.TypeFor[autoscalingv1.Scale]()}
	}
	return found
})

// metadataTypes and namespaceTypes are the types of the metadata of all objects, and of namespaceObject.
var metadataTypes, namespaceTypes = goTypes{reflect.TypeFor[metav1.ObjectMeta]()}, goTypes{reflect.TypeFor[corev1.Namespace]()}
