/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// NamespaceData is implemented by condition data that knows the namespace of the request.
type NamespaceData interface {
	// GetNamespaceObject returns the Namespace as it is decoded from JSON, or nil if there
	// is none.
	GetNamespaceObject() (map[string]any, error)
}

// ValuesData is implemented by condition data that makes its variables once, for all
// conditions of a request.
type ValuesData interface {
	authorizer.ConditionsData
	// Values returns what MakeValues returns, which nobody changes.
	Values() (cel.Values, error)
}

// ValuesOf returns the data of a request as the variables of conditions, in a map of the
// caller's own.
func ValuesOf(data authorizer.ConditionsData) (cel.Values, error) {
	if known, ok := data.(ValuesData); ok {
		values, err := known.Values()
		return maps.Clone(values), err
	}
	return MakeValues(data)
}

// MakeValues makes the variables of conditions from the data of a request, whose objects
// must be in the version of the request.
func MakeValues(data authorizer.ConditionsData) (cel.Values, error) {
	values := cel.Values{
		cel.Operation: string(data.GetOperation()),
		cel.DryRun:    data.IsDryRun(),
	}
	for variable, object := range map[cel.Variable]runtime.Object{
		cel.Object: data.GetObject(), cel.OldObject: data.GetOldObject(), cel.Options: data.GetOperationOptions(),
	} {
		value, err := unstructured(object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		values[variable] = value
	}
	if known, ok := data.(NamespaceData); ok {
		namespace, err := known.GetNamespaceObject()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cel.NamespaceObject, err)
		}
		if namespace != nil {
			values[cel.NamespaceObject] = cel.NamespaceData(namespace)
		}
	}
	return values, nil
}

// unstructured returns an object as CEL reads it; nil, which is null, if there is none.
func unstructured(object runtime.Object) (any, error) {
	if object == nil || (reflect.ValueOf(object).Kind() == reflect.Pointer && reflect.ValueOf(object).IsNil()) {
		return nil, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}
