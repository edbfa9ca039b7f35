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
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// besideSetup has the user of these tests, whom RBAC allows everything.
const besideSetup = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: beside}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ada}]
`

// besidePolicy denies ConfigMaps with a label, which is the name of the policy.
func besidePolicy(name string) string {
	return strings.ReplaceAll(`
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: NAME, labels: {app.kubernetes.io/instance: policies}}
spec:
  description: no label NAME
  effect: Deny
  rules: [{verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: '"NAME" in object.metadata.?labels.orValue({})'
`, "NAME", name)
}

// ownAdmission is an admission policy of the administrator, without Proviso.
const ownAdmission = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: own}
spec:
  matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: '!("own" in object.metadata.?labels.orValue({}))', message: no label own}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: own}
spec: {policyName: own, validationActions: [Deny]}
`

// beside has the requests of a test.
type beside struct {
	*rig

	sender *requests.Sender
}

func newBeside(t *testing.T) *beside {
	t.Helper()
	r := newRig(t, cluster.Config{Managed: true}, (*cluster.Cluster).Up)
	r.kubectl(t, besideSetup, "apply", "-f", "-")
	return &beside{rig: r, sender: newSender(t, r)}
}

// create creates a ConfigMap with a label as a dry run.
func (b *beside) create(t *testing.T, labels string) (int, string) {
	t.Helper()
	body := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "labels": {` + labels + `}}}`
	return b.sender.Send(t, &requests.User{Name: "ada"}, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", "application/json", body)
}

// refuses waits until a ConfigMap with a label is refused by a policy.
func (b *beside) refuses(t *testing.T, label, by string) {
	t.Helper()
	poll.Eventually(t, "the label "+label+" is refused", func() string {
		if code, answer := b.create(t, `"`+label+`": "x"`); code < http.StatusBadRequest || !strings.Contains(answer, by) {
			return answer
		}
		return ""
	})
}

// passes waits until a ConfigMap with a label passes.
func (b *beside) passes(t *testing.T, label string) {
	t.Helper()
	poll.Eventually(t, "the label "+label+" passes", func() string {
		if code, answer := b.create(t, `"`+label+`": "x"`); code != http.StatusCreated {
			return answer
		}
		return ""
	})
}

// TestBesideOtherTools has what docs/beside-other-tools.md says about other admission policies, about tools that apply policies from git, and about
// backups.
func TestBesideOtherTools(t *testing.T) {
	t.Parallel()
	b := newBeside(t)
	t.Run("own admission policies", b.testOwnAdmission)
	t.Run("applied from git", b.testGit)
	t.Run("a backup", b.testBackup)
}

func (b *beside) testOwnAdmission(t *testing.T) {
	b.kubectl(t, ownAdmission, "apply", "-f", "-")
	before := b.kubectl(t, "", "get", "validatingadmissionpolicy/own", "validatingadmissionpolicybinding/own", "-o", "jsonpath={.items[*].metadata.generation}")
	b.kubectl(t, besidePolicy("barred"), "apply", "-f", "-")
	b.refuses(t, "barred", "policy=barred reason=Denied")
	b.refuses(t, "own", "no label own")
	b.passes(t, "other")
	if code, answer := b.create(t, `"own": "x", "barred": "x"`); code < http.StatusBadRequest || !strings.Contains(answer, "'own'") && !strings.Contains(answer, "'barred.") {
		t.Errorf("got %d %s, want a refusal by one of both", code, answer)
	}
	b.kubectl(t, "", "delete", "clusterauthorizationpolicy", "barred")
	b.passes(t, "barred")
	b.refuses(t, "own", "no label own")
	if after := b.kubectl(t, "", "get", "validatingadmissionpolicy/own", "validatingadmissionpolicybinding/own", "-o", "jsonpath={.items[*].metadata.generation}"); after != before {
		t.Errorf("the policy of the administrator has changed: %s, want %s", after, before)
	}
	b.kubectl(t, ownAdmission, "delete", "-f", "-")
}

func (b *beside) testGit(t *testing.T) {
	folder := t.TempDir()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(besidePolicy(name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	write("second")
	prune := []string{"apply", "-f", folder, "--prune", "--selector=app.kubernetes.io/instance=policies", "--prune-allowlist=policy.proviso.dev/v1alpha1/ClusterAuthorizationPolicy"}
	b.kubectl(t, "", prune...)
	b.refuses(t, "first", "policy=first")
	b.refuses(t, "second", "policy=second")
	// Status, finalizer and barrier are no drift, whichever way a tool compares.
	for _, args := range [][]string{{"diff", "-f", folder}, {"apply", "--server-side", "--force-conflicts", "-f", folder}, {"diff", "--server-side", "--force-conflicts", "-f", folder}} {
		if out, err := b.Kubectl(t.Context(), "", args...); err != nil {
			t.Errorf("there is drift: %v %s", err, out)
		}
	}
	// No label or annotation by which a tool tracks its objects is on a barrier.
	for _, kind := range []string{"validatingadmissionpolicy", "validatingadmissionpolicybinding"} {
		if out := b.kubectl(t, "", "get", kind, "first.cluster.policy.proviso.dev", "-o", "jsonpath={.metadata.labels}{.metadata.annotations}"); strings.Contains(out, "instance") || strings.Contains(out, "last-applied") {
			t.Errorf("the barrier has %s", out)
		}
	}
	if err := os.Remove(filepath.Join(folder, "second.yaml")); err != nil {
		t.Fatal(err)
	}
	if out := b.kubectl(t, "", prune...); !strings.Contains(out, "second pruned") || strings.Contains(out, "first pruned") {
		t.Errorf("pruned: %s", out)
	}
	b.passes(t, "second")
	b.refuses(t, "first", "policy=first")
	b.kubectl(t, "", "delete", "-f", folder)
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
	if err := json.Unmarshal([]byte(b.kubectl(t, "", append([]string{"get", "-o", "json"}, arguments...)...)), &list); err != nil {
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

func (b *beside) testBackup(t *testing.T) {
	b.kubectl(t, besidePolicy("kept"), "apply", "-f", "-")
	b.refuses(t, "kept", "policy=kept")
	policies := b.restorable(t, "clusterauthorizationpolicies", "--selector=app.kubernetes.io/instance=policies")
	barriers := b.restorable(t, "validatingadmissionpolicies.admissionregistration.k8s.io/kept.cluster.policy.proviso.dev", "validatingadmissionpolicybindings.admissionregistration.k8s.io/kept.cluster.policy.proviso.dev")
	lose := func() {
		b.kubectl(t, "", "delete", "clusterauthorizationpolicy", "kept")
		b.passes(t, "kept")
	}
	const uid = "jsonpath={.metadata.uid}"
	takenOver := func() {
		want := b.kubectl(t, "", "get", "clusterauthorizationpolicy", "kept", "-o", uid)
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
	b.kubectl(t, policies, "create", "-f", "-")
	takenOver()
	// Tools leave objects that exist as they are.
	if out, err := b.Kubectl(t.Context(), barriers, "create", "-f", "-"); err == nil || !strings.Contains(out, "AlreadyExists") && !strings.Contains(out, "already exists") {
		t.Errorf("got %v %s", err, out)
	}
	lose()
	// The barriers first: they refuse without their policy, which takes them over.
	b.kubectl(t, barriers, "create", "-f", "-")
	b.refuses(t, "kept", "policy=kept")
	b.kubectl(t, policies, "create", "-f", "-")
	takenOver()
	lose()
}
