/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package library

import (
	"errors"
	"time"

	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// conditions configures a server to ask kube-apiserver and the webhooks in a file, and to
// enforce the conditions that the webhooks return. Call the returned function before the
// server is created.
func conditions(options *genericoptions.RecommendedOptions, file string) func(*genericapiserver.RecommendedConfig, *genericapiserver.APIGroupInfo) error {
	var enforcer *enforcement.Enforcer
	authorizationconditionsenforcer.AddTo(options.Admission)
	options.ExtraAdmissionInitializers = func(c *genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		client, err := kubernetes.NewForConfig(c.ClientConfig)
		if err != nil {
			return nil, err
		}
		backoff := *genericoptions.DefaultAuthWebhookRetryBackoff()
		kube, err := webhook.New(webhook.Config{
			Client: client.AuthorizationV1().SubjectAccessReviews(), AllowCacheTTL: 10 * time.Second, DenyCacheTTL: 10 * time.Second, Backoff: backoff,
		})
		source, sourceErr := webhook.NewSource(webhook.SourceConfig{File: file, Restricting: true, Backoff: backoff})
		compiler, compilerErr := cel.NewCompiler()
		if err := errors.Join(err, sourceErr, compilerErr); err != nil {
			return nil, err
		}
		chain, err := webhook.NewChain(webhook.ChainConfig{
			KubeAPIServer: kube, Webhooks: source,
			AlwaysAllowGroups: options.Authorization.AlwaysAllowGroups, AlwaysAllowPaths: options.Authorization.AlwaysAllowPaths,
		})
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
