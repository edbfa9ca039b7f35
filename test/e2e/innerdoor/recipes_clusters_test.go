/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestRecipesWithBarriers sends the requests of the recipes that barriers enforce to a cluster with both doors and barriers.
func TestRecipesWithBarriers(t *testing.T) {
	t.Parallel()
	a := newRecipeSender(t, newRig(t, "", func(c *cluster.Config) { c.Args = append(c.Args, "--barriers") }))
	tested := 0
	for _, recipe := range a.recipes {
		if recipe.EnforcedBy == byBarriers {
			t.Run(recipe.name, func(t *testing.T) { a.testByBarrier(t, recipe) })
			tested++
		}
	}
	if tested == 0 {
		t.Error("no recipe is enforced by a barrier")
	}
}

// testByBarrier sends the requests of a recipe that a barrier enforces.
func (a *recipeSender) testByBarrier(t *testing.T, recipe *recipe) {
	policy := a.prepare(t, recipe.name, recipe.rows["before"])
	runner := a.runner()
	if before := recipe.rows["before-barriers"]; before != nil {
		runner.Run(t, before)
	}
	poll.Holds(t, "the status says that a barrier enforces the policy", func() bool {
		out, err := a.Kubectl(t.Context(), "", "get", "-f", policy, "-o", "jsonpath={range .items[*].status.enforcement[*]}{.at}={.result} {end}")
		return err == nil && strings.Contains(out, "Barrier=Enforced ") && !strings.Contains(out, "DeniesUnconditionally")
	})
	refuses := func(row *requests.Row) bool { return row.Code == http.StatusForbidden }
	rows := recipe.rows["barriers"]
	first := slices.IndexFunc(rows, refuses)
	for i, row := range rows {
		if row.Do == "post" || i == first { // what passes must not be folded any more
			runner.Await(t, row)
		}
	}
	runner.Want = func(row *requests.Row) *requests.Outcome {
		want := row.Outcome
		if refuses(row) {
			want.Says = append(slices.Clone(want.Says), "ValidatingAdmissionPolicy '")
		}
		return &want
	}
	runner.Run(t, rows)
}

// testInText sends requests while the policy is stored that the text of a recipe has for managed clusters. RBAC allows the user everything.
func (a *recipeSender) testInText(t *testing.T, recipe *recipe, rows []*requests.Row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(a.Manifests, "examples", recipe.name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(text), "<<'POLICY'\n")
	policy, _, found := strings.Cut(policy, "\nPOLICY\n")
	if !found {
		t.Fatalf("the text of %s has no policy", recipe.name)
	}
	a.MustApply(t, policy)
	a.grantAll(t, recipe)
	runner := a.runner()
	runner.Await(t, rows[0])
	runner.Run(t, rows)
}

// TestRecipesOnManagedCluster sends the requests of all recipes to a kube-apiserver without any flag for Proviso. Users whom RBAC allows nothing get
// nothing from Allow policies. Barriers deny what Deny policies deny, to users whom RBAC allows everything.
func TestRecipesOnManagedCluster(t *testing.T) {
	t.Parallel()
	a := newRecipeSender(t, newRig(t, "", func(c *cluster.Config) { c.InnerDoor, c.Managed = nil, true })) // with barriers and without doors
	for _, recipe := range a.recipes {
		t.Run(recipe.name, func(t *testing.T) {
			if recipe.managed() == deniesThere {
				a.grantAll(t, recipe)
				a.testByBarrier(t, recipe)
				return
			}
			a.prepare(t, recipe.name, recipe.rows["before"])
			runner := a.runner()
			runner.Want = func(*requests.Row) *requests.Outcome {
				return &requests.Outcome{Code: http.StatusForbidden}
			}
			runner.Run(t, recipe.rows["steps"])
			if rows := recipe.rows["in-text"]; rows != nil {
				a.testInText(t, recipe, rows)
			}
		})
	}
}
