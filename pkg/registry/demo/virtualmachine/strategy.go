/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtualmachine

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/apis/demo/validation"
)

// strategy is how machines are created and changed. It owns status and generation: a
// write to the machine itself touches neither.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

var (
	_ rest.RESTCreateStrategy              = strategy{}
	_ rest.RESTUpdateStrategy              = strategy{}
	_ rest.RESTDeleteStrategy              = strategy{}
	_ rest.ResetFieldsStrategy             = strategy{}
	_ rest.RESTUpdateStrategy              = statusStrategy{}
	_ rest.ResetFieldsStrategy             = statusStrategy{}
	_ rest.GarbageCollectionDeleteStrategy = strategy{}
)

func (strategy) NamespaceScoped() bool { return true }

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	vm := obj.(*demo.VirtualMachine)
	vm.Status = demo.VirtualMachineStatus{}
	vm.Generation = 1
}

func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	vm, oldVM := obj.(*demo.VirtualMachine), old.(*demo.VirtualMachine)
	vm.Status = oldVM.Status
	vm.Generation = oldVM.Generation
	if !apiequality.Semantic.DeepEqual(vm.Spec, oldVM.Spec) {
		vm.Generation++
	}
}

func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validation.ValidateVirtualMachine(obj.(*demo.VirtualMachine))
}

func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateVirtualMachineUpdate(obj.(*demo.VirtualMachine), old.(*demo.VirtualMachine))
}

// AllowCreateOnUpdate lets a PUT create a machine, so that the path from update to
// create, which needs both permissions, can be tried.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return true }

func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy) Canonicalize(runtime.Object) {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.DeleteDependents
}

func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

// statusStrategy is how the status of machines is changed: nothing but the status.
type statusStrategy struct {
	strategy
}

// AllowCreateOnUpdate keeps a write to the status of nothing from creating something.
func (statusStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	vm, oldVM := obj.(*demo.VirtualMachine), old.(*demo.VirtualMachine)
	status := vm.Status
	managed := vm.ManagedFields
	oldVM.DeepCopyInto(vm)
	vm.Status = status
	vm.ManagedFields = managed
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateVirtualMachineStatusUpdate(obj.(*demo.VirtualMachine), old.(*demo.VirtualMachine))
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("spec", "metadata")
}

func resetFields(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(v1alpha1.SchemeGroupVersion.String()): set}
}

// newStrategy makes the strategy for a scheme.
func newStrategy(typer runtime.ObjectTyper) strategy {
	return strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator}
}
