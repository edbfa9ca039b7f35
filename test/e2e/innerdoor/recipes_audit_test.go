/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// auditCounts are the counts in the status of a policy with the enforcement Audit.
type auditCounts struct {
	ObservedGeneration, Decided, Errors, Undetermined int64
}

// grantAll lets the users of recipes do everything by RBAC.
func (a *recipeSender) grantAll(t *testing.T, recipes ...*recipe) {
	t.Helper()
	manifest := plane.TestData(t, "recipes-grant.yaml")
	for _, recipe := range recipes {
		manifest += fmt.Sprintf("- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}\n", recipe.as.Name)
	}
	a.MustApply(t, manifest)
}

// testRecipesInAudit sends the requests of all recipes as dry runs, of users with and without permission by RBAC: first without
// the policies, and then with all of them in Audit. The answers are the same, and the policies count.
func testRecipesInAudit(t *testing.T, r *rig) {
	a := &recipesInAudit{recipeSender: newRecipeSender(t, r)}
	plane.ReadYAML(t, "recipes-counts.yaml", &a.perPass)
	for _, recipe := range a.recipes {
		for _, row := range recipe.rows["before"] {
			if answer, err := a.runner().Send(t.Context(), t, row); err != nil || answer.Code != row.Code && answer.Code != http.StatusConflict {
				t.Fatalf("%s: got %+v, %v", row, answer, err)
			}
		}
	}
	r.shows(t, "/readyz/review-groups", "authorization.k8s.io/v1alpha1: proviso: ")
	refused := a.sendAll(t)
	a.grant(t, true)
	granted := a.sendAll(t)
	if cmp.Equal(refused, granted) {
		t.Error("permission by RBAC changes nothing")
	}
	manifest := a.inAudit(t)
	r.MustApply(t, manifest)
	if diff := cmp.Diff(granted, a.sendAll(t)); diff != "" {
		t.Errorf("policies in Audit change the answers to users whom RBAC allows (-want +got):\n%s", diff)
	}
	a.grant(t, false)
	if diff := cmp.Diff(refused, a.sendAll(t)); diff != "" {
		t.Errorf("policies in Audit change the answers to users whom RBAC does not allow (-want +got):\n%s", diff)
	}
	got, want := map[string]auditCounts{}, map[string]auditCounts{}
	for name, counts := range a.perPass {
		want[name] = auditCounts{ObservedGeneration: 1, Decided: 2 * counts.Decided, Undetermined: 2 * counts.Undetermined}
	}
	poll.Eventually(t, "the policies in Audit count (-want +got)", func() string {
		got = a.counts(t)
		return cmp.Diff(want, got)
	})
	table := r.MustKubectl(t, "get", "clusterauthorizationpolicies", "alice-dev-volumes")
	if !regexp.MustCompile(`alice-dev-volumes +Allow +Audit .* False +0 \(14 undetermined\) `).MatchString(table) {
		t.Errorf("got the table\n%s", table)
	}
	a.testOneEdit(t)
	a.testAtInnerDoor(t)
	r.MustDelete(t, manifest)
}

type recipesInAudit struct {
	*recipeSender

	// perPass is what one pass of all requests counts, by policy.
	perPass map[string]auditCounts
}

// sendAll sends all steps of all recipes, and returns their answers: the code, and of a refusal the text.
func (a *recipesInAudit) sendAll(t *testing.T) []string {
	t.Helper()
	var answers []string
	for _, recipe := range a.recipes {
		for _, row := range recipe.rows["steps"] {
			code, answer := a.dryRun(t, row)
			line := fmt.Sprintf("%s: %s: %d", recipe.name, row, code)
			if code >= http.StatusBadRequest {
				line += " " + answer
			}
			answers = append(answers, line)
		}
	}
	return answers
}

// dryRun sends a row as a dry run.
func (a *recipesInAudit) dryRun(t *testing.T, row *requests.Row) (int, string) {
	t.Helper()
	runner := a.runner()
	runner.DryRun = true
	answer, err := runner.Send(t.Context(), t, row)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, answer.Body
}

// grant lets the users of all recipes do everything by RBAC, or no longer.
func (a *recipesInAudit) grant(t *testing.T, all bool) {
	t.Helper()
	if all {
		a.grantAll(t, a.recipes...)
	} else {
		a.MustKubectl(t, "delete", "clusterrolebinding", "recipes")
	}
	want := http.StatusForbidden
	if all {
		want = http.StatusOK
	}
	for _, recipe := range a.recipes {
		poll.Holds(t, "RBAC knows", func() bool {
			code, _ := a.Sender.Send(t, recipe.as, http.MethodGet, "/api/v1/namespaces/kube-public", "", "")
			return code == want
		})
		// Proviso reuses answers of kube-apiserver for some seconds. No policy of the recipes is there yet that would count this.
		if all && recipe.EnforcedBy == byProviso {
			poll.Holds(t, "Proviso knows", func() bool {
				code, _ := a.dryRun(t, recipe.rows["steps"][0])
				return code == http.StatusCreated
			})
		}
	}
}

// inAudit returns the policies of all recipes with the enforcement Audit.
func (a *recipesInAudit) inAudit(t *testing.T) string {
	t.Helper()
	var manifests []string
	for _, recipe := range a.recipes {
		content, err := os.ReadFile(filepath.Join(a.Manifests, "examples", recipe.name, "policy.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, regexp.MustCompile(`(?m)^  effect: .*$`).ReplaceAllString(string(content), "$0\n  enforcement: Audit"))
	}
	return strings.Join(manifests, "\n---\n")
}

// counts returns the counts of the policies of the recipes.
func (a *recipesInAudit) counts(t *testing.T) map[string]auditCounts {
	t.Helper()
	counts := map[string]auditCounts{}
	out := a.MustKubectl(t, "get", "clusterauthorizationpolicies,authorizationpolicies", "-A", "-o", "json")
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Status   struct{ Audit auditCounts }
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		name := strings.TrimPrefix(p.Metadata.Namespace+"/"+p.Metadata.Name, "/")
		if _, ok := a.perPass[name]; ok {
			counts[name] = p.Status.Audit
		}
	}
	return counts
}

// testOneEdit enforces a policy that was in Audit.
func (a *recipesInAudit) testOneEdit(t *testing.T) {
	t.Helper()
	steps := a.storageClass().rows["steps"]
	edit := func(enforcement string) {
		for _, name := range []string{"alice-dev-volumes", "alice-dev-volumes-reads"} {
			a.MustKubectl(t, "patch", "clusterauthorizationpolicies", name, "--type=merge", "-p", `{"spec": {"enforcement": "`+enforcement+`"}}`)
		}
	}
	edit("Enforce")
	runner := a.runner()
	runner.Await(t, steps[0])
	runner.DryRun = true
	if problem := runner.Try(t, steps[1]); problem != "" {
		t.Error(problem)
	}
	poll.Holds(t, "the counts are gone", func() bool { return a.counts(t)["alice-dev-volumes"] == auditCounts{} })
}

// storageClass is the recipe whose policies the tests of one edit change.
func (a *recipesInAudit) storageClass() *recipe {
	return a.recipes[slices.IndexFunc(a.recipes, func(r *recipe) bool { return r.name == "storage-class" })]
}

// testAtInnerDoor has a Deny in Audit beside the first recipe, which is enforced: the inner door evaluates it with the object.
func (a *recipesInAudit) testAtInnerDoor(t *testing.T) {
	t.Helper()
	a.rig.runner().Run(t, a.rig.prepare(t, "recipes-audit.yaml")["claims"])
	poll.Holds(t, "the audit log has what would have been denied, once", func() bool {
		log, err := os.ReadFile(a.AuditLog())
		return err == nil && strings.Count(string(log), `create.inner-door.proviso.static.k8s.io/would-deny":"cluster.policy.proviso.dev/audited-claims"`) == 1
	})
	poll.Holds(t, "the policy has counted", func() bool {
		out, err := a.Kubectl(t.Context(), "", "get", "clusterauthorizationpolicy", "audited-claims", "-o", "jsonpath={.status.audit.decided}/{.status.conditions[?(@.type=='Effective')].reason}")
		return err == nil && out == "1/Audit"
	})
	a.MustKubectl(t, "delete", "clusterauthorizationpolicy", "audited-claims")
}
