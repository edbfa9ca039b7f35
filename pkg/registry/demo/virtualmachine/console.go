/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtualmachine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
)

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
