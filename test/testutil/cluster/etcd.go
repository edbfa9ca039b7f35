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
	"strings"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// member is a member of etcd.
type member struct {
	name, dir      string
	port, peerPort int
	process        *process
}

func (m *member) url() string { return fmt.Sprintf("https://127.0.0.1:%d", m.port) }

func (m *member) peer() string { return fmt.Sprintf("https://127.0.0.1:%d", m.peerPort) }

// addMembers prepares the members of etcd.
func (c *Cluster) addMembers() error {
	c.members = []*member{{name: "default", dir: c.Dir, port: c.ports.Etcd, peerPort: c.ports.EtcdPeer, process: c.Etcd}}
	for i := 2; i <= c.EtcdMembers; i++ {
		ports, err := reservePorts(2)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("etcd-%d", i)
		dir := filepath.Join(c.Dir, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		c.members = append(c.members, &member{name: name, dir: dir, port: ports[0], peerPort: ports[1], process: &process{name: "etcd", dir: dir, detached: c.Detached}})
	}
	return nil
}

// EtcdURL returns the URL of etcd, or the URLs of its members, with commas between them.
func (c *Cluster) EtcdURL() string {
	urls := make([]string, 0, len(c.members))
	for _, m := range c.members {
		urls = append(urls, m.url())
	}
	return strings.Join(urls, ",")
}

// StartEtcd starts the members of etcd that do not run, and waits until they serve.
func (c *Cluster) StartEtcd(ctx context.Context) error {
	for _, m := range c.members { // no member of a new etcd serves before most of them run
		if err := c.launch(m); err != nil {
			return err
		}
	}
	for _, m := range c.members {
		if err := c.startMember(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// startMember starts a member, if it does not run, and waits until it serves.
func (c *Cluster) startMember(ctx context.Context, m *member) error {
	if err := c.launch(m); err != nil {
		return err
	}
	client, err := c.once("etcd-client", func() (pki.Pair, error) { return c.ca.Client("etcd-client", "kube-apiserver-etcd-client") })
	if err != nil {
		return err
	}
	return c.waitFor(ctx, m.process, m.url()+"/health", c.CAFile(), client)
}

// launch starts a member, if it does not run.
func (c *Cluster) launch(m *member) error {
	if m.process.find() {
		return nil
	}
	serving, err := c.once("etcd", func() (pki.Pair, error) { return c.ca.Server("etcd", "127.0.0.1", "localhost") })
	if err != nil {
		return err
	}
	peers := make([]string, 0, len(c.members))
	for _, other := range c.members {
		peers = append(peers, other.name+"="+other.peer())
	}
	return m.process.start(c.binary("etcd"), []string{
		"--name=" + m.name,
		"--data-dir=" + filepath.Join(m.dir, "etcd"),
		"--listen-client-urls=" + m.url(), "--advertise-client-urls=" + m.url(),
		"--listen-peer-urls=" + m.peer(), "--initial-advertise-peer-urls=" + m.peer(),
		"--initial-cluster=" + strings.Join(peers, ","),
		"--cert-file=" + serving.Cert, "--key-file=" + serving.Key,
		"--client-cert-auth", "--trusted-ca-file=" + c.CAFile(),
		"--peer-cert-file=" + serving.Cert, "--peer-key-file=" + serving.Key,
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + c.CAFile(),
		"--unsafe-no-fsync", "--log-level=warn",
	}, nil)
}
