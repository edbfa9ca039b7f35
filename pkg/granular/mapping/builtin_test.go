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
	const noKey = "the element has no key that could be the parameter"
	machines, pods := things.Machines, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	conditions := func(elements ...fieldpath.PathElement) fieldpath.Path {
		return append(fields("status", "conditions"), elements...)
	}
	for _, tc := range []struct {
		name     string
		resource schema.GroupVersionResource
		field    fieldpath.Path
		want     []string
	}{
		{name: "the name of the object", resource: machines, field: fields("metadata", "name"), want: []string{"granular:metadata"}},
		{name: "all labels", resource: machines, field: fields("metadata", "labels"), want: []string{"granular:metadata", "granular:labels"}},
		{
			name: "a label with a domain", resource: machines, field: fields("metadata", "labels", "super.safe.com/a/b"),
			want: []string{"granular:metadata", "granular:labels", "granular:label(super.safe.com)"},
		},
		{
			name: "a label without domain", resource: machines, field: fields("metadata", "labels", "team"),
			want: []string{"granular:metadata", "granular:labels", "granular:label(team)"},
		},
		{
			name: "a label without name", resource: machines, field: fields("metadata", "labels", ""),
			want: []string{"granular:metadata", "granular:labels", `error: permission "label" of the built-in mapping: the parameter would be empty`},
		},
		{
			name: "a label with nothing before the slash", resource: machines, field: fields("metadata", "labels", "/a"),
			want: []string{"granular:metadata", "granular:labels", `error: permission "label" of the built-in mapping: the parameter would be empty`},
		},
		{
			name: "an annotation", resource: machines, field: fields("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
			want: []string{"granular:metadata", "granular:annotations", "granular:annotation(kubectl.kubernetes.io)"},
		},
		{
			name: "a finalizer", resource: machines, field: append(fields("metadata", "finalizers"), element("example.com/x")),
			want: []string{"granular:metadata", "granular:finalizers", "granular:finalizer(example.com)"},
		},
		{
			name: "a finalizer that is a number", resource: machines, field: append(fields("metadata", "finalizers"), element(0.5)),
			want: []string{"granular:metadata", "granular:finalizers", `error: permission "finalizer" of the built-in mapping: ` + noKey},
		},
		{
			name: "a lien", resource: machines, field: append(fields("metadata", "liens"), element("example.com/x")),
			want: []string{"granular:metadata", "granular:liens", "granular:lien(example.com)"},
		},
		{
			name: "an owner", resource: machines, field: append(fields("metadata", "ownerReferences"), keyed("uid", "u"), name("controller")),
			want: []string{"granular:metadata", "granular:ownerReferences"},
		},
		{name: "a field of the specification", resource: machines, field: fields("spec", "image"), want: []string{"granular:specification"}},
		{name: "the number of replicas", resource: machines, field: fields("spec", "replicas"), want: []string{"granular:specification", "granular:replicas"}},
		{name: "replicas of something within", resource: machines, field: fields("spec", "pool", "replicas"), want: []string{"granular:specification"}},
		{name: "the node of what is no pod", resource: machines, field: fields("spec", "nodeName"), want: []string{"granular:specification"}},
		{
			name: "the node of a pod of another group", resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "pods"},
			field: fields("spec", "nodeName"), want: []string{"granular:specification"},
		},
		{name: "the node of a pod", resource: pods, field: fields("spec", "nodeName"), want: []string{"granular:specification", "granular:nodeAssignment"}},
		{
			name: "the node of a pod, in another version", resource: pods.GroupResource().WithVersion("v2"), field: fields("spec", "nodeName"),
			want: []string{"granular:specification", "granular:nodeAssignment"},
		},
		{
			name: "a pod that waits for its scheduling", resource: pods, field: fields("spec", "schedulePaused"),
			want: []string{"granular:specification", "granular:schedulingPause"},
		},
		{name: "a field of the status", resource: machines, field: fields("status", "phase"), want: []string{"granular:status"}},
		{name: "the order of the conditions", resource: machines, field: conditions(), want: []string{"granular:status", "granular:conditions"}},
		{
			name: "a condition", resource: machines, field: conditions(keyed("type", "Ready"), name("status")),
			want: []string{"granular:status", "granular:conditions", "granular:condition(Ready)"},
		},
		{
			name: "a condition whose type has a slash", resource: machines, field: conditions(keyed("type", "example.com/Ready")),
			want: []string{"granular:status", "granular:conditions", "granular:condition(example.com/Ready)"},
		},
		{
			name: "a condition with two keys", resource: machines, field: conditions(keyed("node", "a", "type", "Ready")),
			want: []string{"granular:status", "granular:conditions", "granular:condition(Ready)"},
		},
		{
			name: "a condition with another key", resource: machines, field: conditions(keyed("name", "Ready")),
			want: []string{"granular:status", "granular:conditions", `error: permission "condition" of the built-in mapping: ` + noKey},
		},
		{
			name: "a map of conditions", resource: machines, field: conditions(name("Ready")),
			want: []string{"granular:status", "granular:conditions", `error: permission "condition" of the built-in mapping: ` + noKey},
		},
		{name: "a field beside spec and status", resource: machines, field: fields("data", "x")},
		{name: "a field that begins like metadata", resource: machines, field: fields("metadataX", "labels")},
		{name: "labels elsewhere", resource: machines, field: fields("template", "metadata", "labels")},
		{name: "the object", resource: machines, field: nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, sufficient(t, mapping.NewTable().For(tc.resource), tc.field)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
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
