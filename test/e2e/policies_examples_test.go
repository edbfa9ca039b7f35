/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// useCases are the directories in artifacts/examples, in the order of the cookbook. Those
// that are answered at once have reviews that pass and fail, the others have data.
var useCases = []struct {
	name   string
	atOnce bool
}{
	{name: "storage-class"},
	{name: "sensitive-field-unchanged"},
	{name: "csr-signer-name"},
	{name: "token-audience"},
	{name: "own-finalizer"},
	{name: "node-name"},
	{name: "reviews-about-certain-users"},
	{name: "dra-admin-access"},
	{name: "required-labels"},
	{name: "object-names"},
	{name: "nodes-proxy-path"},
	{name: "csr-sign-secondary-check"},
	{name: "team-label-selector", atOnce: true},
}

// useCaseFiles are the files of each of them.
var useCaseFiles = []string{"README.md", "fails.yaml", "passes.yaml", "policy.yaml", "review.golden.yaml", "review.yaml", "status.golden.txt", "test.yaml"}

func useCaseFile(name, file string) string {
	return filepath.Join(stack.Repository, "artifacts", "examples", name, file)
}

// TestPoliciesExamples applies the policies of each example, asks what they come to, and
// evaluates that with data that passes and with data that does not. It is not parallel,
// since the cookbook has others apply the same policies.
func TestPoliciesExamples(t *testing.T) {
	for _, tc := range useCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			policies := useCaseFile(tc.name, "policy.yaml")
			t.Cleanup(func() { deletePolicies(t, policies) })
			mustKubectl(t, "admin", "apply", "-f", policies)
			mustKubectl(t, "admin", "wait", "--for=condition=Ready", "--timeout=30s", "-f", policies)
			golden.Compare(t, useCaseFile(tc.name, "review.golden.yaml"),
				mustKubectl(t, "bob", "create", "-f", useCaseFile(tc.name, "review.yaml"), "-o", "yaml"))
			golden.Compare(t, useCaseFile(tc.name, "status.golden.txt"), enforcementTable(t, policies))

			_, client := clients(t, "bob")
			if tc.atOnce {
				checkAnswers(t, client, tc.name)
				return
			}
			checkConditions(t, client, tc.name)
		})
	}
}

// enforcementTable is what the status of policies says about their rules, as the cookbook shows it.
func enforcementTable(t *testing.T, policies string) string {
	t.Helper()
	list := policyv1alpha1.ClusterAuthorizationPolicyList{}
	out := mustKubectl(t, "admin", "get", "-f", policies, "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) == 0 { // kubectl prints one object as itself
		list.Items = make([]policyv1alpha1.ClusterAuthorizationPolicy, 1)
		must(t, json.Unmarshal([]byte(out), &list.Items[0]))
	}
	var b strings.Builder
	b.WriteString("| policy | requests | decided at | result |\n| --- | --- | --- | --- |\n")
	for i := range list.Items {
		for _, e := range list.Items[i].Status.Enforcement {
			fmt.Fprintf(&b, "| `%s` | %s %s | %s | `%s` |\n", list.Items[i].Name, strings.Join(e.Verbs, ", "), strings.Join(e.Resources, ", "), e.At, e.Result)
		}
	}
	return b.String()
}

// TestExamplesLetKubectlPatch checks that the subjects of an example that may patch a resource may also get it: kubectl
// reads an object before it patches it.
func TestExamplesLetKubectlPatch(t *testing.T) {
	t.Parallel()
	for _, tc := range useCases {
		gets, patches := map[string]bool{}, map[string]string{}
		for i, document := range readPolicies(t, useCaseFile(tc.name, "policy.yaml")) {
			if document.Spec.Effect != policyv1alpha1.PolicyEffectAllow {
				continue
			}
			for _, rule := range document.Spec.Rules {
				for _, resource := range rule.Resources {
					key := fmt.Sprint(document.Spec.Subjects, rule.APIGroups, resource)
					gets[key] = gets[key] || slices.Contains(rule.Verbs, "get") && document.Spec.Condition == ""
					if slices.Contains(rule.Verbs, "patch") {
						patches[key] = fmt.Sprintf("policy %d, %s: patch %s without get", i, document.Name, resource)
					}
				}
			}
		}
		for key, message := range patches {
			if !gets[key] {
				t.Errorf("%s: %s", tc.name, message)
			}
		}
	}
}

// readPolicies reads the policies in a file. Those of both kinds have the same fields.
func readPolicies(t *testing.T, file string) []policyv1alpha1.ClusterAuthorizationPolicy {
	t.Helper()
	content := readText(t, file)
	var policies []policyv1alpha1.ClusterAuthorizationPolicy
	for document := range strings.SplitSeq(content, "\n---\n") {
		p := policyv1alpha1.ClusterAuthorizationPolicy{}
		if err := yaml.UnmarshalStrict([]byte(document), &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		policies = append(policies, p)
	}
	return policies
}

// deletePolicies deletes what a test has applied, when the context of the test has ended.
func deletePolicies(t *testing.T, file string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(stack.Bin, "kubectl"),
		"--kubeconfig", stack.Kubeconfig(), "--context", "admin", "delete", "--ignore-not-found", "-f", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// checkAnswers creates the two reviews of an example whose policy reads the request alone.
func checkAnswers(t *testing.T, client versioned.Interface, name string) {
	t.Helper()
	for file, want := range map[string]bool{"review.yaml": true, "passes.yaml": true, "fails.yaml": false} {
		status := ask(t, client, useCaseFile(name, file))
		if status.Allowed != want || status.Denied || len(status.ConditionsChain) > 0 || status.EvaluationError != "" {
			t.Errorf("%s: got %+v, want allowed: %t, without conditions", file, status, want)
		}
	}
}

// checkConditions evaluates the conditions of an example with its data. What a Deny
// condition keeps from being allowed is denied.
func checkConditions(t *testing.T, client versioned.Interface, name string) {
	t.Helper()
	chain := ask(t, client, useCaseFile(name, "review.yaml")).ConditionsChain
	if len(chain) == 0 {
		t.Fatal("there are no conditions")
	}
	denies := slices.ContainsFunc(chain, func(set authorizationv1alpha1.SubjectAccessReviewConditionSet) bool {
		return slices.ContainsFunc(set.Conditions, func(c authorizationv1alpha1.SubjectAccessReviewCondition) bool {
			return c.Effect == authorizationv1alpha1.ConditionEffectDeny
		})
	})
	for file, want := range map[string]bool{"passes.yaml": true, "fails.yaml": false} {
		review := &authorizationv1alpha1.AuthorizationConditionsReview{}
		readYAML(t, useCaseFile(name, file), review)
		if review.Request == nil || len(review.Request.ConditionSets) > 0 {
			t.Errorf("%s: want a request without conditionSets, which come from the answer", file)
			continue
		}
		review.Request.ConditionSets = chain
		answer, err := client.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		got := answer.Response
		if got == nil || got.Allowed != want || got.Denied != (!want && denies) || got.EvaluationError != "" || len(got.ConditionSets) > 0 {
			t.Errorf("%s: got %+v, want allowed: %t, denied: %t, and no error", file, got, want, !want && denies)
		}
	}
}

func ask(t *testing.T, client versioned.Interface, file string) authorizationv1alpha1.SubjectAccessReviewStatus {
	t.Helper()
	review := &authorizationv1alpha1.SubjectAccessReview{}
	readYAML(t, file, review)
	answer, err := client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return answer.Status
}

// TestPoliciesExamplesAreComplete finds files that nothing tests, and files that are
// missing.
func TestPoliciesExamplesAreComplete(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(stack.Repository, "artifacts", "examples"))
	must(t, err)
	var want, got []string
	for _, tc := range useCases {
		want = append(want, tc.name)
	}
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains([]string{"reviews", "fine-grained", "admission-policies"}, entry.Name()) { // which have tests of their own
			got = append(got, entry.Name())
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, got) {
		t.Errorf("artifacts/examples has %q, want %q", got, want)
	}
	for _, name := range got {
		entries, err := os.ReadDir(useCaseFile(name, ""))
		must(t, err)
		var files []string
		for _, entry := range entries {
			files = append(files, entry.Name())
		}
		if !slices.Equal(useCaseFiles, files) {
			t.Errorf("%s has %q, want %q", name, files, useCaseFiles)
		}
	}
}

// cookbookMarker is where the generated part of the cookbook begins.
const cookbookMarker = "<!-- Generated from artifacts/examples: UPDATE_GOLDEN=1 go test ./test/e2e -run TestCookbook -->\n"

// TestCookbook compares the cookbook with the examples.
func TestCookbook(t *testing.T) {
	t.Parallel()
	file := filepath.Join(stack.Repository, "docs", "cookbook.md")
	content := readText(t, file)
	introduction, _, found := strings.Cut(content, cookbookMarker)
	if !found {
		t.Fatalf("%s has no line %q", file, cookbookMarker)
	}
	var b strings.Builder
	b.WriteString(introduction + cookbookMarker)
	for _, tc := range useCases {
		section(t, &b, tc.name)
	}
	golden.Compare(t, file, b.String())
}

// deniesUnconditionally is written below a table with a policy that denies more than its condition says.
const deniesUnconditionally = `
> **Without barriers, do not apply the Deny policy to users who need these requests.** Reviews show and evaluate its condition, but no server evaluates
> it for a request, because the front door does not see the object. ` + "`" + `DeniesUnconditionally` + "`" + ` means that the front door denies each of
> these requests, whatever the object is, unless the request or its namespace alone makes the condition false.
`

// section writes the section of one use case.
func section(t *testing.T, b *strings.Builder, name string) {
	t.Helper()
	read := func(file string) string {
		content := readText(t, useCaseFile(name, file))
		return content
	}
	fmt.Fprintf(b, "\n#%s\n[policy.yaml](../artifacts/examples/%s/policy.yaml)\n\n```yaml\n%s```\n", read("README.md"), name, read("policy.yaml"))
	status := read("status.golden.txt")
	fmt.Fprintf(b, "\n`status.enforcement`, with the front door:\n\n%s", status)
	if strings.Contains(status, string(policyv1alpha1.ResultDeniesUnconditionally)) {
		b.WriteString(deniesUnconditionally)
	}
	review := &authorizationv1alpha1.SubjectAccessReview{}
	readYAML(t, useCaseFile(name, "review.golden.yaml"), review)
	what := review.Spec.ResourceAttributes.Verb + " " + review.Spec.ResourceAttributes.Resource
	if sub := review.Spec.ResourceAttributes.Subresource; sub != "" {
		what += "/" + sub
	}
	link := fmt.Sprintf("[review.yaml](../artifacts/examples/%s/review.yaml)", name)
	if len(review.Status.ConditionsChain) == 0 {
		fmt.Fprintf(b, "\nThe answer to %s, a `%s`: allowed is %t. The reason: %s.\n", link, what, review.Status.Allowed, review.Status.Reason)
		return
	}
	fmt.Fprintf(b, "\nThe conditions in the answer to %s, a `%s`:\n\n```text\n", link, what)
	for _, set := range review.Status.ConditionsChain {
		for _, c := range set.Conditions {
			fmt.Fprintf(b, "%s\n  %s if %s\n", c.ID, c.Effect, c.Condition)
		}
		if set.Allowed {
			fmt.Fprintf(b, "%s\n  Allow\n", set.AuthorizerName)
		}
	}
	b.WriteString("```\n")
}
