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
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	// everywhere are the rules of broken mappings that do not say which resources they are for.
	everywhere []Rule
	// invalid has the reasons why mappings are invalid, by the source of their rules.
	invalid  map[string]string
	excludes bool
	digest   string
}

// entry is a rule of a mapping for a resource.
type entry struct {
	versions sets.Set[string] // empty means all
	rule     Rule
	// only says that the rule is about no other version, not even to exclude all of its fields: another server has them.
	only bool
}

// NewTable makes a table of mappings. A mapping that is not valid grants nothing, and if it excludes
// fields, its resources cannot be written at all, because it is not known which fields it protects.
func NewTable(mappings ...*policy.FieldPermissionMapping) *Table {
	return (*Markers)(nil).NewTable(mappings...)
}

// NewTable makes a table of markers and mappings, for which the function NewTable has the
// rules. The receiver may be nil, which is no markers.
func (m *Markers) NewTable(mappings ...*policy.FieldPermissionMapping) *Table {
	t := &Table{byResource: map[schema.GroupResource][]entry{}, invalid: map[string]string{}}
	hash := sha256.New()
	for _, marked := range m.all() {
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

// withOtherGroup adds to the resources of a mapping the reviews in the other of their two groups, unless the mapping names them.
// In authorization.k8s.io these are the reviews of the version that has the same kinds: kube-apiserver serves the others.
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

// add adds a rule for versions of a resource, for all if there are none.
func (t *Table) add(hash io.Writer, of schema.GroupResource, versions []string, only bool, r Rule) {
	t.byResource[of] = append(t.byResource[of], entry{versions: sets.New(versions...), rule: r, only: only})
	t.excludes = t.excludes || r.excluded
	_, _ = fmt.Fprintf(hash, "%q %q %s %s\n", of, versions, r.source, &r)
}

// Digest is the same for tables with the same rules, in any process.
func (t *Table) Digest() string { return t.digest }

// sourceOf names a mapping, as rules do.
func sourceOf(mapping string) string { return fmt.Sprintf("FieldPermissionMapping %q", mapping) }

// Excludes reports whether fields of a resource in a version, or in any if it is * or empty, are excluded from
// what permission on the whole object includes. The group and the resource may be *, too.
func (t *Table) Excludes(resource schema.GroupVersionResource) bool {
	if resource.Group == wildcard || resource.Resource == wildcard {
		return t.excludes
	}
	return len(t.everywhere) > 0 || slices.ContainsFunc(t.byResource[resource.GroupResource()], func(e entry) bool {
		return e.rule.excluded && (!e.only || resource.Version == wildcard || resource.Version == "" || e.versions.Has(resource.Version))
	})
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

// brokenRules returns a rule that excludes every field, if an invalid mapping excludes any.
func brokenRules(m *policy.FieldPermissionMapping, err error) []Rule {
	excludes := func(f policy.FieldPermission) bool { return f.Exclusion != nil }
	if !slices.ContainsFunc(m.Spec.Fields, excludes) {
		return nil
	}
	source := sourceOf(m.Name)
	return []Rule{{excluded: true, source: source, broken: fmt.Sprintf("%s is not valid: %s", source, shorten(err.Error()))}}
}

// Rules are the permissions that the fields of a resource need, in one version. They do not change, and
// are safe for concurrent use.
type Rules struct {
	rules []Rule // the general before the specific

	table    *Table
	resource schema.GroupVersionResource
	mu       sync.Mutex
	versions map[string]*Rules // of the versions that mappings name, and unnamedVersion
}

// unnamedVersion stands for all versions that no mapping of a resource names.
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

// InVersion returns the rules for the fields of the resource in another version, of the form
// group/version. The empty version is the version of the rules. A version of another group is one that
// no mapping names, so that everything in it needs the excluded permissions. The rules of a version, and
// the rules of all versions that no mapping names, are made once.
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

// namedVersions returns a map whose keys are the versions of a resource that mappings name. Its values are nil: the
// caller computes the rules of a version when it needs them.
func (t *Table) namedVersions(of schema.GroupResource) map[string]*Rules {
	versions := map[string]*Rules{}
	for _, e := range t.byResource[of] {
		for version := range e.versions {
			versions[version] = nil
		}
	}
	return versions
}

// For returns the permissions that the fields of a resource need. Rules that contradict each other cover
// nothing.
func (t *Table) For(resource schema.GroupVersionResource) *Rules {
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
			rules = append(rules, r.inOtherVersion(resource.Version))
		}
	}
	sortRules(rules)
	breakContradictions(rules)
	return &Rules{rules: rules, table: t, resource: resource}
}

// inOtherVersion returns the exclusion for a version that no mapping names. The field may have any name
// there, so that every change needs the permission.
func (r Rule) inOtherVersion(version string) Rule {
	everything := Rule{permission: r.permission, excluded: true, source: r.source, broken: r.broken}
	if r.broken == "" && r.parameter != nil {
		here := "version " + version
		if version == unnamedVersion {
			here = "this version"
		}
		everything.broken = fmt.Sprintf("%s excludes a field, but has no path for it in %s", r.source, here)
	}
	return everything
}

// sortRules puts the general before the specific.
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

// Source holds the current Table. Its zero value has none yet, and no markers. Until mappings are
// published, permission on fields allows nothing, and all writes may be excluded. While the mappings may be out of
// date, excluded fields stay excluded, and permission on fields allows nothing. It is safe for concurrent use.
type Source struct {
	freshness.Source[Table]
	markers *Markers
}

// NewSource makes a Source with the markers in schemas. They take effect when mappings are published.
func NewSource(markers *Markers) *Source { return &Source{markers: markers} }

// Publish replaces the Table by a new one of the markers and these mappings.
func (s *Source) Publish(mappings ...*policy.FieldPermissionMapping) {
	s.Store(s.markers.NewTable(mappings...))
}

// Table returns the current Table, nil if none has been loaded.
func (s *Source) Table() *Table { return s.Current() }
