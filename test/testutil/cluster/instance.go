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
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// Instance is an additional Proviso with an etcd of its own, so that it can lose its store while
// kube-apiserver keeps its own. It uses the kube-apiserver of the cluster, but is not registered
// there. Its methods must not be called concurrently.
type Instance struct {
	cluster       *Cluster
	dir           string
	args          []string
	etcdPort      int
	etcdPeerPort  int
	port          int
	serving       pki.Pair
	Etcd, Proviso *process
}

// NewInstance prepares an instance. The name distinguishes it from other instances; args are
// additional arguments of proviso-apiserver.
func (c *Cluster) NewInstance(name string, args ...string) (*Instance, error) {
	dir := filepath.Join(c.Dir, "instance-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	free, err := reservePorts(3)
	if err != nil {
		return nil, err
	}
	serving, err := c.ca.Server("instance-"+name, ServerName, "localhost", "127.0.0.1")
	if err != nil {
		return nil, err
	}
	return &Instance{
		cluster: c, dir: dir, args: args, etcdPort: free[0], etcdPeerPort: free[1], port: free[2], serving: serving,
		Etcd:    &process{name: "etcd", dir: dir},
		Proviso: &process{name: "proviso-apiserver", dir: dir},
	}, nil
}

// EtcdURL returns the URL of the instance's etcd, which serves without TLS.
func (i *Instance) EtcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", i.etcdPort) }

// URL returns the URL of the instance.
func (i *Instance) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", i.port) }

// StartEtcd starts the instance's etcd, if it does not run, with the data that it stored before,
// and waits until it serves.
func (i *Instance) StartEtcd(ctx context.Context) error {
	if i.Etcd.find() {
		return nil
	}
	peer := fmt.Sprintf("http://127.0.0.1:%d", i.etcdPeerPort)
	err := i.Etcd.start(i.cluster.binary("etcd"), []string{
		"--name=default", "--data-dir=" + filepath.Join(i.dir, "etcd"),
		"--listen-client-urls=" + i.EtcdURL(), "--advertise-client-urls=" + i.EtcdURL(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--log-level=warn",
	}, nil)
	if err != nil {
		return err
	}
	return i.cluster.waitFor(ctx, i.Etcd, i.EtcdURL()+"/health", i.cluster.CAFile(), pki.Pair{})
}

// KillEtcd kills the instance's etcd.
func (i *Instance) KillEtcd() error { return i.Etcd.stop(syscall.SIGKILL, startTimeout) }

// BackUpEtcd copies what the instance's etcd has stored, which must not run.
func (i *Instance) BackUpEtcd() error {
	return os.CopyFS(filepath.Join(i.dir, "etcd-backup"), os.DirFS(filepath.Join(i.dir, "etcd")))
}

// RestoreEtcd gives the instance's etcd, which must not run, what BackUpEtcd has copied.
func (i *Instance) RestoreEtcd() error {
	if err := os.RemoveAll(filepath.Join(i.dir, "etcd")); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(i.dir, "etcd"), os.DirFS(filepath.Join(i.dir, "etcd-backup")))
}

// StartProviso starts the server, if it does not run, and waits until it answers a path with 200.
func (i *Instance) StartProviso(ctx context.Context, path string) error {
	if !i.Proviso.find() {
		if err := i.Proviso.start(i.cluster.binary("proviso-apiserver"), slices.Concat([]string{
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", i.port),
			"--tls-cert-file=" + i.serving.Cert, "--tls-private-key-file=" + i.serving.Key,
			"--etcd-servers=" + i.EtcdURL(),
			"--kubeconfig=" + filepath.Join(i.cluster.Dir, "proviso.kubeconfig"),
			"--data-dir=" + filepath.Join(i.dir, "data"),
		}, i.cluster.answersArgs(), i.args), nil); err != nil {
			return err
		}
	}
	return i.cluster.waitFor(ctx, i.Proviso, i.URL()+path, i.cluster.CAFile(), pki.Pair{})
}

// SetArgs replaces the arguments of NewInstance. They apply from the next start.
func (i *Instance) SetArgs(args ...string) { i.args = args }

// KillProviso kills the server.
func (i *Instance) KillProviso() error { return i.Proviso.stop(syscall.SIGKILL, startTimeout) }

// Stop stops all processes of the instance.
func (i *Instance) Stop() {
	_ = i.Proviso.stop(syscall.SIGTERM, startTimeout)
	_ = i.Etcd.stop(syscall.SIGTERM, startTimeout)
}

// Log returns the log of the server since its first start.
func (i *Instance) Log() (string, error) {
	content, err := os.ReadFile(i.Proviso.logFile())
	return string(content), err
}

// Running reports whether the server runs.
func (i *Instance) Running() bool { return i.Proviso.running() }

// Client returns a client configuration for the instance, with the certificate of a user of the
// cluster.
func (i *Instance) Client(user string) *rest.Config {
	files := i.cluster.userPair(user)
	return &rest.Config{
		Host: i.URL(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: i.cluster.CAFile(), CertFile: files.Cert, KeyFile: files.Key},
	}
}

// Store returns a client of the instance's etcd.
func (i *Instance) Store(ctx context.Context) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{i.EtcdURL()}})
}
