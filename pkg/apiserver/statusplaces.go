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

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// placesInterval is the time between two reads of the facts about other components. The status of policies changes only if two reads
// have the same result.
const placesInterval = 3 * time.Second

// statusPlaces keeps the enforcementstatus.Places of the server up to date, from which comes the status of policies.
type statusPlaces struct {
	// table has the places. Those that enforcementstatus.Facts describe have facts of their own here.
	table *place.Table
	// otherServers has what this server knows about kube-apiservers and other servers.
	*otherServers
	// excluded returns the resources about which kube-apiserver gets no conditions.
	excluded func() []schema.GroupResource
	// versions has the last known versions of each group.
	versions map[string]map[string]bool
	// remote has the last known versions of other servers.
	remote  []schema.GroupVersion
	current atomic.Pointer[enforcementstatus.Places]
}

// newStatusPlaces returns statusPlaces of a table. excluded returns the resources about which kube-apiserver gets no conditions.
func newStatusPlaces(table *place.Table, o *otherServers, excluded func() []schema.GroupResource) *statusPlaces {
	p := &statusPlaces{table: table, otherServers: o, excluded: excluded, versions: map[string]map[string]bool{}}
	p.current.Store(enforcementstatus.NewPlaces(p.facts()))
	return p
}

// run keeps the places up to date until ctx ends, and calls changed after each change.
func (p *statusPlaces) run(ctx context.Context, changed func()) {
	var before *enforcementstatus.Places
	wait.UntilWithContext(ctx, func(context.Context) { before = p.look(before, changed) }, placesInterval)
}

// look reads the facts and returns them as Places. If they equal before, they become current.
func (p *statusPlaces) look(before *enforcementstatus.Places, changed func()) *enforcementstatus.Places {
	now := enforcementstatus.NewPlaces(p.facts())
	if now.Equal(before) && !now.Equal(p.current.Load()) {
		p.current.Store(now)
		changed()
	}
	return now
}

// facts reads the facts about other components. If the versions of a group cannot be read any more, the last known ones stay: at that
// time no kube-apiserver is known to call the inner door either, and the status says so.
func (p *statusPlaces) facts() enforcementstatus.Facts {
	facts := enforcementstatus.Facts{Unread: !p.enforcement.IsRead()} // first, because the configurations may be loaded meanwhile
	if p.prober != nil {
		resources := p.frontDoor.InnerDoor.Resources
		facts.InnerDoor = &enforcementstatus.InnerDoor{MissesWebhooks: p.frontDoor.MissesWebhooks}
		facts.InnerDoor.Lacking, facts.InnerDoor.Probed = p.prober.Unknown()
		if p.conditions != nil { // a server that handles conditions does without the inner door
			facts.InnerDoor.Lacking = slices.DeleteFunc(facts.InnerDoor.Lacking, p.conditions.Handles)
		}
		for _, r := range resources {
			facts.InnerDoor.Writes = append(facts.InnerDoor.Writes, enforcementstatus.Writes{
				Resource: schema.GroupResource{Group: r.Group, Resource: r.Resource}, Subresource: r.Subresource, Verbs: r.Verbs(),
			})
		}
		facts.InnerDoor.Probed = p.readVersions(groupsOf(resources)) && facts.InnerDoor.Probed
	}
	var groups []string
	for _, r := range p.enforcement.Resources() {
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
	facts.Others = p.table.Status()
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
func (p *statusPlaces) readVersions(groups []string) bool {
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
