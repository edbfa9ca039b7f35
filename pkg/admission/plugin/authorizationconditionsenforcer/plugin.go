/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorizationconditionsenforcer is the admission plugin that enforces conditional
// authorization (KEP-5681, "AuthorizationConditionsEnforcer admission controller"). Package
// enforcement does the work.
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

// Plugin is the admission plugin. It does nothing if conditional authorization is off in the
// Enforcer of the server.
type Plugin struct {
	enforcer *enforcement.Enforcer
}

var (
	_ admission.ValidationInterface     = &Plugin{}
	_ admission.InitializationValidator = &Plugin{}
)

// AddTo registers the plugin, and puts it before all other plugins of a server. It validates, so
// mutating plugins run before it, but no other validating plugin sees an object that the user may not
// write.
func AddTo(options *genericoptions.AdmissionOptions) {
	options.Plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) { return &Plugin{}, nil })
	options.RecommendedPluginOrder = slices.Insert(slices.Clone(options.RecommendedPluginOrder), 0, PluginName)
}

// Initializer gives the plugin the Enforcer of the server.
type Initializer struct {
	Enforcer *enforcement.Enforcer
}

var _ admission.PluginInitializer = Initializer{}

// Initialize gives the plugin the Enforcer, and tells the Enforcer that conditions are enforced. It does nothing to other plugins.
func (i Initializer) Initialize(plugin admission.Interface) {
	if p, ok := plugin.(*Plugin); ok {
		p.enforcer = i.Enforcer
		i.Enforcer.MarkEnforced()
	}
}

var errNoEnforcer = errors.New(PluginName + " needs an Enforcer: add Initializer to the initializers of admission plugins")

// ValidateInitialization returns an error if the plugin has no Enforcer.
func (p *Plugin) ValidateInitialization() error {
	if p.enforcer == nil {
		return errNoEnforcer
	}
	return nil
}

// Handles returns true for every operation if requests may pass authorization on conditions, and
// false otherwise.
func (p *Plugin) Handles(admission.Operation) bool { return p.enforcer.Conditional() }

// Validate enforces the conditions of a request on its final object.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return enforcement.Enforce(ctx, a, o)
}
