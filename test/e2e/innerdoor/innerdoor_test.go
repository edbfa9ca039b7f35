/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package innerdoor_test runs a control plane whose kube-apiserver has the files that the command inner-door-config writes, and
// sends requests that the inner door decides.
package innerdoor_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// recordDir and recordFrontDoorDir are where the AdmissionReviews and the SubjectAccessReviews are kept for the tests of pkg/innerdoor and of
// pkg/frontdoor. They are written if PROVISO_RECORD is set.
var (
	recordDir          = filepath.Join("..", "..", "..", "pkg", "innerdoor", "testdata", "reviews")
	recordFrontDoorDir = filepath.Join("..", "..", "..", "pkg", "frontdoor", "testdata", "reviews")
)

// rig is the control plane of a test.
type rig struct {
	*plane.Own
	// doors are the proxies before Proviso's port, one for each kube-apiserver, and proxy is the first one.
	doors []*proxy
	proxy *proxy
	// states are the rows of requests.yaml that show who decides at the moment.
	states map[string][]*requests.Row
}

const demo = "inner-door"

// newRig starts a control plane, with changes of the configuration of the cluster.
func newRig(t *testing.T, settings string, changes ...func(*cluster.Config)) *rig {
	t.Helper()
	r := prepareRig(t, settings, changes...)
	r.Start(t, r.Up)
	return r
}

// prepareRig returns a control plane that does not run.
func prepareRig(t *testing.T, settings string, changes ...func(*cluster.Config)) *rig {
	t.Helper()
	config := cluster.Config{InnerDoor: &cluster.InnerDoor{Configuration: plane.TestData(t, "inner-door.yaml") + settings}}
	for _, change := range changes {
		change(&config)
	}
	r := &rig{Own: plane.Prepare(t, config), states: table(t, "requests.yaml").Rows}
	if r.InnerDoor != nil {
		for _, server := range r.Servers {
			r.doors = append(r.doors, newProxy(t, r.Cluster, server))
		}
		r.proxy = r.doors[0]
		r.InnerDoor.URL = r.proxy.url
	}
	return r
}

// certified is a user with a client certificate, or the administrator.
func certified(name string) *requests.User {
	if name == cluster.Admin {
		return nil
	}
	return &requests.User{Name: name, Certificate: true}
}

// as returns the caller of a user with a client certificate.
func (r *rig) as(name string) *caller { return &caller{r.Sender, certified(name)} }

// runner sends rows of tables to the first kube-apiserver.
func (r *rig) runner() *requests.Runner {
	return &requests.Runner{Sender: r.Sender, Calls: r.proxy.take}
}

// table reads a table.
func table(t *testing.T, name string, marks ...string) *requests.Table {
	t.Helper()
	return requests.ReadFile(t, filepath.Join("testdata", name), nil, marks...)
}

// runnerAt sends rows to a kube-apiserver, 0 or 1.
func (r *rig) runnerAt(server int) *requests.Runner {
	return &requests.Runner{Sender: r.Sender.At(r.Servers[server].URL()), Calls: r.doors[server].take}
}

// prepare applies what the rows of a table need, waits until it is ready, and returns the rows.
func (r *rig) prepare(t *testing.T, name string, marks ...string) map[string][]*requests.Row {
	t.Helper()
	read := table(t, name, marks...)
	r.MustApply(t, read.Manifest())
	return read.Rows
}

// begin sends the rows of the group before, and then waits for the rows of the group wait, until policies and roles are in effect.
func (r *rig) begin(t *testing.T, rows map[string][]*requests.Row) {
	t.Helper()
	runner := r.runner()
	if before := rows["before"]; before != nil {
		runner.Run(t, before)
	}
	if wait := rows["wait"]; wait != nil {
		await(t, runner, wait)
	}
}

// await waits until rows have their outcomes, one after the other.
func await(t *testing.T, runner *requests.Runner, rows []*requests.Row) {
	t.Helper()
	if len(rows) == 0 {
		t.Fatal("there are no rows")
	}
	for _, row := range rows {
		runner.Await(t, row)
	}
}

// is expects a kube-apiserver to answer the rows of a state as they say.
func (r *rig) is(t *testing.T, server int, state string) {
	t.Helper()
	r.runnerAt(server).Run(t, r.states[state])
}

// becomes waits until a kube-apiserver answers the first row of a state as it says, and expects the same of the others from then on.
func (r *rig) becomes(t *testing.T, server int, state string) {
	t.Helper()
	rows := r.states[state]
	r.runnerAt(server).Await(t, rows[0])
	if len(rows) > 1 {
		r.runnerAt(server).Run(t, rows[1:])
	}
}

// answer returns the answer of a kube-apiserver to the first row of a state.
func (r *rig) answer(t *testing.T, server int, state string) *requests.Answer {
	t.Helper()
	answer, err := r.runnerAt(server).Send(t.Context(), t, r.states[state][0])
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// refuses expects that a write of dana that her policies allow is refused, by any component.
func (r *rig) refuses(t *testing.T, server int, when string) {
	t.Helper()
	if answer := r.answer(t, server, "passes"); answer.Code < http.StatusBadRequest {
		t.Errorf("%s: got %d %s, want a refusal", when, answer.Code, answer.Body)
	}
}

// send sends a request of a user with a client certificate.
func (r *rig) send(t *testing.T, user, method, path, contentType, body string) (int, string) {
	t.Helper()
	return r.Sender.Send(t, certified(user), method, path, contentType, body)
}

// check runs the check of the files that kube-apiserver has for the inner door.
func (r *rig) check(t *testing.T) (string, error) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "proviso-apiserver"), "inner-door-config", "--check",
		"--config", r.InnerDoorConfig(), "--output", r.InnerDoorFiles(), "--kubeconfig", r.Kubeconfig()).CombinedOutput()
	return string(output), err
}

// replaceFile replaces a file of a kube-apiserver, which reads it by itself.
func replaceFile(t *testing.T, server *cluster.KubeAPIServer, file, content string) {
	t.Helper()
	written := filepath.Join(server.InnerDoorFiles(), "other.yaml")
	if err := errors.Join(os.WriteFile(written, []byte(content), 0o600), os.Rename(written, file)); err != nil {
		t.Fatal(err)
	}
}

// audits waits until the audit log of kube-apiserver has texts.
func (r *rig) audits(t *testing.T, texts ...string) {
	t.Helper()
	poll.Eventually(t, "the audit log", func() string {
		log, err := os.ReadFile(r.AuditLog())
		if err != nil {
			return err.Error()
		}
		return lacks(string(log), texts)
	})
}

// shows waits until a path of Proviso's main port has texts.
func (r *rig) shows(t *testing.T, path string, texts ...string) {
	t.Helper()
	poll.Eventually(t, path, func() string {
		_, answer := r.direct(t, path)
		return lacks(answer, texts)
	})
}

// lacks returns the texts that are not in another one.
func lacks(in string, texts []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(in, text) }), ", ")
}

// direct gets a path from Proviso's main port, as admin.
func (r *rig) direct(t *testing.T, path string) (int, string) {
	t.Helper()
	return r.Sender.At(r.ProvisoURL()).Send(t, nil, http.MethodGet, path, "", "")
}

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
)

const (
	core = "/api/v1/namespaces/" + demo + "/"
	maps = core + "configmaps"
)

// TestInnerDoor sends requests to resources that kube-apiserver serves. Their conditions read the object.
func TestInnerDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.MustApply(t, plane.TestData(t, "widgets.yaml"))
	rows, runner := r.prepare(t, "requests.yaml"), r.runner()
	r.begin(t, rows)
	r.proxy.reset()
	runner.After = func(row *requests.Row, _ *requests.Answer, calls []*admissionv1.AdmissionRequest) {
		if row.Name != "" && len(calls) > 0 && os.Getenv("PROVISO_RECORD") != "" {
			record(t, recordDir, row.Name, r.proxy.bodies[0])
			record(t, recordFrontDoorDir, row.Name, r.proxy.questions[0])
		}
		r.proxy.reset()
	}
	runner.Run(t, rows["requests"])
	for _, part := range []struct {
		name string
		test func(*testing.T, *rig)
	}{
		{"audit", testAudit},
		{"metrics", testMetrics},
		{"status", testStatus},
		{"marker", testMarker},
		{"late bodies", testLateBodies},
		{"clients", testClients},
		{"outage", testOutage},
		{"another manifest", testAnotherManifest},
		{"an emptied manifest", testEmptiedManifest},
		{"cached answers", testCachedAnswers},
		{"the canary's own rights", testCanary},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, r) })
	}
	poll.Holds(t, "the status says again that the policy is enforced", func() bool {
		return strings.HasPrefix(r.enforcementOf(t, "dana-dev-claims"), "InnerDoor=Enforced Enforced: ")
	})
}

// record writes a review, with the values that differ from run to run replaced.
func record(t *testing.T, dir, name string, body []byte) {
	t.Helper()
	var review map[string]any
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	stable(review)
	text, err := json.MarshalIndent(review, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stable replaces values that differ from run to run.
func stable(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			text, isText := field.(string)
			switch {
			case isText && key == "uid":
				v[key] = "00000000-0000-0000-0000-000000000000"
			case isText && slices.Contains([]string{"creationTimestamp", "time", "expirationTimestamp", "deletionTimestamp"}, key):
				v[key] = "2026-01-01T00:00:00Z"
			case isText && key == "resourceVersion":
				v[key] = "1"
			case isText && key == "token":
				v[key] = "token"
			case isText && strings.HasPrefix(text, "g-"):
				v[key] = "g-12345"
			case key == "extra":
				delete(v, key) // the fingerprint of the client certificate
			default:
				stable(field)
			}
		}
	case []any:
		for _, element := range v {
			stable(element)
		}
	}
}
