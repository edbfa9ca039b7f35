/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
)

// Bounds bounds the work of webhooks. Each function returns a function that must be called when the work has ended. After an error the work is not done,
// and the webhook denies, whatever its failure policy is. Both are required.
type Bounds struct {
	// Preparation is called before a webhook matches a request with its matchConditions and writes a review. That computes, and calls no server.
	Preparation func(context.Context) (release func(), err error)
	// Call is called before each attempt to call the webhook with a name. Requests that do not match, and cached answers, need no call, and the pauses
	// between attempts are in none.
	Call func(ctx context.Context, name string) (release func(), err error)
}

// WithBounds returns a context in which the work of webhooks is bounded.
func WithBounds(ctx context.Context, bounds Bounds) context.Context {
	return context.WithValue(ctx, boundsKey{}, bounds)
}

type boundsKey struct{}

// errNotCalled is the error of a webhook that is not called because of a bound of the caller, or because its time was over before.
var errNotCalled = errors.New("the webhook was not called")

func nothing() {}

// AcquirePreparation calls the function Preparation of the context. It returns an error if the context has ended.
func AcquirePreparation(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return acquired(nil, err)
	}
	bounds, ok := ctx.Value(boundsKey{}).(Bounds)
	if !ok {
		return nothing, nil
	}
	return acquired(bounds.Preparation(ctx))
}

// AcquireCall calls the function Call of the context. An authorizer that calls another server calls it before each attempt.
func AcquireCall(ctx context.Context, name string) (release func(), err error) {
	bounds, ok := ctx.Value(boundsKey{}).(Bounds)
	if !ok {
		return nothing, nil
	}
	return acquired(bounds.Call(ctx, name))
}

func acquired(release func(), err error) (func(), error) {
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotCalled, err)
	}
	return release, nil
}
