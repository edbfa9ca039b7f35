/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestOwnRows has requests and configurations that could open the inner door, one by one.
func TestOwnRows(t *testing.T) {
	t.Parallel()
	resources := plane.TestData(t, "inner-door-table.yaml")
	r := newRig(t, "", func(c *cluster.Config) {
		c.InnerDoor = &cluster.InnerDoor{Configuration: resources + "askOtherAuthorizers: true", KubeAPIServer: newOtherAuthorizer(t)}
	})
	r.MustApply(t, plane.TestData(t, "widgets.yaml"))
	rows, runner := r.prepare(t, "own.yaml"), r.runner()
	r.begin(t, rows)

	t.Run("rows", func(t *testing.T) { runner.Run(t, rows["own"]) })
	t.Run("names of users", func(t *testing.T) {
		await(t, runner, rows["names of users"][:1])
		runner.Run(t, rows["names of users"])
	})
	t.Run("connections in the list", func(t *testing.T) { testConnectionsListed(t, r) })
	late := r.holdForLong(t)
	t.Run("late bodies", func(t *testing.T) { testManyLateBodies(t, r) })
	t.Run("recipes", func(t *testing.T) { testRecipes(t, r) })
	t.Run("recipes in Audit", func(t *testing.T) { testRecipesInAudit(t, r) })
	t.Run("the canary's ConfigMap refused by another webhook", func(t *testing.T) { testCanaryRefused(t, r, rows) })
	t.Run("a group taken over by an APIService", func(t *testing.T) { testTakenOver(t, r, rows) })
	t.Run("a body that takes 30 seconds", func(t *testing.T) { late.testRefused(t) })
	// An administrator who declares another webhook as strict on the version "*" opens what it denies.
	t.Run("another webhook that is not as strict", func(t *testing.T) {
		runner.Run(t, rows["declared"])
		r.reconfigure(t, rows, resources+"askOtherAuthorizers: false", func() {})
		runner.Run(t, rows["undeclared"])
	})
	t.Run("an older AuthorizationConfiguration", func(t *testing.T) { testOlderAuthorization(t, r, rows, resources) })
	t.Run("the last policy of all", func(t *testing.T) { testLastPolicy(t, r) })
}

// testConnectionsListed has lists that the command refuses.
func testConnectionsListed(t *testing.T, r *rig) {
	content, err := os.ReadFile(r.InnerDoorConfig())
	if err != nil {
		t.Fatal(err)
	}
	for resource, want := range map[string]string{
		"{resource: pods, subresource: exec}": "exec", "{resource: pods, subresource: attach}": "attach", "{resource: pods, subresource: portforward}": "portforward",
		"{resource: pods, subresource: proxy}": "proxy", "{resource: services, subresource: proxy}": "proxy", "{resource: nodes, subresource: proxy}": "proxy",
		"{resource: nodes, subresource: status}": "nodes/status cannot be listed", "{resource: pods, subresource: eviction}": "eviction", "{resource: bindings}": "bindings cannot be listed",
		`{group: apps, resource: "*"}`: "Wildcards cannot be listed", `{group: "*", resource: pods}`: "group", "{group: authorization.k8s.io, resource: subjectaccessreviews}": "cannot be listed",
		"{group: admissionregistration.k8s.io, resource: validatingadmissionpolicies}": "cannot be listed", "{group: policy.proviso.dev, resource: clusterauthorizationpolicies}": "cannot be listed",
	} {
		file := filepath.Join(t.TempDir(), "inner-door.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(string(content), "resources:\n", "resources:\n- "+resource+"\n", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "proviso-apiserver"), "inner-door-config", "--config", file, "--output", t.TempDir()).CombinedOutput()
		if err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: got %v: %s, want a refusal with %q", resource, err, output, want)
		}
	}
}

// testCanaryRefused has another webhook that refuses the canaries: no write passes on conditions while it does.
func testCanaryRefused(t *testing.T, r *rig, rows map[string][]*requests.Row) {
	url := r.serveWebhook(t, "refuses", func(w http.ResponseWriter, request *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(request.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "no ConfigMaps here"}}
		w.Header().Set("Content-Type", jsonType)
		_ = json.NewEncoder(w).Encode(review)
	})
	r.MustApply(t, r.fill(t, plane.TestData(t, "refuses.yaml"), url))
	await(t, r.runner(), rows["no canary"])
	if _, state := r.direct(t, "/readyz/inner-door"); !strings.Contains(state, "no ConfigMaps here") {
		t.Errorf("the state of the kube-apiserver is %s", state)
	}
	r.runner().Run(t, rows["RBAC"])
	r.MustKubectl(t, "delete", "mutatingwebhookconfiguration", "refuses")
	await(t, r.runner(), rows["wait"])
}

// testTakenOver deletes the CustomResourceDefinition of widgets, and has another server serve their group.
func testTakenOver(t *testing.T, r *rig, rows map[string][]*requests.Row) {
	runner := r.runner()
	await(t, runner, rows["widgets"][:1])
	runner.Run(t, rows["widgets"])
	r.MustKubectl(t, "delete", "crd", "widgets.example.com")
	r.MustKubectl(t, "apply", "-f", "testdata/other-server.yaml")
	calls := 0
	runner.After = func(_ *requests.Row, answer *requests.Answer, taken []*admissionv1.AdmissionRequest) {
		if calls += len(taken); answer.Code < http.StatusMultipleChoices {
			t.Errorf("got %d %s from a server that does not call the inner door", answer.Code, answer.Body)
		}
	}
	poll.Probe(t, "no write to widgets passes on conditions", func() bool { return runner.Try(t, rows["widgets of another server"][0]) == "" })
	if calls > 1 { // the CustomResourceDefinition may have been served for one more request
		t.Errorf("the inner door was called %d times", calls)
	}
	r.MustKubectl(t, "delete", "apiservice", "v1.example.com")
}

// reconfigure gives kube-apiserver and Proviso another configuration. change is called between the two.
func (r *rig) reconfigure(t *testing.T, rows map[string][]*requests.Row, configuration string, change func()) {
	t.Helper()
	r.InnerDoor.Configuration = configuration
	if err := errors.Join(r.WriteInnerDoor(t.Context()), r.Kill()); err != nil {
		t.Fatal(err)
	}
	change()
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, r.runner(), rows["wait"]) // writes pass on conditions with the new configuration
	r.proxy.reset()
}

// testOlderAuthorization installs a newer manifest without its AuthorizationConfiguration. With the older one the front door is asked about
// the marked checks of kube-apiserver, and about a user whom the newer manifest leaves out.
func testOlderAuthorization(t *testing.T, r *rig, rows map[string][]*requests.Row, resources string) {
	file := filepath.Join(r.InnerDoorFiles(), "authorization.yaml")
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r.reconfigure(t, rows, resources+`
askOtherAuthorizers: true
excludedIdentities:
  users: ["system:serviceaccount:proviso-system:proviso-apiserver", "system:apiserver", opal]
`, func() {
		if newer, err := os.ReadFile(file); err != nil || string(newer) == string(older) {
			t.Fatalf("the AuthorizationConfiguration has not changed: %v", err)
		}
		replaceFile(t, r.Servers[0], file, string(older))
	})
	poll.Holds(t, "the front door is asked about marked checks", func() bool {
		return r.runner().Try(t, rows["wait"][0]) == "" && r.questions("owen", func(a *authorizationv1.ResourceAttributes) bool { return a.Version == "*" && a.LabelSelector != nil }) > 0
	})
	r.proxy.reset()
	r.runner().Run(t, rows["older"])
}
