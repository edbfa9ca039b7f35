/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package virtualmachine serves VirtualMachine of demo.proviso.dev, its status and its
// console.
package virtualmachine

import (
	"context"
	"fmt"

	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// Storage holds the endpoints of virtual machines.
type Storage struct {
	// VirtualMachine serves the machines themselves.
	VirtualMachine *REST
	// Status serves virtualmachines/status.
	Status *stored.StatusREST
	// Console serves virtualmachines/console.
	Console *ConsoleREST
}

// NewStorage makes the endpoints of virtual machines.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*Storage, error) {
	machines := newStrategy(scheme)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &demo.VirtualMachine{} },
		NewListFunc:               func() runtime.Object { return &demo.VirtualMachineList{} },
		PredicateFunc:             matchVirtualMachine,
		DefaultQualifiedResource:  demo.Resource("virtualmachines"),
		SingularQualifiedResource: demo.Resource("virtualmachine"),

		CreateStrategy:      machines,
		UpdateStrategy:      machines,
		DeleteStrategy:      machines,
		ResetFieldsStrategy: machines,

		TableConvertor: tableConvertor{},
	}
	options := &generic.StoreOptions{RESTOptions: optsGetter, AttrFunc: attributesOf}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, fmt.Errorf("completing the store of virtual machines: %w", err)
	}
	statusStore := *store
	statusStore.UpdateStrategy = statusStrategy{machines}
	statusStore.ResetFieldsStrategy = statusStrategy{machines}
	return &Storage{
		VirtualMachine: &REST{Store: store},
		Status:         stored.NewStatusREST(&statusStore),
		Console:        &ConsoleREST{machines: store},
	}, nil
}

// REST serves virtualmachines.
type REST struct {
	*genericregistry.Store
}

var (
	_ rest.StandardStorage    = &REST{}
	_ rest.ShortNamesProvider = &REST{}
	_ rest.CategoriesProvider = &REST{}
)

// ShortNames lets kubectl call machines vm.
func (r *REST) ShortNames() []string { return []string{"vm"} }

// Categories lets kubectl show machines with everything else.
func (r *REST) Categories() []string { return []string{"all"} }

// RunsValidatingAdmission marks a storage that passes every validation callback on to its
// store.
func (r *REST) RunsValidatingAdmission() {}

func attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	vm, ok := obj.(*demo.VirtualMachine)
	if !ok {
		return nil, nil, fmt.Errorf("not a VirtualMachine: %T", obj)
	}
	selectable := generic.AddObjectMetaFieldsSet(fields.Set{}, &vm.ObjectMeta, true)
	return vm.Labels, selectable, nil
}

func matchVirtualMachine(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributesOf}
}

// tableConvertor renders machines as kubectl prints them.
type tableConvertor struct{}

func (tableConvertor) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		table.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the machine"},
			{Name: "Image", Type: "string", Description: "What the machine boots"},
			{Name: "Class", Type: "string", Description: "Storage class of the machine"},
			{Name: "Node", Type: "string", Description: "Node that the machine is placed on"},
			{Name: "Phase", Type: "string", Description: "What the machine is doing"},
			{Name: "Age", Type: "string", Description: "Time since the machine was created"},
			{Name: "CPU", Type: "number", Format: "double", Priority: 1, Description: "Guaranteed processors"},
			{Name: "Memory", Type: "string", Priority: 1, Description: "Memory of the machine"},
		}
	}
	switch typed := object.(type) {
	case *demo.VirtualMachineList:
		table.ResourceVersion, table.Continue, table.RemainingItemCount = typed.ResourceVersion, typed.Continue, typed.RemainingItemCount
		for i := range typed.Items {
			table.Rows = append(table.Rows, rowOf(&typed.Items[i]))
		}
	case *demo.VirtualMachine:
		table.ResourceVersion = typed.ResourceVersion
		table.Rows = append(table.Rows, rowOf(typed))
	default:
		return nil, fmt.Errorf("not a VirtualMachine: %T", object)
	}
	return table, nil
}

func rowOf(vm *demo.VirtualMachine) metav1.TableRow {
	cpu, memory := 0.0, ""
	if vm.Spec.CPUShare != nil {
		cpu = *vm.Spec.CPUShare
	}
	if vm.Spec.Memory != nil {
		memory = vm.Spec.Memory.String()
	}
	return metav1.TableRow{
		Cells: []any{
			vm.Name, vm.Spec.Image, vm.Spec.StorageClassName, vm.Spec.NodeName, string(vm.Status.Phase),
			metatable.ConvertToHumanReadableDateType(vm.CreationTimestamp), cpu, memory,
		},
		Object: runtime.RawExtension{Object: vm},
	}
}
