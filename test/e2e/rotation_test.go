/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// relay passes connections on to a server, until they are cut.
type relay struct {
	url string

	mu   sync.Mutex
	open []net.Conn
}

func newRelay(t *testing.T, url string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	r := &relay{url: "https://" + listener.Addr().String()}
	t.Cleanup(r.cut)
	go func() {
		for near, err := listener.Accept(); err == nil; near, err = listener.Accept() {
			far, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, near, far)
			r.mu.Unlock()
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
	return r
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, connection := range r.open {
		_ = connection.Close()
	}
	r.open = nil
}

// TestCertificateOfStore replaces the files with which Proviso connects to etcd. Each new connection has the new client certificate, but the CA of the start.
func TestCertificateOfStore(t *testing.T) {
	t.Parallel()
	dir, etcd := t.TempDir(), newRelay(t, stack.EtcdURL())
	replace := func(name, with string) {
		content, err := os.ReadFile(with)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name+".new"), content, 0o600))
		must(t, os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)))
	}
	certificate := func(certFile, keyFile string, err error) {
		must(t, err)
		replace("tls.key", keyFile)
		replace("tls.crt", certFile)
	}
	certFile, keyFile := stack.EtcdCertificate()
	certificate(certFile, keyFile, nil)
	replace("ca.crt", stack.CAFile())
	alone, err := stack.AloneAt(t.Context(), etcd.url, "--etcd-cafile="+filepath.Join(dir, "ca.crt"), "--etcd-certfile="+filepath.Join(dir, "tls.crt"), "--etcd-keyfile="+filepath.Join(dir, "tls.key"))
	t.Cleanup(alone.Stop)
	must(t, err)
	sender := newSenderTo(t, alone.URL)
	// becomes waits until a path has an answer after all connections have been cut.
	becomes := func(when, path string, want int) {
		t.Helper()
		etcd.cut()
		took := poll.Eventually(t, when, func() string {
			if got, answer := sender.Send(t, nil, http.MethodGet, path, "", ""); got != want {
				return fmt.Sprintf("%d %s, want %d", got, answer, want)
			}
			return ""
		})
		t.Logf("%s: %d after %s", when, want, took)
	}
	const check, list = "/readyz/etcd", "/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies" // a list needs an answer of etcd
	becomes("with the certificate of the start", list, http.StatusOK)
	certificate(stack.FrontProxy("store"))
	becomes("with a certificate that etcd does not accept", check, http.StatusInternalServerError)
	certificate(stack.NewUser("store"))
	becomes("with a new certificate", list, http.StatusOK)
	replace("ca.crt", certFile)
	becomes("with another CA in the file", list, http.StatusOK)
}
