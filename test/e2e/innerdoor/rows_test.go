/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// ownPolicies are what the users of ownRows may do, each on a condition that wants the team blue.
const ownPolicies = `
apiVersion: v1
kind: Namespace
metadata: {name: own}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: own-blue}
spec:
  effect: Allow
  subjects: [{kind: User, name: una}, {kind: User, name: nora}, {kind: User, name: cora}, {kind: User, name: owen}, {kind: User, name: mallory}, {kind: User, name: opal}, {kind: User, name: ada}]
  rules:
  - {verbs: [create, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps, services]}
  - {verbs: [create, patch], apiGroups: [example.com], apiVersions: [v1], resources: [widgets]}
  condition: object.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: own-reads}
spec:
  effect: Allow
  subjects: [{kind: User, name: una}, {kind: User, name: nora}, {kind: User, name: cora}, {kind: User, name: owen}, {kind: User, name: tess}]
  rules: [{verbs: [get, list], apiGroups: [""], resources: [configmaps, services, pods]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: una-no-update}
spec:
  effect: Deny
  subjects: [{kind: User, name: una}]
  rules: [{verbs: [update], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: cora-no-secret-data}
spec:
  effect: Deny
  subjects: [{kind: User, name: cora}]
  rules: [{verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: has(object.data) && "secret" in object.data
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: pods-blue}
spec:
  effect: Allow
  subjects: [{kind: User, name: terry}, {kind: User, name: tess}]
  rules: [{verbs: [delete, deletecollection], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  condition: oldObject.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: updates}
rules: [{verbs: [update], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: updates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: updates}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: una}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: by-name}
rules: [{verbs: [create, update], apiGroups: [""], resources: [configmaps, services], resourceNames: [named]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: by-name}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: by-name}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nora}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: creates}
rules: [{verbs: [create], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: creates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: creates}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: cora}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`

const ownMaps = "/api/v1/namespaces/own/configmaps"

// ownMap is a ConfigMap of a team.
func ownMap(name, team string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {"team": %q}}, "data": {"k": "v"}}`, name, team)
}

// TestOwnRows has requests and configurations that could open the inner door, one by one.
func TestOwnRows(t *testing.T) {
	t.Parallel()
	others := newOtherAuthorizer(t)
	r := newRigWith(t, &cluster.InnerDoor{Configuration: tableResources + "askOtherAuthorizers: true", KubeAPIServer: others.lines})
	r.apply(t, widgets)
	r.apply(t, ownPolicies)
	for _, args := range [][]string{
		{"wait", "--for=condition=Established", "crd", "--all"}, {"wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"},
	} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	rows, runner := table(t, "own.yaml").Rows, r.runner()
	runner.Run(t, rows["before"])
	poll.Holds(t, "writes pass on conditions", func() bool { return r.dryRun(t, "owen", "blue") == http.StatusCreated })

	t.Run("rows", func(t *testing.T) { runner.Run(t, rows["own"]) })
	t.Run("names of users", func(t *testing.T) { testNamesOfUsers(t, r) })
	t.Run("connections in the list", func(t *testing.T) { testConnectionsListed(t, r) })
	late := r.holdForLong(t)
	t.Run("late bodies", func(t *testing.T) { testManyLateBodies(t, r) })
	t.Run("recipes", func(t *testing.T) { testRecipes(t, r) })
	t.Run("recipes in Audit", func(t *testing.T) { testRecipesInAudit(t, r) })
	t.Run("the canary's ConfigMap refused by another webhook", func(t *testing.T) { testCanaryRefused(t, r) })
	t.Run("a group taken over by an APIService", func(t *testing.T) { testTakenOver(t, r) })
	t.Run("a body that takes 30 seconds", func(t *testing.T) { late.testRefused(t) })
	t.Run("another webhook that is not as strict", func(t *testing.T) { testLessStrict(t, r, rows) })
	t.Run("an older AuthorizationConfiguration", func(t *testing.T) { testOlderAuthorization(t, r, rows) })
	t.Run("the last policy of all", func(t *testing.T) { testLastPolicy(t, r) })
}

// sendAs sends a request of a user whom the admin impersonates.
func (r *rig) sendAs(t *testing.T, user, method, path, contentType, body string) (int, string) {
	t.Helper()
	return r.sender.Send(t, &requests.User{Name: user}, method, path, contentType, body)
}

// dryRun returns the answer to a user who would create a ConfigMap of a team.
func (r *rig) dryRun(t *testing.T, user, team string) int {
	t.Helper()
	code, _ := r.sendAs(t, user, "POST", ownMaps+"?dryRun=All", jsonType, ownMap("dry", team))
	return code
}

// testNamesOfUsers has a user whose name has quotes and a line break, and users whose names are similar.
func testNamesOfUsers(t *testing.T, r *rig) {
	const odd = "quo\"te\n'alice' || true) # \\u0022"
	r.apply(t, fmt.Sprintf(`
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: odd}
spec:
  effect: Allow
  subjects: [{kind: User, name: %[1]q}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: 'object.metadata.?labels["team"].orValue("") == "blue" && request.userInfo.username == "quo\"te\n''alice'' || true) # \\u0022"'
`, odd))
	post := func(user, team string) (int, string) {
		return r.send(t, user, "POST", ownMaps+"?dryRun=All", jsonType, ownMap("odd", team))
	}
	poll.Holds(t, "the policy is known", func() bool { code, _ := post(odd, "blue"); return code == http.StatusCreated })
	if code, answer := post(odd, "red"); code != http.StatusForbidden || !strings.Contains(answer, "policy=odd reason=NotMet") {
		t.Errorf("got %d %s, want a refusal by the condition", code, answer)
	}
	for _, similar := range []string{"quo\"te 'alice' || true) # \\u0022", "quo\"te\n'alice' || true) # \"", "quo\\\"te\\n'alice' || true) # \\u0022", odd + "\n", "quo\"te\r\n'alice' || true) # \\u0022", "alice"} {
		if code, answer := post(similar, "blue"); code != http.StatusForbidden || !strings.Contains(answer, "cannot create resource") || len(r.proxy.take(similar)) != 0 {
			t.Errorf("%q: got %d %s, want a refusal", similar, code, answer)
		}
	}
	if len(r.proxy.take(odd)) < 2 {
		t.Error("the inner door has not been called for the user")
	}
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
func testCanaryRefused(t *testing.T, r *rig) {
	certFile, keyFile, err := r.ServingCertificate("refuses")
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(r.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, certFile, keyFile, tls.NoClientCert, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(request.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "no ConfigMaps here"}}
		w.Header().Set("Content-Type", jsonType)
		_ = json.NewEncoder(w).Encode(review)
	}))
	r.apply(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: refuses}
webhooks:
- name: refuses.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: %q, caBundle: %q}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
`, url, base64.StdEncoding.EncodeToString(ca), cluster.Namespace))
	post := func() (int, string) {
		return r.sendAs(t, "owen", "POST", ownMaps+"?dryRun=All", jsonType, ownMap("dry", "blue"))
	}
	poll.Holds(t, "no write passes on conditions", func() bool {
		code, answer := post()
		return code == http.StatusForbidden && strings.Contains(answer, "this kube-apiserver is not known to call the inner door")
	})
	if _, state := r.direct(t, "/readyz/inner-door"); !strings.Contains(state, "no ConfigMaps here") {
		t.Errorf("the state of the kube-apiserver is %s", state)
	}
	if code := r.dryRun(t, "rob", "red"); code != http.StatusCreated {
		t.Errorf("RBAC: got %d", code)
	}
	if _, err := r.Kubectl(t.Context(), "", "delete", "mutatingwebhookconfiguration", "refuses"); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "writes pass again", func() bool { code, _ := post(); return code == http.StatusCreated })
}

// testTakenOver deletes the CustomResourceDefinition of widgets, and has another server serve their group.
func testTakenOver(t *testing.T, r *rig) {
	const path = "/apis/example.com/v1/namespaces/own/widgets"
	post := func(team string) (int, string) {
		return r.sendAs(t, "owen", "POST", path+"?dryRun=All", jsonType, fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"team": %q}}, "spec": {"size": 2.5}}`, team))
	}
	r.proxy.take("owen")
	poll.Holds(t, "widgets can be created", func() bool { code, _ := post("blue"); return code == http.StatusCreated })
	if code, answer := post("red"); code != http.StatusForbidden || len(r.proxy.take("owen")) < 2 {
		t.Errorf("got %d %s, want a refusal by the inner door", code, answer)
	}
	if _, err := r.Kubectl(t.Context(), "", "delete", "crd", "widgets.example.com"); err != nil {
		t.Fatal(err)
	}
	r.apply(t, fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.example.com}
spec: {group: example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 9, insecureSkipTLSVerify: true, service: {name: %s, namespace: %s, port: 443}}
`, cluster.Service, cluster.Namespace))
	poll.Probe(t, "no write to widgets passes on conditions", func() bool {
		code, answer := post("blue")
		if code < 300 {
			t.Errorf("got %d %s from a server that does not call the inner door", code, answer)
		}
		return code == http.StatusForbidden && strings.Contains(answer, "kube-apiserver is not known to serve this version itself")
	})
	if calls := r.proxy.take("owen"); len(calls) > 1 { // the CustomResourceDefinition may have been served for one more request
		t.Errorf("the inner door was called %d times", len(calls))
	}
	if _, err := r.Kubectl(t.Context(), "", "delete", "apiservice", "v1.example.com"); err != nil {
		t.Fatal(err)
	}
}

// reconfigure gives kube-apiserver and Proviso another configuration. change is called between the two.
func (r *rig) reconfigure(t *testing.T, configuration string, change func()) {
	t.Helper()
	r.InnerDoor.Configuration = configuration
	if err := errors.Join(r.WriteInnerDoor(t.Context()), r.Kill()); err != nil {
		t.Fatal(err)
	}
	change()
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "writes pass on conditions with the new configuration", func() bool { return r.dryRun(t, "owen", "blue") == http.StatusCreated })
	r.proxy.reset()
}

// testLessStrict has another webhook that denies mallory ConfigMaps in v1 only, while RBAC allows them. An administrator who declares it as
// strict on the version "*" opens what it denies. Without the declaration the inner door asks in the concrete version.
func testLessStrict(t *testing.T, r *rig, rows map[string][]*requests.Row) {
	r.runner().Run(t, rows["declared"])
	r.reconfigure(t, tableResources+"askOtherAuthorizers: false", func() {})
	r.runner().Run(t, rows["undeclared"])
}

// testOlderAuthorization installs a newer manifest without its AuthorizationConfiguration. With the older one the front door is asked about
// the marked checks of kube-apiserver, and about a user whom the newer manifest leaves out.
func testOlderAuthorization(t *testing.T, r *rig, rows map[string][]*requests.Row) {
	file := filepath.Join(r.InnerDoorFiles(), "authorization.yaml")
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r.reconfigure(t, tableResources+`
askOtherAuthorizers: true
excludedIdentities:
  users: ["system:serviceaccount:proviso-system:proviso-apiserver", "system:apiserver", opal]
`, func() {
		if newer, err := os.ReadFile(file); err != nil || string(newer) == string(older) {
			t.Fatalf("the AuthorizationConfiguration has not changed: %v", err)
		}
		changed := filepath.Join(r.InnerDoorFiles(), "older.yaml")
		if err := errors.Join(os.WriteFile(changed, older, 0o600), os.Rename(changed, file)); err != nil {
			t.Fatal(err)
		}
	})
	marked := func() int {
		return r.questions("owen", func(a *authorizationv1.ResourceAttributes) bool { return a.Version == "*" && a.LabelSelector != nil })
	}
	poll.Holds(t, "the front door is asked about marked checks", func() bool { return r.dryRun(t, "owen", "blue") == http.StatusCreated && marked() > 0 })
	r.proxy.reset()
	r.runner().Run(t, rows["older"])
}
