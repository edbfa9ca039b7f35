/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// The names of the authorizers, as they appear in conditions and messages. Package engine has the
// names of the authorizers for policies.
const (
	PrivilegedGroupsName = "always-allow-groups.proviso.dev"
	PathsName            = "always-allow-paths.proviso.dev"
	// ReservedName is the authorizer that denies to impersonate what is reserved for Proviso.
	ReservedName = "reserved.proviso.dev"
	ExcludeName  = "exclude.granular.proviso.dev"
	// DenialsName is kube-apiserver for its Deny only, before the webhooks.
	DenialsName       = "deny.kube-apiserver"
	KubeAPIServerName = "kube-apiserver"
	// WebhooksName is a placeholder for the webhooks of --authorization-config. A chain replaces
	// it by the webhooks, which have their own names.
	WebhooksName = "webhooks.proviso.dev"
	NodeName     = "node.proviso.dev"
	IncludeName  = "include.granular.proviso.dev"
)

// Chains are the chains of authorizers of a server. They are built from one table, so that they
// agree on the order of the authorizers that they share.
type Chains struct {
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

// membership is the set of chains that have an authorizer as a member.
type membership uint8

const (
	inReviews membership = 1 << iota
	inRequests
	inChecks
	inRestrictions
	inFrontDoor
	inAfterPolicies
	inInnerDoor
)

// inServer are the chains for requests and reviews of this server, and for their secondary checks.
const inServer = inReviews | inRequests | inChecks

// String lists the chains by the names that ARCHITECTURE.md uses.
func (m membership) String() string {
	var names []string
	for i, name := range []string{"reviews", "requests", "checks", "restrictions", "front door", "after policies", "inner door"} {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// authorizerTable lists all authorizers in the order in which a chain calls them: what can only deny, then the webhooks, which can do both, and then what
// only allows. So no Allow hides a Deny, except for an Allow of a webhook before another webhook. ARCHITECTURE.md has the same list with reasons.
var authorizerTable = []struct {
	name string
	in   membership
	// build returns the authorizer for one chain. It returns nil if the server is configured to have
	// no such authorizer.
	build func(*chainConfig) (authorization.Decider, error)
}{
	{name: PrivilegedGroupsName, in: inServer | inRestrictions, build: (*chainConfig).privilegedGroups},
	{name: PathsName, in: inRequests, build: (*chainConfig).paths},
	{name: ReservedName, in: inServer | inRestrictions, build: (*chainConfig).reservedExtras},
	{name: ExcludeName, in: inServer | inInnerDoor, build: (*chainConfig).excludedFields},
	//guard:inner-door-deny-policies
	{name: engine.RestrictingName, in: inServer | inRestrictions | inFrontDoor | inInnerDoor, build: (*chainConfig).restrictingPolicies},
	{name: DenialsName, in: inServer, build: (*chainConfig).kubeAPIServerDenials},
	//guard:chains-webhooks-decide-checks-conditions
	{name: WebhooksName, in: inServer | inAfterPolicies | inInnerDoor, build: (*chainConfig).webhooks},
	//guard:inner-door-kube-apiserver-asked-last
	{name: KubeAPIServerName, in: inServer, build: (*chainConfig).kubeAPIServer},
	{name: engine.GrantingName, in: inServer | inFrontDoor | inInnerDoor, build: (*chainConfig).grantingPolicies},
	{name: engine.NamespacedName, in: inServer | inFrontDoor | inInnerDoor, build: (*chainConfig).namespacedPolicies},
	{name: NodeName, in: inServer | inAfterPolicies, build: (*chainConfig).node},
	{name: IncludeName, in: inServer | inInnerDoor, build: (*chainConfig).includedFields},
	// kube-apiserver asks the front door before its other authorizers, so that they decide what Proviso leaves open.
	{name: KubeAPIServerName, in: inInnerDoor, build: (*chainConfig).kubeAPIServer},
}

// AuthorizerNames returns the names of all authorizers that a server can have, in their order.
// Webhooks must not have any of them.
func AuthorizerNames() []string {
	names := make([]string, 0, len(authorizerTable))
	for _, entry := range authorizerTable {
		names = append(names, entry.name)
	}
	return names
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
	c := &Chains{HasWebhooks: config.Webhooks != nil}
	reviews := reference(func() *authorization.Chain { return c.Reviews })
	checks := reference(func() *authorization.Chain { return c.Checks })
	for _, b := range []struct {
		chain  **authorization.Chain
		in     membership
		config chainConfig
	}{
		{chain: &c.Reviews, in: inReviews, config: chainConfig{stage: authorization.StageReview, asksKubeAPIServer: config.Fresh, fresh: true, checks: reviews, mayRead: mayReadBy(checks)}},
		{chain: &c.Requests, in: inRequests, config: chainConfig{stage: authorization.StageRequest, asksKubeAPIServer: config.Cached, checks: checks}},
		{chain: &c.Checks, in: inChecks, config: chainConfig{stage: authorization.StageCheck, asksKubeAPIServer: config.Cached, checks: checks}},
		{chain: &c.Restrictions, in: inRestrictions, config: chainConfig{stage: authorization.StageImpersonation}},
		{chain: &c.FrontDoor, in: inFrontDoor, config: chainConfig{stage: authorization.StageFrontDoor}},
		{chain: &c.AfterPolicies, in: inAfterPolicies, config: chainConfig{stage: authorization.StageFrontDoor, freshConditions: true}},
		{chain: &c.InnerDoor, in: inInnerDoor, config: chainConfig{stage: authorization.StageAdmission, asksKubeAPIServer: config.InnerDoor, checks: checks}},
	} {
		if b.in == inInnerDoor && b.config.asksKubeAPIServer == nil || b.in == inAfterPolicies && !config.hasAfterPolicies() {
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

func (c *chainConfig) newChain(in membership) (*authorization.Chain, error) {
	//guard:chains-allow-webhook-before-deny-kube-apiserver
	if in&inServer != 0 && c.Webhooks != nil {
		//guard:chains-kube-apiserver-asked-once
		c.denials, c.asksKubeAPIServer = webhook.DenialsFirst(c.asksKubeAPIServer)
	}
	var members []authorization.Member
	for _, entry := range authorizerTable {
		if entry.in&in == 0 {
			continue
		}
		built, err := entry.build(c)
		if err != nil {
			return nil, fmt.Errorf("authorizer %s: %w", entry.name, err)
		}
		if built != nil {
			members = append(members, authorization.Member{Name: entry.name, Decider: built})
		}
	}
	return authorization.NewChain(members...)
}

func (c *chainConfig) privilegedGroups() (authorization.Decider, error) {
	return authorization.DeciderOf(authorizerfactory.NewPrivilegedGroups(c.AlwaysAllowGroups...)), nil
}

func (c *chainConfig) paths() (authorization.Decider, error) {
	a, err := path.NewAuthorizer(c.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("--authorization-always-allow-paths: %w", err)
	}
	return authorization.DeciderOf(a), nil
}

func (c *chainConfig) reservedExtras() (authorization.Decider, error) {
	return frontdoor.ReservedExtras{}, nil
}

func (c *chainConfig) restrictingPolicies() (authorization.Decider, error) {
	return c.policies(engine.Restricting), nil
}

func (c *chainConfig) grantingPolicies() (authorization.Decider, error) {
	return c.policies(engine.GrantingCluster), nil
}

func (c *chainConfig) namespacedPolicies() (authorization.Decider, error) {
	return c.policies(engine.GrantingNamespaced), nil
}

func (c *chainConfig) policies(part engine.Part) authorization.Decider {
	return &engine.Authorizer{Source: c.Policies, Part: part, Stage: c.stage, Checks: c.checks, MayRead: c.mayRead}
}

func (c *chainConfig) kubeAPIServer() (authorization.Decider, error) { return c.asksKubeAPIServer, nil }

func (c *chainConfig) kubeAPIServerDenials() (authorization.Decider, error) { return c.denials, nil }

func (c *chainConfig) webhooks() (authorization.Decider, error) {
	if c.Webhooks == nil {
		return nil, nil
	}
	return &webhook.Dynamic{Source: c.Webhooks, Fresh: c.fresh, FreshConditions: c.freshConditions}, nil
}

func (c *chainConfig) node() (authorization.Decider, error) { return c.Node, nil }

func (c *chainConfig) excludedFields() (authorization.Decider, error) {
	return c.fields(granular.NewExclude)
}

func (c *chainConfig) includedFields() (authorization.Decider, error) {
	return c.fields(granular.NewInclude)
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
		caller := authorization.CallerOf(attributes)
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
