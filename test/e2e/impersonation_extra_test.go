/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/test/library"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testExtra sends the reserved extra, as a Proviso in front would, and as clients that must not. With the feature gate off, no server sends it, but a server that gets it
// enforces it, and clients cannot impersonate a user with it.
func (i *impersonationTests) testExtra(t *testing.T) {
	on, off := i.on.runner("on"), i.off.runner("off")
	on.Await(t, i.Rows["extra"][0])
	on.Run(t, i.Rows["extra"])
	off.Run(t, i.Rows["extra"])
	on.Run(t, i.Rows["direct"])
	through := i.on.runner("through")
	through.Sender = through.Sender.At(stack.KubeAPIServerURL())
	through.Run(t, i.Rows["through kube-apiserver"])
}

// testBetweenServers impersonates at a Proviso that passes the request on to another one, which stores the object, and so knows it.
func (i *impersonationTests) testBetweenServers(t *testing.T) {
	runner := i.off.runner("front")
	runner.Sender = runner.Sender.At(i.front(t, i.off.url))
	poll.Eventually(t, "the server in front is ready", func() string {
		answer, err := runner.Sender.Do(t.Context(), nil, requests.Request{Method: http.MethodGet, Path: "/readyz"})
		switch {
		case err != nil:
			return err.Error()
		case answer.Code != http.StatusOK:
			return answer.Body
		}
		return ""
	})
	runner.Run(t, i.Rows["between, policies"])
	for _, row := range i.Rows["between, wait"] {
		runner.Await(t, row)
	}
	runner.Run(t, i.Rows["between"])
}

// front runs a Proviso in this process that passes on what it does not serve to another.
func (i *impersonationTests) front(t *testing.T, behind string) (server string) {
	t.Helper()
	endpoint, dir := startEtcd(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o := options.NewOptions()
	o.DataDir, o.SecureServing.Listener = filepath.Join(dir, "data"), listener
	pair := &o.SecureServing.ServerCert.CertKey
	if pair.CertFile, pair.KeyFile, err = stack.ServingCertificate("front"); err != nil {
		t.Fatal(err)
	}
	o.CoreAPI.CoreAPIKubeconfigPath = filepath.Join(stack.Dir, "proviso.kubeconfig")
	o.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
	completed, err := o.Complete()
	must(t, err)
	config, err := completed.Config()
	must(t, err)
	config.ExtraConfig.ConditionalImpersonation = true
	target, err := url.Parse(behind)
	must(t, err)
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: i.frontProxy})
	must(t, err)
	handler := library.PassOn(config.ExtraConfig.Enforcer, "demo.proviso.dev", target, transport)
	c, err := config.Complete()
	must(t, err)
	proviso, err := c.New()
	must(t, err)
	proviso.GenericAPIServer.Handler.NonGoRestfulMux.HandlePrefix("/apis/demo.proviso.dev/", handler)
	stopped := make(chan error, 1)
	go func() { stopped <- proviso.GenericAPIServer.PrepareRun().RunWithContext(t.Context()) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}
