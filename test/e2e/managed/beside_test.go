/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// besidePolicy denies ConfigMaps with a label, which is the name of the policy.
func besidePolicy(t *testing.T, name string) string {
	t.Helper()
	return strings.ReplaceAll(plane.TestData(t, "beside-policy.yaml"), "NAME", name)
}

// beside has the requests of a test.
type beside struct {
	*rig

	rows map[string][]*requests.Row
}

// create creates a ConfigMap with a label as a dry run.
func (b *beside) create(t *testing.T, rows, label string) *requests.Answer {
	t.Helper()
	answer, err := (&requests.Runner{Sender: b.Sender, Values: map[string]string{"label": label}}).Send(t.Context(), t, b.rows[rows][0])
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// refuses waits until a ConfigMap with a label is refused by a policy.
func (b *beside) refuses(t *testing.T, label, by string) {
	t.Helper()
	poll.Eventually(t, "the label "+label+" is refused", func() string {
		if answer := b.create(t, "one label", label); answer.Code < http.StatusBadRequest || !answer.Has(by) {
			return answer.Body
		}
		return ""
	})
}

// passes waits until a ConfigMap with a label passes.
func (b *beside) passes(t *testing.T, label string) {
	t.Helper()
	(&requests.Runner{Sender: b.Sender, Values: map[string]string{"label": label}}).Await(t, b.rows["one label"][0])
}

// TestBesideOtherTools has what docs/beside-other-tools.md says about other admission policies, about tools that apply policies from git, and about
// backups.
func TestBesideOtherTools(t *testing.T) {
	t.Parallel()
	b := &beside{rig: newRig(t, cluster.Config{Managed: true}, (*cluster.Cluster).Up), rows: table(t, "beside.yaml").Rows}
	b.MustApply(t, table(t, "beside.yaml").Manifest())
	t.Run("own admission policies", b.testOwnAdmission)
	t.Run("applied from git", b.testGit)
	t.Run("a backup", b.testBackup)
}

func (b *beside) testOwnAdmission(t *testing.T) {
	b.MustApply(t, plane.TestData(t, "own-admission.yaml"))
	before := b.MustKubectl(t, "get", "validatingadmissionpolicy/own", "validatingadmissionpolicybinding/own", "-o", "jsonpath={.items[*].metadata.generation}")
	b.MustApply(t, besidePolicy(t, "barred"))
	b.refuses(t, "barred", "policy=barred reason=Denied")
	b.refuses(t, "own", "no label own")
	b.passes(t, "other")
	if answer := b.create(t, "two labels", ""); answer.Code < http.StatusBadRequest || !answer.Has("'own'") && !answer.Has("'barred.") {
		t.Errorf("got %d %s, want a refusal by one of both", answer.Code, answer.Body)
	}
	b.MustKubectl(t, "delete", "clusterauthorizationpolicy", "barred")
	b.passes(t, "barred")
	b.refuses(t, "own", "no label own")
	if after := b.MustKubectl(t, "get", "validatingadmissionpolicy/own", "validatingadmissionpolicybinding/own", "-o", "jsonpath={.items[*].metadata.generation}"); after != before {
		t.Errorf("the policy of the administrator has changed: %s, want %s", after, before)
	}
	b.MustDelete(t, plane.TestData(t, "own-admission.yaml"))
}

func (b *beside) testGit(t *testing.T) {
	folder := t.TempDir()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(besidePolicy(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	write("second")
	prune := []string{"apply", "-f", folder, "--prune", "--selector=app.kubernetes.io/instance=policies", "--prune-allowlist=policy.proviso.dev/v1alpha1/ClusterAuthorizationPolicy"}
	b.MustKubectl(t, prune...)
	b.refuses(t, "first", "policy=first")
	b.refuses(t, "second", "policy=second")
	b.MustKubectl(t, "wait", "--for=condition=Effective", "--timeout=1m", "clusterauthorizationpolicy/first", "clusterauthorizationpolicy/second")
	// Status, finalizer and barrier are no drift, whichever way a tool compares, once the status does not change between its reads.
	for _, args := range [][]string{{"diff", "-f", folder}, {"apply", "--server-side", "--force-conflicts", "-f", folder}, {"diff", "--server-side", "--force-conflicts", "-f", folder}} {
		if out, err := b.Kubectl(t.Context(), "", args...); err != nil {
			t.Errorf("there is drift: %v %s", err, out)
		}
	}
	// No label or annotation by which a tool tracks its objects is on a barrier.
	for _, kind := range []string{"validatingadmissionpolicy", "validatingadmissionpolicybinding"} {
		if out := b.MustKubectl(t, "get", kind, "first.cluster.policy.proviso.dev", "-o", "jsonpath={.metadata.labels}{.metadata.annotations}"); strings.Contains(out, "instance") || strings.Contains(out, "last-applied") {
			t.Errorf("the barrier has %s", out)
		}
	}
	if err := os.Remove(filepath.Join(folder, "second.yaml")); err != nil {
		t.Fatal(err)
	}
	if out := b.MustKubectl(t, prune...); !strings.Contains(out, "second pruned") || strings.Contains(out, "first pruned") {
		t.Errorf("pruned: %s", out)
	}
	b.passes(t, "second")
	b.refuses(t, "first", "policy=first")
	b.MustKubectl(t, "delete", "-f", folder)
	b.passes(t, "first")
}

// restorable returns objects as a tool for backups restores them: without what the server has set, and without status.
func (b *beside) restorable(t *testing.T, arguments ...string) string {
	t.Helper()
	var list struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(b.MustKubectl(t, append([]string{"get", "-o", "json"}, arguments...)...)), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		delete(item, "status")
		metadata, ok := item["metadata"].(map[string]any)
		if !ok {
			t.Fatal(item)
		}
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
			delete(metadata, field)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// restore creates objects.
func (b *beside) restore(t *testing.T, objects string) {
	t.Helper()
	if out, err := b.Kubectl(t.Context(), objects, "create", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
}

func (b *beside) testBackup(t *testing.T) {
	b.MustApply(t, besidePolicy(t, "kept"))
	b.refuses(t, "kept", "policy=kept")
	policies := b.restorable(t, "clusterauthorizationpolicies", "--selector=app.kubernetes.io/instance=policies")
	barriers := b.restorable(t, "validatingadmissionpolicies.admissionregistration.k8s.io/kept.cluster.policy.proviso.dev", "validatingadmissionpolicybindings.admissionregistration.k8s.io/kept.cluster.policy.proviso.dev")
	lose := func() {
		b.MustKubectl(t, "delete", "clusterauthorizationpolicy", "kept")
		b.passes(t, "kept")
	}
	const uid = "jsonpath={.metadata.uid}"
	takenOver := func() {
		want := b.MustKubectl(t, "get", "clusterauthorizationpolicy", "kept", "-o", uid)
		poll.Eventually(t, "the barrier is one of the policy", func() string {
			got, err := b.Kubectl(t.Context(), "", "get", "validatingadmissionpolicy", "kept.cluster.policy.proviso.dev", "-o", `jsonpath={.metadata.annotations.policy\.proviso\.dev/policy-uid}`)
			if err != nil || got != want {
				return got
			}
			return ""
		})
		b.refuses(t, "kept", "policy=kept")
	}
	lose()
	// The policies alone: Proviso writes their barriers.
	b.restore(t, policies)
	takenOver()
	// Tools leave objects that exist as they are.
	if out, err := b.Kubectl(t.Context(), barriers, "create", "-f", "-"); err == nil || !strings.Contains(out, "AlreadyExists") && !strings.Contains(out, "already exists") {
		t.Errorf("got %v %s", err, out)
	}
	lose()
	// The barriers first: they refuse without their policy, which takes them over.
	b.restore(t, barriers)
	b.refuses(t, "kept", "policy=kept")
	b.restore(t, policies)
	takenOver()
	lose()
}
