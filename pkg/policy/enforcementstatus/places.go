/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// Writes are write requests for a resource or a subresource, by their verbs.
type Writes struct {
	Resource schema.GroupResource
	// Subresource is empty for the resource itself.
	Subresource string
	Verbs       []string
}

// InnerDoor describes the inner door of this server.
type InnerDoor struct {
	// Writes are the writes that the inner door decides.
	Writes []Writes
	// Probed is true if kube-apiservers have been probed and Facts.Versions is known.
	Probed bool
	// Lacking are the addresses of the kube-apiservers that are not known to call the inner door, sorted.
	Lacking []string
	// MissesWebhooks is true if writes do not pass on conditions, because webhooks could deny what does not reach the inner door.
	MissesWebhooks bool
}

// Aggregated are writes to a resource of another aggregated server, in one version.
type Aggregated struct {
	Writes
	Version string
	// Configuration is the name of the EnforcementConfiguration.
	Configuration string
	// Serving is the result of comparing the APIService with the configuration. It is here so that a change of it changes the Places,
	// and with them the status of the configuration.
	Serving string
	// IsEnforced is true if the server is known to evaluate conditions on these writes.
	IsEnforced bool
}

// KubeAPIServers describes whether kube-apiservers handle conditional decisions.
type KubeAPIServers struct {
	// Probed is true if it is known whether they do.
	Probed bool
	// Problem says why not every kube-apiserver is known to handle them, for example by the addresses of the others. It is empty if all are.
	Problem string
	// Excluded are the resources with fields that are excluded from the permission to write them. kube-apiserver gets no conditions about
	// them. A resource * stands for all.
	Excluded []schema.GroupResource
}

// excludes reports whether a resource has excluded fields.
func (k *KubeAPIServers) excludes(group, resource string) bool {
	return slices.ContainsFunc(k.Excluded, func(e schema.GroupResource) bool {
		return e.Resource == "*" || e == schema.GroupResource{Group: group, Resource: resource}
	})
}

// Facts are the facts about other components that may change while the server runs.
type Facts struct {
	// InnerDoor is nil if there is none.
	InnerDoor *InnerDoor
	// KubeAPIServers is nil if no kube-apiserver gets conditions.
	KubeAPIServers *KubeAPIServers
	// Aggregated are the writes that EnforcementConfigurations name.
	Aggregated []Aggregated
	// Unread is true until the server has read the EnforcementConfigurations and the APIServices that they need.
	Unread bool
	// Versions has the registered versions of each API group. The value is true if kube-apiserver itself serves the version. Groups
	// without writes in InnerDoor or Aggregated may be missing, unless KubeAPIServers is set.
	Versions map[string]map[string]bool
	// Remote has the versions that kube-apiserver passes on to other servers, and Own the state of each version of this server. Server and Barrier
	// describe what follows from them; they are here so that a change changes the Places, and with them the status of policies.
	Remote []schema.GroupVersion
	Own    map[schema.GroupVersion]string
	// Others are all other places. They come before the inner door and other aggregated servers.
	Others []Place
}

// Places reports which conditions other components evaluate at admission. It is immutable. If nil, they evaluate none.
type Places struct {
	facts  Facts
	writes map[target]sets.Set[string]
	// aggregated has Facts.Aggregated.
	aggregated map[target][]Aggregated
	// byGroup has the targets of each group, in order. The group * has all targets.
	byGroup map[string][]target
}

// target is a resource or a subresource.
type target struct {
	group, resource, subresource string
}

// NewPlaces returns Places. It keeps the facts, which must not be changed afterwards.
func NewPlaces(facts Facts) *Places {
	p := &Places{facts: facts, writes: map[target]sets.Set[string]{}, aggregated: map[target][]Aggregated{}, byGroup: map[string][]target{}}
	for _, a := range facts.Aggregated {
		t := target{a.Resource.Group, a.Resource.Resource, a.Subresource}
		p.aggregated[t] = append(p.aggregated[t], a)
	}
	if facts.InnerDoor != nil {
		for _, w := range facts.InnerDoor.Writes {
			if p.handle() && !facts.KubeAPIServers.excludes(w.Resource.Group, w.Resource.Resource) {
				continue // kube-apiservers that handle conditions do without the inner door
			}
			p.writes[target{w.Resource.Group, w.Resource.Resource, w.Subresource}] = sets.New(w.Verbs...)
		}
	}
	all := sets.KeySet(p.writes).Union(sets.KeySet(p.aggregated)).UnsortedList()
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.subresource, b.subresource))
	})
	p.byGroup["*"] = all
	for _, t := range all {
		p.byGroup[t.group] = append(p.byGroup[t.group], t)
	}
	return p
}

// Equal reports whether both have equal facts.
func (p *Places) Equal(other *Places) bool {
	if p == nil || other == nil {
		return p == other
	}
	return reflect.DeepEqual(p.facts, other.facts)
}

// areKnown implements Server.AreKnown.
func (p *Places) areKnown() bool {
	return p == nil || !p.facts.Unread && (p.facts.InnerDoor == nil || p.facts.InnerDoor.Probed) && (p.facts.KubeAPIServers == nil || p.facts.KubeAPIServers.Probed)
}

// handle reports whether every kube-apiserver is known to handle conditions.
func (p *Places) handle() bool {
	return p != nil && p.facts.KubeAPIServers != nil && p.facts.KubeAPIServers.Probed && p.facts.KubeAPIServers.Problem == ""
}

// matching returns the known targets that match a group and an entry of the resources of a rule, and whether other resources may match, too.
func (p *Places) matching(group, path string) (targets []target, others bool) {
	resource, subresource, _ := strings.Cut(path, "/")
	if group != "*" && resource != "*" {
		return []target{{group, resource, subresource}}, false
	}
	for _, t := range p.byGroup[group] {
		if path == "*" || (resource == "*" || t.resource == resource) && t.subresource == subresource {
			targets = append(targets, t)
		}
	}
	return targets, true
}

// local reports whether kube-apiserver itself serves some, and every, of the versions of a group that a rule has. Versions that are not
// registered do not count. No versions, and *, mean all registered versions. It returns true until the registered versions are known.
func (p *Places) local(group string, versions []string) (some, every bool) {
	if p.facts.InnerDoor != nil && !p.facts.InnerDoor.Probed && !p.handle() {
		return true, true
	}
	every = true
	registered := p.facts.Versions[group]
	if len(versions) == 0 || slices.Contains(versions, "*") {
		versions = slices.Collect(maps.Keys(registered))
	}
	for _, version := range versions {
		if isLocal, ok := registered[version]; ok {
			some, every = some || isLocal, every && isLocal
		}
	}
	return some, some && every
}

// The notes explain results in the message of a status.
const (
	noteNotListed = "the inner door is not configured for these writes"
	noteNotLocal  = "kube-apiserver is not known to serve these versions itself, so that it does not call the inner door"
	noteDeny      = "kube-apiserver does not call the inner door for requests that another authorizer allows"
	noteUnseen    = "the condition reads the path or a selector of the request, which is not seen at admission"
	noteWebhooks  = "there are webhooks, which could deny writes for which kube-apiserver does not call the inner door, so that writes are refused if their condition must be evaluated: set askOtherAuthorizers: false in the InnerDoorConfiguration"
	noteNotProbed = "Proviso has not checked yet that kube-apiserver calls it at admission. Until then, for some seconds, writes that depend on the condition are refused"
)

// maxServers bounds how many servers a message lists.
const maxServers = 3

// lacking returns a note that says why writes do not pass on conditions, and names the kube-apiservers that are not known to call the inner
// door. It returns "" if writes pass.
func (i *InnerDoor) lacking() string {
	if i.MissesWebhooks {
		return noteWebhooks
	}
	if !i.Probed {
		return noteNotProbed
	}
	if len(i.Lacking) == 0 {
		return ""
	}
	listed, more := i.Lacking[:min(len(i.Lacking), maxServers)], ""
	if n := len(i.Lacking) - len(listed); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "writes are refused if their condition must be evaluated, and they go through a kube-apiserver that is not known to call the inner door: " + strings.Join(listed, ", ") + more
}

// areAsked reports whether other components may evaluate a condition at admission.
func (p *Places) areAsked(reads Reads) bool {
	return p != nil && (p.facts.InnerDoor != nil || len(p.aggregated) > 0) && reads >= More
}

// has reports whether other components evaluate conditions on some requests for a target.
func (p *Places) has(t target) bool {
	_, isListed := p.writes[t]
	return isListed || len(p.aggregated[t]) > 0
}

// admission are the other components that evaluate conditions at admission: the inner door, and other aggregated servers.
type admission struct {
	*Places
	// cache has the verbs by their notes for resources that the components do not have. They are the same for all of these, and a rule may have thousands
	// of resources. The key is the list of verbs.
	cache map[*string]map[string][]string
}

// Share implements Place. The entries that it returns have a note, which explains why the front door alone decides.
func (a admission) Share(e Entry) (rest []Entry) {
	if !a.areAsked(e.Reads) {
		return []Entry{e}
	}
	left := a.share(e)
	for _, note := range slices.Sorted(maps.Keys(left)) {
		rest = append(rest, e.With(left[note], e.Versions, cmp.Or(e.Note, note))...)
	}
	return rest
}

// notListed returns the verbs of requests for a resource that the components do not have, by their notes. The caller must not change the result.
func (a admission) notListed(e Entry) map[string][]string {
	left := a.cache[&e.Verbs[0]]
	if left == nil {
		left = map[string][]string{}
		for _, verb := range resolved(e.Verbs) {
			note := a.note(target{}, verb, e.Effect, false)
			left[note] = append(left[note], verb)
		}
		a.cache[&e.Verbs[0]] = left
	}
	return left
}

// share adds what happens at admission, and returns the verbs of all other requests by their notes. The caller must not change the result.
func (a admission) share(e Entry) map[string][]string {
	targets, others := a.matching(e.Group, e.Path)
	if !others && !a.has(targets[0]) {
		return a.notListed(e)
	}
	left := map[string][]string{}
	if others {
		left[""] = e.Verbs
	}
	areLocal := make([]locality, len(targets)) // a rule may have many versions, and many verbs
	for i, t := range targets {
		areLocal[i].some, areLocal[i].every = a.local(t.group, e.Versions)
	}
	for _, verb := range resolved(e.Verbs) {
		for i, t := range targets {
			locality := areLocal[i]
			isEnforced, remaining, problem := a.atServer(t, verb, e.Versions)
			if isEnforced && e.Reads.level() == More {
				e.Add([]string{verb}, Outcome{At: policyv1alpha1.EnforcedAtAggregatedServer, Result: policyv1alpha1.ResultEnforced})
				if len(remaining) == 0 {
					continue
				}
				locality.some, locality.every = a.local(t.group, remaining)
			}
			o, isAtAdmission := a.outcome(t, verb, e.Effect, e.Reads, locality.some)
			if isAtAdmission {
				e.Add([]string{verb}, o)
			}
			if a.isImpossible(t, verb) && slices.ContainsFunc(resolved(e.Verbs), a.writes[t].Has) {
				continue // such a rule means the other verbs
			}
			if all := locality.every; !others && (!isAtAdmission || o.Note != noteUnseen && !all) {
				note := cmp.Or(problem, a.note(t, verb, e.Effect, all))
				left[note] = append(left[note], verb)
			}
		}
	}
	return left
}

// locality is the result of Places.local.
type locality struct{ some, every bool }

// outcome returns the result at the inner door of a policy for requests with a verb. isLocal is true if kube-apiserver itself serves one of
// the versions. It returns false if the front door decides all of these requests alone.
func (p *Places) outcome(t target, verb string, effect policyv1alpha1.PolicyEffect, reads Reads, isLocal bool) (o Outcome, ok bool) {
	if !p.writes[t].Has(verb) {
		return Outcome{}, false
	}
	const at = policyv1alpha1.EnforcedAtInnerDoor
	switch {
	//guard:status-selectors-inner-door
	case effect == policyv1alpha1.PolicyEffectAllow && reads.hasUnseen():
		return Outcome{at, policyv1alpha1.ResultGrantsNothing, noteUnseen}, true
	//guard:status-deny-inner-door
	case reads.level() < More || effect != policyv1alpha1.PolicyEffectAllow && effect != policyv1alpha1.PolicyEffectNoOpinion:
		return Outcome{}, false
	case reads.hasUnseen():
		return Outcome{at, policyv1alpha1.ResultWithholdsUnconditionally, noteUnseen}, true
	//guard:status-versions-other-servers
	case !isLocal:
		return Outcome{}, false
	}
	//guard:status-servers-lack-inner-door
	if note := p.facts.InnerDoor.lacking(); note != "" {
		return Outcome{at, policyv1alpha1.ResultInnerDoorUnknown, note}, true
	}
	return Outcome{At: at, Result: policyv1alpha1.ResultEnforced}, true
}

// atServer reports whether another aggregated server evaluates conditions on requests with a verb in at least one version of a rule.
// remaining are the other registered versions of the rule. problem names a configuration that has no effect at the moment, or is empty.
func (p *Places) atServer(t target, verb string, versions []string) (some bool, remaining []string, problem string) {
	enforced := sets.New[string]()
	describes := func(version string) bool {
		return len(versions) == 0 || slices.Contains(versions, "*") || slices.Contains(versions, version)
	}
	for _, a := range p.aggregated[t] {
		switch {
		case !slices.Contains(a.Verbs, verb) || !describes(a.Version):
		case a.IsEnforced:
			enforced.Insert(a.Version)
		default:
			problem = fmt.Sprintf("EnforcementConfiguration %q does not count at the moment, as its status says", a.Configuration)
		}
	}
	if len(enforced) == 0 {
		return false, nil, problem
	}
	for version := range p.facts.Versions[t.group] {
		if describes(version) && !enforced.Has(version) {
			remaining = append(remaining, version)
		}
	}
	return true, remaining, problem
}

// writeVerbs are the verbs of requests that reach admission.
var writeVerbs = sets.New("create", "update", "patch", "delete", "deletecollection")

// isImpossible reports whether kube-apiserver never authorizes a write with a verb for a target. For example, a status can only be updated
// and patched.
func (p *Places) isImpossible(t target, verb string) bool {
	verbs, isListed := p.writes[t]
	return isListed && t.subresource != "" && writeVerbs.Has(verb) && !verbs.Has(verb)
}

// note explains why the front door alone decides requests with a verb.
func (p *Places) note(t target, verb string, effect policyv1alpha1.PolicyEffect, isLocal bool) string {
	isListed := p.writes[t].Has(verb)
	switch {
	case !writeVerbs.Has(verb):
		return ""
	case effect != policyv1alpha1.PolicyEffectAllow && effect != policyv1alpha1.PolicyEffectNoOpinion:
		if isListed {
			return noteDeny
		}
		return ""
	case p.facts.InnerDoor == nil:
		return ""
	case !isListed:
		return noteNotListed
	case !isLocal:
		return noteNotLocal
	}
	return ""
}
