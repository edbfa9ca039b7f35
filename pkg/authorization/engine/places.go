/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The names of the places in a chain, as conditions and messages show them.
const (
	RestrictingName = "deny.policy.proviso.dev"
	GrantingName    = "policy.proviso.dev"
	NamespacedName  = "namespaced.policy.proviso.dev"
)

// Places are the authorizers of one Source in all places that its policies have in a chain.
type Places struct {
	restricting, cluster, namespaced *Authorizer
}

// NewPlaces makes the authorizers of a source.
func NewPlaces(source *Source) *Places {
	return &Places{
		restricting: &Authorizer{Source: source, Part: Restricting},
		cluster:     &Authorizer{Source: source, Part: GrantingCluster},
		namespaced:  &Authorizer{Source: source, Part: GrantingNamespaced},
	}
}

// SetChecks sets Checks and MayRead of all authorizers. It must be called before they are used.
func (p *Places) SetChecks(checks authorizer.UnconditionalAuthorizer, mayRead MayRead) {
	for _, a := range []*Authorizer{p.restricting, p.cluster, p.namespaced} {
		a.Checks, a.MayRead = checks, mayRead
	}
}

// Restrictions is the member for Deny policies, which comes before every authorizer that can grant.
func (p *Places) Restrictions() authorization.Member {
	return authorization.Member{Name: RestrictingName, Authorizer: p.restricting}
}

// Grants are the members for Allow and NoOpinion policies, in their order.
func (p *Places) Grants() []authorization.Member {
	return []authorization.Member{
		{Name: GrantingName, Authorizer: p.cluster},
		{Name: NamespacedName, Authorizer: p.namespaced},
	}
}

func (m matching) grants(namespaced bool) bool {
	return m.policy.conditionEffect() == authorization.EffectAllow && (m.policy.key.Namespace != "") == namespaced
}

func grantsCluster(m matching) bool    { return m.grants(false) }
func grantsNamespaced(m matching) bool { return m.grants(true) }

// grantCluster decides by NoOpinion policies and by Allow policies of the cluster. If there are none
// of the latter, NoOpinion policies have something to hold back in the other place only.
func (e *evaluation) grantCluster(found []matching, stale string) authorization.Decision {
	if slices.ContainsFunc(found, grantsNamespaced) {
		if found = slices.DeleteFunc(found, grantsNamespaced); !slices.ContainsFunc(found, grantsCluster) {
			return authorization.NoOpinion("", nil)
		}
	}
	return e.grant(found, stale)
}

// grantNamespaced decides by NoOpinion policies and by Allow policies of the namespace. A failure of
// its conditions leaves the request to later authorizers: none of them denies, and later authorizers
// belong to the administrators of the cluster.
func (e *evaluation) grantNamespaced(found []matching, stale string) authorization.Decision {
	if !slices.ContainsFunc(found, grantsNamespaced) {
		return authorization.NoOpinion("", nil)
	}
	reported := slices.ContainsFunc(found, grantsCluster)
	decision := e.grant(slices.DeleteFunc(found, grantsCluster), stale)
	switch {
	case !decision.IsUnconditional():
		return authorization.Chained(authorization.Set{AuthorizerName: NamespacedName, FailureMode: authorization.FailureModeNoOpinion, Decision: decision})
	case decision.IsNoOpinion() && reported && e.heldBack:
		return authorization.NoOpinion("", nil) // the place before this one has said why
	}
	return decision
}
