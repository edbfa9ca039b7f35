/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	type row struct {
		Mappings []things.MappingRow
		Want     map[string]mapping.Problem // a part of the reason
	}
	rows.Run(t, "testdata/problems.yaml", func(t *testing.T, tc row) {
		problems := mapping.NewTable(things.Mappings(tc.Mappings)...).Problems()
		for name, want := range tc.Want {
			got := problems(name)
			if got.Invalid != want.Invalid || !strings.Contains(got.Reason, want.Reason) || (got.Reason == "") != (want.Reason == "") {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		}
	})
}

// TestProblemsAreShort has a problem whose message quotes a path as long as an author can make one. It is cut between letters.
func TestProblemsAreShort(t *testing.T) {
	t.Parallel()
	for _, path := range []string{strings.Repeat("ß", 512), "a" + strings.Repeat("ß", 511), strings.Repeat("x", 1025)} {
		m := things.Mapping("m", things.Spec(things.Field(path, "words")))
		got := mapping.NewTable(m).Problems()("m")
		length := len(got.Reason)
		if !got.Invalid || length < 511 || length > 512 || !strings.HasSuffix(got.Reason, "…") || !utf8.ValidString(got.Reason) {
			t.Errorf("got a reason of %d bytes, %q", length, got.Reason)
		}
	}
}

// TestProblemsNameTheFirstContradiction has mappings that contradict each other in several resources, fields and versions: every process must
// write the same reason into the status.
func TestProblemsNameTheFirstContradiction(t *testing.T) {
	t.Parallel()
	in := func(name, permission string, resources ...string) *policy.FieldPermissionMapping {
		m := things.Mapping(name, things.Spec(things.Field("spec.b", permission), things.Field("spec.a", permission+"A")))
		m.Spec.Resources = nil
		for _, r := range resources {
			m.Spec.Resources = append(m.Spec.Resources, policy.FieldPermissionResource{APIGroup: "example.com", Resource: r})
		}
		return m
	}
	one, other := in("one", "words", "machines", "disks"), in("other", "terms", "disks", "machines")
	third := in("third", "words", "machines")
	want := map[string]string{
		"one":   `in disks.example.com, spec.b has permission "words" by FieldPermissionMapping "one" and "terms" by FieldPermissionMapping "other"`,
		"other": `in disks.example.com, spec.b has permission "terms" by FieldPermissionMapping "other" and "words" by FieldPermissionMapping "one"`,
		"third": `in machines.example.com, spec.b has permission "words" by FieldPermissionMapping "third" and "terms" by FieldPermissionMapping "other"`,
	}
	for _, order := range [][]*policy.FieldPermissionMapping{{one, other, third}, {third, other, one}, {other, one, third}} {
		problems := mapping.NewTable(order...).Problems()
		for name, reason := range want {
			if diff := cmp.Diff(mapping.Problem{Reason: reason}, problems(name)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestProblemsOfOneVersion has three mappings for one field. Those that apply in a version where nothing contradicts them have no problem.
func TestProblemsOfOneVersion(t *testing.T) {
	t.Parallel()
	words, terms := things.Spec(things.Field("spec.tags", "words")), things.Spec(things.Field("spec.tags", "terms"))
	problems := mapping.NewTable(
		things.Mapping("old", words, "v1"), things.Mapping("new", words, "v2"), things.Mapping("newTerms", terms, "v2"), things.Mapping("next", terms, "v3"),
		things.Mapping("broken", things.Spec(things.Excluded("spec..", "w", "")), "v1"), // its rule has no path, and contradicts nothing
		things.Mapping("alsoBroken", things.Spec(things.Excluded("spec..", "t", ""))),
	).Problems()
	for name, want := range map[string]string{"old": "", "new": "newTerms", "newTerms": "new", "next": ""} {
		got := problems(name)
		if got.Invalid || (got.Reason == "") != (want == "") || !strings.Contains(got.Reason, fmt.Sprintf("%q", want)) && want != "" {
			t.Errorf("%s: got %+v, want a contradiction to %q", name, got, want)
		}
		if strings.Contains(got.Reason, "with different parameters") {
			t.Errorf("%s: got %q, although the permissions differ", name, got.Reason)
		}
	}
	for _, name := range []string{"broken", "alsoBroken"} {
		if got := problems(name); !got.Invalid || strings.Contains(got.Reason, " by ") {
			t.Errorf("%s: got %+v, want that it is invalid", name, got)
		}
	}
}

// TestProblemsWithSchemas has a mapping that contradicts a schema, in the version of the schema only.
func TestProblemsWithSchemas(t *testing.T) {
	t.Parallel()
	markers, err := readMarkers(t, specOf("tags: {type: string, (verb: words}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, permission, version, want string
	}{
		{name: "the same permission", permission: "words", version: "v1"},
		{name: "another permission", permission: "terms", version: "v1", want: `"terms" by FieldPermissionMapping "m" and "words" by the schema of Thing in example.com/v1`},
		{name: "another permission in another version", permission: "terms", version: "v2"},
	} {
		m := things.Mapping("m", things.Spec(things.Field("spec.tags", tc.permission)), tc.version)
		table := markers.NewTable(m)
		if got := table.Problems()("m"); got.Invalid || (got.Reason == "") != (tc.want == "") || !strings.Contains(got.Reason, tc.want) {
			t.Errorf("%s: got %+v, want %q", tc.name, got, tc.want)
		}
		covered := slices.ContainsFunc(sufficient(t, table.For(things.Machines), fields("spec", "tags")), func(verb string) bool { return verb == "granular:words" })
		if covered != (tc.want == "") {
			t.Errorf("%s: the schema covers the field: %v, want %v", tc.name, covered, tc.want == "")
		}
	}
}

// TestProblemsOfAnotherKeyInThePath has a schema and a mapping with the same path and permission, of which one takes the outer key as the parameter and the
// other the inner one: the verb would mean two things.
func TestProblemsOfAnotherKeyInThePath(t *testing.T) {
	t.Parallel()
	const document = "a: {type: object, (source: outer, additionalProperties: {type: object, (source: inner, additionalProperties: {type: string, (verb: cell, (by: %s}}}"
	for by, want := range map[string]string{
		"inner": "granular:cell(y)",
		"outer": `error: spec.a[*][*] has permission "cell" by the schema of Thing in example.com/v1 and "cell" by FieldPermissionMapping "m", with different parameters`,
	} {
		markers, err := readMarkers(t, specOf(fmt.Sprintf(document, by)))
		if err != nil {
			t.Fatal(err)
		}
		table := markers.NewTable(things.Mapping("m", things.Spec(things.Parameterized("spec.a[*][*]", "cell", policy.FieldPermissionParameter{}))))
		for _, got := range sufficient(t, table.For(things.Machines), fields("spec", "a", "x", "y"))[1:] {
			if got != want {
				t.Errorf("by the %s key: got %s, want %s", by, got, want)
			}
		}
		if got := table.Problems()("m"); (got.Reason == "") != (by == "inner") {
			t.Errorf("by the %s key: got %+v", by, got)
		}
	}
}

// TestDocumentedMappings are in order.
func TestDocumentedMappings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/fine-grained.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		if !strings.Contains(block, "kind: FieldPermissionMapping") {
			continue
		}
		found++
		stored, converted := &v1alpha1.FieldPermissionMapping{}, &policy.FieldPermissionMapping{}
		if err := yaml.UnmarshalStrict([]byte(block), stored); err != nil {
			t.Fatal(err)
		}
		v1alpha1.SetObjectDefaults_FieldPermissionMapping(stored)
		if err := v1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(stored, converted, nil); err != nil {
			t.Fatal(err)
		}
		if errs := validation.ValidateFieldPermissionMapping(converted); len(errs) > 0 {
			t.Errorf("mapping %q: %v", converted.Name, errs)
		}
		if _, warnings, errs := mapping.Compile(converted.Name, &converted.Spec); len(errs) > 0 || len(warnings) > 0 {
			t.Errorf("mapping %q: %v, warnings %q", converted.Name, errs, warnings)
		}
	}
	if found == 0 {
		t.Error("no mapping was found")
	}
}
