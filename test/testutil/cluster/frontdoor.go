/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// frontDoorClient is the common name in the client certificate of the first kube-apiserver for the front door. frontDoorClients lists the
// common names of all kube-apiservers.
const (
	frontDoorClient  = "kube-apiserver"
	frontDoorClients = frontDoorClient + "," + frontDoorClient + "-2"
)

// FrontDoorURL returns the URL of the front door.
func (c *Cluster) FrontDoorURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports.FrontDoor)
}

// FrontDoorCertificate returns the client certificate of the first kube-apiserver for the front door.
func (c *Cluster) FrontDoorCertificate() (certFile, keyFile string, err error) {
	return c.Servers[0].FrontDoorCertificate()
}

// writeAuthorization writes the AuthorizationConfiguration of kube-apiserver, and returns its
// path. It copies the file in artifacts/, and the kubeconfig next to it, with the paths of files
// on this machine. Proviso need not run.
func (c *Cluster) writeAuthorization() (string, error) {
	certFile, keyFile, err := c.FrontDoorCertificate()
	if err != nil {
		return "", err
	}
	const dir = "/etc/kubernetes/proviso/"
	kubeconfig, authorization := filepath.Join(c.Dir, "front-door.kubeconfig"), filepath.Join(c.Dir, "authorization.yaml")
	err = c.adapt("kubeconfig.yaml", kubeconfig, map[string]string{
		"https://127.0.0.1:8444": c.FrontDoorURL(), dir + "serving-ca.crt": c.ProvisoCAFile(),
		dir + "client.crt": certFile, dir + "client.key": keyFile,
	})
	if err != nil {
		return "", err
	}
	return authorization, c.adapt("authorization.yaml", authorization, map[string]string{"kubeConfigFile: " + dir + "kubeconfig.yaml": "kubeConfigFile: " + kubeconfig})
}

// adapt copies a file of artifacts/front-door with replacements. It returns an error if the file
// does not contain the text of one of them.
func (c *Cluster) adapt(name, file string, replacements map[string]string) error {
	content, err := os.ReadFile(filepath.Join(c.Manifests, "front-door", name))
	if err != nil {
		return err
	}
	text := string(content)
	for old, replacement := range replacements {
		if !strings.Contains(text, old) {
			return fmt.Errorf("%s does not contain %s", name, old)
		}
		text = strings.ReplaceAll(text, old, replacement)
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// Alone is an additional server with its own front door, which shares the cluster's etcd. Its methods must not be called concurrently.
type Alone struct {
	// URL and FrontDoorURL are its URLs. Its certificate is signed by the cluster's CA.
	URL, FrontDoorURL string
	// CertFile and KeyFile have a client certificate for its front door.
	CertFile, KeyFile string

	cluster *Cluster
	args    []string
	process *process
}

// Alone starts an additional server and returns it when it is ready. args are additional arguments. The server stops with this process, or when
// Stop is called.
func (c *Cluster) Alone(ctx context.Context, args ...string) (*Alone, error) {
	a, err := c.newAlone(c.EtcdURL(), args...)
	if err != nil {
		return a, err
	}
	return a, a.Start(ctx)
}

// AloneAt is Alone with the URL of etcd or of a proxy before it. It returns the server when its front door is ready, which does not need
// kube-apiserver.
func (c *Cluster) AloneAt(ctx context.Context, etcdURL string, args ...string) (*Alone, error) {
	a, err := c.newAlone(etcdURL, args...)
	if err != nil {
		return a, err
	}
	return a, a.startFrontDoor(ctx)
}

// newAlone prepares an additional server.
func (c *Cluster) newAlone(etcdURL string, args ...string) (*Alone, error) {
	a := &Alone{cluster: c, process: &process{name: "proviso-apiserver"}}
	ports, err := reservePorts(2)
	if err != nil {
		return a, err
	}
	// Tests start such servers concurrently, so each one needs its own certificates.
	name := fmt.Sprintf("alone-%d", ports[0])
	serving, err := c.ca.Server(name, ServerName, "localhost", "127.0.0.1")
	if err != nil {
		return a, err
	}
	client, err := c.frontDoorCA.Client(name+"-client", frontDoorClient)
	if err != nil {
		return a, err
	}
	if a.process.dir, err = os.MkdirTemp(c.Dir, "alone-"); err != nil {
		return a, err
	}
	a.URL, a.FrontDoorURL = fmt.Sprintf("https://127.0.0.1:%d", ports[0]), fmt.Sprintf("https://127.0.0.1:%d", ports[1])
	a.CertFile, a.KeyFile = client.Cert, client.Key
	a.args = slices.Concat([]string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
		"--webhook-bind-address=127.0.0.1", fmt.Sprintf("--webhook-secure-port=%d", ports[1]),
		"--webhook-client-ca-file=" + c.frontDoorCA.Files().Cert, "--webhook-allowed-names=" + frontDoorClients,
		"--tls-cert-file=" + serving.Cert, "--tls-private-key-file=" + serving.Key,
		"--kubeconfig=" + filepath.Join(c.Dir, "proviso.kubeconfig"), "--enable-demo-api",
	}, c.storeArgs(etcdURL), c.innerDoorArgs(), c.answersArgs(), args)
	return a, nil
}

// startFrontDoor starts the server, if it does not run, and waits until its front door is ready.
func (a *Alone) startFrontDoor(ctx context.Context) error {
	if !a.process.find() {
		if err := a.process.start(a.cluster.provisoBinary(), a.args, nil); err != nil {
			return err
		}
	}
	return a.cluster.waitFor(ctx, a.process, a.FrontDoorURL+"/readyz", a.cluster.CAFile(), pki.Pair{Cert: a.CertFile, Key: a.KeyFile})
}

// Start starts the server at its addresses, if it does not run, and waits until it is ready.
func (a *Alone) Start(ctx context.Context) error {
	if err := a.startFrontDoor(ctx); err != nil {
		return err
	}
	return a.cluster.waitFor(ctx, a.process, a.URL+"/readyz", a.cluster.CAFile(), pki.Pair{})
}

// Stop ends the server.
func (a *Alone) Stop() { _ = a.process.stop(syscall.SIGTERM, startTimeout) }
