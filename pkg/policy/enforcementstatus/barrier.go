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
	// enforced has what the barrier enforces, and reasons what it does not.
	enforced sets.Set[access]
	reasons  map[access]string
	// remote has the groups of other servers for each group of the rule.
	remote map[string][]string
	// unseen has the parts about resources that the rule does not name, and matches by a wildcard.
	unseen    []BarrierPart
	frontDoor bool
}

// access is a verb for a resource, as a part of a barrier names them.
type access struct{ resource, verb string }

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
	result := &barred{Barrier: b, frontDoor: s.FrontDoor, enforced: sets.New[access](), reasons: map[access]string{}, remote: map[string][]string{}}
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
			for _, verb := range part.Verbs {
				if part.Reason == "" {
					result.enforced.Insert(access{resource, verb})
				} else {
					result.reasons[access{resource, verb}] = part.Reason
				}
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

// split returns those verbs for a resource that the barrier enforces, and the others by the reason.
func (b *barred) split(group, path string, verbs []string) (enforced []string, left map[string][]string) {
	left = map[string][]string{}
	for _, verb := range resolved(verbs) {
		inGroup := qualified(group, path)
		reason := cmp.Or(b.reasons[access{inGroup, verb}], b.reasons[access{inGroup, "*"}], b.reasons[access{path, verb}])
		switch isEnforced := b.enforced.Has(access{path, verb}); {
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

// Share implements Place.
func (b *barred) Share(e Entry) (rest []Entry) {
	enforced, left := b.split(e.Group, e.Path, e.Verbs)
	outcome := Outcome{At: policyv1alpha1.EnforcedAtBarrier, Result: b.Result, Note: excerpt.Of(b.Message, maxNoteBytes)}
	if b.Result != policyv1alpha1.ResultEnforced && b.frontDoor { // which denies meanwhile
		left[noteLater+b.Message] = enforced
	} else {
		e.Add(enforced, outcome)
	}
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		rest = append(rest, e.leftOut(left[reason], reason)...)
	}
	if e.Group != all {
		return rest
	}
	// The writes in groups that other servers serve are not seen.
	writes := slices.DeleteFunc(slices.Clone(resolved(e.Verbs)), func(verb string) bool { return !writeVerbs.Has(verb) })
	for _, group := range b.remote[all] {
		e.Group = group
		rest = append(rest, e.leftOut(writes, noteRemote)...)
	}
	return rest
}

// leftOut returns requests with some verbs that a barrier does not refuse, for a reason.
func (e Entry) leftOut(verbs []string, reason string) []Entry {
	e.because = reason
	return e.With(verbs, e.Versions, "")
}

// notNamed returns the requests that the barrier does not see and that the rule matches by a wildcard. of has what is common to them.
func (b *barred) notNamed(of Entry) (entries []Entry) {
	for _, part := range b.unseen {
		for _, resource := range part.Resources {
			name, subresource, hasSubresource := strings.Cut(resource, "/")
			parsed := schema.ParseGroupResource(name)
			if of.Group, of.Path = parsed.Group, parsed.Resource; hasSubresource {
				of.Path += "/" + subresource
			}
			entries = append(entries, of.leftOut(part.Verbs, part.Reason)...)
		}
	}
	return entries
}

// maxNoteBytes leaves room in a message for the rest of the sentence.
const maxNoteBytes = policy.MaxEnforcementMessageBytes - 200
