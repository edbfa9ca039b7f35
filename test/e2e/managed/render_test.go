/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/barriertable"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// shell runs a script in the root of the repository as the admin, with the kubectl plugin on the path.
func (r *rig) shell(t *testing.T, script, input string) (string, error) {
	t.Helper()
	cmd := r.Shell(t.Context(), script)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestRenderedTable renders the policies of the table, and applies the manifests to a cluster on which Proviso has never run.
func TestRenderedTable(t *testing.T) {
	t.Parallel()
	onEachKubernetesAlone(t, func(t *testing.T, r *rig) {
		if out, err := r.shell(t, "kubectl proviso render -f - | kubectl apply -f -", barriertable.Policies); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r.MustApply(t, barriertable.Setup)
		runner, rows := r.runner(), barriertable.Rows(t)
		runner.AwaitEach(t, rows)
		runner.Run(t, rows)
		if out, err := r.shell(t, "kubectl proviso render --check -f -", barriertable.Policies); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// testRenderAgrees compares the barriers that Proviso writes with rendered ones.
func testRenderAgrees(t *testing.T, r *rig) {
	t.Helper()
	policies := filepath.Join(r.Repository, "artifacts", "render", "policies")
	r.MustKubectl(t, "create", "namespace", "team-a")
	r.MustApply(t, barriertable.Setup)
	r.MustApply(t, barriertable.Policies)
	if out := r.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "-f", policies); strings.Contains(out, "Warning") {
		t.Errorf("the example has mistakes: %s", out)
	}
	const check = "kubectl get clusterauthorizationpolicies,authorizationpolicies -A -o yaml | kubectl proviso render --check -f -"
	poll.Eventually(t, "Proviso has written all barriers", func() string {
		out, err := r.shell(t, check, "")
		if err != nil {
			return out
		}
		return ""
	})
	out, err := r.shell(t, "kubectl proviso render --check -f "+policies, "")
	if err == nil || !strings.Contains(out, " same") || !strings.Contains(out, " unexpected ") || strings.Contains(out, " different ") {
		t.Errorf("without the policies of the table: got %v: %s", err, out)
	}
}
