/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// kubeAPIServers returns whether all kube-apiservers enforce conditions themselves, and the resources for which the front door sends them no
// conditions. It returns nil if the front door sends none at all. The front door sends no conditions about a resource either if it does not
// know which server serves the resource; that is a problem, too.
func (p *statusPlaces) kubeAPIServers() *enforcementstatus.KubeAPIServers {
	if p.conditions == nil {
		return nil
	}
	facts := &enforcementstatus.KubeAPIServers{}
	facts.Problem, facts.Probed = p.conditions.Problem()
	groups, areKnown := p.services.Groups()
	for group := range p.versions {
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	if p.readVersions(groups); !areKnown && facts.Problem == "" {
		facts.Problem = "which versions they serve themselves is not known"
	}
	if p.excluded != nil {
		facts.Excluded = p.excluded()
	}
	return facts
}

// excludedResources returns the resources about which kube-apiserver gets no conditions. Until mappings are loaded, these are all.
func (c CompletedConfig) excludedResources() []schema.GroupResource {
	if c.extra.Mappings == nil {
		return nil
	}
	table := c.extra.Mappings.Table()
	if table == nil {
		return []schema.GroupResource{{Group: "*", Resource: "*"}}
	}
	return table.Excluded()
}

// writesLeft returns the verbs of the writes whose conditions the front door leaves to kube-apiserver, for a resource or a subresource. The
// group and the resource may be *.
func writesLeft(group, resource, subresource string) []string {
	r := innerdoor.Resource{Group: group, Resource: resource, Subresource: subresource}
	concrete := r
	if group == "*" {
		concrete.Group = ""
	}
	if resource == "*" {
		concrete.Resource = "any"
	}
	if !concrete.IsListable() {
		return nil
	}
	return r.Verbs()
}
