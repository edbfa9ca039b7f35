/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// stack is the control plane that the tests share. Tests that stop parts of it must not
// be parallel, and must start them again.
var stack *cluster.Cluster

// repository is the root of the repository.
var repository string

func TestMain(m *testing.M) {
	cluster.MaybeContainer()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	wd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	repository = filepath.Dir(filepath.Dir(wd))
	dir, err := os.MkdirTemp("", "proviso-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	manifests, err := copyManifests(dir)
	if err != nil {
		return 0, err
	}
	stack, err = cluster.New(cluster.Config{
		Dir: dir, Bin: filepath.Join(repository, "_output", "bin"), Manifests: manifests, Deployment: true,
		Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		if downErr := stack.Down(); err == nil {
			err = downErr
		}
	}()
	if err := stack.Up(context.Background()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// copyManifests copies artifacts/ and makes certificates, as `make certs` does.
func copyManifests(dir string) (string, error) {
	manifests := filepath.Join(dir, "artifacts")
	if err := os.CopyFS(manifests, os.DirFS(filepath.Join(repository, "artifacts"))); err != nil {
		return "", err
	}
	folders := []string{filepath.Join(manifests, "base", "certs"), filepath.Join(manifests, "front-door", "certs")}
	for _, folder := range folders {
		if err := os.RemoveAll(folder); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("go", append([]string{"run", "./hack/certs"}, folders...)...)
	cmd.Dir, cmd.Stderr = repository, os.Stderr
	return manifests, cmd.Run()
}

// kubectl runs kubectl in a context of the kubeconfig and returns what it printed.
func kubectl(t *testing.T, user string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return kubectlWithInput(t, user, "", args...)
}

func kubectlWithInput(t *testing.T, user, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return kubectlWithEditor(t, user, "false", input, args...)
}

// kubectlWithEditor runs kubectl with an editor, which `kubectl edit` starts.
func kubectlWithEditor(t *testing.T, user, editor, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	// The context of a test has ended when its cleanups run.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(stack.Bin, "kubectl"),
		append([]string{"--kubeconfig", stack.Kubeconfig(), "--context", user, "--cache-dir", filepath.Join(stack.Dir, "kubectl-cache", user)}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	cmd.Env = append(os.Environ(), "KUBE_EDITOR="+editor)
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func mustKubectl(t *testing.T, user string, args ...string) string {
	t.Helper()
	out, errs, err := kubectl(t, user, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, errs)
	}
	return out
}

func config(t *testing.T, user string) *rest.Config {
	t.Helper()
	c, err := stack.Client(user)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1 // a test is no client to be slowed down
	return c
}

func clients(t *testing.T, user string) (kubernetes.Interface, versioned.Interface) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config(t, user))
	if err != nil {
		t.Fatal(err)
	}
	proviso, err := versioned.NewForConfig(config(t, user))
	if err != nil {
		t.Fatal(err)
	}
	return kube, proviso
}
