/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

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
	upstream "k8s.io/apiserver/pkg/endpoints/filters/impersonation"
)

// newQuietFilter returns a new impersonation filter that does not count in the metrics
// apiserver_impersonation_*: they are about requests.
//
// The functions that count are fields of the filter which only its own tests can set, so
// they are set here by reflection. The alternatives are worse: a copy of the filter may
// decide otherwise than the filter, and metrics that are switched off are so for requests
// too. If the filter is built differently than expected, this is an error and not a guess;
// a server does not start with one that counts.
func newQuietFilter(next http.Handler, a authorizer.UnconditionalAuthorizer) (http.Handler, error) {
	return newHeardFilter(next, a, codecs, func(context.Context, string, string, time.Duration) {})
}

// newHeardFilter is newQuietFilter, but that a function hears of each attempt what the
// filter would have counted: the mode, whether it was allowed, and how long it took.
func newHeardFilter(next http.Handler, a authorizer.UnconditionalAuthorizer, serializer runtime.NegotiatedSerializer,
	hear func(ctx context.Context, mode, decision string, duration time.Duration)) (http.Handler, error) {
	filter := upstream.WithConstrainedImpersonation(next, a, serializer)
	value := reflect.ValueOf(filter)
	if err := replace(value, "recordAttempt", reflect.ValueOf(hear)); err != nil {
		return nil, err
	}
	counting := fieldOf(value, "metricsAuthorizer")
	if !counting.IsValid() {
		return nil, fmt.Errorf("%w: it has no metricsAuthorizer", errNotSilent)
	}
	return filter, silence(counting, "recordAuthorizationCall")
}

var errNotSilent = errors.New("the impersonation filter cannot be kept out of the metrics")

// silence makes a field, which holds a function without results, do nothing.
func silence(pointer reflect.Value, name string) error {
	f := fieldOf(pointer, name)
	if !f.IsValid() || f.Kind() != reflect.Func || f.Type().NumOut() > 0 {
		return fmt.Errorf("%w: %s is not a function that only records", errNotSilent, name)
	}
	return replace(pointer, name, reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
}

// replace sets a field to a function of the type that it has.
func replace(pointer reflect.Value, name string, function reflect.Value) error {
	f := fieldOf(pointer, name)
	if !f.IsValid() || f.Type() != function.Type() {
		return fmt.Errorf("%w: %s is not a %s", errNotSilent, name, function.Type())
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(function)
	return nil
}

// fieldOf returns a field of the struct that a pointer points to, or the zero Value.
func fieldOf(pointer reflect.Value, name string) reflect.Value {
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return pointer.Elem().FieldByName(name)
}
