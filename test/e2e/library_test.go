/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/library"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// libraryKubeconfig writes the only kubeconfig of the server, which is for kube-apiserver.
func libraryKubeconfig(t *testing.T) string {
	t.Helper()
	cert, key, err := stack.NewUser("e2e-library-server")
	must(t, err)
	return writeFile(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: kube-apiserver
contexts: [{name: kube-apiserver, context: {cluster: kube-apiserver, user: library}}]
clusters: [{name: kube-apiserver, cluster: {server: %s, certificate-authority: %s}}]
users: [{name: library, user: {client-certificate: %s, client-key: %s}}]
`, stack.KubeAPIServerURL(), stack.CAFile(), cert, key))
}

// startLibrary runs the server of docs/library.md, which is not Proviso, and asks Proviso. It returns its URL.
func startLibrary(t *testing.T) string {
	t.Helper()
	endpoint, dir := startEtcd(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, err := library.New(library.Options{
		Kubeconfig: libraryKubeconfig(t), EtcdServers: []string{endpoint}, EtcdPrefix: "/library",
		Listener: listener, CertDirectory: filepath.Join(dir, "certificates"),
	})
	must(t, err)
	stopped := make(chan error, 1)
	go func() { stopped <- server.PrepareRun().RunWithContext(t.Context()) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}

// TestLibrary checks that the server allows on conditions, and enforces them, and that what
// Proviso denies is denied although kube-apiserver allows it.
func TestLibrary(t *testing.T) {
	t.Parallel()
	table := readRequests(t, "library.yaml")
	apply(t, table.Manifest())
	certFile, keyFile := stack.UserCertificate("admin")
	runner := &requests.Runner{Sender: requests.NewSender(&rest.Config{Host: startLibrary(t), TLSClientConfig: rest.TLSClientConfig{
		Insecure: true, // the server makes its certificate itself
		CertFile: certFile, KeyFile: keyFile,
	}}, certificates)}
	for _, group := range []string{"conditions allow", "policies deny whom kube-apiserver allows"} {
		runner.Await(t, table.Rows[group][0])
		runner.Run(t, table.Rows[group])
	}
}
