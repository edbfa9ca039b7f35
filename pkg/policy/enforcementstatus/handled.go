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

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// The notes about conditions that kube-apiservers do not get.
const (
	noteNotHandled   = "conditions on objects are not evaluated for these requests, because not every kube-apiserver is known to handle conditions: "
	noteExcluded     = "fields of the resource are excluded from the permission to write it, so that kube-apiserver does not get conditions about it"
	noteOtherServers = "kube-apiserver is not known to serve these versions itself, so that it does not get conditions about them"
)

// handling are the kube-apiservers that handle conditions.
type handling struct {
	*Places
	// left is Server.Writes.
	left func(group, resource, subresource string) []string
}

// Share implements Place. Every kube-apiserver enforces a condition itself on writes in the versions that it serves. Conditions that read no object are
// decided at authorization.
func (h handling) Share(e Entry) []Entry {
	if e.Reads.level() != More {
		return []Entry{e}
	}
	resource, subresource, _ := strings.Cut(e.Path, "/")
	//guard:status-reads-without-conditions
	isWrite := func(verb string) bool { return slices.Contains(h.left(e.Group, resource, subresource), verb) }
	var writes, others []string
	for _, verb := range resolved(e.Verbs) {
		if isWrite(verb) {
			writes = append(writes, verb)
		} else {
			others = append(others, verb)
		}
	}
	if len(writes) == 0 {
		return []Entry{e}
	}
	enforced := Outcome{At: policyv1alpha1.EnforcedAtKubeAPIServer, Result: policyv1alpha1.ResultEnforced}
	rest, servers := e.With(others, e.Versions, ""), h.facts.KubeAPIServers
	switch isWildcard := e.Group == "*" || resource == "*"; {
	//guard:status-kube-apiservers-do-not-handle-conditions
	case !h.handle():
		return append(e.With(writes, e.Versions, notHandled(h.Places)), rest...)
	case isWildcard: // it also describes requests that other servers serve
		e.Add(writes, enforced)
		return []Entry{e}
	//guard:status-fields-excluded-conditions
	case servers.excludes(e.Group, resource):
		note := ""
		if h.facts.InnerDoor == nil {
			note = noteExcluded
		}
		return append(e.With(writes, e.Versions, note), rest...)
	}
	versions := e.Versions
	some, every := h.local(e.Group, e.Versions)
	//guard:status-versions-without-conditions
	if some {
		e.Add(writes, enforced)
		versions = h.remote(e.Group, e.Versions)
	}
	//guard:status-some-versions-without-conditions
	if every {
		return rest
	}
	return append(e.With(writes, versions, noteOtherServers), rest...)
}

// notHandled returns a note about kube-apiservers that do not handle conditions. The inner door has notes of its own.
func notHandled(places *Places) string {
	if places.facts.InnerDoor != nil {
		return ""
	}
	return excerpt.Of(noteNotHandled+cmp.Or(places.facts.KubeAPIServers.Problem, "they have not been probed yet"), maxNoteBytes)
}

// remote returns the versions of a group that a rule has and that kube-apiserver is not known to serve itself.
func (p *Places) remote(group string, versions []string) []string {
	if len(versions) == 0 || slices.Contains(versions, "*") {
		versions = slices.Sorted(maps.Keys(p.facts.Versions[group]))
	}
	return slices.DeleteFunc(slices.Clone(versions), func(version string) bool { return p.facts.Versions[group][version] })
}
