/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/freshness"
)

// Table has the permissions that the fields of every resource need, from the built-in mapping, from
// markers in schemas and from mappings. It is immutable. Without markers and mappings it has the built-in
// mapping only.
type Table struct {
	byResource map[schema.GroupResource][]entry
	// everywhere are the rules of invalid mappings that name no resources; they apply to all resources.
	everywhere []Rule
	// invalid has the reasons why mappings are invalid, by the source of their rules.
	invalid  map[string]string
	excludes bool
	digest   string
}

// entry is a rule of a mapping or of a schema for a resource.
type entry struct {
	versions sets.Set[string] // empty means all
	rule     Rule
	// only says that an exclusion has no effect in other versions, because another server serves these versions. Without
	// only, an exclusion protects all versions.
	only bool
}

// NewTable returns a table with the built-in mapping and the given mappings. A mapping that is not valid grants nothing.
// If it excludes fields, its resources cannot be written at all, because it is not known which fields it protects; if it
// also names no resources, no resource can be written.
func NewTable(mappings ...*policy.FieldPermissionMapping) *Table {
	return (*Markers)(nil).NewTable(mappings...)
}

// NewTable returns a table like the function NewTable, which also has the rules of the markers. The receiver may be nil:
// it has no rules.
func (m *Markers) NewTable(mappings ...*policy.FieldPermissionMapping) *Table {
	t := &Table{byResource: map[schema.GroupResource][]entry{}, invalid: map[string]string{}}
	hash := sha256.New()
	for _, marked := range ptr.Deref(m, Markers{}).rules {
		t.add(hash, marked.resource.GroupResource(), []string{marked.resource.Version}, false, marked.rule)
	}
	mappings = slices.SortedStableFunc(slices.Values(mappings), func(a, b *policy.FieldPermissionMapping) int { return cmp.Compare(a.Name, b.Name) })
	for _, mapping := range mappings {
		compiled, _, errs := Compile(mapping.Name, &mapping.Spec)
		if len(compiled.resources) == 0 { // it was not stored by this server
			errs = append(errs, field.Required(field.NewPath("spec", "resources"), "a mapping without resources is about no field"))
		}
		if len(errs) > 0 {
			compiled.rules = brokenRules(mapping, errs[0])
			t.invalid[sourceOf(mapping.Name)] = shorten(errs[0].Error())
			if len(compiled.resources) == 0 {
				for _, r := range compiled.rules {
					t.everywhere, t.excludes = append(t.everywhere, r), true
					_, _ = fmt.Fprintf(hash, "%s %s\n", r.source, &r)
				}
			}
		}
		//guard:granular-reviews-other-group
		for i, resource := range withOtherGroup(compiled.resources) {
			of := schema.GroupResource{Group: resource.APIGroup, Resource: resource.Resource}
			only := i >= len(compiled.resources) && resource.APIGroup == authorization.GroupName
			for _, r := range compiled.rules {
				t.add(hash, of, resource.APIVersions, only, r)
			}
		}
	}
	t.digest = hex.EncodeToString(hash.Sum(nil))
	return t
}

// withOtherGroup adds the second group of reviews to the resources of a mapping. Reviews are served in two API groups:
// for each review that a mapping names in one group, the result also has the review in the other group, unless the
// mapping names it itself. In authorization.k8s.io it is added in version v1alpha1 only, because kube-apiserver serves
// the other versions.
func withOtherGroup(resources []policy.FieldPermissionResource) []policy.FieldPermissionResource {
	for _, r := range resources[:len(resources):len(resources)] {
		group, ok := authorization.OtherGroup(r.APIGroup)
		isNamed := func(named policy.FieldPermissionResource) bool {
			return named.APIGroup == group && named.Resource == r.Resource
		}
		if ok && !slices.ContainsFunc(resources, isNamed) {
			r.APIGroup = group
			if group == authorization.GroupName {
				r.APIVersions = []string{authorizationv1alpha1.SchemeGroupVersion.Version}
			}
			resources = append(resources[:len(resources):len(resources)], r)
		}
	}
	return resources
}

// add adds a rule for versions of a resource, or for all versions if versions is empty, and writes it to the hash.
func (t *Table) add(hash io.Writer, of schema.GroupResource, versions []string, only bool, r Rule) {
	t.byResource[of] = append(t.byResource[of], entry{versions: sets.New(versions...), rule: r, only: only})
	t.excludes = t.excludes || r.excluded
	_, _ = fmt.Fprintf(hash, "%q %q %s %s\n", of, versions, r.source, &r)
}

// Digest returns a hash of the rules. Tables with the same rules have the same digest in every process.
func (t *Table) Digest() string { return t.digest }

// sourceOf returns the source of the rules of the mapping with the given name.
func sourceOf(mapping string) string { return fmt.Sprintf("FieldPermissionMapping %q", mapping) }

// Excludes reports whether permission on the whole object does not include some fields of a resource in a version, or fields of another
// resource that requests for this one or its subresources may change. An empty version or * stands for any version. If the group or the resource is *, Excludes reports whether any resource has
// excluded fields.
func (t *Table) Excludes(resource schema.GroupVersionResource) bool {
	if resource.Group == wildcard || resource.Resource == wildcard {
		return t.excludes
	}
	return len(t.everywhere) > 0 || slices.ContainsFunc(excludingResources(resource.GroupResource()), func(of schema.GroupResource) bool {
		return slices.ContainsFunc(t.byResource[of], func(e entry) bool {
			return e.rule.excluded && (!e.only || resource.Version == wildcard || resource.Version == "" || e.versions.Has(resource.Version))
		})
	})
}

// Excluded returns the resources for which Excludes returns true in some version, in order. The resource * of the group * stands for all.
func (t *Table) Excluded() []schema.GroupResource {
	if len(t.everywhere) > 0 {
		return []schema.GroupResource{{Group: wildcard, Resource: wildcard}}
	}
	var excluded []schema.GroupResource
	for resource, entries := range t.byResource {
		if slices.ContainsFunc(entries, func(e entry) bool { return e.rule.excluded }) {
			excluded = append(excluded, resource)
			for _, w := range indirectWritesOf(resource) {
				excluded = append(excluded, w.by.GroupResource)
			}
		}
	}
	slices.SortFunc(excluded, func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return slices.Compact(excluded)
}

// Excluding returns the sources of all exclusions, in alphabetical order: schemas, and mappings.
func (t *Table) Excluding() []string {
	sources := sets.New[string]()
	for _, r := range t.everywhere {
		sources.Insert(r.source)
	}
	for _, entries := range t.byResource {
		for _, e := range entries {
			if e.rule.excluded {
				sources.Insert(e.rule.source)
			}
		}
	}
	return sets.List(sources)
}

// wildcard stands for every API group or resource in a request.
const wildcard = "*"

// brokenRules returns the rules of an invalid mapping: one rule that excludes every field if the mapping excludes a
// field, otherwise none.
func brokenRules(m *policy.FieldPermissionMapping, err error) []Rule {
	excludes := func(f policy.FieldPermission) bool { return f.Exclusion != nil }
	if !slices.ContainsFunc(m.Spec.Fields, excludes) {
		return nil
	}
	source := sourceOf(m.Name)
	return []Rule{{excluded: true, source: source, broken: fmt.Sprintf("%s is not valid: %s", source, shorten(err.Error()))}}
}

// Rules are the rules for the fields of a resource in one version. They do not change, and are safe for concurrent use.
type Rules struct {
	rules []Rule // the general before the specific

	table    *Table
	resource schema.GroupVersionResource
	mu       sync.Mutex
	versions map[string]*Rules // for the versions that a mapping or schema names, and for unnamedVersion
}

// unnamedVersion stands for all versions of a resource that no mapping and no schema names.
const unnamedVersion = ""

// All returns the rules, the general before the specific.
func (r *Rules) All() iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for i := range r.rules {
			if !yield(&r.rules[i]) {
				return
			}
		}
	}
}

// InVersion returns the rules for the fields of the resource in another version. The parameter has the form
// group/version; if it is empty, InVersion returns r. A version of another group is treated as a version that no mapping
// names: every change in it needs the permissions of all exclusions. The rules of each named version are
// computed once, and the rules of all other versions together once.
func (r *Rules) InVersion(apiVersion string) *Rules {
	if apiVersion == "" || r.table == nil {
		return r
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = r.table.namedVersions(r.resource.GroupResource())
	}
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	if _, isNamed := r.versions[version]; !isNamed || group != r.resource.Group {
		version = unnamedVersion
	}
	if r.versions[version] == nil {
		r.versions[version] = r.table.For(r.resource.GroupResource().WithVersion(version))
	}
	return r.versions[version]
}

// namedVersions returns a map whose keys are the versions of a resource that a mapping or schema names. Its values are
// nil: the caller computes the rules of a version when it needs them.
func (t *Table) namedVersions(of schema.GroupResource) map[string]*Rules {
	versions := map[string]*Rules{}
	for _, e := range t.byResource[of] {
		for version := range e.versions {
			versions[version] = nil
		}
	}
	return versions
}

// For returns the rules for the fields of a resource in a version. Rules that contradict each other cover nothing. An
// exclusion of another version applies to every write, unless this version has an exclusion with the same permission, or
// entry.only is set for the exclusion.
func (t *Table) For(resource schema.GroupVersionResource) *Rules {
	return t.ForSubresource(resource, "")
}

// ForSubresource returns the rules for requests to a subresource, or to the resource itself if it is empty. In addition to those that For
// describes, exclusions apply to every write at an endpoint that changes their fields without showing them, such as pods/binding.
func (t *Table) ForSubresource(resource schema.GroupVersionResource, subresource string) *Rules {
	rules := t.directRules(resource)
	if indirect := t.indirectRules(endpoint{resource.GroupResource(), subresource}, resource.Version); len(indirect) > 0 {
		rules = append(rules, indirect...)
		sortRules(rules)
	}
	return &Rules{rules: rules, table: t, resource: resource}
}

// directRules returns the rules for the fields that objects of a resource have themselves.
func (t *Table) directRules(resource schema.GroupVersionResource) []Rule {
	rules := slices.Concat(builtInFor(resource.GroupResource()), t.everywhere)
	var elsewhere []Rule // excluded in other versions
	for _, e := range t.byResource[resource.GroupResource()] {
		switch {
		case e.versions.Len() == 0 || e.versions.Has(resource.Version):
			rules = append(rules, e.rule)
		case e.rule.excluded && !e.only:
			elsewhere = append(elsewhere, e.rule)
		}
	}
	for _, r := range elsewhere {
		here := func(other Rule) bool { return other.excluded && other.permission == r.permission }
		if !slices.ContainsFunc(rules, here) {
			rules = append(rules, r.withoutPath(versionName(resource.Version)))
		}
	}
	sortRules(rules)
	breakContradictions(rules)
	return rules
}

// versionName names a version in a reason.
func versionName(version string) string {
	if version == unnamedVersion {
		return "this version"
	}
	return "version " + version
}

// sortRules orders rules from general to specific: first those with the shorter pattern.
func sortRules(rules []Rule) {
	slices.SortStableFunc(rules, func(a, b Rule) int {
		if c := cmp.Compare(len(a.pattern), len(b.pattern)); c != 0 {
			return c
		}
		for i := range a.pattern {
			if c := cmp.Compare(a.pattern[i].kind, b.pattern[i].kind); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.String()+a.source, b.String()+b.source)
	})
}

func breakContradictions(rules []Rule) {
	first := map[string]int{}
	for i := range rules {
		if len(rules[i].pattern) == 0 {
			continue
		}
		text := rules[i].pattern.String()
		j, ok := first[text]
		switch {
		case !ok:
			first[text] = i
		case rules[i].grants() != rules[j].grants():
			contradiction := contradictionOf(&rules[j], &rules[i])
			for k := range rules {
				if rules[k].pattern.String() == text && rules[k].broken == "" {
					rules[k].broken = contradiction
				}
			}
		}
	}
}

// Source holds the current Table. Its zero value has no Table and no markers. Until mappings are published,
// permission on fields allows nothing, and authorizers must deny all writes, because every field may be excluded. While
// the mappings may be out of date, excluded fields stay excluded, and permission on fields allows nothing. It is safe for
// concurrent use.
type Source struct {
	freshness.Source[Table]
	markers *Markers
}

// NewSource makes a Source with the markers in schemas. They take effect when mappings are published.
func NewSource(markers *Markers) *Source { return &Source{markers: markers} }

// Publish replaces the Table by a new one with the markers and the given mappings.
func (s *Source) Publish(mappings ...*policy.FieldPermissionMapping) {
	s.Store(s.markers.NewTable(mappings...))
}

// Table returns the current Table, or nil if no mappings have been published.
func (s *Source) Table() *Table { return s.Current() }

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
