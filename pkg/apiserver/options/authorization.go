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
	authorizerRestricting      = engine.RestrictingName
	authorizerKubeAPIServer    = "kube-apiserver"
	authorizerGranting         = engine.GrantingName
	authorizerNamespaced       = engine.NamespacedName
	authorizerNode             = "node.proviso.dev"
	// authorizerWebhooks stands for the webhooks, which go by their own names.
	authorizerWebhooks = "proviso.dev/webhooks"
	authorizerExclude  = "exclude.granular.proviso.dev"
	authorizerInclude  = "include.granular.proviso.dev"
)

// builtIn are the names that a webhook must not have.
var builtIn = []string{
	authorizerPrivilegedGroups, authorizerPaths, authorizerRestricting, authorizerKubeAPIServer, authorizerGranting, authorizerNamespaced,
	authorizerNode, authorizerWebhooks, authorizerExclude, authorizerInclude,
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

// Chains decide from the same authorizers. They differ in three ways: reviews use no cached
// answers, as kube-apiserver uses none for its own; only requests honor
// --authorization-always-allow-paths, which says nothing about the cluster; and each makes the
// checks of its conditions with the answers of its own kind.
type Chains struct {
	// Reviews decides what reviews ask about.
	Reviews *authorization.Chain
	// Requests decides requests.
	Requests *authorization.Chain
	// Checks answers the checks that conditions of requests make. It is Requests without the
	// paths that are always allowed, so that a check has the answer that it has in a review.
	Checks *authorization.Chain
}

// Chains makes the chains.
//
// Deny policies come before kube-apiserver, so that they mean the same everywhere, and
// after privileged groups; Allow and NoOpinion policies come after it, with a member of its own for
// the Allow policies of namespaces, then the webhooks, if there are any, and then the members of
// last. With the gate
// FineGrainedAuthorization, without which fields is nil, excluded fields are looked at before
// everything that could allow, and included ones after all other members.
func (o *AuthorizationOptions) Chains(policies *engine.Source, webhooks *webhook.Source, fields *fineGrained, last ...authorization.Member) (*Chains, error) {
	fresh, err := o.kubeAPIServer(0, 0, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, err
	}
	cached, err := o.kubeAPIServer(o.AllowCacheTTL, o.DenyCacheTTL, o.WebhookRetryBackoff.Steps)
	if err != nil {
		return nil, err
	}
	paths, err := path.NewAuthorizer(o.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("--authorization-always-allow-paths: %w", err)
	}
	privileged := authorization.Member{
		Name:       authorizerPrivilegedGroups,
		Authorizer: authorizerfactory.NewPrivilegedGroups(o.AlwaysAllowGroups...),
	}
	shared := parts{policies: policies, webhooks: webhooks, fields: fields, last: last}
	// A caller sees a whole policy in a review exactly if a request of that caller to get the
	// policy is allowed at that time, which may be by a cached answer.
	checksOfReviews, checksOfRequests := &lateChain{}, &lateChain{}
	ofReviews, err := shared.members(fresh, true, checksOfReviews, mayRead(checksOfRequests))
	if err != nil {
		return nil, err
	}
	ofRequests, err := shared.members(cached, false, checksOfRequests, nil)
	if err != nil {
		return nil, err
	}
	var c Chains
	for _, made := range []struct {
		chain   **authorization.Chain
		members []authorization.Member
	}{
		{&c.Reviews, slices.Concat([]authorization.Member{privileged}, ofReviews)},
		{&c.Requests, slices.Concat([]authorization.Member{privileged, {Name: authorizerPaths, Authorizer: paths}}, ofRequests)},
		{&c.Checks, slices.Concat([]authorization.Member{privileged}, ofRequests)},
	} {
		if *made.chain, err = authorization.NewChain(made.members...); err != nil {
			return nil, fmt.Errorf("chain of authorizers: %w", err)
		}
	}
	checksOfReviews.chain, checksOfRequests.chain = c.Reviews, c.Checks
	return &c, nil
}

// parts are the authorizers that every chain has as members of its own.
type parts struct {
	policies *engine.Source
	webhooks *webhook.Source // nil if there are none
	fields   *fineGrained    // nil without the gate
	last     []authorization.Member
}

// members makes the members of a chain after those that need no permission. Their conditions
// make checks with checks.
func (p *parts) members(kubeAPIServer *webhook.Authorizer, fresh bool, checks *lateChain, mayRead engine.MayRead) ([]authorization.Member, error) {
	var members, after []authorization.Member
	if p.fields != nil {
		exclude, include, err := p.fields.members(checks)
		if err != nil {
			return nil, err
		}
		members, after = append(members, exclude), append(after, include)
	}
	places := engine.NewPlaces(p.policies)
	places.SetChecks(checks, mayRead)
	members = append(members, places.Restrictions(), authorization.Member{Name: authorizerKubeAPIServer, Authorizer: kubeAPIServer})
	members = append(members, places.Grants()...)
	if p.webhooks != nil {
		members = append(members, authorization.Member{Name: authorizerWebhooks, Authorizer: &webhook.Dynamic{Source: p.webhooks, Fresh: fresh}})
	}
	return slices.Concat(members, p.last, after), nil
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

// mayRead lets callers see a whole policy in a condition if they may get the policy.
func mayRead(chain authorizer.UnconditionalAuthorizer) engine.MayRead {
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
