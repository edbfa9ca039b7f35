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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// auditCounts are the counts in the status of a policy with the enforcement Audit.
type auditCounts struct {
	ObservedGeneration, Decided, Errors, Undetermined int64
}

// recipeCounts has what one pass of the requests of all recipes counts for each of their policies: what the policy would decide
// already at authorization, also because its condition is folded, and what only the object would tell.
var recipeCounts = map[string]auditCounts{
	"agent-own-node":            {Undetermined: 4},
	"agent-reads":               {},
	"alice-client-certificates": {Undetermined: 2},
	"alice-dev-volumes":         {Undetermined: 6},
	"alice-dev-volumes-reads":   {},
	"alice-rollouts":            {Undetermined: 2},
	"alice-rollouts-reads":      {},
	"alice-signs-for-clients":   {},
	"alice-team-blue":           {Decided: 1},
	"alice-team-reviews":        {Undetermined: 2},
	"backup-finalizer":          {Undetermined: 4},
	"backup-finalizer-reads":    {},
	"billed-deployments":        {Decided: 3},
	"certificate-signers-read":  {},
	"certificate-signing":       {Undetermined: 2},
	"cost-center-required":      {Decided: 2}, // on a listed resource a Deny is folded
	"demo/alice-prefixed-names": {Undetermined: 2},
	"demo/alice-vault-tokens":   {Undetermined: 3},
	"device-claims":             {Decided: 3},
	"no-device-admin-access":    {Decided: 2},
	"scraper-kubelet-metrics":   {},
}

// grantToAll lets the users of all recipes do everything by RBAC.
const grantToAll = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: recipes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
`

// testRecipesInAudit sends the requests of all recipes as dry runs, of users with and without permission by RBAC: first without
// the policies, and then with all of them in Audit. The answers are the same, and the policies count.
func testRecipesInAudit(t *testing.T, r *rig) {
	a := &recipesInAudit{newRecipeSender(t, r)}
	for _, recipe := range recipes {
		for _, s := range recipe.prepare {
			if code, answer := a.send(t, s, nil, ""); code != s.code && code != http.StatusConflict {
				t.Fatalf("%s %s: got %d %s", s.method, s.target, code, answer)
			}
		}
	}
	eventually(t, "Proviso knows that kube-apiserver calls it for reviews", func() bool {
		_, groups := r.direct(t, "/readyz/review-groups")
		return strings.Contains(groups, "authorization.k8s.io/v1alpha1: proviso: ")
	})
	refused := a.sendAll(t)
	a.grant(t, true)
	granted := a.sendAll(t)
	if cmp.Equal(refused, granted) {
		t.Error("permission by RBAC changes nothing")
	}
	manifest := a.inAudit(t)
	r.apply(t, manifest)
	if _, err := r.Kubectl(t.Context(), manifest, "wait", "--for=condition=Ready", "--timeout=30s", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(granted, a.sendAll(t)); diff != "" {
		t.Errorf("policies in Audit change the answers to users whom RBAC allows (-want +got):\n%s", diff)
	}
	a.grant(t, false)
	if diff := cmp.Diff(refused, a.sendAll(t)); diff != "" {
		t.Errorf("policies in Audit change the answers to users whom RBAC does not allow (-want +got):\n%s", diff)
	}
	got, want := map[string]auditCounts{}, map[string]auditCounts{}
	for name, counts := range recipeCounts {
		want[name] = auditCounts{ObservedGeneration: 1, Decided: 2 * counts.Decided, Undetermined: 2 * counts.Undetermined}
	}
	eventuallyOr(t, "the policies in Audit count", func() bool {
		got = a.counts(t)
		return cmp.Equal(want, got)
	}, func() { t.Errorf("counts (-want +got):\n%s", cmp.Diff(want, got)) })
	table, err := r.Kubectl(t.Context(), "", "get", "clusterauthorizationpolicies", "alice-dev-volumes")
	if err != nil || !regexp.MustCompile(`alice-dev-volumes +Allow +Audit .* False +0 \(12 undetermined\) `).MatchString(table) {
		t.Errorf("got %v and the table\n%s", err, table)
	}
	a.testOneEdit(t)
	a.testAtInnerDoor(t)
	if _, err := r.Kubectl(t.Context(), manifest, "delete", "--wait=false", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

type recipesInAudit struct{ *recipeSender }

// sendAll sends all steps of all recipes, and returns their answers: the code, and of a refusal the text.
func (a *recipesInAudit) sendAll(t *testing.T) []string {
	t.Helper()
	var answers []string
	for _, recipe := range recipes {
		for _, s := range recipe.steps {
			code, answer := a.send(t, s, recipe.as, "?dryRun=All")
			line := fmt.Sprintf("%s: %s %s: %d", recipe.name, s.method, s.target, code)
			if code >= http.StatusBadRequest {
				line += " " + answer
			}
			answers = append(answers, line)
		}
	}
	return answers
}

// grant lets the users of all recipes do everything by RBAC, or no longer.
func (a *recipesInAudit) grant(t *testing.T, all bool) {
	t.Helper()
	if all {
		subjects := ""
		for _, recipe := range recipes {
			subjects += fmt.Sprintf("- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}\n", recipe.as["Impersonate-User"])
		}
		a.apply(t, grantToAll+subjects)
	} else if _, err := a.Kubectl(t.Context(), "", "delete", "clusterrolebinding", "recipes"); err != nil {
		t.Fatal(err)
	}
	want := http.StatusForbidden
	if all {
		want = http.StatusOK
	}
	for _, recipe := range recipes {
		eventually(t, "RBAC knows", func() bool {
			code, _ := a.send(t, step{method: get, target: "/api/v1/namespaces/kube-public"}, recipe.as, "")
			return code == want
		})
		// Proviso reuses answers of kube-apiserver for some seconds. No policy of the recipes is there yet that would count this.
		if all && recipe.enforcedBy == byProviso {
			eventually(t, "Proviso knows", func() bool {
				code, _ := a.send(t, recipe.steps[0], recipe.as, "?dryRun=All")
				return code == http.StatusCreated
			})
		}
	}
}

// inAudit returns the policies of all recipes with the enforcement Audit.
func (a *recipesInAudit) inAudit(t *testing.T) string {
	t.Helper()
	var manifests []string
	for _, recipe := range recipes {
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
	out, err := a.Kubectl(t.Context(), "", "get", "clusterauthorizationpolicies,authorizationpolicies", "-A", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
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
		if _, ok := recipeCounts[name]; ok {
			counts[name] = p.Status.Audit
		}
	}
	return counts
}

// testOneEdit enforces a policy that was in Audit.
func (a *recipesInAudit) testOneEdit(t *testing.T) {
	t.Helper()
	r := recipes[0]
	edit := func(enforcement string) {
		for _, name := range []string{"alice-dev-volumes", "alice-dev-volumes-reads"} {
			if _, err := a.Kubectl(t.Context(), "", "patch", "clusterauthorizationpolicies", name, "--type=merge", "-p", `{"spec": {"enforcement": "`+enforcement+`"}}`); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit("Enforce")
	eventually(t, "the recipe is enforced", func() bool { code, _ := a.send(t, r.steps[0], r.as, "?dryRun=All"); return code == r.steps[0].code })
	if code, answer := a.send(t, r.steps[1], r.as, "?dryRun=All"); code != r.steps[1].code || !strings.Contains(answer, r.steps[1].reason) {
		t.Errorf("got %d %s", code, answer)
	}
	eventually(t, "the counts are gone", func() bool { return a.counts(t)["alice-dev-volumes"] == auditCounts{} })
}

// testAtInnerDoor has a Deny in Audit beside the first recipe, which is enforced: the inner door evaluates it with the object.
func (a *recipesInAudit) testAtInnerDoor(t *testing.T) {
	t.Helper()
	r := recipes[0]
	a.apply(t, `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: audited-claims}
spec:
  description: no claims named scratch
  effect: Deny
  enforcement: Audit
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [persistentvolumeclaims]}]
  condition: object.metadata.name == "scratch"
`)
	if _, err := a.Kubectl(t.Context(), "", "wait", "--for=condition=Ready", "clusterauthorizationpolicy", "audited-claims"); err != nil {
		t.Fatal(err)
	}
	warning, err := a.Kubectl(t.Context(), strings.ReplaceAll(a.pass.fill(r.steps[0].body), "table-recipe", "demo"), "create", "--as=alice", "-n", "demo", "--dry-run=server", "--validate=false", "-v=0", "--warnings-as-errors", "-f", "-")
	if err == nil || !strings.Contains(warning+err.Error(), "would be denied: policy=audited-claims reason=Denied: no claims named scratch") {
		t.Errorf("got %q, %v: want a warning", warning, err)
	}
	if code, answer := a.send(t, step{method: post, target: "persistentvolumeclaims", body: object("persistentvolumeclaims", "other", blue)}, r.as, "?dryRun=All"); code != http.StatusCreated {
		t.Errorf("got %d %s", code, answer)
	}
	eventually(t, "the audit log has what would have been denied, once", func() bool {
		log, err := os.ReadFile(a.AuditLog())
		return err == nil && strings.Count(string(log), `create.inner-door.proviso.static.k8s.io/would-deny":"cluster.policy.proviso.dev/audited-claims"`) == 1
	})
	eventually(t, "the policy has counted", func() bool {
		out, err := a.Kubectl(t.Context(), "", "get", "clusterauthorizationpolicy", "audited-claims", "-o", "jsonpath={.status.audit.decided}/{.status.conditions[?(@.type=='Effective')].reason}")
		return err == nil && out == "1/Audit"
	})
	if _, err := a.Kubectl(t.Context(), "", "delete", "clusterauthorizationpolicy", "audited-claims"); err != nil {
		t.Fatal(err)
	}
}

// eventuallyOr is eventually that says more before it fails.
func eventuallyOr(t *testing.T, what string, holds func() bool, explain func()) {
	t.Helper()
	done := false
	t.Cleanup(func() {
		if !done {
			explain()
		}
	})
	eventually(t, what, holds)
	done = true
}
