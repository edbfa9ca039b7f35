/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorizationconditionsenforcer is the admission plugin that enforces the
// conditions of authorization (KEP-5681, "AuthorizationConditionsEnforcer admission
// controller"). It is a thin door to package enforcement.
package authorizationconditionsenforcer

import (
	"context"
	"errors"
	"io"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// PluginName is the name of the plugin in flags.
const PluginName = "AuthorizationConditionsEnforcer"

// Plugin is the admission plugin. It does nothing in a server whose Enforcer lets nothing
// pass on conditions.
type Plugin struct {
	enforcer *enforcement.Enforcer
}

var (
	_ admission.ValidationInterface     = &Plugin{}
	_ admission.InitializationValidator = &Plugin{}
)

// AddTo adds the plugin to the plugins of a server, before all others: no other plugin may see an object that its
// author may not write.
func AddTo(options *genericoptions.AdmissionOptions) {
	options.Plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) { return &Plugin{}, nil })
	options.RecommendedPluginOrder = slices.Insert(slices.Clone(options.RecommendedPluginOrder), 0, PluginName)
}

// Initializer gives the plugin the Enforcer of the server.
type Initializer struct {
	Enforcer *enforcement.Enforcer
}

var _ admission.PluginInitializer = Initializer{}

// Initialize tells the Enforcer that the plugin enforces what it lets pass.
func (i Initializer) Initialize(plugin admission.Interface) {
	if p, ok := plugin.(*Plugin); ok {
		p.enforcer = i.Enforcer
		i.Enforcer.Plug()
	}
}

var errNoEnforcer = errors.New(PluginName + " needs an Enforcer; add Initializer to the initializers of admission plugins")

// ValidateInitialization reports whether the plugin can work.
func (p *Plugin) ValidateInitialization() error {
	if p.enforcer == nil {
		return errNoEnforcer
	}
	return nil
}

// Handles reports whether the plugin looks at an operation: at each of them, while requests
// may pass on conditions.
func (p *Plugin) Handles(admission.Operation) bool { return p.enforcer.Conditional() }

// Validate enforces the conditions of a request on its final object.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return enforcement.Enforce(ctx, a, o)
}
