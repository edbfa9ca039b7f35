/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/features"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// The errors of validateEnforcement.
var (
	errEnforcementOff = errors.New("--feature-gates=ConditionalAuthorization=true allows requests on conditions, which " +
		"--disable-admission-plugins=" + authorizationconditionsenforcer.PluginName + " would not enforce: turn off the gate or enable the plugin")
	errUpstreamDecisionsOff = errors.New("--feature-gates=UpstreamConditionalDecisions=true needs ConditionalAuthorization=true: it answers with conditions")
	errInnerDoorOff         = errors.New("--inner-door-config needs --feature-gates=ConditionalAuthorization=true: the inner door evaluates conditions")
	errImpersonationOff     = errors.New("--feature-gates=ConditionalImpersonation=true needs ConditionalAuthorization=true: the mode conditional grants permissions on conditions")
	errConditionsOff        = errors.New("--feature-gates=FineGrainedAuthorization=true needs ConditionalAuthorization=true: fields are checked by conditions")
)

// validateEnforcement returns an error if requests would be allowed on conditions that are not
// enforced, or if a feature gate is on that needs the gate ConditionalAuthorization, which is off.
func (o CompletedOptions) validateEnforcement() []error {
	isConditional := o.isOn(features.ConditionalAuthorization)
	switch {
	case isConditional && slices.Contains(o.Admission.DisablePlugins, authorizationconditionsenforcer.PluginName):
		return []error{errEnforcementOff}
	case o.isOn(features.FineGrainedAuthorization) && !isConditional:
		return []error{errConditionsOff}
	case o.isOn(features.ConditionalImpersonation) && !isConditional:
		return []error{errImpersonationOff}
	case o.leavesConditions() && !isConditional:
		return []error{errUpstreamDecisionsOff}
	//guard:inner-door-gate
	case o.FrontDoor.InnerDoorConfig != "" && !isConditional:
		return []error{errInnerDoorOff}
	}
	return nil
}

// leavesConditions reports whether kube-apiservers that handle conditional decisions get them.
func (o CompletedOptions) leavesConditions() bool {
	return o.isOn(features.UpstreamConditionalDecisions)
}

// isOn reports whether a feature gate is on.
func (o CompletedOptions) isOn(feature featuregate.Feature) bool {
	return o.Generic.ComponentGlobalsRegistry.FeatureGateFor(o.Generic.ComponentName).Enabled(feature)
}

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
		frontDoor.Namespaces, frontDoor.Namespace = namespaces.cached, namespaces.read
	}
	return err
}

// applyFineGrained returns the configuration of the authorizers for permission on fields
// (KEP-3617). It returns nil if the gate FineGrainedAuthorization or ConditionalAuthorization is off.
func (o CompletedOptions) applyFineGrained(config *apiserver.Config) (*granular.Config, error) {
	gates := config.GenericConfig.FeatureGate
	if !gates.Enabled(features.FineGrainedAuthorization) || !gates.Enabled(features.ConditionalAuthorization) {
		return nil, nil
	}
	kubeAPIServer, err := loadClientConfig(o.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	schemas, err := apiserver.NewFields(config.GenericConfig.OpenAPIV3Config, kubeAPIServer)
	if err != nil {
		return nil, err
	}
	for _, warning := range schemas.Markers.Warnings() {
		klog.Background().Info("A schema has a field marker that should be corrected", "warning", warning)
	}
	config.ExtraConfig.Mappings = mapping.NewSource(schemas.Markers)
	if frontDoor := config.ExtraConfig.FrontDoor; frontDoor != nil {
		// Only one attempt: kube-apiserver, which calls the front door, does not wait for more.
		if frontDoor.Fields, err = o.Authorization.kubeAPIServer(o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL, 1); err != nil {
			return nil, err
		}
	}
	return &granular.Config{Types: schemas.Types, Mappings: config.ExtraConfig.Mappings}, nil
}
