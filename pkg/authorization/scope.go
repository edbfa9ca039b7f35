/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import "context"

// scope is what the decisions and evaluations for one request share. It is in their context, because the checks that conditions make go
// through interfaces of Kubernetes, which pass on nothing else. Each function of this package that returns a context changes one field of a copy.
type scope struct {
	// budget bounds the conditions that are evaluated with the object, and policies those that are evaluated before.
	budget   *Budget
	policies *PolicyBudgets
	// unseen is not nil if the request is decided again where its path and its selectors are not seen.
	unseen *Unseen
	// namespaces is not nil if conditions may read the namespace before admission.
	namespaces Namespaces
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope)
	return s
}

func (s scope) in(ctx context.Context) context.Context { return context.WithValue(ctx, scopeKey{}, s) }

// Namespaces returns a namespace in its JSON form, from a cache and without waiting. It returns false if the cache does
// not have the namespace.
type Namespaces func(name string) (map[string]any, bool)

// WithNamespaces returns a context in which conditions may read the namespace of a request while it is authorized. It is for
// servers that evaluate no conditions at admission. Without it, or for a namespace that is not known, a condition
// that reads namespaceObject stays residual.
func WithNamespaces(ctx context.Context, namespaces Namespaces) context.Context {
	s := scopeOf(ctx)
	s.namespaces = namespaces
	return s.in(ctx)
}

// NamespacesOf returns the namespaces that conditions in a context may read, or nil.
func NamespacesOf(ctx context.Context) Namespaces { return scopeOf(ctx).namespaces }
