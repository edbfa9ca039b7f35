/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Problem is the reason why a mapping, or a part of it, covers nothing. The zero value means that there
// is none.
type Problem struct {
	// Invalid means that the mapping is not valid, and covers nothing. If it is false, and there is a reason, a
	// part of the mapping contradicts another mapping or a schema, and only this part covers nothing.
	Invalid bool
	// Reason is for people. It is the same in every process that knows the same mappings.
	Reason string
}

// Problems returns a function that returns the Problem of the mapping with the given name.
func (t *Table) Problems() func(mapping string) Problem {
	contradictions := t.contradictions()
	return func(mapping string) Problem {
		source := sourceOf(mapping)
		if reason, ok := t.invalid[source]; ok {
			return Problem{Invalid: true, Reason: reason}
		}
		return Problem{Reason: contradictions[source]}
	}
}

// contradictions returns, by source of the rules, the first contradiction that the source is part of. It looks at
// every version that a mapping or schema names, and, once, at the versions that none names.
func (t *Table) contradictions() map[string]string {
	found := map[string]string{}
	byName := func(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) }
	for _, resource := range slices.SortedFunc(maps.Keys(t.byResource), byName) {
		entries := t.byResource[resource]
		versions := sets.New("")
		for _, e := range entries {
			versions = versions.Union(e.versions)
		}
		for _, version := range sets.List(versions) {
			contradictionsIn(resource, version, entries, found)
		}
	}
	return found
}

// contradictionsIn adds the contradictions in one version to found. For each path it takes the first rule, and the
// first rule that contradicts it. If there is one, every rule of the path contradicts one of these two.
func contradictionsIn(resource schema.GroupResource, version string, entries []entry, found map[string]string) {
	first, other := map[string]*Rule{}, map[string]*Rule{}
	for i := range entries {
		r := &entries[i].rule
		if len(r.pattern) == 0 || entries[i].versions.Len() > 0 && !entries[i].versions.Has(version) {
			continue
		}
		switch path := r.pattern.String(); {
		case first[path] == nil:
			first[path] = r
		case other[path] == nil && r.grants() != first[path].grants():
			other[path] = r
		}
	}
	for i := range entries {
		r := &entries[i].rule
		path := r.pattern.String()
		if len(r.pattern) == 0 || other[path] == nil || entries[i].versions.Len() > 0 && !entries[i].versions.Has(version) {
			continue
		}
		against := first[path]
		if r.grants() == against.grants() {
			against = other[path]
		}
		if found[r.source] == "" {
			found[r.source] = fmt.Sprintf("in %s, %s", resource, contradictionOf(r, against))
		}
	}
}

func contradictionOf(a, b *Rule) string {
	text := fmt.Sprintf("%s has permission %q by %s and %q by %s", a.pattern, a.permission, a.source, b.permission, b.source)
	if a.permission == b.permission {
		text += ", with different parameters"
	}
	return text
}
