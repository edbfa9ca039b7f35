/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

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
