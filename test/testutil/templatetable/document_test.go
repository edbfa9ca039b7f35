/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package templatetable_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/templatetable"
)

var (
	repository = filepath.Join("..", "..", "..")
	folder     = filepath.Join(repository, "artifacts", "templates")
)

// TestDocument compares docs/templates.md with the templates and their requests.
func TestDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("## Where each holds\n\n| template | with the front door | on a managed cluster |\n| --- | --- | --- |\n")
	templates := templatetable.Templates(t)
	for _, template := range templates {
		title := title(t, template)
		fmt.Fprintf(&b, "| [%s](#%s) | yes | %s |\n", title, strings.ToLower(strings.ReplaceAll(title, " ", "-")), template.Managed)
	}
	for _, template := range templates {
		section(t, &b, template)
	}
	golden.CompareSection(t, filepath.Join(repository, "docs", "templates.md"), "templates", b.String())
}

func read(t *testing.T, template *templatetable.Template, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, template.Name, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func title(t *testing.T, template *templatetable.Template) string {
	t.Helper()
	title, _, _ := strings.Cut(strings.TrimPrefix(read(t, template, "README.md"), "# "), "\n")
	return title
}

// section writes the section of one template.
func section(t *testing.T, b *strings.Builder, template *templatetable.Template) {
	t.Helper()
	var files []string
	for _, name := range filesOf(t, template) {
		if name != "README.md" {
			files = append(files, fmt.Sprintf("[%s](../artifacts/templates/%s/%s)", name, template.Name, name))
		}
	}
	fmt.Fprintf(b, "\n#%s\n%s\n\n", read(t, template, "README.md"), strings.Join(files, ", "))
	b.WriteString("| request | with the front door | on a managed cluster |\n| --- | --- | --- |\n")
	for _, row := range template.Requests() {
		fmt.Fprintf(b, "| %s | %s | %s |\n", template.What(row), templatetable.Outcome(row, true), templatetable.Outcome(row, false))
	}
}

func filesOf(t *testing.T, template *templatetable.Template) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(folder, template.Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	return files
}

// TestTemplatesAreComplete finds folders without requests, policies that refuse none of them, and templates whose column about managed clusters
// does not fit their requests.
func TestTemplatesAreComplete(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, template := range templatetable.Templates(t) {
		want = append(want, template.Name)
		refuses, byOthers := map[string]bool{}, false
		for _, row := range template.Requests() {
			refuses[row.By] = true
			byOthers = byOthers || !strings.HasPrefix(templatetable.Outcome(row, false), "refused by `") && row.Code >= http.StatusBadRequest
		}
		for _, policy := range policies(t, template, "policy.yaml") {
			if !refuses[strings.TrimPrefix(policy.Namespace+"/"+policy.Name, "/")] {
				t.Errorf("%s: the policy %s refuses no request", template.Name, policy.Name)
			}
		}
		if byOthers == (template.Managed == "yes") {
			t.Errorf("%s: the column about managed clusters is %q, and barriers alone refuse all requests: %t", template.Name, template.Managed, !byOthers)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	slices.Sort(want)
	if !slices.Equal(want, got) {
		t.Errorf("artifacts/templates has %q, want %q", got, want)
	}
}

// TestDoorsAreTheSame checks that the Allow policy of a template has the condition that its Deny policy negates.
func TestDoorsAreTheSame(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, template := range templatetable.Templates(t) {
		if !slices.Contains(filesOf(t, template), "doors.yaml") {
			continue
		}
		deny, allow := policies(t, template, "policy.yaml")[0].Spec, policies(t, template, "doors.yaml")[0].Spec
		if deny.Effect != policyv1alpha1.PolicyEffectDeny || allow.Effect != policyv1alpha1.PolicyEffectAllow || deny.Condition != "!("+allow.Condition+")" || !slices.Equal(deny.Variables, allow.Variables) || !slices.Equal(deny.Subjects, allow.Subjects) {
			t.Errorf("%s: doors.yaml differs from policy.yaml:\n%+v\n%+v", template.Name, deny, allow)
		}
		compared++
	}
	if compared == 0 {
		t.Error("no template has a file doors.yaml")
	}
}

// policies reads policies. Those of both kinds have the same fields.
func policies(t *testing.T, template *templatetable.Template, file string) (list []policyv1alpha1.ClusterAuthorizationPolicy) {
	t.Helper()
	for document := range strings.SplitSeq(read(t, template, file), "\n---\n") {
		p := policyv1alpha1.ClusterAuthorizationPolicy{}
		if err := yaml.UnmarshalStrict([]byte(document), &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, p)
	}
	return list
}
