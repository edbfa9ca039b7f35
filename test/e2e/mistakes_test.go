/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// mistake is a row of testdata/mistakes.yaml, which says what the fields are.
type mistake struct {
	Mistake   string   `json:"mistake"`
	Namespace string   `json:"namespace,omitempty"`
	Write     string   `json:"write"`
	Refused   string   `json:"refused,omitempty"`
	Warned    []string `json:"warned,omitempty"`
}

// mistakes returns the rows of a file in testdata.
func mistakes(t *testing.T, file string) (rows []mistake) {
	t.Helper()
	readYAML(t, "testdata/"+file, &rows)
	return rows
}

// policy returns the policy of a row. It is not checked here.
func (m *mistake) policy(t *testing.T, name string) string {
	t.Helper()
	changes, rule := map[string]any{}, map[string]any{
		"verbs": []string{"create"}, "apiGroups": []string{"demo.proviso.dev"}, "apiVersions": []string{"v1alpha1"}, "resources": []string{"virtualmachines"},
	}
	spec := map[string]any{
		"effect": "Allow", "subjects": []any{map[string]any{"kind": "User", "name": "mia"}}, "condition": `object.spec.storageClassName == "dev"`,
	}
	must(t, yaml.Unmarshal([]byte(m.Write), &changes))
	if changes["nonResourceURLs"] != nil {
		rule = map[string]any{}
	}
	for field, value := range changes {
		of := spec
		if slices.Contains([]string{"verbs", "apiGroups", "apiVersions", "resources", "resourceNames", "nonResourceURLs"}, field) {
			of = rule
		}
		if of[field] = value; value == nil {
			delete(of, field)
		}
	}
	spec["rules"] = []any{rule}
	kind := "ClusterAuthorizationPolicy"
	if m.Namespace != "" {
		kind = "AuthorizationPolicy"
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": policyv1alpha1.SchemeGroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name, "namespace": m.Namespace}, "spec": spec,
	})
	must(t, err)
	return string(text)
}

// warningsIn returns the warnings that kubectl has printed.
func warningsIn(stderr string) []string {
	var warnings []string
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Warning: "); ok {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// TestMistakes makes typical mistakes in policies. None of them stays unnoticed: not with a dry run, not with apply, and not
// in the status.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for i, row := range append(mistakes(t, "mistakes.yaml"), mistakes(t, "mistakes-more.yaml")...) {
		t.Run(row.Mistake, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("e2e-mistake-%d", i)
			manifest := row.policy(t, name)
			for _, args := range [][]string{{"apply", "--dry-run=server", "-f", "-"}, {"apply", "-f", "-"}} {
				var errs string
				var err error
				remove := func() {
					_, _, _ = kubectlWithInput(t, "admin", manifest, "delete", "--ignore-not-found", "-f", "-")
				}
				poll.Holds(t, "the policy is checked", func() bool {
					_, errs, err = kubectlWithInput(t, "admin", manifest, args...)
					if strings.Contains(errs, unchecked) {
						remove() // an apply of the same policy would not check it again
						return false
					}
					return true
				})
				if err == nil {
					t.Cleanup(remove)
				}
				if (err != nil) != (row.Refused != "") || !strings.Contains(errs, row.Refused) {
					t.Fatalf("kubectl %s: got %v: %s\nwant that it is refused with: %s", args, err, errs, row.Refused)
				}
				if diff := cmp.Diff(row.Warned, warningsIn(errs)); diff != "" && row.Refused == "" {
					t.Fatalf("kubectl %s: warnings (-want +got):\n%s", args, diff)
				}
			}
			if row.Refused == "" {
				checkMistakesInStatus(t, row.Namespace, name, row.Warned)
			}
		})
	}
}

// unchecked begins the warning of a write for which the schemas of all servers could not be read in time. Other tests have
// servers that do not answer.
const unchecked = "spec: not checked completely"

// checkMistakesInStatus waits until the status of a policy has what the author has been warned of.
func checkMistakesInStatus(t *testing.T, namespace, name string, warned []string) {
	t.Helper()
	_, client := clients(t, "admin")
	get := func() (policyv1alpha1.AuthorizationPolicyStatus, int64, error) {
		if namespace != "" {
			p, err := client.PolicyV1alpha1().AuthorizationPolicies(namespace).Get(t.Context(), name, metav1.GetOptions{})
			return p.Status, p.Generation, err
		}
		p, err := client.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), name, metav1.GetOptions{})
		return p.Status, p.Generation, err
	}
	var lines []string
	poll.Holds(t, "the status is written", func() bool {
		status, generation, err := get()
		if err != nil || status.ObservedGeneration != generation {
			return false
		}
		if status.TypeChecking != nil {
			for _, w := range status.TypeChecking.ExpressionWarnings {
				lines = append(lines, w.FieldRef+": "+w.Warning)
			}
		}
		for _, e := range status.Enforcement {
			lines = append(lines, e.Message)
		}
		return true
	})
	for _, warning := range warned {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(warning, line) }) {
			t.Errorf("the status does not have the warning %q: %q", warning, lines)
		}
	}
}

// enforcement is the beginning of a warning about where a right policy is enforced.
var enforcement = regexp.MustCompile(`^spec\.rules\[\d+\] \(`)

// mistaken are policies of the tables that are mistaken on purpose, with the beginnings of their warnings.
var mistaken = map[string]string{
	"enforcement.yaml, version, newer-deny":   `spec.rules[0].apiVersions[0]: no resource of the rule is served in the version "v2"`,
	"enforcement.yaml, version, newer-allow":  `spec.rules[0].apiVersions[0]: no resource of the rule is served in the version "v2"`,
	"enforcement.yaml, version, newer-hold":   `spec.rules[0].apiVersions[0]: no resource of the rule is served in the version "v2"`,
	"enforcement.yaml, errors, deny-error":    "spec.condition: demo.proviso.dev/v1alpha1, Kind=VirtualMachine: object.spec.nodeName may be missing",
	"enforcement.yaml, errors, hold-error":    "spec.condition: demo.proviso.dev/v1alpha1, Kind=VirtualMachine: object.spec.nodeName may be missing",
	"enforcement.yaml, namespace, unlabelled": "spec.condition: demo.proviso.dev/v1alpha1, Kind=VirtualMachine: object.spec.storageClassName may be missing",
	"enforcement.yaml, errors, hold-bob":      "spec.condition: an error for every request of spec.rules[0] (create)",
}

// servedLater are the groups in the policies of a page that a server has once a reader has followed the page, or while another test does.
var servedLater = map[string]string{"docs/library.md": "things.example.com", "artifacts/demo/policy-databases.yaml": "shop.example.com"}

// TestRightPoliciesHaveNoWarnings writes all policies of the documents, the examples and the tables, as dry runs.
func TestRightPoliciesHaveNoWarnings(t *testing.T) {
	t.Parallel()
	specs := rightPolicies(t)
	if len(specs) < 100 {
		t.Errorf("found only %d policies", len(specs))
	}
	recorder := &warningRecorder{}
	c := config(t, "admin")
	c.WarningHandler = recorder
	client, err := versioned.NewForConfig(c)
	must(t, err)
	for where, spec := range specs {
		poll.Holds(t, where+" is checked", func() bool {
			recorder.warnings = nil
			_, err := client.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "e2e-right"}, Spec: *spec,
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			return !slices.ContainsFunc(recorder.warnings, func(w string) bool { return strings.HasPrefix(w, unchecked) })
		})
		var got []string
		for _, warning := range recorder.warnings {
			if !enforcement.MatchString(strings.TrimPrefix(warning, "with the enforcement Enforce: ")) {
				got = append(got, warning)
			}
		}
		want := mistaken[where]
		for page, group := range servedLater {
			if want == "" && len(got) > 0 && strings.HasPrefix(where, page+", ") {
				want = fmt.Sprintf("spec.rules[0].apiGroups[0]: no server has the API group %q", group)
			}
		}
		if (want != "") != (len(got) > 0) || (want != "" && !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s: got %q, want %q\n%s", where, got, want, spec.Condition)
		}
	}
}

type warningRecorder struct{ warnings []string }

// HandleWarningHeader implements rest.WarningHandler.
func (r *warningRecorder) HandleWarningHeader(_ int, _, text string) {
	r.warnings = append(r.warnings, text)
}

// rightPolicies returns the specifications of all policies that are shown or tested, by where they are.
func rightPolicies(t *testing.T) map[string]*policyv1alpha1.AuthorizationPolicySpec {
	t.Helper()
	specs := map[string]*policyv1alpha1.AuthorizationPolicySpec{}
	for _, folder := range []string{"artifacts", "docs"} {
		err := filepath.WalkDir(filepath.Join(stack.Repository, folder), func(file string, _ os.DirEntry, err error) error {
			extension := filepath.Ext(file)
			if err != nil || (extension != ".md" && extension != ".yaml") {
				return err
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for i, document := range documentsIn(string(content), extension == ".md") {
				p := &policyv1alpha1.ClusterAuthorizationPolicy{}
				if !strings.Contains(document, "kind: ClusterAuthorizationPolicy\n") && !strings.Contains(document, "kind: AuthorizationPolicy\n") {
					continue
				}
				if err := yaml.Unmarshal([]byte(document), p); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				specs[fmt.Sprintf("%s, document %d", strings.TrimPrefix(file, stack.Repository+"/"), i)] = &p.Spec
			}
			return nil
		})
		must(t, err)
	}
	for _, set := range readTable(t) {
		for i := range set.Policies {
			spec := set.Policies[i].spec()
			specs["enforcement.yaml, "+set.Set+", "+set.Policies[i].Name] = &spec
		}
	}
	return specs
}

// documentsIn returns the YAML documents of a file, or of the blocks in a page.
func documentsIn(content string, isPage bool) []string {
	if !isPage {
		return strings.Split(content, "\n---\n")
	}
	var all []string
	for i, block := range strings.Split(content, "\n```") {
		if text, ok := strings.CutPrefix(block, "yaml\n"); ok && i%2 == 1 {
			all = append(all, strings.Split(text+"\n", "\n---\n")...)
		}
	}
	return all
}

// TestMistakesAreMany keeps rows from getting lost, and from being silent.
func TestMistakesAreMany(t *testing.T) {
	t.Parallel()
	rows := mistakes(t, "mistakes.yaml")
	if len(rows) < 26 {
		t.Errorf("there are only %d rows", len(rows))
	}
	for _, row := range rows[1:] {
		if (row.Refused == "") == (len(row.Warned) == 0) {
			t.Errorf("%s: neither refused nor warned of, or both", row.Mistake)
		}
	}
}

// TestMistakesInDocs compares the page with the table.
func TestMistakesInDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| mistake | in the policy | the write is | message |\n| --- | --- | --- | --- |\n")
	cell := func(text string) string {
		return "`" + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`) + "`"
	}
	for _, row := range mistakes(t, "mistakes.yaml")[1:] {
		write := strings.TrimSuffix(strings.TrimPrefix(row.Write, "{"), "}")
		if row.Refused != "" {
			fmt.Fprintf(&b, "| %s | %s | refused | %s |\n", row.Mistake, cell(write), cell(row.Refused))
			continue
		}
		var warned []string
		for _, w := range row.Warned {
			warned = append(warned, cell(w))
		}
		fmt.Fprintf(&b, "| %s | %s | done, with a warning | %s |\n", row.Mistake, cell(write), strings.Join(warned, ", "))
	}
	golden.CompareSection(t, filepath.Join(stack.Repository, "docs", "troubleshooting.md"), "mistakes", b.String())
}
