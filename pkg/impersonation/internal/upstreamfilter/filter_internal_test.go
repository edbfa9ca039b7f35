/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamfilter

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"
)

// discard is an Observe that records nothing.
func discard(context.Context, string, string, time.Duration) {}

// TestUpstreamIsAsExpected fails if an update of k8s.io/apiserver changes the fields that this package sets.
func TestUpstreamIsAsExpected(t *testing.T) {
	t.Parallel()
	filter, err := New(http.NotFoundHandler(), nil, nil, discard)
	if err != nil || filter == nil {
		t.Fatalf("got %v, %v, want a filter", filter, err)
	}
	attempt := fieldOf(reflect.ValueOf(filter), "recordAttempt")
	if got, want := attempt.Pointer(), reflect.ValueOf(discard).Pointer(); got != want {
		t.Errorf("recordAttempt is not the function that was given")
	}
}

// TestSilence checks that a filter that is built differently is an error, never a guess.
func TestSilence(t *testing.T) {
	t.Parallel()
	type counting struct{ record func(string) }
	called := false
	filter := &counting{record: func(string) { called = true }}
	if err := discardCalls(reflect.ValueOf(filter), "record"); err != nil {
		t.Fatal(err)
	}
	if filter.record("x"); called {
		t.Error("it still counts")
	}
	for name, value := range map[string]any{
		"no pointer":               counting{},
		"a nil pointer":            (*counting)(nil),
		"no struct":                http.NotFoundHandler(),
		"another field":            &struct{ recorder func() }{},
		"no function":              &struct{ record int }{},
		"a function with a result": &struct{ record func() error }{},
	} {
		if err := discardCalls(reflect.ValueOf(value), "record"); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: got %v, want %v", name, err, ErrChanged)
		}
	}
}
