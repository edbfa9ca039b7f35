/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"bytes"
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
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// miss says what explain finds for a row.
type miss struct {
	// Recipe is the recipe that refuses the request, and NearMiss the near miss that explain finds. Again is the name of another object to delete with the near miss.
	Recipe, NearMiss, Again string
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
func question(t *testing.T, runner *requests.Runner, row *requests.Row, object, old map[string]any) string {
	t.Helper()
	attributes := runner.Checks(t, row)[0]
	spec := map[string]any{"user": row.User.Name, "groups": row.User.Groups, "extra": row.User.Extra, "resourceAttributes": attributes}
	data := map[string]any{"operation": strings.ToUpper(attributes.Verb)}
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
		c.InnerDoor, c.Args = &cluster.InnerDoor{Configuration: plane.TestData(t, "inner-door-table.yaml")}, append(c.Args, "--barriers")
	})
	a := newRecipeSender(t, r)
	var misses map[string]miss
	rows := requests.ReadFile(t, filepath.Join("testdata", "explain.yaml"), &misses).Rows
	for _, row := range rows["misses"] {
		t.Run(row.Name, func(t *testing.T) { a.testMiss(t, row, misses[row.Name]) })
	}
	t.Run("suites", a.testSuites)
	t.Run("audit log", func(t *testing.T) { testExplainAuditLog(t, a, rows["audited"][0]) })
}

func (a *recipeSender) testMiss(t *testing.T, row *requests.Row, m miss) {
	policy, runner := a.prepare(t, m.Recipe, nil), a.runner()
	runner.Await(t, row)
	path, _, _ := strings.Cut(row.To, "?")
	var object, old map[string]any
	if row.Do != "post" {
		_, stored := a.Sender.Send(t, nil, http.MethodGet, path, "", "")
		old = fromJSON(t, stored)
	}
	if row.Do != "delete" {
		object = fromJSON(t, runner.Body(t, row))
	}
	e := a.nearMiss(t, question(t, runner, row, object, old), "-f", "-")
	if got := strings.TrimSuffix(e.NearMiss.Action+" "+e.NearMiss.Field+" to "+e.NearMiss.Value, " to "); got != m.NearMiss {
		t.Errorf("got %s, want %s", got, m.NearMiss)
	}
	passing := *row
	passing.Outcome, passing.Change = requests.Outcome{Code: row.Allowed}, nil
	if row.Do == "delete" {
		stored := passing.Stored[0]
		again := merged(fromJSON(t, asJSON(t, stored.Body)), map[string]any{"metadata": map[string]any{"name": m.Again}})
		passing.To, passing.Stored = path[:strings.LastIndex(path, "/")+1]+m.Again, []requests.Stored{{To: stored.To, Body: e.NearMiss.Apply(t, again)}}
	} else {
		passing.Body = e.NearMiss.Apply(t, object)
	}
	runner.Run(t, []*requests.Row{&passing})
	a.MustKubectl(t, "delete", "--wait=false", "-f", policy)
}

// testExplainAuditLog explains a refusal in the audit log of kube-apiserver, as admin and as a user who may not list policies.
func testExplainAuditLog(t *testing.T, r *recipeSender, row *requests.Row) {
	r.MustKubectl(t, "create", "namespace", cluster.AuditedNamespace)
	r.prepare(t, "storage-class", nil)
	runner := r.runner()
	runner.Values["audited"] = cluster.AuditedNamespace
	poll.Eventually(t, "the policy is known", func() string { return runner.Try(t, row) })
	id := ""
	poll.Holds(t, "the audit log has the refusal", func() bool {
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
	passing := *row
	passing.Outcome, passing.Body = requests.Outcome{Code: row.Allowed}, e.NearMiss.Apply(t, row.Body)
	runner.Run(t, []*requests.Row{&passing})
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
