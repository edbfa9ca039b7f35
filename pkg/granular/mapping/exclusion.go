/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

// Exclusion is an exclusion of a mapping for one resource, as the mappings of a table determine it together. It is for components that
// translate exclusions. Table.For has the rules that decide.
type Exclusion struct {
	// Field is the index in spec.fields.
	Field    int
	Resource schema.GroupResource
	// Subresource is the only subresource to which the exclusion applies. If it is empty, the exclusion applies to the resource and to all
	// subresources.
	Subresource string
	// Versions are the versions in which the exclusion applies, sorted. With Others, it applies in all versions but those in Except.
	Versions []string
	Others   bool
	Except   []string
	// Path is the path in its canonical form. It is empty if every write is excluded, whatever it changes.
	Path string
	// Names are the names of the fields and keys up to the first step of another kind.
	Names []string
	// Every says that one step follows, [*]. InElements says that other steps follow.
	Every, InElements bool
	// Verb is the verb that a change needs. It is empty for a permission with a parameter.
	Verb string
	// NewValues is the expression that limits the exclusion to some changes. It is empty if there is none.
	NewValues string
	// Broken says why no permission covers the field.
	Broken string
}

// Endpoint names the resource, or the subresource.
func (e Exclusion) Endpoint() string { return endpoint{e.Resource, e.Subresource}.String() }

// ErrInvalid means that a mapping is not valid.
var ErrInvalid = errors.New("the mapping is not valid")

// Exclusions returns the exclusions of the mapping with a name, in a fixed order: none for a mapping that the table does not have.
func (t *Table) Exclusions(name string) ([]Exclusion, error) {
	source := sourceOf(name)
	if _, ok := t.invalid[source]; ok {
		return nil, ErrInvalid
	}
	var result []Exclusion
	byName := func(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) }
	for _, resource := range slices.SortedFunc(maps.Keys(t.byResource), byName) {
		if !slices.ContainsFunc(t.byResource[resource], func(e entry) bool { return e.rule.source == source && e.rule.excluded }) {
			continue
		}
		of := t.exclusionsOf(source, resource, t.directRules)
		result = append(result, of...)
		for _, w := range indirectWritesOf(resource) {
			result = append(result, t.indirectExclusions(source, w, of)...)
		}
	}
	return result, nil
}

// indirectExclusions returns the exclusions of a source at the endpoint of an indirect write. direct are the exclusions of the resource.
func (t *Table) indirectExclusions(source string, w indirectWrite, direct []Exclusion) []Exclusion {
	result := t.exclusionsOf(source, w.of, func(resource schema.GroupVersionResource) []Rule { return w.without(t.directRules(resource)) })
	if w.hasRules {
		result = append(result, direct...)
	}
	for i := range result {
		result[i].Resource, result[i].Subresource = w.by.GroupResource, w.by.subresource
	}
	return result
}

// exclusionsOf returns the exclusions of a source for one resource, whose rules in a version rulesFor returns. Rules that are the same in
// several versions are one exclusion.
func (t *Table) exclusionsOf(source string, resource schema.GroupResource, rulesFor func(schema.GroupVersionResource) []Rule) []Exclusion {
	named := slices.Sorted(maps.Keys(t.namedVersions(resource)))
	versions := append(slices.Clone(named), unnamedVersion)
	if resource.Group == "" && slices.Contains(named, coreVersion) {
		versions = []string{coreVersion}
	}
	found := map[string]*Exclusion{}
	var order []string
	for _, version := range versions {
		seen := map[string]bool{}
		for _, r := range rulesFor(resource.WithVersion(version)) {
			text := r.String()
			if !r.excluded || r.source != source || seen[text] {
				continue
			}
			if seen[text] = true; found[text] == nil {
				order, found[text] = append(order, text), r.exclusion(resource)
			}
			found[text].add(version)
		}
	}
	result := make([]Exclusion, 0, len(order))
	for _, text := range order {
		e := found[text]
		switch {
		case len(e.Versions) == len(versions) || e.Others && len(named) == 0:
			e.Versions, e.Others = nil, true
		case e.Others:
			e.Except = sets.List(sets.New(named...).Difference(sets.New(e.Versions...)))
			e.Versions = nil
		}
		result = append(result, *e)
	}
	return result
}

// coreVersion is the only version of the core group.
const coreVersion = "v1"

// add adds a version in which the exclusion applies.
func (e *Exclusion) add(version string) {
	if version == unnamedVersion {
		e.Others = true
		return
	}
	e.Versions = append(e.Versions, version)
}

// exclusion describes a rule that excludes.
func (r *Rule) exclusion(resource schema.GroupResource) *Exclusion {
	e := &Exclusion{Field: r.field, Resource: resource, Path: r.pattern.String(), Broken: r.broken}
	for i, s := range r.pattern {
		if s.kind != stepName {
			e.Every = s.kind == stepAny && i == len(r.pattern)-1
			e.InElements = !e.Every
			break
		}
		e.Names = append(e.Names, s.name)
	}
	if r.parameter == nil {
		e.Verb = verbOf(r.permission)
	}
	if r.newValues != nil {
		e.NewValues = r.newValues.text
	}
	return e
}

// ServerOwned returns the names of the fields of metadata whose changes do not count.
func ServerOwned() []string {
	var names []string
	for _, path := range changes.ServerOwned() {
		if len(path) == 2 {
			names = append(names, *path[1].FieldName)
		}
	}
	return names
}
