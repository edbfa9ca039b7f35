/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package virtualmachine serves VirtualMachine of demo.proviso.dev, its status and its
// console.
package virtualmachine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/apis/demo/validation"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// Storage holds the endpoints of virtual machines.
type Storage struct {
	*stored.Storage
	// Console serves virtualmachines/console.
	Console *ConsoleREST
}

// NewStorage returns the endpoints of virtual machines.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*Storage, error) {
	machines, err := stored.New(stored.Kind[*demo.VirtualMachine, demo.VirtualMachineSpec, demo.VirtualMachineStatus]{
		Resource:   demo.Resource("virtualmachines"),
		Singular:   demo.Resource("virtualmachine"),
		Version:    v1alpha1.SchemeGroupVersion,
		ShortNames: []string{"vm"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &demo.VirtualMachine{} },
		NewList:    func() runtime.Object { return &demo.VirtualMachineList{} },
		Parts: func(vm *demo.VirtualMachine) parts {
			return parts{Meta: &vm.ObjectMeta, Spec: &vm.Spec, Status: &vm.Status}
		},
		Validate:             validation.ValidateVirtualMachine,
		ValidateUpdate:       validation.ValidateVirtualMachineUpdate,
		ValidateStatusUpdate: validation.ValidateVirtualMachineStatusUpdate,
		// A PUT may create a machine, so that the check of the verb create can be tried.
		CreateOnUpdate: true,
		Guard:          stored.Unguarded{},
		Columns:        columns,
		Cells:          cells,
	}, scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	return &Storage{Storage: machines, Console: &ConsoleREST{machines: machines.Objects.Store}}, nil
}

// parts are the parts of a machine.
type parts = stored.Parts[demo.VirtualMachineSpec, demo.VirtualMachineStatus]

// columns are the columns of the table of machines.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the machine"},
	{Name: "Image", Type: "string", Description: "Image that the machine boots"},
	{Name: "Class", Type: "string", Description: "Storage class of the machine"},
	{Name: "Node", Type: "string", Description: "Node that the machine is placed on"},
	{Name: "Phase", Type: "string", Description: "Phase of the machine"},
	{Name: "Age", Type: "string", Description: "Time since the machine was created"},
	{Name: "CPU", Type: "number", Format: "double", Priority: 1, Description: "Guaranteed processors"},
	{Name: "Memory", Type: "string", Priority: 1, Description: "Memory of the machine"},
}

func cells(p parts, name, age string) []any {
	return []any{
		name, p.Spec.Image, p.Spec.StorageClassName, p.Spec.NodeName, string(p.Status.Phase), age, ptr.Deref(p.Spec.CPUShare, 0), ptr.Deref(p.Spec.Memory, ""),
	}
}

// ConsoleREST serves virtualmachines/console. Its answer repeats the options of the request.
type ConsoleREST struct {
	machines *genericregistry.Store
}

var _ rest.Connecter = &ConsoleREST{}

// New returns empty options, the only object of this subresource.
func (r *ConsoleREST) New() runtime.Object { return &demo.VirtualMachineConsoleOptions{} }

// Destroy releases nothing: the store belongs to REST.
func (r *ConsoleREST) Destroy() {}

// ConnectMethods returns the methods that open a console.
func (r *ConsoleREST) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// NewConnectOptions returns empty options, which are decoded from the query. There is no subpath.
func (r *ConsoleREST) NewConnectOptions() (options runtime.Object, subpath bool, name string) {
	return &demo.VirtualMachineConsoleOptions{}, false, ""
}

// Connect opens the console of a machine. It returns an error if the machine does not exist.
func (r *ConsoleREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	console, ok := options.(*demo.VirtualMachineConsoleOptions)
	if !ok {
		return nil, fmt.Errorf("not VirtualMachineConsoleOptions: %T", options)
	}
	if _, err := r.machines.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, err
	}
	echo := v1alpha1.VirtualMachineConsoleOptions{Command: console.Command, Stdin: console.Stdin}
	echo.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("VirtualMachineConsoleOptions"))
	body, err := json.Marshal(echo)
	if err != nil {
		return nil, fmt.Errorf("encoding the options: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(append(body, '\n')); err != nil {
			responder.Error(err)
		}
	}), nil
}
