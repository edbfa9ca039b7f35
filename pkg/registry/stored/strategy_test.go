/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

// numbers are the parts of an object that the server owns, and its image.
type numbers struct {
	Generation, ObservedGeneration int64
	Phase                          demo.VirtualMachinePhase
	Image                          string
}

func numbersOf(vm *demo.VirtualMachine) numbers {
	return numbers{vm.Generation, vm.Status.ObservedGeneration, vm.Status.Phase, vm.Spec.Image}
}

// smuggling sets what the server owns.
func smuggling(vm *demo.VirtualMachine) {
	vm.Generation, vm.Status.ObservedGeneration, vm.Status.Phase = 77, 77, demo.VirtualMachineStopped
}

// TestGenerationAndStatus makes one write after the other to one object. The generation counts changes of the specification, and
// only writes to the status change the status.
func TestGenerationAndStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	one := machine("one", "a")
	smuggling(one)
	f.mustCreate(t, one)
	none := func(*demo.VirtualMachine) {}
	for _, tc := range []struct {
		name   string
		by     store.Updater
		change func(*demo.VirtualMachine)
		want   numbers
	}{
		{"nothing, after the creation", f.REST, none, numbers{Generation: 1, Image: "a"}},
		{"a label, and the status", f.REST, func(vm *demo.VirtualMachine) { labelled(vm); smuggling(vm) }, numbers{Generation: 1, Image: "a"}},
		{"the specification, and the status", f.REST, func(vm *demo.VirtualMachine) { vm.Spec.Image = "b"; smuggling(vm) }, numbers{Generation: 2, Image: "b"}},
		{"the status, and everything else", f.status, func(vm *demo.VirtualMachine) {
			smuggling(vm)
			vm.Spec.Image = "c"
		}, numbers{Generation: 2, ObservedGeneration: 77, Phase: demo.VirtualMachineStopped, Image: "b"}},
		{"the specification again, and no status", f.REST, func(vm *demo.VirtualMachine) {
			vm.Spec.Image, vm.Status = "c", demo.VirtualMachineStatus{}
		}, numbers{Generation: 3, ObservedGeneration: 77, Phase: demo.VirtualMachineStopped, Image: "c"}},
		{"the specification as it was", f.REST, withImage("a"), numbers{Generation: 4, ObservedGeneration: 77, Phase: demo.VirtualMachineStopped, Image: "a"}},
		{"no status", f.status, func(vm *demo.VirtualMachine) { vm.Status = demo.VirtualMachineStatus{} }, numbers{Generation: 4, Image: "a"}},
	} {
		if _, err := f.update(t, tc.by, "one", tc.change); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		got, err := f.status.Get(f.ctx(t), "one", &metav1.GetOptions{}) // the whole object
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, numbersOf(got.(*demo.VirtualMachine))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestStatusKeepsMetadata checks that a write to the status changes no metadata but the managed fields, which record the write itself.
func TestStatusKeepsMetadata(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	one := machine("one", "a")
	one.Labels, one.Annotations, one.Finalizers = map[string]string{"a": "b"}, map[string]string{"c": "d"}, []string{"example.com/f"}
	one.ManagedFields = managedBy("author")
	f.mustCreate(t, one)
	got, err := f.update(t, f.status, "one", func(vm *demo.VirtualMachine) {
		vm.Labels, vm.Annotations, vm.Finalizers, vm.Generation = nil, map[string]string{"c": "smuggled"}, []string{"example.com/smuggled"}, 7
		vm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}
		vm.ManagedFields = managedBy("controller")
	})
	if err != nil {
		t.Fatal(err)
	}
	want := one.ObjectMeta.DeepCopy()
	want.ManagedFields = managedBy("controller")
	for _, m := range []*metav1.ObjectMeta{want, &got.ObjectMeta} { // set by the store
		m.ResourceVersion, m.UID, m.CreationTimestamp, m.Namespace, m.Generation = "", "", metav1.Time{}, "", 0
	}
	if diff := cmp.Diff(want, &got.ObjectMeta); diff != "" {
		t.Errorf("other metadata (-want +got):\n%s", diff)
	}
}

func managedBy(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: v1alpha1.SchemeGroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
	}}
}

// TestInvalidObjectsBeingDeleted checks that an object that validation accepted once can lose its last finalizer, while it cannot
// be changed otherwise.
func TestInvalidObjectsBeingDeleted(t *testing.T) {
	t.Parallel()
	unfinalized := func(vm *demo.VirtualMachine) { vm.Finalizers = nil }
	for _, tc := range []struct {
		name    string
		deleted bool
		change  func(*demo.VirtualMachine)
		failing string
		invalid bool
	}{
		{"unchanged, not being deleted", false, unfinalized, "check", true},
		{"unchanged, being deleted", true, unfinalized, "check", false},
		{"changed, being deleted", true, func(vm *demo.VirtualMachine) { unfinalized(vm); vm.Spec.Image = "b" }, "check", true},
		{"changed in a way that is refused, being deleted", true, withImage("b"), "check change of a", true},
		{"unchanged, with a way that is refused", false, unfinalized, "check change of a", false},
		{"wrong in structure, being deleted", true, unfinalized, "validate update", true},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			one := machine("one", "a")
			one.Finalizers = []string{"example.com/f"}
			f.mustCreate(t, one)
			if tc.deleted {
				if err := deleting(nil)(f.ctx(t), f, nil); err != nil {
					t.Fatal(err)
				}
			}
			f.reset(map[string]error{tc.failing: errors.New("not any more")})
			if _, err := f.update(t, f.REST, "one", tc.change); apierrors.IsInvalid(err) != tc.invalid || !tc.invalid && err != nil {
				t.Errorf("got %v, want a refusal: %v", err, tc.invalid)
			}
			if gone, want := dump(t) == "", tc.deleted && !tc.invalid; gone != want {
				t.Errorf("gone: %v, want %v", gone, want)
			}
		})
	}
}

// TestWarnings checks which warnings a write has: those of Warn first, and none about a specification that stays.
func TestWarnings(t *testing.T) {
	t.Parallel()
	create := func(ctx context.Context, f *fixture) error {
		_, err := f.Create(ctx, machine("two", "new"), nil, &metav1.CreateOptions{})
		return err
	}
	update := func(by func(*fixture) store.Updater, change func(*demo.VirtualMachine)) func(context.Context, *fixture) error {
		return func(ctx context.Context, f *fixture) error {
			_, _, err := by(f).Update(ctx, "one", store.Changing(change), nil, nil, false, &metav1.UpdateOptions{})
			return err
		}
	}
	both := []string{"of warn", "of check"}
	many := func(k *kind, _ *calls) {
		k.Check = func(parts) ([]string, field.ErrorList) {
			return slices.Repeat([]string{"of\ncheck"}, 1000), nil
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*kind, *calls)
		write  func(context.Context, *fixture) error
		want   []string
	}{
		{"create", nil, create, both},
		{"update", nil, update(objects, withImage("new")), both},
		{"a label", nil, update(objects, labelled), nil},
		{"status", nil, update(status, func(vm *demo.VirtualMachine) { vm.Status.Phase, vm.Spec.Image = "Running", "new" }), nil},
		{"only Check", func(k *kind, _ *calls) { k.Warn = nil }, create, []string{"of check"}},
		{"only Warn", func(k *kind, _ *calls) { k.Check = nil }, update(objects, withImage("new")), []string{"of warn"}},
		{"neither", func(k *kind, _ *calls) { k.Warn, k.Check = nil, nil }, create, nil},
		{"too many", many, create, append(append([]string{"of warn"}, slices.Repeat([]string{"of check"}, 375)...), "there are 625 more warnings")},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, tc.change)
			f.mustCreate(t, machine("one", "old"))
			var got store.Warnings
			if err := tc.write(warning.WithWarningRecorder(f.ctx(t), &got), f); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, []string(got)); diff != "" {
				t.Errorf("other warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCreateByUpdate checks which writes create an object that does not exist: server-side apply always, a PUT only of a kind
// that says so, and a write to the status never.
func TestCreateByUpdate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name           string
		createOnUpdate bool
		by             func(*fixture) store.Updater
		force          bool
		want           bool
	}{
		{"put", false, objects, false, false},
		{"put of a kind that says so", true, objects, false, true},
		{"apply", false, objects, true, true},
		{"put of the status", true, status, false, false},
		{"apply of the status", true, status, true, false},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(k *kind, _ *calls) { k.CreateOnUpdate = tc.createOnUpdate })
			_, created, err := tc.by(f).Update(f.ctx(t), "one", rest.DefaultUpdatedObjectInfo(machine("one", "a")), nil, nil, tc.force, &metav1.UpdateOptions{})
			if created != tc.want || apierrors.IsNotFound(err) == tc.want {
				t.Errorf("created: %v, %v, want %v", created, err, tc.want)
			}
			if stored := dump(t) != ""; stored != tc.want {
				t.Errorf("stored: %v, want %v", stored, tc.want)
			}
		})
	}
}

// TestUnconditionalUpdate checks that a PUT without a resource version replaces the object.
func TestUnconditionalUpdate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.mustCreate(t, machine("one", "a"))
	got, _, err := f.Update(f.ctx(t), "one", rest.DefaultUpdatedObjectInfo(machine("one", "b")), nil, nil, false, &metav1.UpdateOptions{})
	if err != nil || imageOf(got) != "b" {
		t.Errorf("got %+v, %v, want the new image", got, err)
	}
}

// TestResetFields checks which fields server-side apply leaves to others, in the served version.
func TestResetFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, tc := range map[string]struct {
		got  map[fieldpath.APIVersion]*fieldpath.Set
		want *fieldpath.Set
	}{
		"object": {f.GetResetFields(), fieldpath.NewSet(fieldpath.MakePathOrDie("status"))},
		"status": {f.status.GetResetFields(), fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata"))},
	} {
		if set := tc.got["demo.proviso.dev/v1alpha1"]; len(tc.got) != 1 || set == nil || !set.Equals(tc.want) {
			t.Errorf("%s: got %v, want %v", name, tc.got, tc.want)
		}
	}
}

// TestDependents checks that the objects that an object owns are deleted with it, and not made orphans.
func TestDependents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	strategy, ok := f.DeleteStrategy.(rest.GarbageCollectionDeleteStrategy)
	if !ok || strategy.DefaultGarbageCollectionPolicy(f.ctx(t)) != rest.DeleteDependents {
		t.Errorf("got %#v, want a strategy that deletes dependents", f.DeleteStrategy)
	}
}
