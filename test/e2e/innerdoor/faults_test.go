/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testMarker has a user whom a Deny policy keeps from secrets that RBAC lets him read. No form of the marker in the selector of a request helps.
func testMarker(t *testing.T, r *rig) {
	refusal := r.prepare(t, "faults.yaml")["no secrets"][0]
	r.runner().Await(t, refusal)
	const key = manifest.OtherAuthorizersKey
	marker := "labelSelector=" + url.QueryEscape(key)
	queries := []string{
		"", marker + "&" + marker, marker + "&labelSelector=", "labelSelector=&" + marker, marker + "&fieldSelector=metadata.name%3Da", marker + "&apiVersion=*&version=*",
		marker + "&dryRun=All", marker + "&limit=1", marker + "&resourceVersion=0", marker + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"labelselector=" + key, "labelSelector=" + key, "labelSelector=" + url.QueryEscape(url.QueryEscape(key)),
	}
	for _, selector := range []string{
		key, "!" + key, key + " in (a)", key + "=", key + "==", key + "!=a", key + "," + key, key + ",a", key + " notin (a)", key + " in (a,b)", key + ">1",
		" " + key + " ", strings.ToUpper(key), key + ",", "," + key, key + "\n", key + ",!" + key, key + "/x", "a," + key, key + " exists",
	} {
		queries = append(queries, "labelSelector="+url.QueryEscape(selector), "fieldSelector="+url.QueryEscape(selector))
	}
	var rows []*requests.Row
	add := func(do, to string) {
		row := *refusal
		row.Do, row.To = do, to
		rows = append(rows, &row)
	}
	const watch = "watch=1&timeoutSeconds=1&"
	for _, query := range queries {
		add("get", core+"secrets?"+query)
		add("get", core+"secrets?"+watch+query)
		add("delete", core+"secrets?"+query)
	}
	for _, path := range []string{core + "secrets/a", "/api/v1/secrets", "/api/v1/watch/namespaces/" + demo + "/secrets"} {
		add("get", path+"?"+marker)
		add("get", path+"?"+watch+marker)
	}
	r.runner().Run(t, rows)
}

// testAudit looks for what the inner door says in the audit log of kube-apiserver.
func testAudit(t *testing.T, r *rig) {
	const hook = `"create.inner-door.proviso.static.k8s.io/`
	r.audits(t, hook+`decision":"allow"`, hook+`decision":"deny"`, hook+`condition":"cluster.policy.proviso.dev/dana-dev-claims"`,
		hook+`reason":"policy=dana-dev-claims reason=NotMet: dana writes claims of class dev`)
}

// testMetrics looks for the metrics of both doors that no other server has.
func testMetrics(t *testing.T, r *rig) {
	server := fmt.Sprintf("{server=%q} 1", r.KubeAPIServerURL())
	r.shows(t, "/metrics",
		"\nproviso_inner_door_known"+server, "\nproviso_inner_door_called"+server, "\n"+`proviso_inner_door_probes_total{result="good"} `,
		"\n"+`proviso_webhook_authorize_inner_door_answers_total{answer="passed"} `, "\n"+`proviso_webhook_authorize_inner_door_read_checks_total{result="allowed"} `,
		"\n"+`proviso_webhook_admit_requests_total{decision="allowed"} `, "\n"+`proviso_webhook_admit_requests_total{decision="denied"} `)
}

// testLateBodies sends a body that arrives after the policy of its user is gone.
func testLateBodies(t *testing.T, r *rig) {
	rows := table(t, "faults.yaml").Rows
	r.runner().Run(t, rows["a policy for secrets"])
	await(t, r.runner(), rows["secrets pass"])
	row := rows["a late secret"][0]
	wantAnswer(t, row, r.late(t, 0, row, func() {
		r.runner().Run(t, rows["no policy for secrets"])
		await(t, r.runner(), rows["secrets stop"])
	}))
}

// wantAnswer compares an answer with the code and the texts of a row.
func wantAnswer(t *testing.T, row *requests.Row, answer *requests.Answer) {
	t.Helper()
	if answer.Code != row.Code || slices.ContainsFunc(row.Says, func(text string) bool { return !answer.Has(text) }) {
		t.Errorf("%s: got %d %.600s, want %d %q", row, answer.Code, answer.Body, row.Code, row.Says)
	}
}

// late sends a row whose body ends after something has happened that the authorization of the request did not know of.
func (r *rig) late(t *testing.T, server int, row *requests.Row, meanwhile func()) *requests.Answer {
	t.Helper()
	type result struct {
		answer *requests.Answer
		err    error
	}
	object, through, results := r.runnerAt(server).Body(t, row), r.doors[server], make(chan result, 1)
	body, rest := io.Pipe()
	through.reset()
	go func() {
		answer, err := r.Sender.At(r.Servers[server].URL()).Do(t.Context(), row.User, requests.Request{Method: http.MethodPost, Path: row.To, ContentType: jsonType, Body: body})
		results <- result{answer, err}
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
	return got.answer
}

// TestInnerDoorForEverybody has a manifest that asks no other authorizers: every write to the resources is decided at the inner
// door. What RBAC allows passes by a marked question of Proviso, a Deny policy wins, and nothing else passes.
func TestInnerDoorForEverybody(t *testing.T) {
	t.Parallel()
	r := newRig(t, "askOtherAuthorizers: false")
	rows, faults := r.prepare(t, "requests.yaml"), table(t, "faults.yaml").Rows
	r.becomes(t, 0, "passes")
	r.becomes(t, 0, "RBAC")
	r.runner().Run(t, rows["everybody"])
	// A Deny policy comes while the body does.
	red := faults["a late red map"][0]
	wantAnswer(t, red, r.late(t, 0, red, func() {
		r.runner().Run(t, faults["a policy against red"])
		await(t, r.runner(), faults["maps stop"]) // the front door folds the policy
	}))
	// RBAC allows nothing any more when the body has come.
	late := faults["a late claim"][0]
	wantAnswer(t, late, r.late(t, 0, late, func() {
		r.runner().Run(t, faults["no role"])
		await(t, r.runner(), faults["claims stop"])
		time.Sleep(4 * time.Second) // longer than the inner door reuses an answer that allows
	}))
}

// review is an AdmissionReview that would be allowed if it came from kube-apiserver.
const review = `{"apiVersion": "%s", "kind": "AdmissionReview", "request": {"uid": "%s", "operation": "CREATE", "namespace": "inner-door", "userInfo": {"username": "%s"},
  "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
  "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
  "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"team": "blue"}}}}}`

// testClients calls Proviso's port without kube-apiserver.
func testClients(t *testing.T, r *rig) {
	files, err := os.ReadFile(r.Servers[0].Manifest())
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
	rows := table(t, "faults.yaml").Rows
	r.is(t, 0, "passes")
	r.proxy.set(func() { r.proxy.delay = 6 * time.Second })
	r.refuses(t, 0, "a slow inner door")
	r.is(t, 0, "RBAC alone")
	r.proxy.set(func() { r.proxy.delay, r.proxy.lost = 0, true })
	for _, row := range rows["lost"] {
		r.proxy.reset()
		answer, err := r.runner().Send(t.Context(), t, row)
		if err != nil || answer.Code < http.StatusBadRequest || len(r.proxy.calls()) == 0 {
			t.Errorf("%s, whose answer is lost: got %+v, %v, want a refusal", row, answer, err)
		}
	}
	r.runner().Run(t, rows["not stored"])
	r.proxy.set(func() { r.proxy.lost = false })
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	r.refuses(t, 0, "Proviso is killed")
	r.is(t, 0, "RBAC")
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.becomes(t, 0, "passes")
}

// testAnotherManifest gives kube-apiserver the files of another configuration: Proviso refuses, and says so.
func testAnotherManifest(t *testing.T, r *rig) {
	if output, err := r.check(t); err != nil {
		t.Errorf("the check of what is installed: %v: %s", err, output)
	}
	server := r.Servers[0]
	installed, err := os.ReadFile(server.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, server, server.Manifest(), "# changed\n"+string(installed))
	poll.Holds(t, "the check sees what kube-apiserver has loaded", func() bool {
		output, err := r.check(t)
		return err != nil && strings.Contains(output, "kube-apiserver: the hash of the manifests of ValidatingAdmissionWebhook is")
	})
	before := r.InnerDoor.Configuration
	r.InnerDoor.Configuration = strings.Replace(before, "- resource: secrets\n", "", 1)
	if err := r.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "the other manifest is refused", func() bool {
		answer := r.answer(t, 0, "passes")
		// The front door refuses it from the next canaries on.
		return answer.Code == http.StatusForbidden && (answer.Has("was configured with another one") || answer.Has("policy=dana-dev-claims reason=Error"))
	})
	r.becomes(t, 0, "stopped")
	r.is(t, 0, "RBAC")
	r.InnerDoor.Configuration = before
	if err := r.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.becomes(t, 0, "passes")
}

// testEmptiedManifest empties the manifest: until the next canaries writes pass unseen, and then none does. Users whom RBAC allows
// go on.
func testEmptiedManifest(t *testing.T, r *rig) {
	replaceFile(t, r.Servers[0], r.Servers[0].Manifest(), "")
	r.becomes(t, 0, "stopped")
	for range 20 {
		r.is(t, 0, "stopped")
	}
	r.is(t, 0, "RBAC")
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
	r.becomes(t, 0, "passes")
	r.is(t, 0, "refused")
}

// testCachedAnswers lets kube-apiserver reuse answers of the front door: a write could then pass without the knowledge of the front
// door, so that none passes on conditions.
func testCachedAnswers(t *testing.T, r *rig) {
	file := filepath.Join(r.InnerDoorFiles(), "authorization.yaml")
	content, err := os.ReadFile(file)
	const off, on = "cacheAuthorizedRequests: false", "cacheAuthorizedRequests: true\n    authorizedTTL: 1s"
	if err != nil || !strings.Contains(string(content), off) {
		t.Fatalf("%s: %v", content, err)
	}
	replaceFile(t, r.Servers[0], file, strings.Replace(string(content), off, on, 1))
	r.becomes(t, 0, "stopped")
	replaceFile(t, r.Servers[0], file, string(content))
	r.becomes(t, 0, "passes")
}

// testCanary: nobody can become the canary, and the user of that name without a nonce may do nothing.
func testCanary(t *testing.T, r *rig) {
	rows, runner := table(t, "faults.yaml").Rows["impersonation"], r.runner()
	runner.Values = map[string]string{"canary": innerdoor.CanaryUser, "nonce": innerdoor.NewNonce()}
	runner.Await(t, rows[0])
	runner.Run(t, rows)
}
