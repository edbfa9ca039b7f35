/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// Barrier describes the barrier of a Deny policy: the ValidatingAdmissionPolicy by which kube-apiserver enforces it.
type Barrier struct {
	// Parts say what the barrier enforces, and why it does not enforce the rest.
	Parts []BarrierPart
	// Result is ResultEnforced if kube-apiserver is known to have loaded the barrier, ResultPending if it will, and ResultNotEnforced if there
	// is no such barrier.
	Result policyv1alpha1.EnforcementResult
	// Message explains a Result other than ResultEnforced.
	Message string
	// Remote returns the group if another server than Proviso serves some of its versions, and for the group * all such groups. Admission policies of
	// kube-apiserver do not see their requests. It may be nil, and is called once for each group.
	Remote func(group string) []string
}

// BarrierPart is about some requests that a rule describes.
type BarrierPart struct {
	// Rule is the index of the rule.
	Rule int
	// Resources are entries of the rule, or resources with their group if the part is about one group only.
	Resources []string
	Verbs     []string
	// Reason says why the barrier does not enforce the rule on these requests. It is empty if it does.
	Reason string
}

// all stands for all groups of a rule.
const all = "*"

// The notes about barriers.
const (
	noteRemote = "another server serves these versions, whose requests the barrier does not see"
	// noteElsewhere is about groups of Proviso that it does not get the requests of.
	noteElsewhere = "kube-apiserver does not pass these requests on to Proviso, and the barrier does not see them"
	noteLater     = "the barrier of the policy does not enforce it yet: "
)

// barred is what the barrier of a policy does about one rule. It is nil if the barrier does not matter.
type barred struct {
	*Barrier
	// verbs has the verbs that the barrier enforces, by resource, and reasons those that it does not.
	verbs   map[string]sets.Set[string]
	reasons map[string]map[string]string
	// remote has the groups of other servers for each group of the rule.
	remote map[string][]string
	// unseen has the parts about resources that the rule does not name, and matches by a wildcard.
	unseen []BarrierPart
}

// barred returns what a barrier does about a rule. The front door decides about conditions that it can evaluate, so that the barrier does
// not matter for them.
func (s Server) barred(b *Barrier, index int, rule *policyv1alpha1.PolicyRule, reads Reads) *barred {
	if b == nil || s.FrontDoor && reads.level() != More {
		return nil
	}
	isNamed := func(resource string) bool {
		return slices.ContainsFunc(rule.Resources, func(path string) bool {
			return resource == path || slices.ContainsFunc(rule.APIGroups, func(group string) bool { return resource == qualified(group, path) })
		})
	}
	result := &barred{Barrier: b, verbs: map[string]sets.Set[string]{}, reasons: map[string]map[string]string{}, remote: map[string][]string{}}
	for _, part := range b.Parts {
		if part.Rule != index {
			continue
		}
		//guard:status-unseen-by-wildcard
		if part.Reason != "" && !slices.ContainsFunc(part.Resources, isNamed) {
			result.unseen = append(result.unseen, part)
			continue
		}
		for _, resource := range part.Resources {
			if part.Reason == "" {
				if result.verbs[resource] == nil {
					result.verbs[resource] = sets.New[string]()
				}
				result.verbs[resource].Insert(part.Verbs...)
				continue
			}
			if result.reasons[resource] == nil {
				result.reasons[resource] = map[string]string{}
			}
			for _, verb := range part.Verbs {
				result.reasons[resource][verb] = part.Reason
			}
		}
	}
	for _, group := range rule.APIGroups {
		if b.Remote != nil {
			result.remote[group] = b.Remote(group)
		}
	}
	return result
}

// split returns the verbs of a rule for a resource that the barrier enforces, and the others by the reason.
func (b *barred) split(group, path string, rule *policyv1alpha1.PolicyRule) (enforced []string, left map[string][]string) {
	left = map[string][]string{}
	for _, verb := range resolved(rule.Verbs) {
		reason := cmp.Or(b.reasons[qualified(group, path)][verb], b.reasons[qualified(group, path)]["*"], b.reasons[path][verb])
		switch isEnforced := b.verbs[path].Has(verb); {
		//guard:status-own-groups-elsewhere
		case group != authorization.GroupName && slices.Contains(servedGroups, group): // for which a barrier is looked at only then
			left[noteElsewhere] = append(left[noteElsewhere], verb)
		case group != all && len(b.remote[group]) > 0 && writeVerbs.Has(verb):
			left[noteRemote] = append(left[noteRemote], verb)
		case isEnforced && reason == "":
			enforced = append(enforced, verb)
		default:
			left[reason] = append(left[reason], verb)
		}
	}
	return enforced, left
}

// atBarrier adds what a barrier does to requests for one entry of the resources of a rule in one of its groups, and what becomes of the
// other requests. It returns false if the barrier does not matter.
func (s Server) atBarrier(found findings, places *Places, effect policyv1alpha1.PolicyEffect, reads Reads, group, path string, rule *policyv1alpha1.PolicyRule, b *barred) bool {
	if b == nil {
		return false
	}
	enforced, left := b.split(group, path, rule)
	name := qualified(group, path)
	switch {
	case b.Result == policyv1alpha1.ResultEnforced:
		found.addAll(name, enforced, outcome{at: policyv1alpha1.EnforcedAtBarrier, result: policyv1alpha1.ResultEnforced, note: excerpt.Of(b.Message, maxNoteBytes)})
	case s.FrontDoor: // which denies meanwhile
		left[noteLater+b.Message] = enforced
	default:
		found.addAll(name, enforced, outcome{at: policyv1alpha1.EnforcedAtBarrier, result: b.Result, note: excerpt.Of(b.Message, maxNoteBytes)})
	}
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		if len(left[reason]) == 0 {
			continue
		}
		rest := *rule
		rest.Verbs = left[reason]
		s.without(found, places, effect, reads, group, path, &rest, reason)
	}
	if group == all {
		s.atOtherServers(found, places, effect, reads, path, rule, b)
	}
	return true
}

// withoutUnseen adds what a rule does to requests that its barrier does not see and that the rule matches by a wildcard.
func (s Server) withoutUnseen(found findings, places *Places, effect policyv1alpha1.PolicyEffect, reads Reads, rule *policyv1alpha1.PolicyRule, b *barred) {
	if b == nil {
		return
	}
	rest := *rule
	for _, part := range b.unseen {
		rest.Verbs = part.Verbs
		for _, resource := range part.Resources {
			name, subresource, hasSubresource := strings.Cut(resource, "/")
			of := schema.ParseGroupResource(name)
			if hasSubresource {
				of.Resource += "/" + subresource
			}
			s.without(found, places, effect, reads, of.Group, of.Resource, &rest, part.Reason)
		}
	}
}

// atOtherServers adds what a rule with the group * does to writes in groups that other servers serve, and that its barrier does not see.
func (s Server) atOtherServers(found findings, places *Places, effect policyv1alpha1.PolicyEffect, reads Reads, path string, rule *policyv1alpha1.PolicyRule, b *barred) {
	rest := *rule
	rest.Verbs = slices.DeleteFunc(slices.Clone(resolved(rule.Verbs)), func(verb string) bool { return !writeVerbs.Has(verb) })
	if len(rest.Verbs) == 0 {
		return
	}
	for _, group := range b.remote[all] {
		s.without(found, places, effect, reads, group, path, &rest, noteRemote)
	}
}

// without adds what a rule does to requests that other servers serve and that its barrier does not enforce, for a reason.
func (s Server) without(found findings, places *Places, effect policyv1alpha1.PolicyEffect, reads Reads, group, path string, rule *policyv1alpha1.PolicyRule, reason string) {
	others := findings{}
	s.elsewhere(others, places, effect, reads, group, path, rule, sync.OnceValue(func() map[string][]string { return places.unlisted(effect, rule) }))
	for _, o := range others.outcomes() {
		part := others[o]
		if o.result != policyv1alpha1.ResultEnforced && reason != "" {
			o.note = excerpt.Of(reason, maxNoteBytes)
		}
		for _, resource := range part.resources {
			found.addAll(resource, part.byResource[resource], o)
		}
	}
}

// maxNoteBytes leaves room in a message for the rest of the sentence.
const maxNoteBytes = policy.MaxEnforcementMessageBytes - 200
