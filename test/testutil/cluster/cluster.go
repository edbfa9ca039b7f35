/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cluster runs a real control plane on this machine: etcd, kube-apiserver and
// proviso-apiserver, which is registered with kube-apiserver, and users with client certificates.
// The end-to-end tests and `make demo` use it.
//
// All servers listen on 127.0.0.1, on ports that the kernel chose. All files are in one directory.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/pki"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The names of the installation, here and in artifacts/.
const (
	Namespace = "proviso-system"
	Service   = "proviso-apiserver"
)

// Admin is a user with all permissions, as a member of system:masters.
const Admin = "admin"

// Users are the users of the cluster, and their groups.
var Users = map[string][]string{
	Admin:   {"system:masters"},
	"alice": {"developers"},
	"bob":   {"operators"},
	"carol": nil,
	"agent": {"agents"},
}

// validity is the validity of certificates: longer than any test, but not much longer than a dev
// cluster is used.
const validity = 30 * 24 * time.Hour

// Config configures a cluster.
type Config struct {
	// Dir is the directory of all files of the cluster.
	Dir string
	// Bin holds the binaries etcd, kube-apiserver, kubectl and proviso-apiserver.
	Bin string
	// Manifests is the folder artifacts/ of the repository.
	Manifests string
	// Detached lets the processes continue when this process ends.
	Detached bool
	// Deployment runs proviso-apiserver in a container, as configured by the Deployment in
	// Manifests/overlays/demo, or overlays/managed. Otherwise it runs as a plain process.
	Deployment bool
	// Token has proviso-apiserver call kube-apiserver with a token of its ServiceAccount, valid for an hour, as a pod does. Otherwise
	// it has a client certificate, which kube-apiserver verifies again for each request. With Deployment it always has a token.
	Token bool
	// Args are additional arguments of proviso-apiserver. With Deployment they are not used.
	Args []string
	// Uncached lets every proviso-apiserver ask kube-apiserver for each request, so that what RBAC grants and withdraws holds at once. Otherwise
	// it reuses answers, as it does by default.
	Uncached bool
	// EtcdMembers is the number of members of etcd, of which all but the first one have other ports after a restart of this process. Zero means one.
	EtcdMembers int
	// SharedStore lets proviso-apiserver store its objects in the cluster's etcd, which other replicas use. Otherwise it has a store of
	// its own.
	SharedStore bool
	// KubeAPIServerArgs are additional arguments of every kube-apiserver.
	KubeAPIServerArgs []string
	// SecondKubeAPIServer prepares a second kube-apiserver on the same etcd, which Servers has. Up does not start it.
	SecondKubeAPIServer bool
	// ControllerManager runs kube-controller-manager, whose binary must be in Bin, too.
	ControllerManager bool
	// InnerDoor runs kube-apiserver and proviso-apiserver with the inner door. Nil means without.
	InnerDoor *InnerDoor
	// Managed runs kube-apiserver without any flag or file for Proviso, as managed clusters do, and proviso-apiserver without front door
	// and inner door, with the permissions of Manifests/overlays/managed. With Deployment it runs as configured by the Deployment there.
	Managed bool
	// Kubernetes is the name of kube-apiserver in hack/controlplane/versions.txt, with which its binary ends. It needs Managed. The newest one has no
	// name, or newest.
	Kubernetes string
	// ServicePort is the port of a balancer before the main ports of all replicas, which the APIServices name. Zero means the port of Proviso.
	ServicePort int
	// KubeAPIServers is the URL of a balancer before all kube-apiservers, which Proviso calls. Empty means the first one's.
	KubeAPIServers string
	// ProvisoBinary is the path of proviso-apiserver, from the next start of each replica. Empty means the binary in Bin.
	ProvisoBinary string
	// Log logs the progress. It may be nil.
	Log func(format string, args ...any)
}

// Cluster is a control plane. Its methods that start, stop or configure servers must not be called concurrently.
type Cluster struct {
	Config
	ports ports

	ca, frontProxyCA, frontDoorCA *pki.Authority

	Etcd, Proviso     *process
	controllerManager *process
	// members are the members of etcd. Etcd is the process of the first one.
	members []*member

	applier applier
	// Servers are the kube-apiservers. Proviso and the users' kubeconfig use the first one.
	Servers []*KubeAPIServer
}

type ports struct {
	Etcd, EtcdPeer, KubeAPIServer, Proviso, FrontDoor, SecondKubeAPIServer, ControllerManager int
}

// New prepares a cluster in a directory. Files and processes of an earlier cluster in the
// directory are used again.
func New(config Config) (*Cluster, error) {
	if config.Log == nil {
		config.Log = func(string, ...any) {}
	}
	if config.IsOld() && !config.Managed || config.Managed && config.InnerDoor != nil {
		return nil, errors.New("an old kube-apiserver needs a managed cluster, which has no inner door")
	}
	c := &Cluster{Config: config}
	for _, p := range []struct {
		process **process
		name    string
	}{{process: &c.Etcd, name: "etcd"}, {process: &c.Proviso, name: "proviso-apiserver"}, {process: &c.controllerManager, name: "kube-controller-manager"}} {
		*p.process = &process{name: p.name, dir: config.Dir, detached: config.Detached}
	}
	if err := os.MkdirAll(c.pki(""), 0o700); err != nil {
		return nil, err
	}
	var err error
	if config.Deployment {
		// The container runs as another user, who must be able to enter the directory.
		err = os.Chmod(config.Dir, 0o711)
	}
	if err != nil {
		return nil, err
	}
	if c.ca, err = pki.New(c.pki(""), "ca", validity); err != nil {
		return nil, err
	}
	if c.frontProxyCA, err = pki.New(c.pki(""), "front-proxy-ca", validity); err != nil {
		return nil, err
	}
	if c.frontDoorCA, err = pki.New(c.pki(""), "front-door-ca", validity); err != nil {
		return nil, err
	}
	if err := c.choosePorts(); err != nil {
		return nil, err
	}
	if err := c.addMembers(); err != nil {
		return nil, err
	}
	c.Servers = []*KubeAPIServer{c.newKubeAPIServer("", config.Dir, c.ports.KubeAPIServer)}
	if config.SecondKubeAPIServer {
		c.Servers = append(c.Servers, c.newKubeAPIServer("-2", filepath.Join(config.Dir, "kube-apiserver-2"), c.ports.SecondKubeAPIServer))
	}
	return c, nil
}

func (c *Cluster) pki(file string) string { return filepath.Join(c.Dir, "pki", file) }

func (c *Cluster) binary(name string) string { return filepath.Join(c.Bin, name) }

func (c *Cluster) provisoBinary() string {
	return cmp.Or(c.ProvisoBinary, c.binary("proviso-apiserver"))
}

// choosePorts chooses ports and stores them, so that a restart keeps the addresses.
func (c *Cluster) choosePorts() error {
	file := filepath.Join(c.Dir, "ports.json")
	if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &c.ports) == nil && c.ports.ControllerManager != 0 {
		return nil
	}
	free, err := reservePorts(7)
	if err != nil {
		return err
	}
	for i, port := range []*int{&c.ports.Etcd, &c.ports.EtcdPeer, &c.ports.KubeAPIServer, &c.ports.Proviso, &c.ports.FrontDoor, &c.ports.SecondKubeAPIServer, &c.ports.ControllerManager} {
		if *port == 0 { // ports.json may be from an earlier version with fewer ports
			*port = free[i]
		}
	}
	content, err := json.Marshal(c.ports)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// Up starts the servers that do not run, in order, and waits until Proviso is registered.
func (c *Cluster) Up(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{what: "etcd", do: c.StartEtcd},
		{what: "kube-apiserver", do: c.StartKubeAPIServer},
		{what: "users and permissions", do: c.prepare},
		{what: "proviso-apiserver", do: c.StartProviso},
		{what: "APIServices", do: c.Register},
	}
	if c.ControllerManager {
		steps = append(steps, struct {
			what string
			do   func(context.Context) error
		}{what: "kube-controller-manager", do: c.StartControllerManager})
	}
	for _, step := range steps {
		started := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		c.Log("%-24s ready after %s", step.what, time.Since(started).Round(100*time.Millisecond))
	}
	return nil
}

// Down stops the running servers, in reverse order.
func (c *Cluster) Down() error { return c.end(syscall.SIGTERM) }

// Destroy kills the running servers. It is for tests, which need no server to finish its requests.
func (c *Cluster) Destroy() error { return c.end(syscall.SIGKILL) }

func (c *Cluster) end(signal syscall.Signal) error {
	const patience = 20 * time.Second
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.stop(signal, patience))
	}
	return errors.Join(errs...)
}

// processes returns the servers in the order in which they are stopped.
func (c *Cluster) processes() []*process {
	all := []*process{c.controllerManager, c.Proviso}
	for _, s := range c.Servers {
		all = append(all, s.process)
	}
	for _, m := range c.members {
		all = append(all, m.process)
	}
	return all
}

// LogEnds returns the ends of the logs of the servers that were not stopped.
func (c *Cluster) LogEnds() string {
	var text strings.Builder
	for _, p := range c.processes() {
		if p.pid != 0 {
			fmt.Fprintf(&text, "the end of the log of %s, which runs: %v\n%s\n", p.name, p.running(), p.tail())
		}
	}
	return text.String()
}

// StopAfter kills the servers when a test ends, and shows the ends of their logs if it has failed.
func (c *Cluster) StopAfter(t interface {
	Cleanup(f func())
	Failed() bool
	Log(args ...any)
	Error(args ...any)
},
) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogEnds())
		}
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	})
}

// KubeAPIServerURL returns the URL of the first kube-apiserver.
func (c *Cluster) KubeAPIServerURL() string { return c.Servers[0].URL() }

// ProvisoURL returns the URL of proviso-apiserver.
func (c *Cluster) ProvisoURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports.Proviso)
}

// CAFile returns the file with the CA of kube-apiserver and of the users.
func (c *Cluster) CAFile() string { return c.ca.Files().Cert }

// ProvisoCAFile returns the file with the CA of proviso-apiserver.
func (c *Cluster) ProvisoCAFile() string {
	if c.Deployment {
		return filepath.Join(c.Manifests, "base", "certs", "ca.crt")
	}
	return c.CAFile()
}

// Kubeconfig returns the path of a file with two contexts for each user: NAME through
// kube-apiserver, and NAME-direct for Proviso's own port.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Client returns the client configuration for a context of Kubeconfig.
func (c *Cluster) Client(context string) (*rest.Config, error) {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig()},
		&clientcmd.ConfigOverrides{CurrentContext: context},
	).ClientConfig()
}

// Pid returns the process ID of proviso-apiserver.
func (c *Cluster) Pid() int { return c.Proviso.pid }

// KubeAPIServerPid returns the process ID of the first kube-apiserver.
func (c *Cluster) KubeAPIServerPid() int { return c.Servers[0].process.pid }

// Kill kills proviso-apiserver, as in a crash.
func (c *Cluster) Kill() error { return c.Proviso.stop(syscall.SIGKILL, time.Minute) }

// KillKubeAPIServer kills the first kube-apiserver. StartKubeAPIServer starts it again at the same address.
func (c *Cluster) KillKubeAPIServer() error { return c.Servers[0].Kill() }

// FrontProxy returns a client certificate of the front proxy's CA. kube-apiserver uses one of this
// CA when it proxies requests.
func (c *Cluster) FrontProxy(name string) (certFile, keyFile string, err error) {
	files, err := c.frontProxyCA.Client("front-proxy-"+name, name)
	return files.Cert, files.Key, err
}

// UserCertificate returns the client certificate of a user.
func (c *Cluster) UserCertificate(name string) (certFile, keyFile string) {
	files := c.userPair(name)
	return files.Cert, files.Key
}

// ServingCertificate creates a certificate for another server on this machine.
func (c *Cluster) ServingCertificate(name string) (certFile, keyFile string, err error) {
	files, err := c.ca.Server("serving-"+name, "localhost", "127.0.0.1")
	return files.Cert, files.Key, err
}

// NewUser creates a client certificate for another user.
func (c *Cluster) NewUser(name string, groups ...string) (certFile, keyFile string, err error) {
	files, err := c.ca.Client("user-"+name, name, groups...)
	return files.Cert, files.Key, err
}

// Kubectl runs kubectl as the admin, with input as its standard input, and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary("kubectl"), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "HOME="+c.Dir) // keeps the discovery cache with the cluster
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}
