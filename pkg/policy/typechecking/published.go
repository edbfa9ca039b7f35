/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Published are the resources that servers publish.
type Published struct {
	// groups have the resources of each version of a group.
	groups map[string]map[string][]metav1.APIResource
	// failures say why the resources of a group are not known completely.
	failures map[string]error
	// failure says why there may be groups that are not known.
	failure error
}

// NewPublished returns an empty list of resources, which is complete.
func NewPublished() *Published {
	return &Published{groups: map[string]map[string][]metav1.APIResource{}, failures: map[string]error{}}
}

// Add adds the resources of a version. It keeps the slice: the caller must not change it afterwards. If the version was added
// before, Add does nothing: of several servers with a version the first one counts, as for schemas.
func (p *Published) Add(version schema.GroupVersion, resources []metav1.APIResource) {
	if p.groups[version.Group] == nil {
		p.groups[version.Group] = map[string][]metav1.APIResource{}
	}
	if _, known := p.groups[version.Group][version.Version]; !known {
		p.groups[version.Group][version.Version] = resources
	}
}

// Published returns the resources of all servers, as far as they are known.
func (d *Discovery) Published() *Published {
	p := NewPublished()
	for _, s := range d.servers {
		s.publish(p)
	}
	return p
}

// publish adds the resources of one server.
func (s *server) publish(p *Published) {
	groups, stale, err := s.groups()
	if err != nil || groups == nil {
		p.failure = err
		return
	}
	for version, err := range stale {
		p.failures[version.Group] = err
	}
	for i := range groups.Groups {
		name := groups.Groups[i].Name
		for _, version := range versionsOf(groups, schema.GroupVersionResource{Group: name}) {
			list, err := s.cache.ServerResourcesForGroupVersion(version.String())
			if err != nil {
				p.failures[name] = err
				continue
			}
			p.Add(version, list.APIResources)
		}
	}
}

// names returns the names of all groups.
func (p *Published) names() []string { return sets.List(sets.KeySet(p.groups)) }

// failureOf returns an error if a group may have more resources than are known. The error is the cause, such as a server that is
// down.
func (p *Published) failureOf(group string) error {
	if err := p.failures[group]; err != nil {
		return err
	}
	if _, known := p.groups[group]; known {
		return nil
	}
	return p.failure
}

// found is what is known of a resource or a subresource in some groups.
type found struct {
	// versions are the versions that have it, and verbs its verbs in any of them.
	versions, verbs sets.Set[string]
	// isNamespaced says that it has a namespace in one of them.
	isNamespaced bool
}

// find looks for a resource, or for a subresource such as pods/exec, in groups.
func (p *Published) find(groups []string, name string) (found, bool) {
	f := found{versions: sets.New[string](), verbs: sets.New[string]()}
	for _, group := range groups {
		for version, resources := range p.groups[group] {
			for i := range resources {
				if resources[i].Name == name {
					f.versions.Insert(version)
					f.verbs.Insert(resources[i].Verbs...)
					f.isNamespaced = f.isNamespaced || resources[i].Namespaced
				}
			}
		}
	}
	return f, len(f.versions) > 0
}

// groupsWith returns the groups that have a resource.
func (p *Published) groupsWith(name string) []string {
	return slices.DeleteFunc(p.names(), func(group string) bool {
		_, ok := p.find([]string{group}, name)
		return !ok
	})
}

// resources returns the names of the resources of groups, without subresources.
func (p *Published) resources(groups []string) []string {
	return p.collect(groups, func(r *metav1.APIResource) string {
		if strings.Contains(r.Name, "/") {
			return ""
		}
		return r.Name
	})
}

// subresources returns the names of the subresources of a resource, or of all if its name is *.
func (p *Published) subresources(groups []string, resource string) []string {
	return p.collect(groups, func(r *metav1.APIResource) string {
		name, sub, _ := strings.Cut(r.Name, "/")
		if resource != all && name != resource {
			return ""
		}
		return sub
	})
}

// withSubresource returns the subresources of groups with a name, such as deployments/scale.
func (p *Published) withSubresource(groups []string, name string) []string {
	return p.collect(groups, func(r *metav1.APIResource) string {
		if !strings.HasSuffix(r.Name, "/"+name) {
			return ""
		}
		return r.Name
	})
}

// called returns the resources of groups that have another name of this spelling: a kind, a singular, or a short name.
func (p *Published) called(groups []string, name string) []string {
	return p.collect(groups, func(r *metav1.APIResource) string {
		isName := func(other string) bool { return other != "" && strings.EqualFold(other, name) }
		if strings.Contains(r.Name, "/") || !isName(r.Kind) && !isName(r.SingularName) && !slices.ContainsFunc(r.ShortNames, isName) {
			return ""
		}
		return r.Name
	})
}

// collect returns the names, without empty ones, that a function has for the resources of groups.
func (p *Published) collect(groups []string, nameOf func(*metav1.APIResource) string) []string {
	names := sets.New[string]()
	for _, group := range groups {
		for _, resources := range p.groups[group] {
			for i := range resources {
				names.Insert(nameOf(&resources[i]))
			}
		}
	}
	return sets.List(names.Delete(""))
}
