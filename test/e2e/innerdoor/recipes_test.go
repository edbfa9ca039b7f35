/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// The components that enforce a recipe, as the cookbook names them.
const (
	byInnerDoor = "the inner door"
	byProviso   = "Proviso"
	byBarriers  = "barriers"
	byNone      = "none"
)

// What the policies of a recipe do on a managed cluster, as the cookbook says it.
const (
	grantsNothing = "grants nothing"
	grantsDirect  = "grants nothing through kube-apiserver"
	deniesThere   = "holds for what RBAC allows"
)

// recipe is a directory of artifacts/examples, with a table of requests that its policies allow and refuse. The group before, which the administrator sends, comes before the group steps.
// The groups before-barriers and barriers are for a recipe that a barrier enforces, on a cluster with barriers. On a managed cluster, RBAC allows its user everything.
// The group in-text is for a policy for managed clusters in the text of the recipe.
type recipe struct {
	name string
	// EnforcedBy is the component that enforces the recipe, and Lists the resources of all steps, if the inner door decides them.
	EnforcedBy, Lists string

	rows map[string][]*requests.Row
	as   *requests.User
}

// needs says what a self-managed cluster needs.
func (recipe *recipe) needs() string {
	switch recipe.EnforcedBy {
	case byInnerDoor:
		return "the inner door with " + recipe.Lists
	case byBarriers:
		return "the flag `--barriers`"
	case byNone:
		return "nothing helps: connections cannot be listed"
	default:
		return "the front door"
	}
}

// managed says what the policies do on a managed cluster.
func (recipe *recipe) managed() string {
	switch recipe.EnforcedBy {
	case byBarriers:
		return deniesThere
	case byProviso:
		return grantsDirect
	default:
		return grantsNothing
	}
}

// readRecipes reads the tables of all recipes of the cookbook.
func readRecipes(t *testing.T) (recipes []*recipe) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "recipes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recipes, %v", len(files), err)
	}
	for _, file := range files {
		r := &recipe{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		of := requests.ReadFile(t, file, r)
		r.rows, r.as = of.Rows, of.Users["user"]
		recipes = append(recipes, r)
	}
	return recipes
}

// testRecipes applies each recipe of the cookbook, and sends requests that it allows and refuses.
func testRecipes(t *testing.T, r *rig) {
	examples := filepath.Join(r.Manifests, "examples")
	document, err := os.ReadFile(filepath.Join(r.Repository, "docs", "cookbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := filepath.Glob(filepath.Join(examples, "*", "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a := newRecipeSender(t, r)
	if len(policies) != len(a.recipes) {
		t.Errorf("there are %d examples, and %d recipes here", len(policies), len(a.recipes))
	}
	for _, recipe := range a.recipes {
		t.Run(recipe.name, func(t *testing.T) {
			readme, err := os.ReadFile(filepath.Join(examples, recipe.name, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(string(readme), "# "), "\n")
			row := fmt.Sprintf("| %s | %s | %s | %s |\n", title, recipe.EnforcedBy, recipe.needs(), recipe.managed())
			if !strings.Contains(string(document), row) {
				t.Errorf("the cookbook has no row %q", row)
			}
			a.test(t, recipe)
		})
	}
}

// listedResource is the resource of a call, as the cookbook writes it.
func listedResource(request *admissionv1.AdmissionRequest) string {
	resource := request.Resource.Resource
	if request.SubResource != "" {
		resource += "/" + request.SubResource
	}
	if request.Resource.Group != "" {
		return "`" + resource + "` of `" + request.Resource.Group + "`"
	}
	return "`" + resource + "`"
}

// recipeSender sends the steps of recipes in the namespace demo, as the policies want it.
type recipeSender struct {
	*rig

	recipes []*recipe
	csr     string
}

func newRecipeSender(t *testing.T, r *rig) *recipeSender {
	t.Helper()
	return &recipeSender{rig: r, recipes: readRecipes(t), csr: certificateRequest(t)}
}

// runner sends rows of recipes.
func (a *recipeSender) runner() *requests.Runner {
	return &requests.Runner{Sender: a.Sender, Values: map[string]string{"csr": a.csr}}
}

// prepare applies the policies of a recipe, and creates what its requests need.
func (a *recipeSender) prepare(t *testing.T, name string, before []*requests.Row) (policy string) {
	t.Helper()
	policy = filepath.Join(a.Manifests, "examples", name, "policy.yaml")
	a.MustKubectl(t, "apply", "-f", policy)
	a.MustKubectl(t, "wait", "--for=condition=Ready", "--timeout=30s", "-f", policy)
	if len(before) > 0 {
		a.runner().Run(t, before)
	}
	return policy
}

// test sends the requests of a recipe where the kube-apiserver asks both doors.
func (a *recipeSender) test(t *testing.T, recipe *recipe) {
	policy := a.prepare(t, recipe.name, recipe.rows["before"])
	runner := a.runner()
	runner.Await(t, recipe.rows["steps"][0])
	a.proxy.take(recipe.as.Name)
	runner.Calls = a.proxy.take
	runner.Want = func(row *requests.Row) *requests.Outcome {
		want := row.Outcome
		want.Called = ptr.To(recipe.Lists != "")
		return &want
	}
	runner.After = func(row *requests.Row, _ *requests.Answer, calls []*admissionv1.AdmissionRequest) {
		for _, call := range calls {
			if listed := listedResource(call); listed != recipe.Lists {
				t.Errorf("%s: the inner door is called for %s, and the recipe lists %s", row, listed, recipe.Lists)
			}
		}
	}
	runner.Run(t, recipe.rows["steps"])
	a.MustKubectl(t, "delete", "--wait=false", "-f", policy)
}
