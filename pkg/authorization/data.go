/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// NamespaceData is implemented by condition data that knows the namespace of the request.
type NamespaceData interface {
	// GetNamespaceObject returns the Namespace as it is decoded from JSON, or nil if there
	// is none.
	GetNamespaceObject() (map[string]any, error)
}

// ErrUnreadableObjects is wrapped by the error of a condition that read an object which cannot be
// converted.
var ErrUnreadableObjects = errors.New("the objects could not be read")

var errNamespaceFailed = fmt.Errorf("%s could not be read", cel.NamespaceObject)

// ValuesOf returns the data of a request as the variables of conditions, for one
// evaluation: its result must not be used if the reader has an error then. Objects must be
// in the version of the request.
func ValuesOf(data authorizer.ConditionsData, reader *cel.ObjectReader) (cel.Values, error) {
	values := cel.Values{
		cel.Operation: string(data.GetOperation()),
		cel.DryRun:    data.IsDryRun(),
		cel.Object:    reader.Read(data.GetObject()),
		cel.OldObject: reader.Read(data.GetOldObject()),
		cel.Options:   reader.Read(data.GetOperationOptions()),
	}
	if known, ok := data.(NamespaceData); ok {
		namespace, err := known.GetNamespaceObject()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNamespaceFailed, err)
		}
		if namespace != nil {
			values[cel.NamespaceObject] = cel.NamespaceData(namespace)
		}
	}
	return values, nil
}
