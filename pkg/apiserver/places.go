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
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// placesInterval is the time between two looks at what other components do. A change that is gone at the next look does not show in
// the status of policies.
const placesInterval = 3 * time.Second

// places keeps what the status of policies and the warnings of reviews say about conditions that other components evaluate.
type places struct {
	folding *folding
	// services are the APIServices, or nil if there is no client of kube-apiserver.
	services *registration.Services
	// aggregated is what other aggregated servers enforce.
	aggregated *aggregated.Enforcement
	// versions are the versions of each group that were known last.
	versions map[string]map[string]bool
	current  atomic.Pointer[enforcementstatus.Places]
}

// newPlaces returns places. The folding is nil if there is no inner door.
func newPlaces(folding *folding, services *registration.Services, enforcement *aggregated.Enforcement) *places {
	p := &places{folding: folding, services: services, aggregated: enforcement, versions: map[string]map[string]bool{}}
	p.current.Store(enforcementstatus.NewPlaces(p.facts()))
	return p
}

// run keeps the places up to date until ctx ends, and calls changed after each change.
func (p *places) run(ctx context.Context, changed func()) {
	var before *enforcementstatus.Places
	wait.UntilWithContext(ctx, func(context.Context) { before = p.look(before, changed) }, placesInterval)
}

// look looks at what other components do, and returns it. If it is the same as before, it becomes current.
func (p *places) look(before *enforcementstatus.Places, changed func()) *enforcementstatus.Places {
	now := enforcementstatus.NewPlaces(p.facts())
	if now.Equal(before) && !now.Equal(p.current.Load()) {
		p.current.Store(now)
		changed()
	}
	return now
}

// facts returns what other components do. The versions of groups stay if they are not known any more, because the servers that lack
// the inner door say enough then.
func (p *places) facts() enforcementstatus.Facts {
	facts := enforcementstatus.Facts{Unread: !p.aggregated.IsRead()} // first, because the configurations may be loaded meanwhile
	if p.folding != nil {
		facts.InnerDoor = &enforcementstatus.InnerDoor{}
		facts.InnerDoor.Lacking, facts.InnerDoor.Probed = p.folding.prober.Unknown()
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
	facts.Versions = maps.Clone(p.versions)
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

// reviewed says whether other components evaluate the conditions of an answer to a review, and a problem if they do not.
func (p *places) reviewed(a authorizer.AttributesRecord, isDenial bool) (isEvaluated bool, problem string) {
	if !a.ResourceRequest {
		return false, ""
	}
	isEvaluated, problem = p.current.Load().Reviewed(a.Verb, a.APIVersion, schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}, a.Subresource, isDenial)
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
