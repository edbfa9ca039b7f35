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
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestBackup saves the store of a server that runs, and restores it after policies have changed: they are as they were, and the barrier
// of a later policy stays.
func TestBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t, cluster.Config{Managed: true}, (*cluster.Cluster).Up)
	dir, file := filepath.Join(r.Dir, "proviso"), filepath.Join(t.TempDir(), "proviso.db")
	command := func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(r.Bin, "proviso-apiserver"), append(args, "--data-dir="+dir)...).CombinedOutput()
		return string(out), err
	}
	r.MustApply(t, plane.TestData(t, "saved.yaml"))
	r.effective(t, "clusterauthorizationpolicy/saved")
	before := r.MustKubectl(t, "get", "clusterauthorizationpolicy/saved", "-o=jsonpath={.metadata.uid} {.spec}")
	if out, err := command("backup", "--file="+file); err != nil || out != "" {
		t.Fatalf("backup: %v %s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the snapshot: got %v, %v, want a file that only its owner can read", info, err)
	}
	if out, err := command("restore", "--file="+file); err == nil || !strings.Contains(out, "in use by another process") {
		t.Errorf("beside a server that runs: got %v %s", err, out)
	}
	r.MustApply(t, plane.TestData(t, "later.yaml"))
	r.MustKubectl(t, "patch", "clusterauthorizationpolicy/saved", "--type=merge", `-p={"spec":{"condition":"object.metadata.name == 'other'"}}`)
	r.effective(t, "clusterauthorizationpolicy/saved", "clusterauthorizationpolicy/later")

	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := command("restore", "--file="+file); err != nil || !strings.Contains(out, "The earlier data are in "+dir) {
		t.Fatalf("restore: %v %s", err, out)
	}
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "the policies are those of the snapshot", func() string {
		out, err := r.Kubectl(t.Context(), "", "get", "clusterauthorizationpolicies", "-o=jsonpath={range .items[*]}{.metadata.uid} {.spec}{end}")
		if err != nil || out != before {
			return out
		}
		return ""
	})
	r.effective(t, "clusterauthorizationpolicy/saved")
	refuses := func(name, policy string) {
		poll.Eventually(t, "the barrier of "+policy, func() string {
			out, err := r.Kubectl(t.Context(), "", "create", "configmap", name, "--dry-run=server", "--as=alice", "--as-group=writers")
			if err != nil && strings.Contains(err.Error(), "policy="+policy+" reason=Denied") {
				return ""
			}
			return out
		})
	}
	refuses("saved", "saved")
	refuses("later", "later")
}
