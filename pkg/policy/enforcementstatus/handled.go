/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	"maps"
	"slices"
	"strings"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// The notes about conditions that kube-apiservers do not get.
const (
	noteNotHandled   = "conditions on objects are not evaluated for these requests, because not every kube-apiserver is known to handle conditions: "
	noteExcluded     = "fields of the resource are excluded from the permission to write it, so that kube-apiserver does not get conditions about it"
	noteOtherServers = "kube-apiserver is not known to serve these versions itself, so that it does not get conditions about them"
)

// handled divides the requests for one entry of the resources of a rule in one of its groups.
type handled struct {
	// verbs are those on which every kube-apiserver enforces the condition itself, in the versions that it serves.
	verbs []string
	// writes are other writes, whose conditions kube-apiservers do not get because of what note says. They are nil if there are none.
	writes *policyv1alpha1.PolicyRule
	note   string
	// rest are all other requests. They are nil if there are none.
	rest *policyv1alpha1.PolicyRule
}

// handled returns which conditions kube-apiservers enforce themselves. Conditions that read no object are decided at authorization.
func (s Server) handled(places *Places, reads Reads, group, path string, rule *policyv1alpha1.PolicyRule) handled {
	if places == nil || places.facts.KubeAPIServers == nil || reads.level() != More || s.Writes == nil {
		return handled{rest: rule}
	}
	resource, subresource, _ := strings.Cut(path, "/")
	//guard:status-reads-without-conditions
	isWrite := func(verb string) bool { return slices.Contains(s.Writes(group, resource, subresource), verb) }
	var writes, others []string
	for _, verb := range resolved(rule.Verbs) {
		if isWrite(verb) {
			writes = append(writes, verb)
		} else {
			others = append(others, verb)
		}
	}
	if len(writes) == 0 {
		return handled{rest: rule}
	}
	result := handled{writes: with(rule, writes, rule.APIVersions), rest: with(rule, others, rule.APIVersions)}
	servers := places.facts.KubeAPIServers
	switch isWildcard := group == "*" || resource == "*"; {
	//guard:status-kube-apiservers-do-not-handle-conditions
	case !places.handle():
		result.note = notHandled(places)
	case isWildcard:
		// It also describes requests that other servers serve.
		return handled{verbs: writes, rest: rule}
	//guard:status-fields-excluded-conditions
	case servers.excludes(group, resource):
		if places.facts.InnerDoor == nil {
			result.note = noteExcluded
		}
	default:
		result.note = noteOtherServers
		some, every := places.local(group, rule.APIVersions)
		//guard:status-versions-without-conditions
		if some {
			result.verbs = writes
			result.writes = with(rule, writes, places.remote(group, rule.APIVersions))
		}
		//guard:status-some-versions-without-conditions
		if every {
			result.writes = nil
		}
	}
	return result
}

// notHandled returns a note about kube-apiservers that do not handle conditions. The inner door has notes of its own.
func notHandled(places *Places) string {
	if places.facts.InnerDoor != nil {
		return ""
	}
	if problem := places.facts.KubeAPIServers.Problem; problem != "" {
		return excerpt.Of(noteNotHandled+problem, maxNoteBytes)
	}
	return excerpt.Of(noteNotHandled+"they have not been probed yet", maxNoteBytes)
}

// with returns a rule with other verbs and versions, or nil if there are no verbs.
func with(rule *policyv1alpha1.PolicyRule, verbs, versions []string) *policyv1alpha1.PolicyRule {
	if len(verbs) == 0 {
		return nil
	}
	other := *rule
	other.Verbs, other.APIVersions = verbs, versions
	return &other
}

// remote returns the versions of a group that a rule has and that kube-apiserver is not known to serve itself.
func (p *Places) remote(group string, versions []string) []string {
	if len(versions) == 0 || slices.Contains(versions, "*") {
		versions = slices.Sorted(maps.Keys(p.facts.Versions[group]))
	}
	return slices.DeleteFunc(slices.Clone(versions), func(version string) bool { return p.facts.Versions[group][version] })
}
