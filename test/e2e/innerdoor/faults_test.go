/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testMarker has a user whom a Deny policy keeps from secrets that RBAC lets her read. No form of the marker in the selector of a request helps.
func testMarker(t *testing.T, r *rig) {
	r.apply(t, `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: rob-no-secrets}
spec:
  effect: Deny
  subjects: [{kind: User, name: rob}]
  rules: [{verbs: [get, list, watch, deletecollection], apiGroups: [""], resources: [secrets]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: secrets}
rules: [{verbs: [get, list, watch, deletecollection], apiGroups: [""], resources: [secrets]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: secrets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: secrets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`)
	poll.Holds(t, "the Deny policy is in effect", func() bool {
		code, answer := r.send(t, "rob", "GET", core+"secrets", "", "")
		return code == http.StatusForbidden && strings.Contains(answer, "policy=rob-no-secrets")
	})
	const key = manifest.OtherAuthorizersKey
	type form struct{ name, path, query string }
	forms := []form{{"none", "", ""}}
	for _, selector := range []string{
		key, "!" + key, key + " in (a)", key + "=", key + "==", key + "!=a", key + "," + key, key + ",a", key + " notin (a)", key + " in (a,b)", key + ">1",
		" " + key + " ", strings.ToUpper(key), key + ",", "," + key, key + "\n", key + ",!" + key, key + "/x", "a," + key, key + " exists",
	} {
		forms = append(forms, form{selector, "", "labelSelector=" + url.QueryEscape(selector)}, form{"field " + selector, "", "fieldSelector=" + url.QueryEscape(selector)})
	}
	marker := "labelSelector=" + url.QueryEscape(key)
	forms = append(forms,
		form{"twice", "", marker + "&" + marker}, form{"and none", "", marker + "&labelSelector="}, form{"none and one", "", "labelSelector=&" + marker},
		form{"with a field", "", marker + "&fieldSelector=metadata.name%3Da"}, form{"with a version", "", marker + "&apiVersion=*&version=*"},
		form{"with a dry run", "", marker + "&dryRun=All"}, form{"with a limit", "", marker + "&limit=1"}, form{"from the cache", "", marker + "&resourceVersion=0"},
		form{"with initial events", "", marker + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"}, form{"in lower case", "", "labelselector=" + key},
		form{"unescaped", "", "labelSelector=" + key}, form{"double escaped", "", "labelSelector=" + url.QueryEscape(url.QueryEscape(key))},
		form{"of one name", "/a", marker}, form{"of all namespaces", "all", marker}, form{"under watch", "watch", marker},
	)
	for _, f := range forms {
		path := core + "secrets" + f.path
		switch f.path {
		case "all":
			path = "/api/v1/secrets"
		case "watch":
			path = "/api/v1/watch/namespaces/" + demo + "/secrets"
		}
		requests := map[string][2]string{"list": {"GET", path + "?" + f.query}, "watch": {"GET", path + "?watch=1&timeoutSeconds=1&" + f.query}}
		if f.path == "" {
			requests["deletecollection"] = [2]string{"DELETE", path + "?" + f.query}
		}
		for name, request := range requests {
			if code, answer := r.send(t, "rob", request[0], request[1], "", ""); code != http.StatusForbidden || !strings.Contains(answer, "policy=rob-no-secrets") {
				t.Errorf("%s with %s: got %d %.200s, want 403 by the policy", name, f.name, code, answer)
			}
		}
	}
}

// testAudit looks for what the inner door says in the audit log of kube-apiserver.
func testAudit(t *testing.T, r *rig) {
	const hook = `"create.inner-door.proviso.static.k8s.io/`
	want := []string{
		hook + `decision":"allow"`, hook + `decision":"deny"`, hook + `condition":"cluster.policy.proviso.dev/dana-dev-claims"`,
		hook + `reason":"policy=dana-dev-claims reason=NotMet: dana writes claims of class dev`,
	}
	poll.Holds(t, "the audit log has the decisions", func() bool {
		log, err := os.ReadFile(r.AuditLog())
		return err == nil && !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(string(log), text) })
	})
}

// testMetrics looks for the metrics of both doors that no other server has.
func testMetrics(t *testing.T, r *rig) {
	server := fmt.Sprintf("{server=%q} 1", r.KubeAPIServerURL())
	poll.Holds(t, "the metrics have all outcomes so far", func() bool {
		_, metrics := r.direct(t, "/metrics")
		return !slices.ContainsFunc([]string{
			"proviso_inner_door_known" + server, "proviso_inner_door_called" + server, `proviso_inner_door_probes_total{result="good"} `,
			`proviso_webhook_authorize_inner_door_answers_total{answer="passed"} `, `proviso_webhook_authorize_inner_door_read_checks_total{result="allowed"} `,
			`proviso_webhook_admit_requests_total{decision="allowed"} `, `proviso_webhook_admit_requests_total{decision="denied"} `,
		}, func(line string) bool { return !strings.Contains(metrics, "\n"+line) })
	})
}

// testLateBodies sends bodies that arrive after the policy of their user is gone.
func testLateBodies(t *testing.T, r *rig) {
	const policy = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-secrets}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]
  condition: object.metadata.name.startsWith("late")
`
	r.apply(t, policy)
	secret := labelled("Secret", "late", "blue", "")
	poll.Holds(t, "the policy is in effect", func() bool {
		code, _ := r.send(t, "dana", "POST", core+"secrets?dryRun=All", jsonType, secret)
		return code == http.StatusCreated
	})
	code, answer := r.late(t, "dana", core+"secrets", secret, func() {
		if _, err := r.Kubectl(t.Context(), "", "delete", "clusterauthorizationpolicy", "dana-secrets"); err != nil {
			t.Fatal(err)
		}
		poll.Holds(t, "the policy is gone", func() bool {
			code, _ := r.send(t, "dana", "POST", core+"secrets?dryRun=All", jsonType, labelled("Secret", "late2", "blue", ""))
			return code == http.StatusForbidden
		})
	})
	if code != http.StatusForbidden {
		t.Errorf("got %d %s, want 403", code, answer)
	}
}

// late sends a POST whose body ends after something has happened that the authorization of the request did not know of.
func (r *rig) late(t *testing.T, user, path, object string, meanwhile func()) (int, string) {
	t.Helper()
	return lateBy(t, r.as(user), r.proxy, path, object, meanwhile)
}

// lateBy is late by a caller of a kube-apiserver that has a proxy.
func lateBy(t *testing.T, user *caller, through *proxy, path, object string, meanwhile func()) (int, string) {
	t.Helper()
	body, rest := io.Pipe()
	type result struct {
		code   int
		answer string
		err    error
	}
	results := make(chan result, 1)
	through.reset()
	go func() {
		code, answer, err := user.send(t.Context(), "POST", path, jsonType, body)
		results <- result{code, answer, err}
	}()
	_, _ = io.WriteString(rest, object[:5])
	poll.Holds(t, "the request is authorized", func() bool { // the front door has answered when this question has been kept
		through.mu.Lock()
		defer through.mu.Unlock()
		return len(through.asked) > 0
	})
	time.Sleep(time.Second) // kube-apiserver has its answer
	meanwhile()
	_, _ = io.WriteString(rest, object[5:])
	_ = rest.Close()
	got := <-results
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.code, got.answer
}

// TestInnerDoorForEverybody has a manifest that asks no other authorizers: every write to the resources is decided at the inner
// door. What RBAC allows passes by a marked question of Proviso, a Deny policy wins, and nothing else passes.
func TestInnerDoorForEverybody(t *testing.T) {
	t.Parallel()
	r := newRig(t, "askOtherAuthorizers: false")
	r.apply(t, policies)
	for _, args := range [][]string{{"create", "namespace", demo}, {"wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"}} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	poll.Holds(t, "policies and roles are in effect", func() bool {
		first, _ := r.send(t, "dana", "POST", claims+"?dryRun=All", jsonType, claim("x", "dev", ""))
		second, _ := r.send(t, "rob", "POST", claims+"?dryRun=All", jsonType, claim("x", "dev", ""))
		return first == http.StatusCreated && second == http.StatusCreated
	})
	r.runner().Run(t, table(t, "requests.yaml").Rows["everybody"])
	code, answer := r.late(t, "rob", maps, labelled("ConfigMap", "late", "red", ""), func() {
		r.apply(t, `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: rob-no-red}
spec:
  effect: Deny
  subjects: [{kind: User, name: rob}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.metadata.?labels["team"].orValue("") == "red"
`)
		poll.Holds(t, "the Deny policy is in effect", func() bool { // the front door folds it
			code, _ := r.send(t, "rob", "POST", maps+"?dryRun=All", jsonType, labelled("ConfigMap", "b", "blue", ""))
			return code == http.StatusForbidden
		})
	})
	if code != http.StatusForbidden || !strings.Contains(answer, "policy=rob-no-red reason=Denied") {
		t.Errorf("a Deny policy that came while the body did: got %d %s", code, answer)
	}
	code, answer = r.late(t, "rob", claims, claim("late", "prod", ""), func() {
		if _, err := r.Kubectl(t.Context(), "", "delete", "clusterrolebinding", "writer"); err != nil {
			t.Fatal(err)
		}
		poll.Holds(t, "RBAC allows nothing any more", func() bool {
			code, _ := r.send(t, "rob", "POST", claims+"?dryRun=All", jsonType, claim("x", "dev", ""))
			return code == http.StatusForbidden
		})
		time.Sleep(4 * time.Second) // longer than the inner door reuses an answer that allows
	})
	if code != http.StatusForbidden || !strings.Contains(answer, "no policy and no other authorizer allows it") {
		t.Errorf("RBAC that was taken away while the body came: got %d %s", code, answer)
	}
}

// review is an AdmissionReview that would be allowed if it came from kube-apiserver.
const review = `{"apiVersion": "%s", "kind": "AdmissionReview", "request": {"uid": "%s", "operation": "CREATE", "namespace": "inner-door", "userInfo": {"username": "%s"},
  "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
  "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
  "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"team": "blue"}}}}}`

// testClients calls Proviso's port without kube-apiserver.
func testClients(t *testing.T, r *rig) {
	files, err := os.ReadFile(filepath.Join(r.InnerDoorFiles(), "manifests", "inner-door.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, digest, _ := strings.Cut(string(files), manifest.AdmitPath)
	digest = digest[:32]
	adminCert, adminKey := r.UserCertificate("admin")
	kubeAPIServer := doorClient(t, r.Cluster)
	good := fmt.Sprintf(review, "admission.k8s.io/v1", "1", "dana")
	for _, tc := range []struct {
		name, digest, body string
		client             *http.Client
		want               int
		contains           string
	}{
		{"kube-apiserver", digest, good, kubeAPIServer, 200, `"allowed":true`},
		{"another user", digest, fmt.Sprintf(review, "admission.k8s.io/v1", "1", "nina"), kubeAPIServer, 200, `"allowed":false`},
		{"a user with quotes and line breaks", digest, fmt.Sprintf(review, "admission.k8s.io/v1", "1", `dana\" || \n'true'`), kubeAPIServer, 200, `"allowed":false`},
		{"without a certificate", digest, good, clientWith(t, r.Cluster, "", ""), 401, "certificate"},
		{"with a certificate of the cluster", digest, good, clientWith(t, r.Cluster, adminCert, adminKey), 401, "certificate"},
		{"another digest", strings.Repeat("0", 32), good, kubeAPIServer, 200, "was configured with another one"},
		{"another version", digest, fmt.Sprintf(review, "admission.k8s.io/v1beta1", "1", "dana"), kubeAPIServer, 400, "must be an AdmissionReview"},
		{"without uid", digest, fmt.Sprintf(review, "admission.k8s.io/v1", "", "dana"), kubeAPIServer, 400, "no uid"},
		{"too long", digest, strings.Repeat(" ", 17<<20), kubeAPIServer, 413, "longer than"},
		{"not JSON", digest, "{", kubeAPIServer, 400, "not an AdmissionReview"},
	} {
		response, err := tc.client.Post(r.FrontDoorURL()+manifest.AdmitPath+tc.digest, jsonType, strings.NewReader(tc.body))
		if err != nil {
			if tc.want == 401 || tc.want == 413 { // the connection may end before the body has been sent
				continue
			}
			t.Fatalf("%s: %v", tc.name, err)
		}
		content, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != tc.want || !strings.Contains(string(content), tc.contains) || tc.contains != `"allowed":true` && strings.Contains(string(content), `"allowed":true`) {
			t.Errorf("%s: got %d %s, want %d with %q", tc.name, response.StatusCode, content, tc.want, tc.contains)
		}
	}
}

// testOutage has a Proviso that is killed, and one that is slow: users of policies are refused, and users of RBAC go on.
func testOutage(t *testing.T, r *rig) {
	try := func(user string) (int, string) {
		return r.send(t, user, "POST", claims+"?dryRun=All", jsonType, claim("o", "dev", ""))
	}
	if code, answer := try("dana"); code != http.StatusCreated {
		t.Fatalf("before: got %d %s", code, answer)
	}
	r.proxy.set(func() { r.proxy.delay = 6 * time.Second })
	if code, answer := try("dana"); code < 400 {
		t.Errorf("a slow inner door: got %d %s, want a refusal", code, answer)
	}
	r.proxy.reset()
	if code, answer := try("rob"); code != http.StatusCreated || len(r.proxy.calls()) != 0 {
		t.Errorf("RBAC beside a slow inner door: got %d %s", code, answer)
	}
	r.proxy.set(func() { r.proxy.delay, r.proxy.lost = 0, true })
	for _, row := range [][3]string{{"POST", claims, claim("lost", "dev", "")}, {"DELETE", claims + "?dryRun=All", ""}} {
		r.proxy.reset()
		if code, answer := r.send(t, "dana", row[0], row[1], jsonType, row[2]); code < 400 || len(r.proxy.calls()) == 0 {
			t.Errorf("the answer to %s is lost: got %d %s, want a refusal", row[0], code, answer)
		}
	}
	if code, answer := r.send(t, cluster.Admin, "GET", claims+"/lost", "", ""); code != http.StatusNotFound {
		t.Errorf("a claim whose answer was lost: got %d %s", code, answer)
	}
	r.proxy.set(func() { r.proxy.lost = false })
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if code, answer := try("dana"); code < 400 {
		t.Errorf("Proviso is killed: got %d %s, want a refusal", code, answer)
	}
	if code, answer := try("rob"); code != http.StatusCreated {
		t.Errorf("RBAC while Proviso is down: got %d %s", code, answer)
	}
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "Proviso decides again", func() bool { code, _ := try("dana"); return code == http.StatusCreated })
}

// testAnotherManifest gives kube-apiserver the files of another configuration: Proviso refuses, and says so.
func testAnotherManifest(t *testing.T, r *rig) {
	try := func() (int, string) {
		return r.send(t, "dana", "POST", claims+"?dryRun=All", jsonType, claim("o", "dev", ""))
	}
	check := func() (string, error) {
		output, err := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "proviso-apiserver"), "inner-door-config", "--check",
			"--config", r.InnerDoorConfig(), "--output", r.InnerDoorFiles(), "--kubeconfig", r.Kubeconfig()).CombinedOutput()
		return string(output), err
	}
	if output, err := check(); err != nil {
		t.Errorf("the check of what is installed: %v: %s", err, output)
	}
	manifestFile := filepath.Join(r.InnerDoorFiles(), "manifests", "inner-door.yaml")
	installed, err := os.ReadFile(manifestFile)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(r.InnerDoorFiles(), "other.yaml")
	if err := errors.Join(os.WriteFile(other, append([]byte("# changed\n"), installed...), 0o600), os.Rename(other, manifestFile)); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "the check sees what kube-apiserver has loaded", func() bool {
		output, err := check()
		return err != nil && strings.Contains(output, "kube-apiserver: the hash of the manifests of ValidatingAdmissionWebhook is")
	})
	before := r.InnerDoor.Configuration
	r.InnerDoor.Configuration = strings.Replace(before, "- resource: secrets\n", "", 1)
	if err := r.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "the other manifest is refused", func() bool {
		code, answer := try()
		// The front door refuses it from the next canaries on.
		return code == http.StatusForbidden && strings.Contains(answer, "was configured with another one") || refusedAtFrontDoor(code, answer)
	})
	poll.Holds(t, "no write passes the front door any more", func() bool {
		code, answer := try()
		return code == http.StatusForbidden && strings.Contains(answer, "policy=dana-dev-claims reason=Error")
	})
	if code, answer := r.send(t, "rob", "POST", claims+"?dryRun=All", jsonType, claim("o", "dev", "")); code != http.StatusCreated {
		t.Errorf("RBAC with another manifest: got %d %s", code, answer)
	}
	r.InnerDoor.Configuration = before
	if err := r.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "the manifest is back", func() bool { code, _ := try(); return code == http.StatusCreated })
}

// refusedAtFrontDoor reports whether a refusal comes from the front door, because the kube-apiserver is not known to call the inner
// door.
func refusedAtFrontDoor(code int, answer string) bool {
	return code == http.StatusForbidden && strings.Contains(answer, "policy=dana-dev-claims reason=Error")
}

// testEmptiedManifest empties the manifest: until the next canaries writes pass unseen, and then none does. Users whom RBAC allows
// go on.
func testEmptiedManifest(t *testing.T, r *rig) {
	try := func(class string) (int, string) {
		return r.send(t, "dana", "POST", claims+"?dryRun=All", jsonType, claim("e", class, ""))
	}
	manifestFile := filepath.Join(r.InnerDoorFiles(), "manifests", "inner-door.yaml")
	empty := filepath.Join(r.InnerDoorFiles(), "empty.yaml")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.Rename(empty, manifestFile)); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "no write passes on conditions", func() bool { return refusedAtFrontDoor(try("prod")) })
	for range 20 {
		if code, answer := try("dev"); !refusedAtFrontDoor(code, answer) {
			t.Errorf("got %d %.300s, want a refusal by the front door", code, answer)
		}
	}
	if code, answer := r.send(t, "rob", "POST", claims+"?dryRun=All", jsonType, claim("e", "prod", "")); code != http.StatusCreated {
		t.Errorf("RBAC with an empty manifest: got %d %s", code, answer)
	}
	if code, state := r.direct(t, "/readyz/inner-door"); code != http.StatusOK || !strings.Contains(state, r.KubeAPIServerURL()+": not known: ") {
		t.Errorf("the state of the kube-apiservers is %d %s", code, state)
	}
	poll.Holds(t, "the status names the kube-apiserver", func() bool {
		status := r.enforcementOf(t, "dana-dev-claims")
		return strings.HasPrefix(status, "InnerDoor=InnerDoorUnknown InnerDoorUnknown: ") && strings.Contains(status, r.KubeAPIServerURL())
	})
	if err := r.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "writes pass again", func() bool { code, _ := try("dev"); return code == http.StatusCreated })
	if code, answer := try("prod"); code != http.StatusForbidden || !strings.Contains(answer, notMet) {
		t.Errorf("got %d %.300s, want a refusal by the inner door", code, answer)
	}
}

// testCachedAnswers lets kube-apiserver reuse answers of the front door: a write could then pass without the knowledge of the front
// door, so that none passes on conditions.
func testCachedAnswers(t *testing.T, r *rig) {
	try := func() (int, string) {
		return r.send(t, "dana", "POST", claims+"?dryRun=All", jsonType, claim("k", "dev", ""))
	}
	file := filepath.Join(r.InnerDoorFiles(), "authorization.yaml")
	replace := func(old, by string) {
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), old) {
			t.Fatalf("%s: %v", content, err)
		}
		changed := filepath.Join(r.InnerDoorFiles(), "changed.yaml")
		if err := errors.Join(os.WriteFile(changed, []byte(strings.Replace(string(content), old, by, 1)), 0o600), os.Rename(changed, file)); err != nil {
			t.Fatal(err)
		}
	}
	const off, on = "cacheAuthorizedRequests: false", "cacheAuthorizedRequests: true\n    authorizedTTL: 1s"
	replace(off, on)
	poll.Holds(t, "no write passes on conditions", func() bool { return refusedAtFrontDoor(try()) })
	replace(on, off)
	poll.Holds(t, "writes pass again", func() bool { code, _ := try(); return code == http.StatusCreated })
}

// testCanary: nobody can become the canary, and the user of that name without a nonce may do nothing.
func testCanary(t *testing.T, r *rig) {
	r.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: becomes-everybody}
rules:
- {verbs: [impersonate], apiGroups: [""], resources: [users, groups]}
- {verbs: [impersonate], apiGroups: [authentication.k8s.io], resources: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: becomes-everybody}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: becomes-everybody}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`)
	path := "/api/v1/namespaces/" + cluster.Namespace + "/configmaps"
	become := func(name string, extra map[string][]string) (int, string) {
		header := http.Header{"Impersonate-User": {name}}
		for key, values := range extra {
			header["Impersonate-Extra-"+url.PathEscape(key)] = values
		}
		answer, err := r.sender.Do(t.Context(), certified("rob"), requests.Request{
			Method: "POST", Path: path, ContentType: jsonType, Header: header, Body: strings.NewReader(labelled("ConfigMap", "c", "blue", "")),
		})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Code, answer.Body
	}
	poll.Holds(t, "rob may impersonate", func() bool {
		code, answer := become("nina", nil)
		return code == http.StatusForbidden && strings.Contains(answer, `nina\" cannot create`)
	})
	if code, answer := become(innerdoor.CanaryUser, nil); code != http.StatusForbidden {
		t.Errorf("the canary without a nonce: got %d %s", code, answer)
	}
	code, answer := become(innerdoor.CanaryUser, map[string][]string{innerdoor.CanaryExtra: {innerdoor.NewNonce()}})
	if code != http.StatusForbidden || !strings.Contains(answer, "reserved for Proviso") {
		t.Errorf("the canary with a nonce: got %d %s", code, answer)
	}
}
