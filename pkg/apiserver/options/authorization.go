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
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// noRate turns off the rate limit of client-go. What is in flight is bounded instead, fairly by
// user (see package webhook), and kube-apiserver has its own priority and fairness.
const noRate = -1

// AuthorizationOptions are the options of the server's authorizers. The flags are those
// of every aggregated server; the authorizers are not: see package webhook.
type AuthorizationOptions struct {
	*genericoptions.DelegatingAuthorizationOptions
	// ConfigFile is the path of an AuthorizationConfiguration, which names webhooks to be
	// asked after the policies. Empty means that there are none.
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
		"File with an AuthorizationConfiguration (config.proviso.dev/v1alpha1), which names webhooks that are asked after the policies, in order. The file, and the kubeconfig files that it names, may change while the server runs; what cannot be used leaves the last good configuration in force.")
}

// Validate returns everything that is wrong with the options.
func (o *AuthorizationOptions) Validate() []error {
	errs := o.DelegatingAuthorizationOptions.Validate()
	if o.WebhookRetryBackoff == nil {
		errs = append(errs, errors.New("authorization needs a retry backoff"))
	}
	return errs
}

// Chains builds the chains of the server. The options say which groups and paths need no permission,
// and how kube-apiserver is asked; config says the rest.
func (o *AuthorizationOptions) Chains(config apiserver.AuthorizerConfig) (*apiserver.Chains, error) {
	fresh, err := o.kubeAPIServer(0, 0, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, err
	}
	cached, err := o.kubeAPIServer(o.AllowCacheTTL, o.DenyCacheTTL, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, err
	}
	config.Fresh, config.Cached = fresh, cached
	config.AlwaysAllowGroups, config.AlwaysAllowPaths = o.AlwaysAllowGroups, o.AlwaysAllowPaths
	return apiserver.NewChains(config)
}

// Webhooks reads the configuration of webhooks. It returns nil if there is none.
func (o *AuthorizationOptions) Webhooks() (*webhook.Source, error) {
	if o.ConfigFile == "" {
		return nil, nil
	}
	kubeAPIServer, err := o.clientConfig()
	if err != nil {
		return nil, fmt.Errorf("--authorization-kubeconfig: %w", err)
	}
	source, err := webhook.NewSource(webhook.SourceConfig{
		File: o.ConfigFile, Reserved: apiserver.AuthorizerNames(), KubeAPIServer: kubeAPIServer.Host, Backoff: *o.WebhookRetryBackoff,
	})
	if err != nil {
		return nil, fmt.Errorf("--authorization-config: %w", err)
	}
	return source, nil
}

// kubeAPIServer makes an authorizer with bounds of its own: every user may create reviews
// about themselves, and a flood of reviews must not slow down requests. It makes at most this
// number of attempts to get an answer.
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

// loadClientConfig reads a kubeconfig file, or the configuration of the pod that the
// process is in if there is no file.
func loadClientConfig(file string) (*rest.Config, error) {
	if file == "" {
		return rest.InClusterConfig()
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
}
