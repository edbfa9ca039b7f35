/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package upstreamfilter makes the impersonation filter of k8s.io/apiserver, whose metrics are replaced by a function. It
// is the only package of Proviso that imports unsafe, except generated conversions.
//
// Invariants:
//
//   - It changes two unexported fields of the filter: the functions that record metrics. Only upstream's own tests can set
//     them, so they are set by reflection.
//   - If a field does not exist, or has another type, the filter is not made. A server that needs it does not start.
//
// Both alternatives are worse: a copy of the filter may decide differently from the filter, and metrics that are switched
// off are missing for requests, too. docs/upstream/impersonation-filter.md asks for a hook that makes this package
// unnecessary.
package upstreamfilter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
)

// Observe is called for each attempt to impersonate with what the filter would have recorded in its metrics: the mode,
// "allowed" or "denied", and the duration.
type Observe = func(ctx context.Context, mode, decision string, duration time.Duration)

// ErrChanged is returned if upstream's filter is not built as expected.
var ErrChanged = errors.New("the impersonation filter of k8s.io/apiserver has changed, and its metrics cannot be replaced")

// New returns the filter. For each attempt it calls observe instead of recording metrics, and it records no metrics of its
// authorization checks. It returns ErrChanged if upstream's filter is not built as expected.
func New(next http.Handler, a authorizer.UnconditionalAuthorizer, serializer runtime.NegotiatedSerializer, observe Observe) (http.Handler, error) {
	filter := impersonation.WithConstrainedImpersonation(next, a, serializer)
	value := reflect.ValueOf(filter)
	if err := replace(value, "recordAttempt", reflect.ValueOf(observe)); err != nil {
		return nil, err
	}
	counting := fieldOf(value, "metricsAuthorizer")
	if !counting.IsValid() {
		return nil, fmt.Errorf("%w: it has no field metricsAuthorizer", ErrChanged)
	}
	return filter, discardCalls(counting, "recordAuthorizationCall")
}

// discardCalls sets a field that holds a function without results to a function that does nothing.
func discardCalls(pointer reflect.Value, name string) error {
	f := fieldOf(pointer, name)
	if !f.IsValid() || f.Kind() != reflect.Func || f.Type().NumOut() > 0 {
		return fmt.Errorf("%w: %s is not a function without results", ErrChanged, name)
	}
	return replace(pointer, name, reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
}

// replace sets a field to a function of the same type.
func replace(pointer reflect.Value, name string, function reflect.Value) error {
	f := fieldOf(pointer, name)
	if !f.IsValid() || f.Type() != function.Type() {
		return fmt.Errorf("%w: %s is not a %s", ErrChanged, name, function.Type())
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(function)
	return nil
}

// fieldOf returns a field of the struct that pointer points to, or the zero Value if there is none.
func fieldOf(pointer reflect.Value, name string) reflect.Value {
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return pointer.Elem().FieldByName(name)
}
