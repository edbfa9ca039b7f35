/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package kubectl_test runs the plugin kubectl-proviso. Its tests share a control plane and are not parallel, because policies and roles of
// other tests would change what the commands print.
package kubectl_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	kubectlplugin "github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// stack is the control plane that the tests share.
var stack = &plane.Plane{}

var (
	kubectl     = stack.Kubectl
	mustKubectl = stack.MustKubectl
	clients     = stack.Clients
)

func TestMain(m *testing.M) {
	os.Exit(stack.Run(m, 3, cluster.Config{Uncached: true, InnerDoor: &cluster.InnerDoor{Configuration: innerDoor}}))
}

// shell runs a command in the root of the repository, with kubectl and the plugin on the path.
func shell(t *testing.T, user, input, command string) (out, errOut string, code int) {
	t.Helper()
	kubeconfig, err := os.ReadFile(stack.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig = regexp.MustCompile(`(?m)^current-context: .*$`).ReplaceAll(kubeconfig, []byte("current-context: "+user))
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := stack.Shell(t.Context(), command)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = strings.NewReader(input), &stdout, &stderr, append(cmd.Env, "KUBECONFIG="+file)
	err = cmd.Run()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// plugin runs the plugin in this process.
func plugin(t *testing.T, user, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectlplugin.Run(t.Context(), append(args, "--kubeconfig", stack.Kubeconfig(), "--context", user, "--cache-dir", stack.CacheDir(user)), streams)
	return stdout.String(), stderr.String(), code
}

// applyForTest applies a manifest until the end of a test, and waits until its objects are ready.
func applyForTest(t *testing.T, manifest string) {
	t.Helper()
	t.Cleanup(func() { remove(t, manifest) })
	if err := stack.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the objects of a manifest; some may be gone.
func remove(t *testing.T, manifest string) {
	t.Helper()
	if err := stack.Delete(context.WithoutCancel(t.Context()), manifest); err != nil {
		t.Error(err)
	}
}

// transcript runs the commands of a group of commands.yaml by kubectl, and returns what they print.
func transcript(t *testing.T, command string) string {
	t.Helper()
	var file struct {
		Inputs   map[string]string
		Commands map[string][]struct{ As, Input, Args string }
	}
	plane.ReadYAML(t, "commands.yaml", &file)
	if len(file.Commands[command]) == 0 {
		t.Fatalf("there are no commands %s", command)
	}
	var printed strings.Builder
	for _, row := range file.Commands[command] {
		out, errOut, code := shell(t, row.As, cmp.Or(file.Inputs[row.Input], row.Input), "kubectl proviso "+command+" "+row.Args)
		fmt.Fprintf(&printed, "%s$ kubectl proviso %s %s\n%s", row.As, command, row.Args, out)
		for line := range strings.Lines(errOut) {
			printed.WriteString("stderr: " + line)
		}
		fmt.Fprintf(&printed, "exit code %d\n\n", code)
		if code == 2 && (out != "" || strings.Count(errOut, "error: ") != 1) {
			t.Errorf("%s: want one error and no answer, got %s%s", row.Args, out, errOut)
		}
	}
	return printed.String()
}

// checkDocument checks that the first example of a command in docs/kubectl-proviso.md is in a transcript.
func checkDocument(t *testing.T, user, command, text string) {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(stack.Repository, "docs", "kubectl-proviso.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(document), "```console\n$ kubectl proviso "+command+" ")
	shown, _, _ = strings.Cut(shown, "```")
	if shown == "" || !strings.Contains(text, user+"$ kubectl proviso "+command+" "+shown) {
		t.Errorf("the document shows %s, which is not printed", shown)
	}
}
