/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/aggregated"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// placesInterval is the time between two reads of the facts about other components. The status of policies changes only if two reads
// have the same result.
const placesInterval = 3 * time.Second

// places keeps the enforcementstatus.Places of the server up to date, from which come the status of policies and the warnings of reviews.
type places struct {
	folding *folding
	// services has the APIServices. It is nil without a client of kube-apiserver.
	services *registration.Services
	// own observes which server kube-apiserver calls for the resources of this server. It is nil without a client of kube-apiserver.
	own *registration.Watcher
	// aggregated has the EnforcementConfigurations.
	aggregated *aggregated.Enforcement
	// capability has the kube-apiservers that handle conditions. It is nil if none gets any.
	capability *cluster.Conditions
	// excluded returns the resources about which kube-apiserver gets no conditions.
	excluded func() []schema.GroupResource
	// versions has the last known versions of each group.
	versions map[string]map[string]bool
	// remote has the last known versions of other servers.
	remote  []schema.GroupVersion
	current atomic.Pointer[enforcementstatus.Places]
}

// newPlaces returns places. excluded returns the resources about which kube-apiserver gets no conditions.
func newPlaces(o *others, excluded func() []schema.GroupResource) *places {
	p := &places{folding: o.folding, services: o.services, own: o.own, aggregated: o.enforcement, capability: o.capability, excluded: excluded, versions: map[string]map[string]bool{}}
	p.current.Store(enforcementstatus.NewPlaces(p.facts()))
	return p
}

// run keeps the places up to date until ctx ends, and calls changed after each change.
func (p *places) run(ctx context.Context, changed func()) {
	var before *enforcementstatus.Places
	wait.UntilWithContext(ctx, func(context.Context) { before = p.look(before, changed) }, placesInterval)
}

// look reads the facts and returns them as Places. If they equal before, they become current.
func (p *places) look(before *enforcementstatus.Places, changed func()) *enforcementstatus.Places {
	now := enforcementstatus.NewPlaces(p.facts())
	if now.Equal(before) && !now.Equal(p.current.Load()) {
		p.current.Store(now)
		changed()
	}
	return now
}

// facts reads the facts about other components. If the versions of a group cannot be read any more, the last known ones stay: at that
// time no kube-apiserver is known to call the inner door either, and the status says so.
func (p *places) facts() enforcementstatus.Facts {
	facts := enforcementstatus.Facts{Unread: !p.aggregated.IsRead()} // first, because the configurations may be loaded meanwhile
	if p.folding != nil {
		facts.InnerDoor = &enforcementstatus.InnerDoor{MissesWebhooks: p.folding.config.MissesWebhooks}
		facts.InnerDoor.Lacking, facts.InnerDoor.Probed = p.folding.prober.Unknown()
		if p.capability != nil { // a server that handles conditions does without the inner door
			facts.InnerDoor.Lacking = slices.DeleteFunc(facts.InnerDoor.Lacking, p.capability.Handles)
		}
		for _, r := range p.folding.config.Resources {
			facts.InnerDoor.Writes = append(facts.InnerDoor.Writes, enforcementstatus.Writes{
				Resource: schema.GroupResource{Group: r.Group, Resource: r.Resource}, Subresource: r.Subresource, Verbs: r.Verbs(),
			})
		}
		facts.InnerDoor.Probed = p.readVersions(groupsOf(p.folding.config.Resources)) && facts.InnerDoor.Probed
	}
	var groups []string
	for _, r := range p.aggregated.Resources() {
		groups = append(groups, r.Resource.Group)
		facts.Aggregated = append(facts.Aggregated, enforcementstatus.Aggregated{
			Writes:  enforcementstatus.Writes{Resource: r.Resource, Subresource: r.Subresource, Verbs: r.Verbs},
			Version: r.Version, Configuration: r.Configuration, Serving: string(r.Serving), IsEnforced: r.IsEnforced,
		})
	}
	p.readVersions(groups)
	facts.KubeAPIServers = p.kubeAPIServers()
	facts.Versions = maps.Clone(p.versions)
	if p.services != nil {
		if remote, isKnown := p.services.Remote(); isKnown {
			p.remote = remote
		}
		facts.Remote = p.remote
	}
	if p.own != nil {
		facts.Own = p.own.States()
	}
	return facts
}

func groupsOf(resources []innerdoor.Resource) []string {
	groups := make([]string, 0, len(resources))
	for _, r := range resources {
		groups = append(groups, r.Group)
	}
	return groups
}

// readVersions reads the versions of groups. It returns false if no versions have ever been known.
func (p *places) readVersions(groups []string) bool {
	if p.services == nil {
		return false
	}
	for _, group := range groups {
		if versions, isKnown := p.services.Versions(group); isKnown {
			p.versions[group] = versions
		}
	}
	return len(p.versions) > 0
}

// reviewed reports whether other components evaluate the conditions in the answer to a review, and if not, why.
func (p *places) reviewed(a authorizer.AttributesRecord, isDenial bool) (isEvaluated bool, problem string) {
	if !a.ResourceRequest {
		return false, ""
	}
	current := p.current.Load()
	if current.AreHandled(a.APIVersion, schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}) && slices.Contains(writesLeft(a.APIGroup, a.Resource, a.Subresource), a.Verb) {
		return true, ""
	}
	isEvaluated, problem = current.Reviewed(a.Verb, a.APIVersion, schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}, a.Subresource, isDenial)
	if !isEvaluated || p.aggregated.Enforces(a) {
		return isEvaluated, problem
	}
	isListed := p.folding != nil && slices.Contains(p.folding.config.Resources, innerdoor.Resource{Group: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource})
	switch {
	case !isListed: // what is current may be some seconds old
		return false, "no EnforcementConfiguration counts for such requests at the moment"
	case a.User == nil || p.folding.config.LeavesOut(a.User):
		return false, "the inner door does not decide for this user"
	}
	return true, ""
}
