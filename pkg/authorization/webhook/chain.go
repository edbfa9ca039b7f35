/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The names of the members that NewChain adds. No webhook of a restricting Source may have one.
const (
	memberGroups   = "always-allow-groups.proviso.dev"
	memberPaths    = "always-allow-paths.proviso.dev"
	memberDenials  = "deny.kube-apiserver"
	memberWebhooks = "webhooks.proviso.dev"
	memberKube     = "kube-apiserver"
)

// ChainConfig configures the chain of a server that enforces decisions of Proviso.
type ChainConfig struct {
	// KubeAPIServer calls kube-apiserver.
	KubeAPIServer *Authorizer
	// Webhooks has the Provisos and other webhooks. It must be a restricting Source.
	Webhooks *Source
	// Fresh disables the use of cached answers of webhooks.
	Fresh bool
	// AlwaysAllowGroups and AlwaysAllowPaths are allowed without a check, so that health checks
	// pass while Proviso is down. They correspond to the options of the same names of
	// k8s.io/apiserver.
	AlwaysAllowGroups, AlwaysAllowPaths []string
	// Restrictions are authorizers that only deny, such as the result of granular.NewExclude. They
	// are called before all authorizers that could allow, except for AlwaysAllowGroups and
	// AlwaysAllowPaths. A decision that is or could become Allow is an error, and denies. SourceConfig.Reserved of Webhooks must have the names of Restrictions and Last.
	Restrictions []authorization.Member
	// Last are authorizers that are called after all others.
	Last []authorization.Member
}

var (
	errChainParts     = errors.New("the chain needs KubeAPIServer and Webhooks")
	errNotReserved    = errors.New("the source of webhooks must have the names of all authorizers of the chain in Reserved, so that no webhook has the same name")
	errNotRestricting = errors.New("the source of webhooks must have Restricting set: they are called before kube-apiserver, so that none of them may fail open")
)

// NewChain returns the chain of an aggregated server other than Proviso. For all requests that need
// permission, this is the only order in which every Deny of Proviso and of kube-apiserver counts:
//
//  1. the groups and paths that need no permission;
//  2. the authorizers in Restrictions, and kube-apiserver for its Deny only, so that no webhook
//     allows a request that kube-apiserver denies;
//  3. the webhooks. The answer of a Proviso has its Deny policies first, then the decision of
//     kube-apiserver, and then its other policies;
//  4. kube-apiserver, for requests on which the webhooks have no opinion;
//  5. the authorizers in Last.
//
// An Allow of kube-apiserver before the webhooks would be final, and Deny policies would only
// apply to users whom RBAC does not allow. A failure of kube-apiserver or of a webhook denies.
func NewChain(config ChainConfig) (*authorization.Chain, error) {
	switch {
	case config.KubeAPIServer == nil || config.Webhooks == nil:
		return nil, errChainParts
	case !config.Webhooks.config.Restricting:
		return nil, errNotRestricting
	}
	paths, err := path.NewAuthorizer(config.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("paths that are always allowed: %w", err)
	}
	members := []authorization.Member{
		{Name: memberGroups, Decider: authorization.DeciderOf(authorizerfactory.NewPrivilegedGroups(config.AlwaysAllowGroups...))},
		{Name: memberPaths, Decider: authorization.DeciderOf(paths)},
	}
	// The file of the webhooks may change later, so that comparing their names now is not enough.
	reserved := slices.Concat(config.Webhooks.config.Reserved, chainNames)
	for _, m := range slices.Concat(config.Restrictions, config.Last) {
		//guard:webhook-name-two-authorizers
		if !slices.Contains(reserved, m.Name) {
			return nil, fmt.Errorf("%w: %q", errNotReserved, m.Name)
		}
	}
	for _, m := range config.Restrictions {
		if m.Decider == nil {
			return nil, fmt.Errorf("authorizer %q of the restrictions is nil", m.Name)
		}
		members = append(members, authorization.Member{Name: m.Name, Decider: restriction{m.Decider}})
	}
	first, last := DenialsFirst(config.KubeAPIServer)
	members = append(members,
		authorization.Member{Name: memberDenials, Decider: first},
		authorization.Member{Name: memberWebhooks, Decider: &Dynamic{Source: config.Webhooks, Fresh: config.Fresh}},
		authorization.Member{Name: memberKube, Decider: last})
	return authorization.NewChain(append(members, config.Last...)...)
}

// chainNames are the names that webhooks of a restricting Source must not have.
var chainNames = []string{memberGroups, memberPaths, memberDenials, memberWebhooks, memberKube}

// restriction wraps an authorizer that may only deny or have no opinion.
type restriction struct {
	decider authorization.Decider
}

var (
	_ authorization.Pinner           = restriction{}
	_ authorization.ConditionsAuthor = restriction{}

	errRestrictionAllows = errors.New("an authorizer that may only deny returned Allow, or conditions that could become Allow")
)

// Pin pins the authorizer if it implements authorization.Pinner.
func (r restriction) Pin(ctx context.Context) context.Context {
	return authorization.Pin(ctx, r.decider)
}

// Decide returns the decision of the authorizer. If that is or could become Allow, it returns Deny with
// an error.
func (r restriction) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	decision := r.decider.Decide(ctx, attributes)
	if decision.CanBecomeAllowed() {
		return authorization.Deny("", errRestrictionAllows)
	}
	return decision
}

// EvaluateConditions converts Allow to Deny. The Deny has no error, so that a failure mode does
// not convert it to NoOpinion.
func (r restriction) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	evaluated, reason, err := authorization.AuthorizerOf(r.decider).EvaluateConditions(ctx, decision, data)
	if evaluated == authorizer.DecisionAllow {
		return authorizer.DecisionDeny, errRestrictionAllows.Error(), nil
	}
	return evaluated, reason, err
}
