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
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proviso-authz/proviso/apis/demo"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/node"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// The names of the authorizers, as conditions and messages show them.
const (
	authorizerPrivilegedGroups = "kubernetes.io/always-allow-groups"
	authorizerPaths            = "kubernetes.io/always-allow-paths"
	authorizerRestricting      = "deny.policy.proviso.dev"
	authorizerKubeAPIServer    = "kube-apiserver"
	authorizerGranting         = "policy.proviso.dev"
	authorizerNode             = "node.proviso.dev"
	// authorizerWebhooks stands for the webhooks, which go by their own names.
	authorizerWebhooks = "proviso.dev/webhooks"
	authorizerExclude  = "exclude.granular.proviso.dev"
	authorizerInclude  = "include.granular.proviso.dev"
)

// builtIn are the names that a webhook must not have.
var builtIn = []string{
	authorizerPrivilegedGroups, authorizerPaths, authorizerRestricting, authorizerKubeAPIServer, authorizerGranting, authorizerNode,
	authorizerWebhooks, authorizerExclude, authorizerInclude,
}

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

// Chains makes the chains that decide reviews and requests. They have the same
// authorizers but for two differences. The paths of this server that are always allowed
// say nothing about the cluster, about which a review asks. And a review is answered by
// what holds now, as kube-apiserver answers its own, never from the cache.
//
// Deny policies come before kube-apiserver, so that they mean the same everywhere, and
// after those who need no permission; Allow and NoOpinion policies come after it, then the
// webhooks, if there are any, and then the members of last. With the gate
// FineGrainedAuthorization, without which fields is nil, excluded fields are looked at before
// everything that could allow, and included ones after everybody else.
func (o *AuthorizationOptions) Chains(policies *engine.Source, webhooks *webhook.Source, fields *fineGrained, last ...authorization.Member) (reviews, requests *authorization.Chain, err error) {
	fresh, err := o.kubeAPIServer(0, 0, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, nil, err
	}
	cached, err := o.kubeAPIServer(o.AllowCacheTTL, o.DenyCacheTTL, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, nil, err
	}
	privileged := authorization.Member{
		Name:       authorizerPrivilegedGroups,
		Authorizer: authorizerfactory.NewPrivilegedGroups(o.AlwaysAllowGroups...),
	}
	before := &engine.Authorizer{Source: policies, Part: engine.Restricting}
	after := &engine.Authorizer{Source: policies, Part: engine.Granting}
	restricting := authorization.Member{Name: authorizerRestricting, Authorizer: before}
	granting := authorization.Member{Name: authorizerGranting, Authorizer: after}
	restrictions := []authorization.Member{restricting}
	if fields != nil {
		restrictions, last = []authorization.Member{fields.exclude, restricting}, append(slices.Clip(last), fields.include)
	}
	dynamic := func(fresh bool) []authorization.Member {
		if webhooks == nil {
			return last
		}
		return append([]authorization.Member{{Name: authorizerWebhooks, Authorizer: &webhook.Dynamic{Source: webhooks, Fresh: fresh}}}, last...)
	}
	reviews, err = authorization.NewChain(slices.Concat([]authorization.Member{privileged}, restrictions,
		[]authorization.Member{{Name: authorizerKubeAPIServer, Authorizer: fresh}, granting}, dynamic(true))...)
	if err != nil {
		return nil, nil, fmt.Errorf("chain of authorizers: %w", err)
	}
	paths, err := path.NewAuthorizer(o.AlwaysAllowPaths)
	if err != nil {
		return nil, nil, fmt.Errorf("--authorization-always-allow-paths: %w", err)
	}
	requests, err = authorization.NewChain(slices.Concat([]authorization.Member{privileged, {Name: authorizerPaths, Authorizer: paths}}, restrictions,
		[]authorization.Member{{Name: authorizerKubeAPIServer, Authorizer: cached}, granting}, dynamic(false))...)
	if err != nil {
		return nil, nil, fmt.Errorf("chain of authorizers: %w", err)
	}
	for _, part := range []*engine.Authorizer{before, after} {
		part.Checks, part.MayRead = reviews, mayRead(reviews)
	}
	if fields != nil {
		fields.checks.chain = reviews
	}
	return reviews, requests, nil
}

// demoAuthorizers returns the example authorizer, which decides about what is placed on
// nodes: imaginary machines, and pods in reviews.
func (o CompletedOptions) demoAuthorizers() []authorization.Member {
	if !o.EnableDemoAPI {
		return nil
	}
	return []authorization.Member{{Name: authorizerNode, Authorizer: node.Authorizer{
		Resources: []schema.GroupResource{demo.Resource("virtualmachines"), {Resource: "pods"}},
	}}}
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
		File: o.ConfigFile, Reserved: builtIn, KubeAPIServer: kubeAPIServer.Host, Backoff: *o.WebhookRetryBackoff,
	})
	if err != nil {
		return nil, fmt.Errorf("--authorization-config: %w", err)
	}
	return source, nil
}

// mayRead says who may see a whole policy in a condition: who may get it.
func mayRead(chain *authorization.Chain) func(context.Context, authorizer.Attributes, engine.Key) bool {
	return func(ctx context.Context, attributes authorizer.Attributes, policy engine.Key) bool {
		caller := authorization.CallerOf(attributes)
		if caller == nil {
			return false
		}
		resource := "clusterauthorizationpolicies"
		if policy.Namespace != "" {
			resource = "authorizationpolicies"
		}
		decision, _, err := chain.Authorize(ctx, authorizer.AttributesRecord{
			User: caller, Verb: "get", APIGroup: policyv1alpha1.GroupName, APIVersion: policyv1alpha1.SchemeGroupVersion.Version,
			Resource: resource, Namespace: policy.Namespace, Name: policy.Name, ResourceRequest: true,
		})
		return err == nil && decision == authorizer.DecisionAllow
	}
}

// kubeAPIServer makes an authorizer with a client of its own: everybody may create
// reviews about themselves, and a flood of those must not slow down anything else. It makes
// so many attempts to get an answer.
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
