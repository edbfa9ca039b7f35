/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The names of the places in a chain, as conditions and messages show them.
const (
	RestrictingName = "deny.policy.proviso.dev"
	GrantingName    = "policy.proviso.dev"
	NamespacedName  = "namespaced.policy.proviso.dev"
)

func (m matching) grants(namespaced bool) bool {
	return m.policy.conditionEffect() == authorization.EffectAllow && (m.policy.key.Namespace != "") == namespaced
}

func grantsCluster(m matching) bool    { return m.grants(false) }
func grantsNamespaced(m matching) bool { return m.grants(true) }

// grantCluster decides by NoOpinion policies and by cluster-scoped Allow policies. If the only Allow
// policies that match are policies of the namespace, it returns NoOpinion: NoOpinion policies hold
// those back in the place GrantingNamespaced.
func (e *evaluation) grantCluster(found []matching, stale string) authorization.Decision {
	if slices.ContainsFunc(found, grantsNamespaced) {
		if found = slices.DeleteFunc(found, grantsNamespaced); !slices.ContainsFunc(found, grantsCluster) {
			return authorization.NoOpinion("", nil)
		}
	}
	return e.grant(found, stale)
}

// grantNamespaced decides by NoOpinion policies and by Allow policies of the namespace. If no Allow
// policy of the namespace matches, it returns NoOpinion. The failure mode of its conditions is
// NoOpinion, which leaves the request to later authorizers: none of the conditions denies, and later
// authorizers belong to the administrators of the cluster.
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
