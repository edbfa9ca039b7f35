/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"maps"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// Namespaces returns a namespace in its JSON form, from a cache and without waiting. It returns false if the cache does
// not have the namespace.
type Namespaces func(name string) (map[string]any, bool)

type namespacesKey struct{}

// WithNamespaces returns a context in which conditions may read the namespace of a request while it is authorized. It is for
// servers that evaluate no conditions at admission. Without it, or for a namespace that is not known, a condition
// that reads namespaceObject stays residual.
func WithNamespaces(ctx context.Context, namespaces Namespaces) context.Context {
	return context.WithValue(ctx, namespacesKey{}, namespaces)
}

// knownInNamespace returns known with the namespace of the request, or nil if the namespace is not known. A request without
// a namespace has no namespaceObject, and a condition that reads it is an error, as at admission.
func (q *request) knownInNamespace(ctx context.Context) cel.Values {
	if q.asked {
		return q.inNamespace
	}
	//guard:engine-namespace-looked-up-once
	q.asked = true
	namespaces, _ := ctx.Value(namespacesKey{}).(Namespaces)
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
