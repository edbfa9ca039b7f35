/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"errors"
	"net/http"
	"reflect"
	"testing"
)

// TestSilence: a filter that is built otherwise is an error, never a guess.
func TestSilence(t *testing.T) {
	t.Parallel()
	type counting struct{ record func(string) }
	called := false
	filter := &counting{record: func(string) { called = true }}
	if err := silence(reflect.ValueOf(filter), "record"); err != nil {
		t.Fatal(err)
	}
	if filter.record("x"); called {
		t.Error("it still counts")
	}
	for name, value := range map[string]any{
		"no pointer":              counting{},
		"a nil pointer":           (*counting)(nil),
		"no struct":               http.NotFoundHandler(),
		"another field":           &struct{ recorder func() }{},
		"no function":             &struct{ record int }{},
		"a function that answers": &struct{ record func() error }{},
	} {
		if err := silence(reflect.ValueOf(value), "record"); !errors.Is(err, errNotSilent) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
}
