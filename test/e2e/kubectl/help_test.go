/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	kubectlplugin "github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// TestKubectlHelp pastes the examples in the help of all commands, in order, as admin.
func TestKubectlHelp(t *testing.T) {
	barriers := rendered(t)
	t.Cleanup(func() { remove(t, barriers) })
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	count := 0
	var paste func(*cobra.Command)
	paste = func(command *cobra.Command) {
		found := 0
		for line := range strings.Lines(command.Example) {
			example := strings.TrimSpace(line)
			if example == "" || strings.HasPrefix(example, "#") {
				continue
			}
			found++
			isServer := slices.Contains(strings.Fields(example), "playground") // it runs until Ctrl-C
			script := example
			if isServer {
				script = "timeout --preserve-status --signal=INT 3 " + example
			}
			out, errOut, code := shell(t, "admin", "", script)
			if code == 2 || isServer && code != 0 || out == "" && command.Name() != "lint" {
				t.Errorf("%s: exit code %d: %s%s", example, code, out, errOut)
			}
		}
		if found == 0 {
			t.Errorf("the help of %s has no example", command.CommandPath())
		}
		count += found
		for _, below := range command.Commands() {
			paste(below)
		}
	}
	paste(kubectlplugin.NewCommand(streams))
	if count < 40 {
		t.Errorf("found %d examples", count)
	}
}

// TestPlaygroundEnds interrupts the playground until it has ended, because timeout and terminals may send more than one signal. The exit code
// must be 0.
func TestPlaygroundEnds(t *testing.T) {
	for range 10 {
		cmd := stack.Shell(t.Context(), "exec kubectl-proviso playground")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for range 2 { // the command catches signals before it prints
			if !lines.Scan() {
				t.Fatalf("no line: %v", lines.Err())
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for cmd.Process.Signal(os.Interrupt) == nil {
			continue // until Wait has seen the end
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// rendered returns the barriers of the policies in the examples.
func rendered(t *testing.T) string {
	t.Helper()
	out, errOut, code := shell(t, "admin", "", "kubectl proviso render -R -f artifacts/render/policies")
	if code != 0 {
		t.Fatal(errOut)
	}
	return out
}

// TestKubectlReadsTheCluster compares what the commands print that read policies, schemas and barriers of the cluster.
func TestKubectlReadsTheCluster(t *testing.T) {
	policy := filepath.Join(stack.Repository, "artifacts", "examples", "storage-class", "policy.yaml")
	mustKubectl(t, "admin", "apply", "-f", policy)
	t.Cleanup(func() { mustKubectl(t, "admin", "delete", "-f", policy) })
	applyForTest(t, strings.ReplaceAll(plane.TestData(t, "plugin.yaml"), "plugin", "explained")+"---\n"+plane.TestData(t, "explain.yaml"))
	golden.Compare(t, filepath.Join("testdata", "reads.golden.txt"), transcript(t, "explain")+transcript(t, "lint")+transcript(t, "render"))
	// What explain says is what happens.
	for _, user := range []string{"alice", "bob", "carol"} {
		for name, class := range map[string]string{"new-dev": "dev", "new-gold": "gold"} {
			machine := fmt.Sprintf("{apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, metadata: {name: %s, namespace: explained}, spec: {image: debian-12, storageClassName: %s}}", name, class)
			_, errOut, code := plugin(t, "admin", machine, "explain", "create", "-f", "-", "--as", user)
			_, refusal, passes := shell(t, user, machine, "kubectl create -f - --dry-run=server")
			if (code == 0) != (passes == 0) || code > 1 {
				t.Errorf("%s creates %s: got %d %s, want %d %s", user, name, code, errOut, passes, refusal)
			}
		}
	}
}
