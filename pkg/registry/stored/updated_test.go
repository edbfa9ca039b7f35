/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/demo"
)

// computed is the computation of the changed object by a patch.
type computed func(old *demo.VirtualMachine) (runtime.Object, error)

// info returns the computation as the patch handler passes it on.
func (c computed) info() rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		return c(old.DeepCopyObject().(*demo.VirtualMachine))
	})
}

func failing(err error) computed {
	return func(*demo.VirtualMachine) (runtime.Object, error) { return nil, err }
}

// TestErrorsOfPatches checks what clients get if a patch cannot be applied: a Status, in which only texts about the client's own
// request and the messages of Statuses are shown. It is the same for objects and for their status.
func TestErrorsOfPatches(t *testing.T) {
	t.Parallel()
	const secret = "secret"
	const notApplied = "Internal error occurred: the change cannot be applied: the change or the stored object does not fit the schema of the kind"
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.image"}}, "conflict with image "+secret)
	for _, tc := range []struct {
		name        string
		patch       computed
		wantCode    int32
		wantMessage string
	}{
		{"a Status", failing(conflict), http.StatusConflict, "conflict with image secret"},
		{"a wrapped Status", failing(fmt.Errorf("patching %s: %w", secret, conflict)), http.StatusConflict, "conflict with image secret"},
		{"another error", failing(errors.New("the object is " + secret)), http.StatusInternalServerError, notApplied},
		{"another error that wraps one", failing(fmt.Errorf("%s: %w", secret, context.DeadlineExceeded)), http.StatusInternalServerError, notApplied},
		{
			"a field that the schema does not have", failing(errors.New("failed to create typed patch object (n/one): .spec.imge: field not declared in schema")),
			http.StatusInternalServerError, "Internal error occurred: failed to create typed patch object (n/one): .spec.imge: field not declared in schema",
		},
		{"a stored object that the schema does not have", failing(errors.New("cannot convert: failed to create typed patch object: " + secret)), http.StatusInternalServerError, notApplied},
		{"a panic", func(vm *demo.VirtualMachine) (runtime.Object, error) { panic(vm.Spec.Image + secret) }, http.StatusInternalServerError, notApplied},
		{"a panic of the runtime", func(vm *demo.VirtualMachine) (runtime.Object, error) {
			vm.Spec.Tags = vm.Spec.Tags[:len(vm.Spec.Image)]
			return vm, nil
		}, http.StatusInternalServerError, notApplied},
		{"a resource version that is no number", func(vm *demo.VirtualMachine) (runtime.Object, error) {
			vm.ResourceVersion = secret
			return vm, nil
		}, http.StatusBadRequest, "metadata.resourceVersion must be a number"},
		{"a negative resource version", func(vm *demo.VirtualMachine) (runtime.Object, error) {
			vm.ResourceVersion = "-1"
			return vm, nil
		}, http.StatusBadRequest, "metadata.resourceVersion must be a number"},
		{"an object without metadata", func(*demo.VirtualMachine) (runtime.Object, error) { return &metav1.Status{Message: secret}, nil }, http.StatusBadRequest, "metadata.resourceVersion must be a number"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.mustCreate(t, machine("one", "old"))
			before := dump(t)
			for name, by := range map[string]updater{"object": f.REST, "status": f.status} {
				_, _, err := by.Update(f.ctx(t), "one", tc.patch.info(), nil, nil, false, &metav1.UpdateOptions{})
				status, ok := err.(apierrors.APIStatus) // the handler does not look into a wrapped one
				if !ok {
					t.Fatalf("%s: got %#v, want a Status", name, err)
				}
				if got := status.Status(); got.Code != tc.wantCode || got.Message != tc.wantMessage {
					t.Errorf("%s: got %d %q, want %d %q", name, got.Code, got.Message, tc.wantCode, tc.wantMessage)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the text %q would be logged", name, err)
				}
				if after := dump(t); after != before {
					t.Errorf("%s: changed from\n%s\nto\n%s", name, before, after)
				}
			}
			if diff := cmp.Diff([]string{"begin", "end"}, f.made); diff != "" {
				t.Errorf("other calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAbortedRequests checks that a panic with which net/http ends a request on purpose goes on, and that the write ends.
func TestAbortedRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.mustCreate(t, machine("one", "old"))
	abort := computed(func(*demo.VirtualMachine) (runtime.Object, error) { panic(http.ErrAbortHandler) })
	for name, by := range map[string]updater{"object": f.REST, "status": f.status} {
		func() {
			defer func() {
				if reason := recover(); reason != http.ErrAbortHandler { //nolint:errorlint // as net/http does
					t.Errorf("%s: got the panic %v, want the same one", name, reason)
				}
			}()
			_, _, err := by.Update(f.ctx(t), "one", abort.info(), nil, nil, false, &metav1.UpdateOptions{})
			t.Errorf("%s: got %v, want a panic", name, err)
		}()
	}
	if diff := cmp.Diff([]string{"begin", "end"}, f.made); diff != "" {
		t.Errorf("other calls (-want +got):\n%s", diff)
	}
}
