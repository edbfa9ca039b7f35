/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// TestNewNeedsGuard checks that a kind without a guard gets no store: every author could write every object.
func TestNewNeedsGuard(t *testing.T) {
	t.Parallel()
	kind := stored.Kind[any, any]{Resource: schema.GroupResource{Group: "example.com", Resource: "things"}}
	objects, status, err := stored.New(kind, runtime.NewScheme(), nil)
	if err == nil || !strings.Contains(err.Error(), "things.example.com: without a guard") || objects != nil || status != nil {
		t.Errorf("got %v, %v, %v, want an error about the guard", objects, status, err)
	}
}
