/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"maps"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// knownInNamespace returns known with the namespace of the request, or nil if the namespace is not known. A request without
// a namespace has no namespaceObject, and a condition that reads it is an error, as at admission.
func (q *request) knownInNamespace(ctx context.Context) cel.Values {
	if q.asked {
		return q.inNamespace
	}
	//guard:engine-namespace-looked-up-once
	q.asked = true
	namespaces := authorization.NamespacesOf(ctx)
	if namespaces == nil {
		return nil
	}
	//guard:engine-request-without-namespace
	if q.GetNamespace() == "" {
		q.inNamespace = q.known()
		return q.inNamespace
	}
	//guard:engine-namespace-not-cache
	if namespace, ok := namespaces(q.GetNamespace()); ok {
		q.inNamespace = maps.Clone(q.known())
		q.inNamespace[cel.NamespaceObject] = cel.Known(cel.NamespaceData(namespace))
	}
	return q.inNamespace
}
