/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package library

import (
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// conditions configures a server to ask Proviso and kube-apiserver, and to enforce the
// conditions of the answers. Call the returned function before the server is created.
func conditions(options *genericoptions.RecommendedOptions) func(*genericapiserver.RecommendedConfig, *genericapiserver.APIGroupInfo) error {
	var enforcer *enforcement.Enforcer
	authorizationconditionsenforcer.AddTo(options.Admission)
	options.ExtraAdmissionInitializers = func(c *genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		chain, err := webhook.ForProviso(c.ClientConfig, func(chain *webhook.ChainConfig) {
			chain.AlwaysAllowGroups, chain.AlwaysAllowPaths = options.Authorization.AlwaysAllowGroups, options.Authorization.AlwaysAllowPaths
		})
		if err != nil {
			return nil, err
		}
		compiler, err := cel.NewCompiler()
		if err != nil {
			return nil, err
		}
		c.Authorization.Authorizer = chain
		enforcer, err = enforcement.New(enforcement.Config{Chain: chain, Conditional: true, ConnectWithCreate: true, Conditions: compiler})
		return []admission.PluginInitializer{authorizationconditionsenforcer.Initializer{Enforcer: enforcer}}, err
	}
	return func(config *genericapiserver.RecommendedConfig, group *genericapiserver.APIGroupInfo) error {
		enforcer.Cover(group)
		return enforcer.ApplyTo(&config.Config)
	}
}
