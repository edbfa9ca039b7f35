/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

// write is one way to write. The store has the object "one" with the image "old".
type write struct {
	name string
	send func(ctx context.Context, f *fixture, dryRun []string) error
	// want are the calls that it makes, in their order.
	want []string
	// broken is set if "one" cannot be read.
	broken bool
}

// admission is a validation of admission that is recorded.
func (f *fixture) admission(context.Context, runtime.Object) error { return f.call("admission") }

func (f *fixture) admissionOfUpdate(_ context.Context, _, _ runtime.Object) error {
	return f.call("admission of the update")
}

// put sends a PUT or, with force, server-side apply.
func put(by func(*fixture) store.Updater, name string, info rest.UpdatedObjectInfo, force bool) func(context.Context, *fixture, []string) error {
	return func(ctx context.Context, f *fixture, dryRun []string) error {
		_, _, err := by(f).Update(ctx, name, info, f.admission, f.admissionOfUpdate, force, &metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
}

func objects(f *fixture) store.Updater { return f.REST }

func status(f *fixture) store.Updater { return f.status }

// deleting deletes "one". unread makes the deletion ignore that the object cannot be read.
func deleting(unread *bool) func(context.Context, *fixture, []string) error {
	return func(ctx context.Context, f *fixture, dryRun []string) error {
		_, _, err := f.Delete(ctx, "one", f.admission, &metav1.DeleteOptions{DryRun: dryRun, IgnoreStoreReadErrorWithClusterBreakingPotential: unread})
		return err
	}
}

func deletingAll(unread *bool) func(context.Context, *fixture, []string) error {
	return func(ctx context.Context, f *fixture, dryRun []string) error {
		_, err := f.DeleteCollection(ctx, f.admission, &metav1.DeleteOptions{DryRun: dryRun, IgnoreStoreReadErrorWithClusterBreakingPotential: unread}, nil)
		return err
	}
}

func deletingBroken(ctx context.Context, f *fixture, dryRun []string) error {
	_, _, err := f.GetCorruptObjDeleter().Delete(ctx, "one", nil, &metav1.DeleteOptions{DryRun: dryRun, IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)})
	return err
}

func writes() []write {
	created := func(image string) []string {
		return []string{"begin", "validate", "check", "check creation", "check", "warn", "may create " + image, "admission", "end"}
	}
	create := func(ctx context.Context, f *fixture, dryRun []string) error {
		_, err := f.Create(ctx, machine("two", "new"), f.admission, &metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	two := rest.DefaultUpdatedObjectInfo(machine("two", "new"))
	return []write{
		{"create", create, created("new"), false},
		{"put of a new object", put(objects, "two", two, false), created("new"), false},
		{"apply of a new object", put(objects, "two", two, true), created("new"), false},
		{"update", put(objects, "one", store.Changing(withImage("new")), false), []string{"begin", "validate update", "check", "check change of old", "check", "warn", "may update old to new", "admission of the update", "end"}, false},
		{"label", put(objects, "one", store.Changing(labelled), false), []string{"begin", "validate update", "check", "may update old to old", "admission of the update", "end"}, false},
		{"status", put(status, "one", store.Changing(func(vm *demo.VirtualMachine) { vm.Status.Phase = "Running" }), true), []string{"validate status", "admission of the update"}, false},
		{"delete", deleting(nil), []string{"may delete old", "admission"}, false},
		{"delete that reads", deleting(ptr.To(false)), []string{"may delete old", "admission"}, false},
		{"delete that ignores errors", deleting(ptr.To(true)), []string{"may delete unread one", "may delete old", "admission"}, false},
		{"deletecollection", deletingAll(nil), []string{"may delete old", "admission"}, false},
		{"deletecollection that ignores errors", deletingAll(ptr.To(true)), []string{"may delete unread ", "may delete old", "admission"}, false},
		{"delete of an unreadable object", deletingBroken, []string{"may delete unread one"}, true},
	}
}

// newWrite returns a store for a write.
func newWrite(t *testing.T, w write) *fixture {
	t.Helper()
	f := newFixture(t, func(k *kind, _ *calls) { k.CreateOnUpdate = true })
	f.mustCreate(t, machine("one", "old"))
	if w.broken {
		if _, err := store.Client(t).Put(t.Context(), store.Prefix(t)+"/virtualmachines/n/one", "garbage"); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestOrderOfCalls checks which functions each way to write calls, and in which order: the guard after validation, and before
// admission. Dry runs call the same functions and change nothing.
func TestOrderOfCalls(t *testing.T) {
	t.Parallel()
	for _, w := range writes() {
		t.Run(strings.ReplaceAll(w.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newWrite(t, w)
			for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
				f.reset(nil)
				before := dump(t)
				if err := w.send(f.ctx(t), f, dryRun); err != nil {
					t.Fatalf("dry run %q: %v", dryRun, err)
				}
				if diff := cmp.Diff(w.want, f.made); diff != "" {
					t.Errorf("dry run %q: other calls (-want +got):\n%s", dryRun, diff)
				}
				if changed := dump(t) != before; changed != (dryRun == nil) {
					t.Errorf("dry run %q: changed %v", dryRun, changed)
				}
			}
		})
	}
}

// TestEachCallCanRefuse makes each call of each write fail, one at a time. The write stops there, returns the error, and
// stores nothing. The text of the error, which the server may log, has no message.
func TestEachCallCanRefuse(t *testing.T) {
	t.Parallel()
	const secret = "the image is secret"
	for _, w := range writes() {
		t.Run(strings.ReplaceAll(w.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newWrite(t, w)
			before := dump(t)
			for _, step := range w.want {
				if step == "warn" || step == "end" {
					continue // they return no error
				}
				f.reset(map[string]error{step: refusalBy(step, secret)})
				err := w.send(f.ctx(t), f, nil)
				want := w.want[:slices.Index(w.want, step)+1]
				if slices.Contains(w.want, "end") && step != "begin" {
					want = append(slices.Clone(want), "end")
				}
				if diff := cmp.Diff(want, f.made); diff != "" {
					t.Errorf("%s fails: other calls (-want +got):\n%s", step, diff)
				}
				if !strings.Contains(store.MessageOf(err), secret) {
					t.Errorf("%s fails: got %v, want its error", step, err)
				}
				if step != "begin" && strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("%s fails: the text %q would be logged", step, err)
				}
				if after := dump(t); after != before {
					t.Errorf("%s fails: changed from\n%s\nto\n%s", step, before, after)
				}
			}
		})
	}
}

// refusalBy returns the error with which a call refuses a write.
func refusalBy(step, text string) error {
	switch {
	case step == "begin":
		return apierrors.NewTooManyRequests(text, 1)
	case strings.HasPrefix(step, "admission"):
		return apierrors.NewBadRequest(text)
	case strings.HasPrefix(step, "may"):
		return apierrors.NewForbidden(demo.Resource("virtualmachines"), "x", errors.New(text))
	}
	return errors.New(text) // becomes an error about a field
}

// TestNoCallbacks checks that writes without validation of admission are still guarded.
func TestNoCallbacks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(k *kind, _ *calls) { k.Begin, k.Check, k.CheckChange, k.Warn = nil, nil, nil, nil })
	if _, err := f.Create(f.ctx(t), machine("one", "old"), nil, &metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := f.update(t, f.REST, "one", withImage("new")); err != nil {
		t.Error(err)
	}
	if _, _, err := f.Delete(f.ctx(t), "one", nil, nil); err != nil {
		t.Error(err)
	}
	want := []string{"validate", "may create old", "validate update", "may update old to new", "may delete new"}
	if diff := cmp.Diff(want, f.made); diff != "" {
		t.Errorf("other calls (-want +got):\n%s", diff)
	}
}

// TestErrorsOfTheStore checks what clients get for writes that the store itself refuses, and that the text has no message.
func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	stale := func(vm *demo.VirtualMachine) { vm.ResourceVersion, vm.Spec.Image = "1", "secret" }
	for _, tc := range []struct {
		name string
		send func(ctx context.Context, f *fixture, dryRun []string) error
		want metav1.StatusReason
		text string
	}{
		{"create of what exists", func(ctx context.Context, f *fixture, _ []string) error {
			_, err := f.Create(ctx, machine("one", "new"), nil, &metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonAlreadyExists, "AlreadyExists (409)"},
		{"create in another namespace", func(ctx context.Context, f *fixture, _ []string) error {
			vm := machine("two", "new")
			vm.Namespace = "other"
			_, err := f.Create(ctx, vm, nil, &metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonBadRequest, "BadRequest (400)"},
		{"put of what does not exist", put(objects, "two", rest.DefaultUpdatedObjectInfo(machine("two", "new")), false), metav1.StatusReasonNotFound, "NotFound (404)"},
		{"status of what does not exist", put(status, "two", rest.DefaultUpdatedObjectInfo(machine("two", "new")), true), metav1.StatusReasonNotFound, "NotFound (404)"},
		{"update of an old version", put(objects, "one", store.Changing(stale), false), metav1.StatusReasonConflict, "Conflict (409)"},
		{"update with another name", put(objects, "one", store.Changing(func(vm *demo.VirtualMachine) { vm.Name = "two" }), false), metav1.StatusReasonInvalid, "Invalid (422)"},
		{"status of an old version", put(status, "one", store.Changing(stale), false), metav1.StatusReasonConflict, "Conflict (409)"},
		{"delete of what does not exist", func(ctx context.Context, f *fixture, _ []string) error {
			_, _, err := f.Delete(ctx, "two", nil, &metav1.DeleteOptions{})
			return err
		}, metav1.StatusReasonNotFound, "NotFound (404)"},
		{"delete of another object", func(ctx context.Context, f *fixture, _ []string) error {
			_, _, err := f.Delete(ctx, "one", nil, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")})
			return err
		}, metav1.StatusReasonConflict, "Conflict (409)"},
		{"unsafe delete of what can be read", deletingBroken, metav1.StatusReasonConflict, "Conflict (409)"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.mustCreate(t, machine("one", "old"))
			before := dump(t)
			err := tc.send(f.ctx(t), f, nil)
			if apierrors.ReasonForError(err) != tc.want || err.Error() != tc.text {
				t.Errorf("got %q, %#v, want %s", err, err, tc.text)
			}
			if after := dump(t); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestRequestsThatHaveEnded sends each write in a context that is cancelled. Nothing is stored, and what has begun ends.
func TestRequestsThatHaveEnded(t *testing.T) {
	t.Parallel()
	for _, w := range writes() {
		t.Run(strings.ReplaceAll(w.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newWrite(t, w)
			before := dump(t)
			ctx, cancel := context.WithCancel(f.ctx(t))
			cancel()
			if err := w.send(ctx, f, nil); err == nil {
				t.Error("got no error")
			}
			if slices.Contains(f.made, "begin") && f.made[len(f.made)-1] != "end" {
				t.Errorf("got the calls %q, want the last one to be the end", f.made)
			}
			if after := dump(t); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestDeleteCollectionStops checks that each object of a collection is decided about, and that a refusal keeps its object.
func TestDeleteCollectionStops(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.mustCreate(t, machine("a", "free"), machine("b", "kept"))
	f.reset(map[string]error{"may delete kept": apierrors.NewForbidden(demo.Resource("virtualmachines"), "b", errors.New("no"))})
	if err := deletingAll(nil)(f.ctx(t), f, nil); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want 403", err)
	}
	if left := dump(t); !strings.Contains(left, "/n/b ") || strings.Contains(left, "/n/a ") {
		t.Errorf("left %s, want b", left)
	}
}

// TestNoDeleterOfCorruptObjects checks that the handler gets nil, and not an interface that holds nil, from a store without one.
func TestNoDeleterOfCorruptObjects(t *testing.T) {
	t.Parallel()
	r := &stored.REST{Store: &genericregistry.Store{}}
	if deleter := r.GetCorruptObjDeleter(); deleter != nil {
		t.Errorf("got %#v, want nil", deleter)
	}
}

// TestUnguarded checks that the guard which refuses nothing refuses nothing.
func TestUnguarded(t *testing.T) {
	t.Parallel()
	for name, call := range guarded {
		if err := call(t.Context(), stored.Unguarded{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
