/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// naiveRule is a mapping with one field, of which the permission tag has a parameter.
type naiveRule struct {
	name, path, permission string
	prefix, excluded       bool
	versions               []string
}

func (r naiveRule) mapping() *policy.FieldPermissionMapping {
	f := things.Field(r.path, r.permission)
	if r.permission == "tag" {
		f.Parameter = &policy.FieldPermissionParameter{}
		if r.prefix {
			f.Parameter.Treatment = policy.ParameterTreatmentSlashDelimitedPrefix
		}
	}
	if r.excluded {
		f.Exclusion = &policy.FieldExclusion{}
	}
	return things.Mapping(r.name, things.Spec(f), r.versions...)
}

func (r naiveRule) isIn(version string) bool {
	return len(r.versions) == 0 || slices.Contains(r.versions, version)
}

// covers compares texts of paths, with * for every key.
func (r naiveRule) covers(field []string) bool {
	pattern := strings.Split(strings.ReplaceAll(r.path, "[*]", ".*"), ".")
	if len(pattern) > len(field) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != field[i] {
			return false
		}
	}
	return true
}

func (r naiveRule) verb(field []string) string {
	if r.permission != "tag" {
		return "granular:" + r.permission
	}
	key := field[len(field)-1]
	if r.prefix {
		key, _, _ = strings.Cut(key, "/")
	}
	return "granular:tag(" + key + ")"
}

// naiveNeeds has the rules of docs/fine-grained.md as sentences: what a change of a field in a version needs. An exclusion of another version holds
// for every change, unless the permission is excluded in this version, too. Of rules that contradict each other none has a verb.
func naiveNeeds(rules []naiveRule, version string, field []string) (needs []string) {
	excludedHere := map[string]bool{}
	for _, r := range rules {
		if r.isIn(version) {
			excludedHere[r.permission] = excludedHere[r.permission] || r.excluded
		}
	}
	for _, r := range rules {
		switch {
		case r.isIn(version) && r.covers(field):
			verb := r.verb(field)
			if slices.ContainsFunc(rules, func(other naiveRule) bool {
				return other.isIn(version) && other.path == r.path && (other.permission != r.permission || r.permission == "tag" && other.prefix != r.prefix)
			}) {
				verb = "none"
			}
			needs = append(needs, fmt.Sprintf("%s includes, excludes %v", verb, r.excluded))
		case !r.isIn(version) && r.excluded && !excludedHere[r.permission]:
			verb := "granular:" + r.permission
			if r.permission == "tag" {
				verb = "none" // no field gives the parameter
			}
			needs = append(needs, verb+" excludes everything")
		}
	}
	if field[0] == "spec" {
		needs = append(needs, "granular:specification includes, excludes false")
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// TestTablesOfRandomMappings compares tables with the rules of the documentation. Versions, contradictions and exclusions meet in all ways.
func TestTablesOfRandomMappings(t *testing.T) {
	t.Parallel()
	probes := [][]string{{"spec", "a"}, {"spec", "a", "b"}, {"spec", "m"}, {"spec", "m", "k"}, {"spec", "m", "k/x"}, {"spec", "c"}, {"data"}}
	seen := map[string]int{}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test must be repeatable
		var rules []naiveRule
		var mappings []*policy.FieldPermissionMapping
		for i := range 1 + r.IntN(5) {
			rule := naiveRule{name: fmt.Sprintf("m%d", i), excluded: r.IntN(2) == 0, prefix: r.IntN(3) == 0}
			if rule.permission = []string{"one", "two", "tag"}[r.IntN(3)]; rule.permission == "tag" {
				rule.path = "spec.m[*]"
			} else {
				rule.path = []string{"spec.a", "spec.a.b", "spec.m", "spec.m[*]", "spec.m.k"}[r.IntN(5)]
			}
			for _, version := range []string{"v1", "v2"} {
				if r.IntN(2) == 0 {
					rule.versions = append(rule.versions, version)
				}
			}
			rules, mappings = append(rules, rule), append(mappings, rule.mapping())
		}
		r.Shuffle(len(mappings), func(i, j int) { mappings[i], mappings[j] = mappings[j], mappings[i] })
		table := mapping.NewTable(mappings...)
		for _, version := range []string{"v1", "v2", "v3"} {
			of := table.For(things.Machines.GroupResource().WithVersion(version))
			for _, probe := range probes {
				want := naiveNeeds(rules, version, probe)
				if diff := cmp.Diff(want, needsOf(t, of, probe)); diff != "" {
					t.Fatalf("seed %d, %s in %s (-naive +got):\n%s\nrules %+v", seed, probe, version, diff, rules)
				}
				for _, need := range want {
					seen[need]++
				}
			}
		}
		if want := slices.ContainsFunc(rules, func(r naiveRule) bool { return r.excluded }); table.Excludes(things.Machines) != want {
			t.Errorf("seed %d: excludes %v, want %v", seed, !want, want)
		}
	}
	for _, need := range []string{
		"none includes, excludes true", "none includes, excludes false", "none excludes everything", "granular:one excludes everything",
		"granular:tag(k) includes, excludes true", "granular:tag(k/x) includes, excludes false",
	} {
		if seen[need] < 10 {
			t.Errorf("%q was compared %d times only, so that the test proves little", need, seen[need])
		}
	}
}

func needsOf(t *testing.T, rules *mapping.Rules, probe []string) (needs []string) {
	t.Helper()
	field := fields(probe...)
	for rule := range rules.All() {
		if !rule.Matches(field) {
			continue
		}
		verb, err := rule.Verb(t.Context(), field, free)
		if err != nil {
			verb = "none"
		}
		switch {
		case rule.Includes(field):
			needs = append(needs, fmt.Sprintf("%s includes, excludes %v", verb, rule.Excludes()))
		case rule.Excludes():
			needs = append(needs, verb+" excludes everything")
		default:
			needs = append(needs, verb+" means nothing")
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// TestInvalidMappings grant nothing. If they exclude a field, every change of their resources is excluded, by a rule that has no verb.
func TestInvalidMappings(t *testing.T) {
	t.Parallel()
	good, bad := things.Field("spec.a", "alpha"), things.Field("spec..", "beta")
	excluded := things.Excluded("spec.b", "bravery", "")
	everywhere := func(m *policy.FieldPermissionMapping) { m.Spec.Resources = nil }
	v2 := func(m *policy.FieldPermissionMapping) { m.Spec.Resources[0].APIVersions = []string{"v2"} }
	const closed = `FieldPermissionMapping "m" is not valid: `
	for _, tc := range []struct {
		name   string
		fields []policy.FieldPermission
		change func(*policy.FieldPermissionMapping)
		// want and wantOther are what a change of spec.a needs beside granular:specification, of a machine and of another resource.
		want, wantOther string
	}{
		{name: "valid", fields: []policy.FieldPermission{good}, want: "granular:alpha"},
		{name: "not valid", fields: []policy.FieldPermission{good, bad}},
		{name: "not valid, with an exclusion", fields: []policy.FieldPermission{good, bad, excluded}, want: closed + "spec.fields[1].path: Invalid value"},
		{name: "not valid, with an exclusion of another version", fields: []policy.FieldPermission{bad, excluded}, change: v2, want: closed + "spec.fields[0].path: Invalid value"},
		{name: "not valid, of another version", fields: []policy.FieldPermission{good, bad}, change: v2},
		{name: "of no resource", fields: []policy.FieldPermission{good}, change: everywhere},
		{
			name: "an exclusion of no resource", fields: []policy.FieldPermission{excluded}, change: everywhere,
			want: closed + "spec.resources: Required value", wantOther: closed + "spec.resources: Required value",
		},
		{
			name: "not valid, and an exclusion of no resource", fields: []policy.FieldPermission{bad, excluded}, change: everywhere,
			want: closed + "spec.fields[0].path", wantOther: closed + "spec.fields[0].path",
		},
		{name: "an exclusion whose values are not valid", fields: []policy.FieldPermission{things.Excluded("spec.b", "bravery", "value ==")}, want: closed + "spec.fields[0].exclusion.newValues"},
		{name: "no field", fields: nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := things.Mapping("m", things.Spec(tc.fields...))
			if tc.change != nil {
				tc.change(m)
			}
			table := mapping.NewTable(m)
			for resource, want := range map[schema.GroupVersionResource]string{
				things.Machines: tc.want, {Group: "other.example.com", Version: "v1", Resource: "machines"}: tc.wantOther,
			} {
				var got []string
				for rule := range table.For(resource).All() {
					if at := fields("spec", "a"); rule.Matches(at) && !strings.Contains(rule.String(), "specification") {
						verb, err := rule.Verb(t.Context(), at, free)
						if err != nil {
							verb = err.Error()
						}
						if isClosed := strings.HasPrefix(verb, closed); isClosed != rule.Excludes() || isClosed == rule.Includes(at) || isClosed && rule.LimitsValues() {
							t.Errorf("%s: the rule of %q includes %v, excludes %v", resource, verb, rule.Includes(at), rule.Excludes())
						}
						got = append(got, verb)
					}
				}
				if len(got) > 1 || (len(got) == 0) != (want == "") || len(got) == 1 && !strings.HasPrefix(got[0], want) {
					t.Errorf("%s: got %q, want %q", resource, got, want)
				}
				if table.Excludes(resource) != strings.HasPrefix(want, closed) {
					t.Errorf("%s: excludes %v", resource, table.Excludes(resource))
				}
			}
		})
	}
}

// TestSchemasAndMappingsInOtherVersions has an exclusion in a schema, and mappings that name the field in other versions, or do not.
func TestSchemasAndMappingsInOtherVersions(t *testing.T) {
	t.Parallel()
	markers, err := readMarkers(t, specOf("boom: {type: boolean, (verb: selfDestruction, (excluded: true}"))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Mappings []things.MappingRow
		Version  string
		Field    []string
		Want     string // what is excluded
	}
	rows.Run(t, "testdata/otherversions.yaml", func(t *testing.T, tc row) {
		var got []string
		for rule := range markers.NewTable(things.Mappings(tc.Mappings)...).For(things.Machines.GroupResource().WithVersion(tc.Version)).All() {
			if at := fields(tc.Field...); rule.Excludes() && rule.Matches(at) {
				verb, err := rule.Verb(t.Context(), at, free)
				got = append(got, verb)
				if err != nil {
					t.Error(err)
				}
			}
		}
		if diff := cmp.Diff(tc.Want, strings.Join(got, " ")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRulesOfNoTable are what the zero value of Rules has: no rule, in every version.
func TestRulesOfNoTable(t *testing.T) {
	t.Parallel()
	rules := &mapping.Rules{}
	if rules.InVersion("example.com/v2") != rules || rules.InVersion("") != rules {
		t.Error("rules of no table have rules of another version")
	}
	for rule := range rules.All() {
		t.Errorf("got the rule %s", rule)
	}
}

// TestSource publishes mappings one after the other. Rules that a request has taken stay as they were.
func TestSource(t *testing.T) {
	t.Parallel()
	markers, err := readMarkers(t, specOf("boom: {type: boolean, (verb: selfDestruction}"))
	if err != nil {
		t.Fatal(err)
	}
	source, boom, tag := mapping.NewSource(markers), fields("spec", "boom"), fields("spec", "tag")
	if source.Table() != nil || (&mapping.Source{}).Table() != nil {
		t.Fatal("there is a table before mappings are published, by which fields that they exclude would be open")
	}
	source.Publish()
	first := source.Table().For(things.Machines)
	source.Publish(things.Mapping("m", things.Spec(things.Field("spec.tag", "label2"))))
	second := source.Table().For(things.Machines)
	source.Publish()
	third := source.Table().For(things.Machines)
	for name, tc := range map[string]struct {
		rules   *mapping.Rules
		wantTag []string
	}{
		"before the mapping": {rules: first, wantTag: []string{"granular:specification"}},
		"with the mapping":   {rules: second, wantTag: []string{"granular:specification", "granular:label2"}},
		"after the mapping":  {rules: third, wantTag: []string{"granular:specification"}},
	} {
		if diff := cmp.Diff(tc.wantTag, sufficient(t, tc.rules, tag)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]string{"granular:specification", "granular:selfDestruction"}, sufficient(t, tc.rules, boom)); diff != "" {
			t.Errorf("%s, the field of the schema (-want +got):\n%s", name, diff)
		}
	}
}

// TestIterationEnds ends the iteration over rules early, as a caller does that has found a sufficient permission.
func TestIterationEnds(t *testing.T) {
	t.Parallel()
	rules, seen := mapping.NewTable().For(things.Machines), 0
	for range rules.All() {
		if seen++; seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("got %d rules, want 2", seen)
	}
}

// TestRulesInVersions: rules are made once for each version that a mapping names, and once for all others.
func TestRulesInVersions(t *testing.T) {
	t.Parallel()
	tagged := policy.FieldPermission{Path: "spec.tags[*]", Permission: "tag", Parameter: &policy.FieldPermissionParameter{}, Exclusion: &policy.FieldExclusion{}}
	table := mapping.NewTable(
		things.Mapping("old", things.Spec(things.Excluded("spec.boom", "selfDestruction", "")), "v1", "v2"), things.Mapping("new", things.Spec(tagged), "v3"),
	)
	rules := table.For(things.Machines)
	const (
		boom      = "granular:selfDestruction"
		notIn     = `FieldPermissionMapping "new" excludes a field, but has no path for it in `
		notHere   = notIn + "this version"
		everyBoom = boom + "; " + notHere
	)
	for _, tc := range []struct {
		name           string
		version, equal string // have the same rules
		path           []any
		want           string // what a change of the field needs
	}{
		{name: "of the request", version: "", equal: "", path: []any{"spec", "boom"}, want: notIn + "version v1; " + boom},
		{name: "the same, by name", version: "example.com/v1", equal: "example.com/v1", path: []any{"spec", "boom"}, want: notIn + "version v1"},
		{name: "another one", version: "example.com/v2", equal: "example.com/v2", path: []any{"spec", "boom"}, want: notIn + "version v2"},
		{name: "a third one", version: "example.com/v3", equal: "example.com/v3", path: []any{"spec", "tags", "x"}, want: boom + "; granular:tag(x)"},
		{name: "unknown", version: "example.com/v4", equal: "example.com/v5", path: []any{"spec", "a"}, want: everyBoom},
		{name: "of another group", version: "other.com/v1", equal: "example.com/v4", path: []any{"spec", "a"}, want: everyBoom},
		{name: "of the core group", version: "v1", equal: "other.com/v1", path: []any{"spec", "a"}, want: everyBoom},
		{name: "of no name", version: "example.com/", equal: "/", path: []any{"spec", "a"}, want: everyBoom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var made [8]*mapping.Rules
			var running sync.WaitGroup
			for i := range made {
				running.Go(func() { made[i] = rules.InVersion([]string{tc.version, tc.equal}[i%2]) })
			}
			running.Wait()
			if slices.ContainsFunc(made[:], func(r *mapping.Rules) bool { return r != made[0] }) {
				t.Error("the rules were made several times")
			}
			var needed []string
			path := fieldpath.MakePathOrDie(tc.path...)
			for r := range made[0].All() {
				if !r.Excludes() || !r.Matches(path) {
					continue
				}
				verb, err := r.Verb(t.Context(), path, nil)
				if err != nil {
					verb = err.Error()
				}
				needed = append(needed, verb)
			}
			if got := strings.Join(needed, "; "); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestVersionsOfTheCoreGroup has versions without a group, and versions of other groups that look like them.
func TestVersionsOfTheCoreGroup(t *testing.T) {
	t.Parallel()
	m := things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", "")), "v1")
	m.Spec.Resources[0].APIGroup, m.Spec.Resources[0].Resource = "", "bombs"
	rules := mapping.NewTable(m).For(schema.GroupVersionResource{Version: "v1", Resource: "bombs"})
	for _, tc := range []struct {
		version string
		want    bool // another field may be changed without the permission
	}{
		{version: "v1", want: true},
		{version: "", want: true},
		{version: "v2"},
		{version: "/v1", want: true},
		{version: "v1/"},
		{version: "example.com/v1"},
		{version: "v1/v1"},
		{version: "//v1"},
	} {
		free := true
		for rule := range rules.InVersion(tc.version).All() {
			free = free && (!rule.Excludes() || !rule.Matches(fields("spec", "color")))
		}
		if free != tc.want {
			t.Errorf("%q: another field is free: %v, want %v", tc.version, free, tc.want)
		}
	}
}
