/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package plane runs the control plane that the tests of a package share, and kubectl and clients for them.
package plane

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
	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// Plane is a control plane. Its methods need the Cluster, which Run starts.
type Plane struct {
	*cluster.Cluster
	// Repository is the root of the repository.
	Repository string
}

// Run starts a cluster, whose Dir, Bin, Manifests and Log it sets, and runs the tests of a package, which is so many folders below the root of
// the repository. It shows the ends of the servers' logs if a test fails, and returns the exit code of the process.
func (p *Plane) Run(m *testing.M, depth int, config cluster.Config) int {
	cluster.MaybeContainer()
	code, err := p.run(m, depth, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func (p *Plane) run(m *testing.M, depth int, config cluster.Config) (code int, err error) {
	if p.Repository, err = filepath.Abs(strings.Repeat("../", depth)); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "proviso-e2e-") // short enough for a socket
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	config.Dir, config.Bin = dir, filepath.Join(p.Repository, "_output", "bin")
	config.Log = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if config.Manifests, err = CopyManifests(p.Repository, dir); err != nil {
		return 0, err
	}
	if p.Cluster, err = cluster.New(config); err != nil {
		return 0, err
	}
	defer func() {
		if endErr := p.Destroy(); err == nil {
			err = endErr
		}
	}()
	if err := p.Up(context.Background()); err != nil {
		return 0, err
	}
	if code = m.Run(); code != 0 {
		fmt.Print(p.LogEnds())
	}
	return code, nil
}

// CopyManifests copies artifacts/ to a folder in dir, which it returns, and makes certificates, as `make certs` does.
func CopyManifests(repository, dir string) (string, error) {
	manifests := filepath.Join(dir, "artifacts")
	if err := os.CopyFS(manifests, os.DirFS(filepath.Join(repository, "artifacts"))); err != nil {
		return "", err
	}
	for folder, write := range map[string]func(string) (string, error){"base": pki.WriteServing, "front-door": pki.WriteFrontDoorClient} {
		certs := filepath.Join(manifests, folder, "certs")
		if err := os.RemoveAll(certs); err != nil {
			return "", err
		}
		if _, err := write(certs); err != nil {
			return "", err
		}
	}
	return manifests, nil
}

// Kubectl runs kubectl in a context of the kubeconfig and returns what it printed.
func (p *Plane) Kubectl(t *testing.T, user string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return p.KubectlWithInput(t, user, "", args...)
}

// KubectlWithInput is Kubectl with a standard input.
func (p *Plane) KubectlWithInput(t *testing.T, user, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return p.KubectlWithEditor(t, user, "false", input, args...)
}

// KubectlWithEditor is KubectlWithInput with an editor, which `kubectl edit` starts.
func (p *Plane) KubectlWithEditor(t *testing.T, user, editor, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	// The context of a test has ended when its cleanups run.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(p.Bin, "kubectl"),
		append([]string{"--kubeconfig", p.Kubeconfig(), "--context", user, "--cache-dir", p.CacheDir(user)}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	cmd.Env = append(os.Environ(), "KUBE_EDITOR="+editor)
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// CacheDir returns the directory with what kubectl of a user knows of the API.
func (p *Plane) CacheDir(user string) string { return filepath.Join(p.Dir, "kubectl-cache", user) }

// MustKubectl is Kubectl that must succeed, and returns its standard output.
func (p *Plane) MustKubectl(t *testing.T, user string, args ...string) string {
	t.Helper()
	out, errs, err := p.Kubectl(t, user, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, errs)
	}
	return out
}

// ClientConfig returns the client configuration for a context of the kubeconfig.
func (p *Plane) ClientConfig(t *testing.T, user string) *rest.Config {
	t.Helper()
	c, err := p.Client(user)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1 // a test is no client to be slowed down
	return c
}

// Clients returns clients for a context of the kubeconfig.
func (p *Plane) Clients(t *testing.T, user string) (kubernetes.Interface, versioned.Interface) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(p.ClientConfig(t, user))
	if err != nil {
		t.Fatal(err)
	}
	proviso, err := versioned.NewForConfig(p.ClientConfig(t, user))
	if err != nil {
		t.Fatal(err)
	}
	return kube, proviso
}

// ClientAt returns a client of another server with a certificate of the cluster's CA, for the user of a context of the kubeconfig.
func (p *Plane) ClientAt(t *testing.T, user, url string) versioned.Interface {
	t.Helper()
	c := p.ClientConfig(t, user)
	c.Host, c.CAFile = url, p.CAFile()
	client, err := versioned.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
