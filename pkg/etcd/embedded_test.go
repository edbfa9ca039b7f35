/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package etcd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/proviso-authz/proviso/pkg/etcd"
)

// shortDir is a directory whose path leaves room for a socket; t.TempDir can be long.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

func clientOf(t *testing.T, dir string) *clientv3.Client {
	t.Helper()
	endpoint, err := etcd.Endpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestMemberKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	member, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(t, dir).Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}

	member, err = etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = member.Close() }()
	got, err := clientOf(t, dir).Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "value" {
		t.Errorf("after a restart key is %v, want value", got.Kvs)
	}
}

func TestMemberRefusesDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	member, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = member.Close() }()
	if second, err := etcd.Start(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second member in the same directory: got %v, %v, want an error that says it is in use", second, err)
	}
}

func TestMemberListensOnNoNetwork(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	member, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = member.Close() }()
	info, err := os.Stat(filepath.Join(dir, "client.sock"))
	if err != nil || info.Mode().Type() != os.ModeSocket {
		t.Errorf("client.sock: got %v, %v, want a socket", info, err)
	}
	if listening := networkListeners(t); len(listening) > 0 {
		t.Errorf("the process listens on %q, want nothing but its socket file", listening)
	}
	info, err = os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: got %v, %v, want one that only its user may enter", info, err)
	}
}

// networkListeners returns the TCP and abstract unix sockets on which this process
// listens.
func networkListeners(t *testing.T) []string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system has no /proc")
	}
	ours := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			ours[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	var listening []string
	scan := func(file string, isListener func(fields []string) (inode string, ok bool)) {
		content, err := os.ReadFile("/proc/self/net/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if inode, ok := isListener(fields); ok && ours[inode] {
				listening = append(listening, line)
			}
		}
	}
	const tcpListen, unixAcceptsConnections = "0A", "00010000"
	tcp := func(f []string) (string, bool) { return f[min(9, len(f)-1)], len(f) > 9 && f[3] == tcpListen }
	scan("tcp", tcp)
	scan("tcp6", tcp)
	scan("unix", func(f []string) (string, bool) {
		return f[min(6, len(f)-1)], len(f) > 7 && f[3] == unixAcceptsConnections && strings.HasPrefix(f[7], "@")
	})
	return listening
}

func TestEndpointRefusesLongPath(t *testing.T) {
	t.Parallel()
	if endpoint, err := etcd.Endpoint("/" + strings.Repeat("x", 100)); err == nil {
		t.Errorf("got %q, want an error", endpoint)
	}
}
