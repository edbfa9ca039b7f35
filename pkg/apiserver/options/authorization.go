/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// noRate disables the rate limit of client-go. Instead, package webhook bounds the checks in
// flight, fairly by user, and kube-apiserver has its own priority and fairness.
const noRate = -1

// maxInnerDoorTTL bounds how long an answer of kube-apiserver that allows a write is reused at the inner door: as long as a controller
// takes to write a few objects.
const maxInnerDoorTTL = 3 * time.Second

// AuthorizationOptions are the options of the server's authorizers. The flags are the same as in
// every aggregated server, and --authorization-config. The authorizers differ: see package webhook.
type AuthorizationOptions struct {
	*genericoptions.DelegatingAuthorizationOptions
	// ConfigFile is the path of an AuthorizationConfiguration with webhooks that are called before RBAC and the policies that allow.
	// Empty means that there are none.
	ConfigFile string
}

// NewAuthorizationOptions returns the defaults.
func NewAuthorizationOptions() *AuthorizationOptions {
	return &AuthorizationOptions{DelegatingAuthorizationOptions: genericoptions.NewDelegatingAuthorizationOptions()}
}

// AddFlags adds the flags of the options to a set.
func (o *AuthorizationOptions) AddFlags(fs *pflag.FlagSet) {
	o.DelegatingAuthorizationOptions.AddFlags(fs)
	fs.StringVar(&o.ConfigFile, "authorization-config", o.ConfigFile,
		"File with an AuthorizationConfiguration (config.proviso.dev/v1alpha1), with webhooks that are called in order, before RBAC and the policies that allow. The server reloads this file and its kubeconfig files when they change. If the new configuration is invalid, the last valid one is still used.")
}

// Validate returns all errors in the options.
func (o *AuthorizationOptions) Validate() []error {
	errs := o.DelegatingAuthorizationOptions.Validate()
	if o.WebhookRetryBackoff == nil {
		errs = append(errs, errors.New("the authorization options have no retry backoff"))
	}
	return errs
}

// Chains builds the chains of the server. The options determine the privileged groups, the paths
// that need no permission, and how kube-apiserver is called; config has the rest. innerDoor says that there is an inner door.
func (o *AuthorizationOptions) Chains(config apiserver.AuthorizerConfig, innerDoor bool) (*apiserver.Chains, error) {
	fresh, err := o.kubeAPIServer(0, 0, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, err
	}
	cached, err := o.kubeAPIServer(o.AllowCacheTTL, o.DenyCacheTTL, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, err
	}
	config.Fresh, config.Cached = fresh, cached
	if innerDoor {
		// Only one attempt: kube-apiserver, which calls the inner door, does not wait for more. A denial is never reused, so
		// that a permission that was just granted counts.
		config.InnerDoor, err = o.kubeAPIServer(min(o.AllowCacheTTL, maxInnerDoorTTL), 0, 1)
		if err != nil {
			return nil, err
		}
	}
	config.AlwaysAllowGroups, config.AlwaysAllowPaths = o.AlwaysAllowGroups, o.AlwaysAllowPaths
	return apiserver.NewChains(config)
}

// Webhooks reads the configuration of webhooks. It returns nil if no file is configured. upstream is the feature gate
// UpstreamConditionalDecisions.
func (o *AuthorizationOptions) Webhooks(upstream bool) (*webhook.Source, error) {
	if o.ConfigFile == "" {
		return nil, nil
	}
	kubeAPIServer, err := o.clientConfig()
	if err != nil {
		return nil, fmt.Errorf("--authorization-kubeconfig: %w", err)
	}
	source, err := webhook.NewSource(webhook.SourceConfig{
		File: o.ConfigFile, Reserved: order.Reserved(), KubeAPIServer: kubeAPIServer.Host, Backoff: *o.WebhookRetryBackoff,
		Upstream: upstream,
	})
	if err != nil {
		return nil, fmt.Errorf("--authorization-config: %w", err)
	}
	return source, nil
}

// kubeAPIServer returns an authorizer with its own bounds for checks in flight. Reviews and
// requests have separate ones, because every user may create reviews about themselves, and a flood
// of reviews must not slow down requests. attempts is the maximum number of calls for one answer.
func (o *AuthorizationOptions) kubeAPIServer(allowTTL, denyTTL time.Duration, attempts int) (*webhook.Authorizer, error) {
	config, err := o.clientConfig()
	if err != nil {
		return nil, fmt.Errorf("--authorization-kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for authorization: %w", err)
	}
	backoff := *o.WebhookRetryBackoff
	backoff.Steps = attempts
	return webhook.New(webhook.Config{
		Client:        client.AuthorizationV1().SubjectAccessReviews(),
		AllowCacheTTL: allowTTL,
		DenyCacheTTL:  denyTTL,
		Backoff:       backoff,
	})
}

func (o *AuthorizationOptions) clientConfig() (*rest.Config, error) {
	config, err := loadClientConfig(o.RemoteKubeConfigFile)
	if err != nil {
		return nil, err
	}
	config.QPS = noRate
	config.Timeout = o.ClientTimeout
	return config, nil
}

// loadClientConfig reads a kubeconfig file. If file is empty, it returns the configuration of the
// pod in which the process runs.
func loadClientConfig(file string) (*rest.Config, error) {
	if file == "" {
		return rest.InClusterConfig()
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
}
