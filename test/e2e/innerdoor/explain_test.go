/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	kubectlplugin "github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/nearmiss"
)

// missRow is a request that a recipe refuses, and that explain is asked about.
type missRow struct {
	recipe, verb, group, resource, subresource, name string

	target string
	// refusal is a text in the refusal, "reason=NotMet" if it is empty. refused is its code, 403 if it is 0.
	refusal string
	refused int
	// body is the object of a create. For an update, it is a merge patch that the test puts into the stored object.
	body string
	// prepare creates the stored object, as admin.
	prepare step
	// again is the target for a delete of an object to which the near miss applies.
	again string
	want  string // the near miss
	code  int    // of the request with the near miss
}

var missRows = []missRow{
	{
		recipe: "storage-class", verb: "create", resource: "persistentvolumeclaims", target: "persistentvolumeclaims",
		body: with(object("persistentvolumeclaims", "miss", blue), "dev", "gold"), want: `set spec.storageClassName to "dev"`, code: 201,
	},
	{
		recipe: "storage-class", verb: "delete", resource: "persistentvolumeclaims", name: "far", target: "persistentvolumeclaims", again: "near",
		prepare: step{post, "persistentvolumeclaims", with(object("persistentvolumeclaims", "far", blue), "dev", "gold"), 201, ""},
		want:    `set spec.storageClassName to "dev"`, code: 200,
	},
	{
		recipe: "sensitive-field-unchanged", verb: "update", group: "apps", resource: "deployments", name: "miss", target: "deployments",
		prepare: step{post, "deployments", with(object("deployments", "miss", blue), `"containers"`, recipeAccount), 201, ""},
		body:    `{"spec": {"template": {"spec": {"serviceAccountName": "deployer"}}}}`, want: `set spec.template.spec.serviceAccountName to "web"`, code: 200,
	},
	{
		recipe: "csr-signer-name", verb: "create", group: "certificates.k8s.io", resource: "certificatesigningrequests", target: "certificatesigningrequests",
		body: recipeSigner("miss", "example.com/servers"), want: `set spec.signerName to "example.com/clients"`, code: 201,
	},
	{
		recipe: "own-finalizer", verb: "update", resource: "persistentvolumeclaims", name: "miss-data", target: "persistentvolumeclaims",
		prepare: step{post, "persistentvolumeclaims", object("persistentvolumeclaims", "miss-data", blue), 201, ""},
		body:    `{"metadata": {"labels": {"x": "1"}}}`, want: `remove metadata.labels.x`, code: 200,
	},
	{
		recipe: "node-name", verb: "delete", resource: "pods", name: "miss-far", target: "pods", again: "miss-near",
		prepare: step{post, "pods", recipePod("miss-far", "node-2"), 201, ""}, want: `set spec.nodeName to "node-1"`, code: 200,
	},
	{
		recipe: "reviews-about-certain-users", verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews", target: "/apis/authorization.k8s.io/v1alpha1/subjectaccessreviews",
		body: podsReviewOf("v1alpha1", "developers"), want: `set spec.groups[0] to "system:authenticated"`, code: 201,
	},
	{
		recipe: "object-names", verb: "create", resource: "configmaps", target: "configmaps",
		body: object("configmaps", "miss", blue), want: `set metadata.name to "alice-miss"`, code: 201,
	},
	{
		recipe: "token-audience", verb: "create", resource: "serviceaccounts", subresource: "token", name: "ci", target: "serviceaccounts/ci/token",
		prepare: step{post, "serviceaccounts", object("serviceaccounts", "ci", blue), 201, ""},
		body:    tokenFor(`"vault.example.com", "https://kubernetes.default.svc"`), want: `set spec.audiences to ["vault.example.com"]`, code: 201,
	},
	{
		recipe: "required-labels", verb: "create", group: "apps", resource: "deployments", target: "deployments", refusal: "reason=Denied",
		body: object("deployments", "miss-billed", blue), want: `set metadata.labels["cost-center"] to "example"`, code: 201,
	},
}

// deviceRow is refused by the policy and by a rule of kube-apiserver, whose message comes first. Its condition reads the namespace, which
// explain reads from the cluster.
var deviceRow = missRow{
	recipe: "dra-admin-access", verb: "create", group: "resource.k8s.io", resource: "resourceclaims", target: "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims",
	refusal: "admin access to devices requires", refused: http.StatusUnprocessableEntity,
	body: deviceClaim, want: "set spec.devices.requests[0].exactly.adminAccess to false", code: 201,
}

// explained is what the tests read of an explanation.
type explained struct {
	Decision string
	NearMiss *nearmiss.NearMiss
}

// explain runs kubectl proviso explain with the policies of the cluster.
func (r *rig) explain(t *testing.T, user, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectlplugin.Run(t.Context(), append([]string{"explain", "--kubeconfig", r.Kubeconfig(), "--context", user}, args...), streams)
	return stdout.String(), stderr.String(), code
}

func (r *rig) nearMiss(t *testing.T, input string, args ...string) explained {
	t.Helper()
	out, errOut, code := r.explain(t, cluster.Admin, input, append(args, "-o", "json")...)
	e := explained{}
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 1 || e.NearMiss == nil {
		t.Fatalf("got %d %s%s", code, out, errOut)
	}
	return e
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(v); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func fromJSON(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return object
}

func merged(into, patch map[string]any) map[string]any {
	for name, value := range patch {
		if inner, isMap := value.(map[string]any); isMap {
			below, _ := into[name].(map[string]any)
			if below == nil {
				below = map[string]any{}
			}
			value = merged(below, inner)
		}
		into[name] = value
	}
	return into
}

// question returns the request of a row as the documents that explain reads.
func (row *missRow) question(t *testing.T, as identity, object, old map[string]any) string {
	t.Helper()
	attributes := map[string]any{"verb": row.verb, "group": row.group, "version": "v1", "resource": row.resource, "subresource": row.subresource, "name": row.name}
	if row.group != "certificates.k8s.io" && row.group != "authorization.k8s.io" {
		attributes["namespace"] = "demo"
	}
	if row.group == "authorization.k8s.io" {
		attributes["version"] = "v1alpha1"
	}
	spec := map[string]any{"user": as["Impersonate-User"], "resourceAttributes": attributes}
	if group := as["Impersonate-Group"]; group != "" {
		spec["groups"] = []string{group}
	}
	if node := as["Impersonate-Extra-Authentication.kubernetes.io%2fnode-Name"]; node != "" {
		spec["extra"] = map[string]any{"authentication.kubernetes.io/node-name": []string{node}}
	}
	data := map[string]any{"operation": strings.ToUpper(row.verb)}
	if object != nil {
		data["object"] = object
	}
	if old != nil {
		data["oldObject"] = old
	}
	const group = "authorization.k8s.io/v1alpha1"
	return asJSON(t, map[string]any{"apiVersion": group, "kind": "SubjectAccessReview", "spec": spec}) + "---\n" +
		asJSON(t, map[string]any{"apiVersion": group, "kind": "AuthorizationConditionsReview", "request": data})
}

// TestExplain sends requests that the recipes refuse, and again with the near miss that explain finds with the policies of the cluster. The suites of the
// examples and of the templates follow.
func TestExplain(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(c *cluster.Config) {
		c.InnerDoor, c.Args = &cluster.InnerDoor{Configuration: tableResources}, append(c.Args, "--barriers")
	})
	a := newRecipeSender(t, r)
	for _, row := range append(missRows, deviceRow) {
		t.Run(row.recipe+" "+row.verb, func(t *testing.T) { a.testMiss(t, &row) })
	}
	t.Run("suites", a.testSuites)
	t.Run("audit log", func(t *testing.T) { testExplainAuditLog(t, r) })
}

func (a *recipeSender) testMiss(t *testing.T, row *missRow) {
	var of recipe
	for _, r := range recipes {
		if r.name == row.recipe {
			of = r
		}
	}
	of.prepare = nil
	if row.prepare.method != "" {
		of.prepare = []step{row.prepare}
	}
	policy := a.prepare(t, &of)
	stored := func(name string) map[string]any {
		_, answer := a.send(t, step{get, row.target + "/" + name, "", 200, ""}, nil, "")
		return fromJSON(t, answer)
	}
	filled := func(text string) map[string]any { return fromJSON(t, a.pass.fill(text)) }
	refusal, refusedCode := cmp.Or(row.refusal, "reason=NotMet"), cmp.Or(row.refused, http.StatusForbidden)
	var refused step
	var question string
	var object map[string]any
	switch row.verb {
	case "create":
		object = filled(row.body)
		refused = step{post, row.target, asJSON(t, object), refusedCode, refusal}
		question = row.question(t, of.as, object, nil)
	case "update":
		object = merged(stored(row.name), filled(row.body))
		refused = step{put, row.target + "/" + row.name, asJSON(t, object), refusedCode, refusal}
		question = row.question(t, of.as, object, stored(row.name))
	case "delete":
		object = stored(row.name)
		refused = step{remove, row.target + "/" + row.name, "", refusedCode, refusal}
		question = row.question(t, of.as, nil, object)
	}
	a.waitFor(t, refused, of.as)
	e := a.nearMiss(t, question, "-f", "-")
	if got := strings.TrimSuffix(e.NearMiss.Action+" "+e.NearMiss.Field+" to "+e.NearMiss.Value, " to "); got != row.want {
		t.Errorf("got %s, want %s", got, row.want)
	}
	object = e.NearMiss.Apply(t, object).(map[string]any)
	passing := refused
	if passing.body = asJSON(t, object); row.verb == "delete" {
		created := merged(filled(row.prepare.body), map[string]any{"metadata": map[string]any{"name": row.again}})
		a.asAdmin(t, []step{{post, row.target, asJSON(t, e.NearMiss.Apply(t, created)), 201, ""}})
		passing.target, passing.body = row.target+"/"+row.again, ""
	}
	if code, answer := a.send(t, passing, of.as, ""); code != row.code {
		t.Errorf("%s %s with the near miss %s: got %d %.600s, want %d", passing.method, passing.target, row.want, code, answer, row.code)
	}
	if _, err := a.Kubectl(t.Context(), "", "delete", "--wait=false", "-f", policy); err != nil {
		t.Fatal(err)
	}
}

// testExplainAuditLog explains a refusal in the audit log of kube-apiserver, as admin and as a user who may not list policies.
func testExplainAuditLog(t *testing.T, r *rig) {
	policy := filepath.Join(r.Manifests, "examples", "storage-class", "policy.yaml")
	for _, args := range [][]string{{"create", "namespace", cluster.AuditedNamespace}, {"apply", "-f", policy}, {"wait", "--for=condition=Ready", "--timeout=30s", "-f", policy}} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/v1/namespaces/" + cluster.AuditedNamespace + "/persistentvolumeclaims"
	send := func(object map[string]any) (int, string) {
		code, answer, err := r.users[cluster.Admin].sendWith(t.Context(), http.MethodPost, path, jsonType, strings.NewReader(asJSON(t, object)), identity{"Impersonate-User": "alice"})
		if err != nil {
			t.Fatal(err)
		}
		return code, answer
	}
	claim := fromJSON(t, with(object("persistentvolumeclaims", "archive", blue), "dev", "gold"))
	delete(claim["metadata"].(map[string]any)["labels"].(map[string]any), "pass")
	eventually(t, "the policy is known", func() bool {
		code, answer := send(claim)
		return code == 403 && strings.Contains(answer, "reason=NotMet")
	})
	id := ""
	eventually(t, "the audit log has the refusal", func() bool {
		content, err := os.ReadFile(r.AuditLog())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, `"namespace":"`+cluster.AuditedNamespace+`"`) && strings.Contains(line, "reason=NotMet") {
				id = regexp.MustCompile(`"auditID":"([^"]+)"`).FindStringSubmatch(line)[1]
			}
		}
		return id != ""
	})
	e := r.nearMiss(t, "", "--audit-log", r.AuditLog(), "--audit-id", id)
	if code, answer := send(e.NearMiss.Apply(t, claim).(map[string]any)); code != http.StatusCreated {
		t.Errorf("with the near miss: got %d %.600s", code, answer)
	}
	content, err := os.ReadFile(r.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	out, errOut, code := r.explain(t, cluster.Admin, string(content), "--audit-log=-", "--audit-id", id)
	golden.Compare(t, filepath.Join("testdata", "explain-admin.golden.txt"), out)
	if code != 1 || errOut != "" {
		t.Errorf("as admin: got %d %s", code, errOut)
	}
	out, errOut, code = r.explain(t, "alice", string(content), "--audit-log=-", "--audit-id", id)
	golden.Compare(t, filepath.Join("testdata", "explain-alice.golden.txt"), errOut)
	if code != 2 || out != "" {
		t.Errorf("as alice: got %d %s", code, out)
	}
}
