/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// The components that enforce a recipe, as the cookbook names them.
const (
	byInnerDoor = "the inner door"
	byFrontDoor = "the front door"
	byProviso   = "Proviso"
	byBarriers  = "barriers"
	byNone      = "none"
)

// What the policies of a recipe do on a managed cluster, as the cookbook says it.
const (
	grantsNothing = "grants nothing"
	deniesThere   = "holds for what RBAC allows"
)

// identity are the headers of requests that the admin sends as a user.
type identity map[string]string

func serviceAccount(namespace, name string) identity {
	return identity{"Impersonate-User": "system:serviceaccount:" + namespace + ":" + name, "Impersonate-Group": "system:serviceaccounts"}
}

// step is a request of a recipe, with the path and the body as in the table, and the code and the reason of the answer.
type step struct {
	method, target, body string
	code                 int
	reason               string
}

// recipe is a directory of artifacts/examples, with requests that its policies allow and refuse.
type recipe struct {
	name       string
	enforcedBy string
	// lists are the resources of all steps, if the inner door decides them.
	lists   string
	as      identity
	prepare []step // sent by the admin
	steps   []step
	// withBarriers are the steps of a recipe that a barrier enforces, on a cluster with barriers. On a managed cluster, RBAC allows the user
	// everything. beforeBarriers are sent by the admin before.
	beforeBarriers, withBarriers []step
}

// needs says what a self-managed cluster needs.
func (recipe *recipe) needs() string {
	switch recipe.enforcedBy {
	case byInnerDoor:
		return "the inner door with " + recipe.lists
	case byBarriers:
		return "the flag `--barriers`"
	case byNone:
		return "does not help: connections cannot be listed"
	default:
		return "the front door"
	}
}

// managed says what the policies do on a managed cluster.
func (recipe *recipe) managed() string {
	if recipe.enforcedBy == byBarriers {
		return deniesThere
	}
	return grantsNothing
}

var (
	recipeAccount = `"serviceAccountName": "web", "containers"`
	recipeSigner  = func(name, signer string) string {
		return with(object("certificatesigningrequests", name, blue), "example.com/clients", signer)
	}
	recipePod = func(name, node string) string {
		return with(object("pods", name, blue), `"spec": {`, `"spec": {"nodeName": "`+node+`", `)
	}
	deviceClaim = `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "adminAccess": true}}]}}}`
)

// formerClaims are claims in a namespace that had the label for administrative access to devices.
const formerClaims = "/apis/resource.k8s.io/v1/namespaces/former/resourceclaims"

// recipes are all recipes of the cookbook.
var recipes = []recipe{
	{
		name: "storage-class", enforcedBy: byInnerDoor, lists: "`persistentvolumeclaims`", as: identity{"Impersonate-User": "alice"},
		prepare: []step{{post, "persistentvolumeclaims", with(object("persistentvolumeclaims", "gold", blue), "dev", "gold"), 201, ""}},
		steps: []step{
			{post, "persistentvolumeclaims", object("persistentvolumeclaims", "scratch", blue), 201, ""},
			{post, "persistentvolumeclaims", with(object("persistentvolumeclaims", "other", blue), "dev", "gold"), 403, "policy=alice-dev-volumes reason=NotMet"},
			{put, "persistentvolumeclaims/scratch", object("persistentvolumeclaims", "scratch", red), 200, ""},
			{put, "persistentvolumeclaims/gold", with(object("persistentvolumeclaims", "gold", red), "dev", "gold"), 403, "policy=alice-dev-volumes reason=NotMet"},
			{remove, "persistentvolumeclaims/gold", "", 403, "policy=alice-dev-volumes reason=NotMet"},
			{remove, "persistentvolumeclaims/scratch", "", 200, ""},
		},
	},
	{
		name: "sensitive-field-unchanged", enforcedBy: byInnerDoor, lists: "`deployments` of `apps`", as: identity{"Impersonate-User": "alice-rollouts"},
		prepare: []step{{post, "deployments", with(object("deployments", "web", blue), `"containers"`, recipeAccount), 201, ""}},
		steps: []step{
			{strategic, "deployments/web", `{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}}`, 200, ""},
			{merge, "deployments/web", `{"spec": {"template": {"spec": {"serviceAccountName": "deployer"}}}}`, 403, "policy=alice-rollouts reason=NotMet"},
		},
	},
	{
		name: "csr-signer-name", enforcedBy: byInnerDoor, lists: "`certificatesigningrequests` of `certificates.k8s.io`", as: identity{"Impersonate-User": "alice-certificates"},
		steps: []step{
			{post, "certificatesigningrequests", recipeSigner("recipe-1", "example.com/clients"), 201, ""},
			{post, "certificatesigningrequests", recipeSigner("recipe-2", "example.com/servers"), 403, "policy=alice-client-certificates reason=NotMet"},
		},
	},
	{
		name: "token-audience", enforcedBy: byInnerDoor, lists: "`serviceaccounts/token`", as: identity{"Impersonate-User": "alice-tokens"},
		prepare: []step{{post, "serviceaccounts", object("serviceaccounts", "ci", blue), 201, ""}},
		steps: []step{
			{post, "serviceaccounts/ci/token", tokenFor(`"vault.example.com"`), 201, ""},
			{post, "serviceaccounts/ci/token", tokenFor(`"vault.example.com", "https://kubernetes.default.svc"`), 403, "policy=demo/alice-vault-tokens reason=NotMet"},
			{post, "serviceaccounts/ci/token", tokenFor(""), 403, "policy=demo/alice-vault-tokens reason=NotMet"},
		},
	},
	{
		name: "own-finalizer", enforcedBy: byInnerDoor, lists: "`persistentvolumeclaims`", as: serviceAccount("backup", "controller"),
		prepare: []step{{post, "persistentvolumeclaims", object("persistentvolumeclaims", "data", blue), 201, ""}},
		steps: []step{
			{merge, "persistentvolumeclaims/data", `{"metadata": {"finalizers": ["kubernetes.io/pvc-protection", "example.com/backup"]}}`, 200, ""},
			{merge, "persistentvolumeclaims/data", `{"metadata": {"finalizers": ["example.com/backup"]}}`, 403, "policy=backup-finalizer reason=NotMet"},
			{merge, "persistentvolumeclaims/data", `{"metadata": {"labels": {"x": "1"}}}`, 403, "policy=backup-finalizer reason=NotMet"},
			{merge, "persistentvolumeclaims/data", `{"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}`, 200, ""},
		},
	},
	{
		name: "node-name", enforcedBy: byInnerDoor, lists: "`pods`",
		as:      identity{"Impersonate-User": "system:serviceaccount:monitoring:agent", "Impersonate-Extra-Authentication.kubernetes.io%2fnode-Name": "node-1"},
		prepare: []step{{post, "pods", recipePod("near", "node-1"), 201, ""}, {post, "pods", recipePod("far", "node-2"), 201, ""}},
		steps: []step{
			{merge, "pods/near", toBlue("1"), 200, ""},
			{merge, "pods/far", toBlue("1"), 403, "policy=agent-own-node reason=NotMet"},
			{remove, "pods/far", "", 403, "policy=agent-own-node reason=NotMet"},
			{remove, "pods/near", "", 200, ""},
		},
	},
	{
		name: "reviews-about-certain-users", enforcedBy: byProviso, as: identity{"Impersonate-User": "alice-reviews"},
		steps: []step{
			{post, "/apis/authorization.k8s.io/v1alpha1/subjectaccessreviews", podsReviewOf("v1alpha1", "developers"), 403, "policy=alice-team-reviews reason=NotMet"},
			{post, "/apis/authorization.k8s.io/v1alpha1/subjectaccessreviews", podsReviewOf("v1alpha1", "system:serviceaccounts"), 201, ""},
			{post, "/apis/authorization.k8s.io/v1/subjectaccessreviews", podsReviewOf("v1", "system:serviceaccounts"), 403, "policy=alice-team-reviews reason=Error"},
		},
	},
	{
		name: "dra-admin-access", enforcedBy: byBarriers, as: identity{"Impersonate-User": "tenant", "Impersonate-Group": "device-tenants"},
		prepare: []step{
			{post, "/api/v1/namespaces", `{"metadata": {"name": "devices", "labels": {"resource.kubernetes.io/admin-access": "true"}}}`, 201, ""},
		},
		steps: []step{
			{post, "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims", deviceClaim, 403, "policy=no-device-admin-access reason=Error"},
			{post, "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims", strings.Replace(deviceClaim, `"adminAccess": true`, `"adminAccess": false`, 1), 403, "policy=no-device-admin-access reason=Error"},
			{get, "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims/gpu", "", 404, ""},
		},
		beforeBarriers: []step{
			{post, "/api/v1/namespaces", `{"metadata": {"name": "former", "labels": {"resource.kubernetes.io/admin-access": "true"}}}`, 201, ""},
			{post, formerClaims, deviceClaim, 201, ""},
			{merge, "/api/v1/namespaces/former", `{"metadata": {"labels": {"resource.kubernetes.io/admin-access": null}}}`, 200, ""},
		},
		withBarriers: []step{
			// kube-apiserver has a rule of its own about new claims.
			{post, "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims", deviceClaim, 422, "admin access to devices requires"},
			{post, "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims", strings.Replace(deviceClaim, `"adminAccess": true`, `"adminAccess": false`, 1), 201, ""},
			{merge, formerClaims + "/gpu", toBlue("1"), 403, "policy=no-device-admin-access reason=Denied"},
			{post, "/apis/resource.k8s.io/v1/namespaces/devices/resourceclaims", deviceClaim, 201, ""},
		},
	},
	{
		name: "required-labels", enforcedBy: byBarriers, as: identity{"Impersonate-User": "tenant", "Impersonate-Group": "billed-tenants"},
		steps: []step{
			{post, "deployments", with(object("deployments", "billed", blue), `"team"`, `"cost-center": "4711", "team"`), 403, "policy=cost-center-required reason=Error"},
			{post, "deployments", object("deployments", "billed", blue), 403, "policy=cost-center-required reason=Error"},
			{get, "deployments/missing", "", 404, ""},
		},
		withBarriers: []step{
			{post, "deployments", object("deployments", "billed", blue), 403, "policy=cost-center-required reason=Denied"},
			{post, "deployments", with(object("deployments", "billed", blue), `"team"`, `"cost-center": "4711", "team"`), 201, ""},
			{merge, "deployments/billed", toBlue("1"), 200, ""},
			{merge, "deployments/billed", `{"metadata": {"labels": {"cost-center": null}}}`, 403, "policy=cost-center-required reason=Denied"},
		},
	},
	{
		name: "object-names", enforcedBy: byInnerDoor, lists: "`configmaps`", as: identity{"Impersonate-User": "alice-names"},
		steps: []step{
			{post, "configmaps", object("configmaps", "alice-settings", blue), 201, ""},
			{post, "configmaps", object("configmaps", "settings", blue), 403, "policy=demo/alice-prefixed-names reason=NotMet"},
		},
	},
	{
		name: "nodes-proxy-path", enforcedBy: byNone, as: serviceAccount("monitoring", "scraper"),
		steps: []step{
			{get, "/api/v1/nodes/node-1/proxy/metrics", "", 403, "policy=scraper-kubelet-metrics reason=Error"},
			{get, "/api/v1/nodes/node-1/proxy/run/kube-system/etcd/etcd", "", 403, "policy=scraper-kubelet-metrics reason=Error"},
		},
	},
	{
		name: "csr-sign-secondary-check", enforcedBy: byInnerDoor, lists: "`certificatesigningrequests/status` of `certificates.k8s.io`", as: identity{"Impersonate-User": "alice-signer", "Impersonate-Group": "certificate-signers"},
		prepare: []step{
			{post, "certificatesigningrequests", recipeSigner("recipe-3", "example.com/clients"), 201, ""},
			{post, "certificatesigningrequests", recipeSigner("recipe-4", "example.com/servers"), 201, ""},
		},
		steps: []step{
			{merge, "certificatesigningrequests/recipe-3/status", `{"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "r", "message": "m"}]}}`, 200, ""},
			// Signing itself is refused by an admission plugin of kube-apiserver, which makes the same check.
			{merge, "certificatesigningrequests/recipe-4/status", `{"status": {}}`, 403, "policy=certificate-signing reason=NotMet"},
		},
	},
	{
		name: "team-label-selector", enforcedBy: byFrontDoor, as: identity{"Impersonate-User": "alice-team"},
		steps: []step{
			{get, "pods?labelSelector=team%3Dblue", "", 200, ""},
			{get, "pods", "", 403, "policy=alice-team-blue reason=NotMet"},
		},
	},
}

func podsReviewOf(version, group string) string {
	return `{"apiVersion": "authorization.k8s.io/` + version + `", "kind": "SubjectAccessReview", "spec": {"user": "system:serviceaccount:demo:ci", "groups": ["` + group + `"],
  "resourceAttributes": {"verb": "get", "version": "v1", "resource": "pods", "namespace": "demo"}}}`
}

// testRecipes applies each recipe of the cookbook, and sends requests that it allows and refuses.
func testRecipes(t *testing.T, r *rig) {
	examples := filepath.Join(r.Manifests, "examples")
	document, err := os.ReadFile(filepath.Join(r.Manifests, "..", "docs", "cookbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	directories := 0
	entries, err := os.ReadDir(examples)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, err := os.Stat(filepath.Join(examples, entry.Name(), "policy.yaml")); err == nil {
			directories++
		}
	}
	if directories != len(recipes) {
		t.Errorf("there are %d examples, and %d recipes here", directories, len(recipes))
	}
	a := newRecipeSender(t, r)
	for _, recipe := range recipes {
		t.Run(recipe.name, func(t *testing.T) {
			readme, err := os.ReadFile(filepath.Join(examples, recipe.name, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(string(readme), "# "), "\n")
			row := fmt.Sprintf("| %s | %s | %s | %s |\n", title, recipe.enforcedBy, recipe.needs(), recipe.managed())
			if !strings.Contains(string(document), row) {
				t.Errorf("the cookbook has no row %q", row)
			}
			a.test(t, &recipe)
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

	pass *pass
}

func newRecipeSender(t *testing.T, r *rig) *recipeSender {
	t.Helper()
	return &recipeSender{rig: r, pass: &pass{rig: r, name: "recipe", csr: certificateRequest(t)}}
}

// send sends a step. query is added to the path of a write.
func (a *recipeSender) send(t *testing.T, s step, headers identity, query string) (int, string) {
	t.Helper()
	demo := func(text string) string { return strings.ReplaceAll(a.pass.fill(text), "table-recipe", "demo") }
	method, path, contentType := a.pass.request(&tableRow{method: s.method, target: s.target})
	if strings.HasPrefix(s.target, "/") {
		path = s.target
	}
	if method != http.MethodGet {
		path += query
	}
	code, answer, err := a.users[cluster.Admin].sendWith(t.Context(), method, demo(path), contentType, strings.NewReader(demo(s.body)), headers)
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

// prepare applies the policies of a recipe, and creates what its requests need.
func (a *recipeSender) prepare(t *testing.T, recipe *recipe) (policy string) {
	t.Helper()
	policy = filepath.Join(a.Manifests, "examples", recipe.name, "policy.yaml")
	for _, args := range [][]string{{"apply", "-f", policy}, {"wait", "--for=condition=Ready", "--timeout=30s", "-f", policy}} {
		if _, err := a.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	a.asAdmin(t, recipe.prepare)
	return policy
}

// asAdmin sends steps as the admin.
func (a *recipeSender) asAdmin(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		if code, answer := a.send(t, s, nil, ""); code != s.code {
			t.Fatalf("%s %s: got %d %s", s.method, s.target, code, answer)
		}
	}
}

// waitFor waits until a step has its outcome, as a dry run.
func (a *recipeSender) waitFor(t *testing.T, s step, as identity) {
	t.Helper()
	code, answer := 0, ""
	eventuallyOr(t, "the policies are known", func() bool {
		code, answer = a.send(t, s, as, "?dryRun=All")
		return code == s.code && strings.Contains(answer, s.reason)
	}, func() { t.Errorf("%s %s: got %d %.600s", s.method, s.target, code, answer) })
}

// test sends the requests of a recipe where the kube-apiserver asks both doors.
func (a *recipeSender) test(t *testing.T, recipe *recipe) {
	policy := a.prepare(t, recipe)
	a.waitFor(t, recipe.steps[0], recipe.as)
	user := recipe.as["Impersonate-User"]
	a.proxy.take(user)
	for _, s := range recipe.steps {
		code, answer := a.send(t, s, recipe.as, "")
		calls := a.proxy.take(user)
		if isCalled := recipe.lists != ""; code != s.code || !strings.Contains(answer, s.reason) || (len(calls) > 0) != isCalled {
			t.Errorf("%s %s %s\ngot %d after %d calls: %.600s\nwant %d (%s), the inner door called: %t", s.method, s.target, s.body, code, len(calls), answer, s.code, s.reason, isCalled)
		}
		for _, call := range calls {
			if listed := listedResource(call); listed != recipe.lists {
				t.Errorf("%s %s: the inner door is called for %s, and the recipe lists %s", s.method, s.target, listed, recipe.lists)
			}
		}
	}
	if _, err := a.Kubectl(t.Context(), "", "delete", "--wait=false", "-f", policy); err != nil {
		t.Fatal(err)
	}
}
