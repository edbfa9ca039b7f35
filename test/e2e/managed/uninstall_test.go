/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/documents"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// removeBarriers runs the command remove-barriers as the administrator.
func (r *rig) removeBarriers(t *testing.T) (string, error) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join(r.Repository, "_output", "bin", "proviso-apiserver"), "remove-barriers", "--kubeconfig="+r.Kubeconfig()).CombinedOutput()
	return string(output), err
}

// barriers returns the names of the objects of barriers.
func (r *rig) barriers(t *testing.T) string {
	t.Helper()
	return r.MustKubectl(t, "get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--selector=app.kubernetes.io/managed-by=proviso", "-o=name")
}

// TestUninstall removes Proviso in the documented order and, after another start, in the worst order.
func TestUninstall(t *testing.T) {
	t.Parallel()
	onEach(t, cluster.Config{Args: []string{"--barriers"}}, (*cluster.Cluster).Up, testUninstall)
}

func testUninstall(t *testing.T, r *rig) {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "writer.yaml"))
	r.MustApply(t, table(t, "host-network.yaml").Manifest())
	r.becomes(t, "denied")

	if output, err := r.removeBarriers(t); err == nil || !strings.Contains(output, "turn the flag --barriers off first") || !strings.Contains(r.barriers(t), "host-network") {
		t.Errorf("with a leader: got %v, %s", err, output)
	}
	restart(t, r, "--barriers=false")
	r.is(t, "denied") // without the flag
	output, err := r.removeBarriers(t)
	if err != nil || !strings.Contains(output, "validatingadmissionpolicy/host-network.cluster.policy.proviso.dev removed") {
		t.Errorf("got %v, %s", err, output)
	}
	if left := r.barriers(t); left != "" {
		t.Errorf("got %s", left)
	}
	r.becomes(t, "allowed")
	r.MustKubectl(t, "delete", "clusterauthorizationpolicy/host-network", "--timeout=1m")

	restart(t, r, "--barriers")
	r.MustApply(t, table(t, "host-network.yaml").Manifest())
	r.becomes(t, "denied")
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	r.MustKubectl(t, "delete", "namespace", cluster.Namespace, "--wait=false")
	r.MustKubectl(t, "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "--selector=app.kubernetes.io/managed-by=proviso", "--wait=false")
	r.is(t, "denied") // barriers that are being deleted deny
	if left := r.barriers(t); !strings.Contains(left, "host-network") {
		t.Errorf("got %s", left)
	}
	// The commands of docs/barriers.md that need nothing of Proviso.
	shell := r.Shell(t.Context(), "sh -e")
	shell.Stdin = strings.NewReader(commandsOf(t, r))
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if left := r.barriers(t); left != "" {
		t.Errorf("got %s", left)
	}
	r.becomes(t, "allowed")
}

// commandsOf returns the commands of docs/barriers.md that remove barriers without Proviso.
func commandsOf(t *testing.T, r *rig) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(r.Repository, "docs", "barriers.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands, err := documents.Console(string(document), "without Proviso")
	if err != nil {
		t.Fatal(err)
	}
	return commands
}

// restart starts Proviso again with other arguments. A replica that stops gives up the Lease, if it has it.
func restart(t *testing.T, r *rig, args ...string) {
	t.Helper()
	if err := syscall.Kill(r.Pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "the replica gives up the Lease", func() string {
		return r.MustKubectl(t, "get", "lease/proviso-barriers", "-n="+cluster.Namespace, "-o=jsonpath={.spec.holderIdentity}")
	})
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	r.Args = args
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
}
