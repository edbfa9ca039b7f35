/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package virtualmachine serves VirtualMachine of demo.proviso.dev, its status and its
// console.
package virtualmachine

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/apis/demo/validation"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// Storage holds the endpoints of virtual machines.
type Storage struct {
	// VirtualMachine serves the machines themselves.
	VirtualMachine *stored.REST
	// Status serves virtualmachines/status.
	Status *stored.StatusREST
	// Console serves virtualmachines/console.
	Console *ConsoleREST
}

// NewStorage returns the endpoints of virtual machines.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*Storage, error) {
	machines, status, err := stored.New(stored.Kind[demo.VirtualMachineSpec, demo.VirtualMachineStatus]{
		Resource:   demo.Resource("virtualmachines"),
		Singular:   demo.Resource("virtualmachine"),
		Version:    v1alpha1.SchemeGroupVersion,
		ShortNames: []string{"vm"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &demo.VirtualMachine{} },
		NewList:    func() runtime.Object { return &demo.VirtualMachineList{} },
		Parts: func(obj runtime.Object) stored.Parts[demo.VirtualMachineSpec, demo.VirtualMachineStatus] {
			vm := obj.(*demo.VirtualMachine)
			return stored.Parts[demo.VirtualMachineSpec, demo.VirtualMachineStatus]{Meta: &vm.ObjectMeta, Spec: &vm.Spec, Status: &vm.Status}
		},
		Validate: func(obj runtime.Object) field.ErrorList {
			return validation.ValidateVirtualMachine(obj.(*demo.VirtualMachine))
		},
		ValidateUpdate: func(obj, old runtime.Object) field.ErrorList {
			return validation.ValidateVirtualMachineUpdate(obj.(*demo.VirtualMachine), old.(*demo.VirtualMachine))
		},
		ValidateStatusUpdate: func(obj, old runtime.Object) field.ErrorList {
			return validation.ValidateVirtualMachineStatusUpdate(obj.(*demo.VirtualMachine), old.(*demo.VirtualMachine))
		},
		// A PUT may create a machine, so that the check of the verb create can be tried.
		CreateOnUpdate: true,
		Guard:          stored.Unguarded{},
		Table:          table,
	}, scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	return &Storage{VirtualMachine: machines, Status: status, Console: &ConsoleREST{machines: machines.Store}}, nil
}

// table prints machines.
var table = stored.Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the machine"},
		{Name: "Image", Type: "string", Description: "Image that the machine boots"},
		{Name: "Class", Type: "string", Description: "Storage class of the machine"},
		{Name: "Node", Type: "string", Description: "Node that the machine is placed on"},
		{Name: "Phase", Type: "string", Description: "Phase of the machine"},
		{Name: "Age", Type: "string", Description: "Time since the machine was created"},
		{Name: "CPU", Type: "number", Format: "double", Priority: 1, Description: "Guaranteed processors"},
		{Name: "Memory", Type: "string", Priority: 1, Description: "Memory of the machine"},
	},
	Cells: func(obj runtime.Object, name, age string) ([]any, error) {
		vm, ok := obj.(*demo.VirtualMachine)
		if !ok {
			return nil, fmt.Errorf("not a VirtualMachine: %T", obj)
		}
		cpu, memory := 0.0, ""
		if vm.Spec.CPUShare != nil {
			cpu = *vm.Spec.CPUShare
		}
		if vm.Spec.Memory != nil {
			memory = *vm.Spec.Memory
		}
		return []any{
			name, vm.Spec.Image, vm.Spec.StorageClassName, vm.Spec.NodeName, string(vm.Status.Phase), age, cpu, memory,
		}, nil
	},
}
