/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"fmt"
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

// valuesOf returns the data of a request as the variables of conditions. Objects must be
// in the version of the request.
func valuesOf(data authorizer.ConditionsData) (cel.Values, error) {
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
