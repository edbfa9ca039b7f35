/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// sufficient returns the verbs each of which suffices to change a field, in the order in which they are checked. A rule that covers the
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

// parsedPath is a path of names of fields, and of elements of lists as managed fields have them, which begin with k: or v:.
func parsedPath(t *testing.T, elements []string) (path fieldpath.Path) {
	t.Helper()
	for _, text := range elements {
		if !strings.HasPrefix(text, "k:") && !strings.HasPrefix(text, "v:") {
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

// TestBuiltInIsListedAndDocumented compares the list of permissions with the table of docs/fine-grained.md, in both directions.
func TestBuiltInIsListedAndDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/fine-grained.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Built-in permissions")
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)`( of pods)? \\| `([^`]+)` \\|(?: `([a-z]+)\\(([^)]+)\\)`)?")
	var documented []string
	for _, cells := range row.FindAllStringSubmatch(section, -1) {
		resource := strings.TrimPrefix(cells[2], " of ")
		documented = append(documented, strings.Join([]string{resource, cells[1], "granular:" + cells[3]}, " "))
		if cells[4] != "" {
			documented = append(documented, strings.Join([]string{resource, cells[1] + "[*]", "granular:" + cells[4] + "(…)"}, " "))
		}
	}
	var listed []string
	for _, l := range mapping.ListBuiltIn() {
		if l.Excluded {
			t.Errorf("%s is excluded: without mappings, permission on the whole object must suffice", l.Field)
		}
		if hasParameter := strings.HasSuffix(l.Verb, "(…)"); hasParameter != (l.Parameter != "") || hasParameter != strings.HasSuffix(l.Field, "[*]") {
			t.Errorf("%s: the verb %s does not fit the parameter %q", l.Field, l.Verb, l.Parameter)
		}
		listed = append(listed, strings.Join([]string{l.Resource.Resource, l.Field, l.Verb}, " "))
	}
	slices.Sort(documented)
	slices.Sort(listed)
	if diff := cmp.Diff(documented, listed); diff != "" {
		t.Errorf("(-documented +listed):\n%s", diff)
	}
}
