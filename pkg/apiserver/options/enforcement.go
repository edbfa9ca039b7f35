/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/features"
)

var errEnforcementOff = errors.New("--feature-gates=ConditionalAuthorization=true allows requests on conditions, which " +
	"--disable-admission-plugins=" + authorizationconditionsenforcer.PluginName + " would not enforce: turn off the gate or enable the plugin")

// validateEnforcement returns an error if requests would be allowed on conditions that are not
// enforced.
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
	return nil
}

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
	config.ExtraConfig.Enforcer, err = enforcement.New(enforcement.Config{
		Chain:             config.ExtraConfig.Chains.Requests,
		Checks:            config.ExtraConfig.Chains.Checks,
		Conditional:       generic.FeatureGate.Enabled(features.ConditionalAuthorization),
		ConnectWithCreate: generic.FeatureGate.Enabled(features.AuthorizeConnectWithCreate),
		Conditions:        config.ExtraConfig.Compilers.Conditions,
		Bound:             config.ExtraConfig.Compilers.Bound,
		Namespace:         o.namespaces(config, client),
	})
	if frontDoor := config.ExtraConfig.FrontDoor; frontDoor != nil {
		frontDoor.Namespaces = cachedNamespaces(config.GenericConfig.SharedInformerFactory.Core().V1().Namespaces())
	}
	return err
}

// cachedNamespaces returns a function that reads namespaces from the cache alone, once it is complete.
func cachedNamespaces(namespaces corev1informers.NamespaceInformer) engine.Namespaces {
	lister, hasSynced := namespaces.Lister(), namespaces.Informer().HasSynced
	return func(name string) (map[string]any, bool) {
		if !hasSynced() {
			return nil, false
		}
		namespace, err := lister.Get(name)
		if err != nil {
			return nil, false
		}
		// Conditions read the metadata alone, and cannot read managedFields.
		reduced := &corev1.Namespace{ObjectMeta: namespace.ObjectMeta}
		reduced.ManagedFields = nil
		data, err := dataOf(reduced)
		return data, err == nil
	}
}

// dataOf returns the JSON form of a namespace.
func dataOf(namespace *corev1.Namespace) (map[string]any, error) {
	namespace = namespace.DeepCopy()
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return runtime.DefaultUnstructuredConverter.ToUnstructured(namespace)
}

// namespaces returns a function that reads namespaces from the cache, or from kube-apiserver if
// the cache does not have them yet.
func (o CompletedOptions) namespaces(config *apiserver.Config, client kubernetes.Interface) func(string) (map[string]any, error) {
	lister := config.GenericConfig.SharedInformerFactory.Core().V1().Namespaces().Lister()
	return func(name string) (map[string]any, error) {
		namespace, err := lister.Get(name)
		if apierrors.IsNotFound(err) {
			ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
			defer cancel()
			namespace, err = client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return nil, fmt.Errorf("namespace %q: %w", name, err)
		}
		return dataOf(namespace)
	}
}
