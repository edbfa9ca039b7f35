/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// Chains are the chains of authorizers of a server. They are built from one table, so that they
// agree on the order of the authorizers that they share.
type Chains struct {
	// AlwaysAllowGroups are the privileged groups, about which policies decide nothing.
	AlwaysAllowGroups []string
	// Reviews decides for reviews, and checks the permissions of policy authors. Like the reviews
	// of kube-apiserver, it uses no cached answers.
	Reviews *authorization.Chain
	// Requests decides requests. Its decisions must agree with Reviews, with two exceptions:
	// Requests uses cached answers, and allows this server's paths, such as /healthz, which are
	// not about the cluster.
	Requests *authorization.Chain
	// Checks answers secondary checks of conditions in requests. It is Requests without the paths
	// that are always allowed, so that a check has the same result in a request and in a review.
	Checks *authorization.Chain
	// Restrictions is for impersonation in the mode conditional: it has the privileged groups, and then
	// the policies that can only deny.
	Restrictions *authorization.Chain
	// FrontDoor decides for kube-apiserver's authorization webhook.
	FrontDoor *authorization.Chain
	// AfterPolicies decides for kube-apiserver's authorization webhook what FrontDoor leaves open. It is nil if it is off, or would have no
	// members.
	AfterPolicies *authorization.Chain
	// InnerDoor decides for the admission webhook of kube-apiserver what the front door has let pass. It is nil if
	// AuthorizerConfig.InnerDoor is.
	InnerDoor *authorization.Chain
	// HasWebhooks says that there are webhooks, which may deny a part of what a wildcard stands for.
	HasWebhooks bool
}

// AuthorizerConfig has what NewChains needs to build the authorizers of all chains of a server.
type AuthorizerConfig struct {
	// AlwaysAllowGroups are the privileged groups. Policies cannot deny their requests, except at the
	// front door, which does not know these groups.
	AlwaysAllowGroups []string
	// AlwaysAllowPaths are the paths that need no permission.
	AlwaysAllowPaths []string
	// Fresh asks kube-apiserver every time, and Cached reuses its answers. Both are required.
	Fresh, Cached authorization.Decider
	// InnerDoor asks kube-apiserver for the inner door. It reuses answers only if they allow, and only for a short time. It is nil if
	// there is no inner door.
	InnerDoor authorization.Decider
	// Policies are required. Until they are loaded, all chains deny, except for requests of the
	// privileged groups and for AlwaysAllowPaths, in the chains that have these authorizers.
	Policies *engine.Source
	// Webhooks is nil if there are none.
	Webhooks *webhook.Source
	// WebhooksAtFrontDoor is the feature gate: the chain AfterPolicies is built.
	WebhooksAtFrontDoor bool
	// Fields configures the authorizers for permission on fields. NewChains sets its Authorizer.
	// It is nil if the gate FineGrainedAuthorization is off.
	Fields *granular.Config
	// Node is an example of an authorizer that makes conditions of its own. It is nil if the demo API
	// is not served.
	Node authorization.Decider
}

// hasAfterPolicies reports whether the chain AfterPolicies is on, and has members.
func (c *AuthorizerConfig) hasAfterPolicies() bool {
	return c.WebhooksAtFrontDoor && (c.Webhooks != nil || c.Node != nil)
}

var errAuthorizerConfig = errors.New("the chains need Policies, and the authorizers Fresh and Cached")

// NewChains builds the chains. It returns an error if a required part of config is missing.
func NewChains(config AuthorizerConfig) (*Chains, error) {
	if config.Fresh == nil || config.Cached == nil || config.Policies == nil {
		return nil, errAuthorizerConfig
	}
	c := &Chains{HasWebhooks: config.Webhooks != nil, AlwaysAllowGroups: config.AlwaysAllowGroups}
	reviews := reference(func() *authorization.Chain { return c.Reviews })
	checks := reference(func() *authorization.Chain { return c.Checks })
	for _, b := range []struct {
		chain  **authorization.Chain
		in     order.Chains
		config chainConfig
	}{
		{chain: &c.Reviews, in: order.InReviews, config: chainConfig{stage: authorization.StageReview, asksKubeAPIServer: config.Fresh, fresh: true, checks: reviews, mayRead: mayReadBy(checks)}},
		{chain: &c.Requests, in: order.InRequests, config: chainConfig{stage: authorization.StageRequest, asksKubeAPIServer: config.Cached, checks: checks}},
		{chain: &c.Checks, in: order.InChecks, config: chainConfig{stage: authorization.StageCheck, asksKubeAPIServer: config.Cached, checks: checks}},
		{chain: &c.Restrictions, in: order.InRestrictions, config: chainConfig{stage: authorization.StageImpersonation}},
		{chain: &c.FrontDoor, in: order.InFrontDoor, config: chainConfig{stage: authorization.StageFrontDoor}},
		{chain: &c.AfterPolicies, in: order.InAfterPolicies, config: chainConfig{stage: authorization.StageFrontDoor, freshConditions: true}},
		{chain: &c.InnerDoor, in: order.InInnerDoor, config: chainConfig{stage: authorization.StageAdmission, asksKubeAPIServer: config.InnerDoor, checks: checks}},
	} {
		if b.in == order.InInnerDoor && b.config.asksKubeAPIServer == nil || b.in == order.InAfterPolicies && !config.hasAfterPolicies() {
			continue
		}
		b.config.AuthorizerConfig = &config
		chain, err := b.config.newChain(b.in)
		if err != nil {
			return nil, fmt.Errorf("chain of authorizers for %s: %w", b.in, err)
		}
		*b.chain = chain
	}
	return c, nil
}

// chainConfig configures the authorizers of one chain.
type chainConfig struct {
	*AuthorizerConfig
	// asksKubeAPIServer is Fresh or Cached. It is nil in chains that do not ask kube-apiserver.
	asksKubeAPIServer authorization.Decider
	// denials is asksKubeAPIServer for its Deny only. It is nil if nothing between the two could allow.
	denials authorization.Decider
	// fresh says that webhooks are asked every time.
	fresh bool
	// freshConditions says that webhooks are asked every time if their answer is conditional.
	freshConditions bool
	// stage is the label of the chain in metrics.
	stage authorization.Stage
	// checks answers secondary checks of conditions. It is nil in chains whose conditions this
	// server never evaluates. The front door must not evaluate them, because their checks would
	// ask kube-apiserver.
	checks authorizer.UnconditionalAuthorizer
	// mayRead reports whether a caller may see a whole policy in a condition. If it is nil, no
	// caller may.
	mayRead engine.MayRead
}

var errNoBuilder = errors.New("package order has it, and nothing builds it")

func (c *chainConfig) newChain(in order.Chains) (*authorization.Chain, error) {
	//guard:chains-allow-webhook-before-deny-kube-apiserver
	if in&order.InServer != 0 && c.Webhooks != nil {
		//guard:chains-kube-apiserver-asked-once
		c.denials, c.asksKubeAPIServer = webhook.DenialsFirst(c.asksKubeAPIServer)
	}
	var members []authorization.Member
	for _, name := range order.Members(in) {
		built, err := c.build(name)
		if err != nil {
			return nil, fmt.Errorf("authorizer %s: %w", name, err)
		}
		if built != nil {
			members = append(members, authorization.Member{Name: name, Decider: built})
		}
	}
	return authorization.NewChain(members...)
}

// build builds an authorizer of package order for one chain. It returns nil if the server is configured to have no such authorizer.
func (c *chainConfig) build(name string) (authorization.Decider, error) {
	switch name {
	case order.PrivilegedGroupsName:
		return authorization.DeciderOf(authorizerfactory.NewPrivilegedGroups(c.AlwaysAllowGroups...)), nil
	case order.PathsName:
		return c.paths()
	case order.ReservedName:
		return frontdoor.ReservedExtras{}, nil
	case order.ExcludeName:
		return c.fields(granular.NewExclude)
	case engine.RestrictingName:
		return c.policies(engine.Restricting), nil
	case order.DenialsName:
		return c.denials, nil
	case order.WebhooksName:
		return c.webhooks(), nil
	case order.KubeAPIServerName:
		return c.asksKubeAPIServer, nil
	case engine.GrantingName:
		return c.policies(engine.GrantingCluster), nil
	case engine.NamespacedName:
		return c.policies(engine.GrantingNamespaced), nil
	case order.NodeName:
		return c.Node, nil
	case order.IncludeName:
		return c.fields(granular.NewInclude)
	}
	return nil, errNoBuilder
}

func (c *chainConfig) paths() (authorization.Decider, error) {
	a, err := path.NewAuthorizer(c.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("--authorization-always-allow-paths: %w", err)
	}
	return authorization.DeciderOf(a), nil
}

func (c *chainConfig) policies(part engine.Part) authorization.Decider {
	return &engine.Authorizer{Source: c.Policies, Part: part, Stage: c.stage, Checks: c.checks, MayRead: c.mayRead}
}

func (c *chainConfig) webhooks() authorization.Decider {
	if c.Webhooks == nil {
		return nil
	}
	return &webhook.Dynamic{Source: c.Webhooks, Fresh: c.fresh, FreshConditions: c.freshConditions}
}

func (c *chainConfig) fields(build func(granular.Config) (authorization.Decider, error)) (authorization.Decider, error) {
	if c.Fields == nil {
		return nil, nil
	}
	config := *c.Fields
	config.Authorizer = c.checks
	return build(config)
}

// reference is an authorizer that calls a chain that may not be built yet. It is used for members
// of a chain that call the chain itself. Until the chain is built, it denies.
type reference func() *authorization.Chain

var errNoChain = errors.New("the chain of authorizers has not been built yet")

// Authorize returns the folded decision of the chain.
func (r reference) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	chain := r()
	if chain == nil {
		return authorizer.DecisionDeny, "", errNoChain
	}
	return chain.Authorize(ctx, attributes)
}

// mayReadBy returns a function that shows a whole policy to callers of reviews who may get the
// policy. It decides as a request to get the policy is decided at that time, and may use a cached
// answer.
func mayReadBy(requests authorizer.UnconditionalAuthorizer) engine.MayRead {
	return func(ctx context.Context, attributes authorizer.Attributes, policy engine.Key) bool {
		caller := authorization.RequestOf(attributes).Caller
		if caller == nil {
			return false
		}
		resource := "clusterauthorizationpolicies"
		if policy.Namespace != "" {
			resource = "authorizationpolicies"
		}
		decision, _, err := requests.Authorize(ctx, authorizer.AttributesRecord{
			User: caller, Verb: "get", APIGroup: policyv1alpha1.GroupName, APIVersion: policyv1alpha1.SchemeGroupVersion.Version,
			Resource: resource, Namespace: policy.Namespace, Name: policy.Name, ResourceRequest: true,
		})
		return err == nil && decision == authorizer.DecisionAllow
	}
}
