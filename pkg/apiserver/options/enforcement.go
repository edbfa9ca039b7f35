/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"errors"
	"slices"

	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/features"
)

var errEnforcementOff = errors.New("--feature-gates=ConditionalAuthorization=true allows requests on conditions, which " +
	"--disable-admission-plugins=" + authorizationconditionsenforcer.PluginName + " would not enforce: turn off the gate or enable the plugin")

// validateEnforcement returns an error if requests would be allowed on conditions that are not
// enforced, or if a feature gate is on that needs the gate ConditionalAuthorization, which is off.
func (o CompletedOptions) validateEnforcement() []error {
	gates := o.Generic.ComponentGlobalsRegistry.FeatureGateFor(o.Generic.ComponentName)
	if gates.Enabled(features.ConditionalAuthorization) && slices.Contains(o.Admission.DisablePlugins, authorizationconditionsenforcer.PluginName) {
		return []error{errEnforcementOff}
	}
	if gates.Enabled(features.FineGrainedAuthorization) && !gates.Enabled(features.ConditionalAuthorization) {
		return []error{errConditionsOff}
	}
	if gates.Enabled(features.ConditionalImpersonation) && !gates.Enabled(features.ConditionalAuthorization) {
		return []error{errImpersonationOff}
	}
	if o.leavesConditions() && !gates.Enabled(features.ConditionalAuthorization) {
		return []error{errUpstreamDecisionsOff}
	}
	//guard:inner-door-gate
	if o.FrontDoor.InnerDoorConfig != "" && !gates.Enabled(features.ConditionalAuthorization) {
		return []error{errInnerDoorOff}
	}
	return nil
}

// leavesConditions reports whether kube-apiservers that handle conditional decisions get them.
func (o CompletedOptions) leavesConditions() bool {
	return o.Generic.ComponentGlobalsRegistry.FeatureGateFor(o.Generic.ComponentName).Enabled(features.UpstreamConditionalDecisions)
}

// asksWebhooksAtFrontDoor reports whether the front door asks webhooks.
func (o CompletedOptions) asksWebhooksAtFrontDoor() bool {
	return o.Generic.ComponentGlobalsRegistry.FeatureGateFor(o.Generic.ComponentName).Enabled(features.WebhooksAtFrontDoor)
}

var errUpstreamDecisionsOff = errors.New("--feature-gates=UpstreamConditionalDecisions=true needs ConditionalAuthorization=true: it answers with conditions")

var errInnerDoorOff = errors.New("--inner-door-config needs --feature-gates=ConditionalAuthorization=true: the inner door evaluates conditions")

var errImpersonationOff = errors.New("--feature-gates=ConditionalImpersonation=true needs ConditionalAuthorization=true: the mode conditional grants permissions on conditions")

var errConditionsOff = errors.New("--feature-gates=FineGrainedAuthorization=true needs ConditionalAuthorization=true: fields are checked by conditions")

// applyEnforcement creates the enforcer. config must have the chains. After this call, only the
// server itself may use the authorizer of the generic configuration.
func (o CompletedOptions) applyEnforcement(config *apiserver.Config, client kubernetes.Interface) (err error) {
	if config.ExtraConfig.Compilers, err = apiserver.NewCompilers(); err != nil {
		return err
	}
	generic := config.GenericConfig
	config.ExtraConfig.ConditionalImpersonation = generic.FeatureGate.Enabled(features.ConditionalAuthorization) &&
		generic.FeatureGate.Enabled(features.ConditionalImpersonation)
	config.ExtraConfig.UpstreamDecisions = o.leavesConditions()
	namespaces := newNamespaces(generic.SharedInformerFactory, client)
	config.ExtraConfig.Enforcer, err = enforcement.New(enforcement.Config{
		Chain:             config.ExtraConfig.Chains.Requests,
		Checks:            config.ExtraConfig.Chains.Checks,
		Conditional:       generic.FeatureGate.Enabled(features.ConditionalAuthorization),
		ConnectWithCreate: generic.FeatureGate.Enabled(features.AuthorizeConnectWithCreate),
		Conditions:        config.ExtraConfig.Compilers.Conditions,
		Bound:             config.ExtraConfig.Compilers.Bound,
		Namespace:         namespaces.read,
	})
	if frontDoor := config.ExtraConfig.FrontDoor; frontDoor != nil {
		frontDoor.Namespaces = namespaces.cached
		if frontDoor.InnerDoor != nil {
			frontDoor.InnerDoor.Namespace = namespaces.read
		}
		if frontDoor.Conditions != nil {
			frontDoor.Conditions.Namespace = namespaces.read
		}
	}
	return err
}
