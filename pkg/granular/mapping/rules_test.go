/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// fields is a path of field names.
func fields(names ...string) (path fieldpath.Path) {
	for _, n := range names {
		path = append(path, name(n))
	}
	return path
}

// ownRules returns the rules for machines of a table that are not built in.
func ownRules(t *mapping.Table) (rules []*mapping.Rule) {
	for rule := range t.For(things.Machines).All() {
		if strings.Contains(rule.String(), "mine") {
			rules = append(rules, rule)
		}
	}
	return rules
}

// TestPatternsMatch compares the pattern of a rule with the paths of fields: with the field itself, with fields in it,
// and with fields that it is in.
func TestPatternsMatch(t *testing.T) {
	t.Parallel()
	const covered, within, apart = "covered", "within", "apart"
	type row struct {
		Pattern string
		Path    []string
		Want    string
	}
	rows.Run(t, "testdata/patterns.yaml", func(t *testing.T, tc row) {
		path := parsedPath(t, tc.Path)
		rules := ownRules(mapping.NewTable(things.Mapping("m", things.Spec(things.Field(tc.Pattern, "mine")))))
		if len(rules) != 1 {
			t.Fatalf("got %d rules", len(rules))
		}
		got := apart
		switch r := rules[0]; {
		case r.Matches(path) && r.Includes(path) && !r.IsWithin(path):
			got = covered
		case !r.Matches(path) && !r.Includes(path) && r.IsWithin(path):
			got = within
		case r.Matches(path) || r.Includes(path) || r.IsWithin(path):
			got = "both"
		}
		if got != tc.Want {
			t.Errorf("got %s, want %s", got, tc.Want)
		}
	})
}

// TestFieldAt names the one field that a rule is about, for messages and for the values of exclusions.
func TestFieldAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, pattern string
		path          fieldpath.Path
		want          string
		wantNone      bool
	}{
		{name: "the field", pattern: "spec.a", path: fields("spec", "a"), want: "spec.a"},
		{name: "in the field", pattern: "spec.a", path: fields("spec", "a", "b"), want: "spec.a"},
		{name: "above the field", pattern: "spec.a.b", path: fields("spec"), want: "spec.a.b"},
		{name: "an element", pattern: "spec.m[*]", path: fields("spec", "m", "x", "y"), want: "spec.m.x"},
		{name: "above every element", pattern: "spec.m[*]", path: fields("spec"), wantNone: true},
		{name: "above one key", pattern: `spec.m["x.y"]`, path: fields("spec"), want: `spec.m["x.y"]`},
		{name: "above one element with a key", pattern: `spec.m[type="Ready"]`, path: fields("spec"), wantNone: true},
	} {
		rule := ownRules(mapping.NewTable(things.Mapping("m", things.Spec(things.Field(tc.pattern, "mine")))))[0]
		before := tc.path.Copy()
		field, ok := rule.FieldAt(tc.path)
		if ok == tc.wantNone || ok && changes.NameOf(field) != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.name, changes.NameOf(field), ok, tc.want)
		}
		if !before.Equals(tc.path) {
			t.Errorf("%s: the path has changed to %s", tc.name, tc.path)
		}
	}
}

// TestGeneralRulesComeFirst has the order in which permissions are tried, and in which a user sees them, whatever the
// order of the mappings.
func TestGeneralRulesComeFirst(t *testing.T) {
	t.Parallel()
	a := things.Mapping("a", things.Spec(things.Field(`spec.m["x"].f`, "mineKey"), things.Field("spec.m", "mineMap")))
	b := things.Mapping("b", things.Spec(things.Field(`spec.m[type="x"].f`, "mineElement"), things.Field("spec.m[*].f", "mineEach"), things.Field("spec.m[*]", "mineAny")))
	want := []string{"mineMap", "mineAny", "mineEach", "mineElement", "mineKey"}
	for _, mappings := range [][]*policy.FieldPermissionMapping{{a, b}, {b, a}} {
		var got []string
		for _, rule := range ownRules(mapping.NewTable(mappings...)) {
			verb, err := rule.Verb(t.Context(), nil, free)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(verb, "granular:"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestExcludesAnything reports whether permission on the whole object may be too little for a resource. A request about
// any resource is about those with exclusions, too.
func TestExcludesAnything(t *testing.T) {
	t.Parallel()
	machines, pods := things.Machines.GroupResource(), schema.GroupResource{Resource: "pods"}
	includes, excludes := things.Mapping("includes", things.Spec(things.Field("spec.a", "mine"))), things.Mapping("excludes", things.Spec(things.Excluded("spec.b", "mineB", "")))
	broken := things.Mapping("broken", things.Spec(things.Excluded("spec..", "mineC", "")))
	nowhere := things.Mapping("nowhere", things.Spec(things.Excluded("spec.d", "mineD", "")))
	nowhere.Spec.Resources = nil
	for _, tc := range []struct {
		name     string
		mappings []*policy.FieldPermissionMapping
		resource schema.GroupResource
		want     bool
	}{
		{name: "no mapping", resource: machines},
		{name: "no mapping, any resource", resource: schema.GroupResource{Group: "*", Resource: "*"}},
		{name: "a mapping that excludes nothing", mappings: []*policy.FieldPermissionMapping{includes}, resource: machines},
		{name: "an exclusion", mappings: []*policy.FieldPermissionMapping{includes, excludes}, resource: machines, want: true},
		{name: "another resource", mappings: []*policy.FieldPermissionMapping{excludes}, resource: pods},
		{name: "the same resource of another group", mappings: []*policy.FieldPermissionMapping{excludes}, resource: schema.GroupResource{Group: "other.example.com", Resource: machines.Resource}},
		{name: "any group", mappings: []*policy.FieldPermissionMapping{excludes}, resource: schema.GroupResource{Group: "*", Resource: "pods"}, want: true},
		{name: "any resource", mappings: []*policy.FieldPermissionMapping{excludes}, resource: schema.GroupResource{Resource: "*"}, want: true},
		{name: "an exclusion that is not valid", mappings: []*policy.FieldPermissionMapping{broken}, resource: machines, want: true},
		{name: "an exclusion that is not valid, of another resource", mappings: []*policy.FieldPermissionMapping{broken}, resource: pods},
		{name: "an exclusion of no resource, which may be of any", mappings: []*policy.FieldPermissionMapping{nowhere}, resource: pods, want: true},
	} {
		if got := mapping.NewTable(tc.mappings...).Excludes(tc.resource.WithVersion("v1")); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// sufficient returns the verbs that suffice, each alone, to change a field, in the order in which they are checked. A rule that covers the
// field and has no verb for it is in the list with its error.
func sufficient(t *testing.T, rules *mapping.Rules, field fieldpath.Path) (verbs []string) {
	t.Helper()
	for rule := range rules.All() {
		if !rule.Includes(field) {
			continue
		}
		verb, err := rule.Verb(t.Context(), field, free)
		if err != nil {
			verb = "error: " + err.Error()
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

// TestBuiltInPermissions has the table of docs/fine-grained.md, by changes of fields. A permission on a field includes all fields in it, and the
// general permission comes first.
func TestBuiltInPermissions(t *testing.T) {
	t.Parallel()
	type row struct {
		Resource string // such as pods.v1.example.com; machines if it is not given
		Field    []string
		Want     []string
	}
	rows.Run(t, "testdata/builtin.yaml", func(t *testing.T, tc row) {
		resource := things.Machines
		if tc.Resource != "" {
			parsed, _ := schema.ParseResourceArg(tc.Resource)
			resource = *parsed
		}
		if diff := cmp.Diff(tc.Want, sufficient(t, mapping.NewTable().For(resource), parsedPath(t, tc.Field))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// parsedPath is a path of names of fields, and of elements of lists as managed fields have them, which begin with k:, v: or i:.
func parsedPath(t *testing.T, elements []string) (path fieldpath.Path) {
	t.Helper()
	for _, text := range elements {
		if kind, _, _ := strings.Cut(text, ":"); !slices.Contains([]string{"k", "v", "i"}, kind) {
			text = "f:" + text
		}
		e, err := fieldpath.DeserializePathElement(text)
		if err != nil {
			t.Fatal(err)
		}
		path = append(path, e)
	}
	return path
}

// TestBuiltInIsListed checks what the list of built-in permissions says about each. docs/permissions.md is generated from it.
func TestBuiltInIsListed(t *testing.T) {
	t.Parallel()
	listed := mapping.ListBuiltIn()
	if len(listed) < 10 {
		t.Errorf("only %d permissions are listed", len(listed))
	}
	for _, l := range listed {
		if l.Excluded {
			t.Errorf("%s is excluded: without mappings, permission on the whole object must suffice", l.Field)
		}
		if hasParameter := strings.HasSuffix(l.Verb, "(…)"); hasParameter != (l.Parameter != "") || hasParameter != strings.HasSuffix(l.Field, "[*]") {
			t.Errorf("%s: the verb %s does not fit the parameter %q", l.Field, l.Verb, l.Parameter)
		}
	}
}
