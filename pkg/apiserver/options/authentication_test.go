/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// TestFrontProxyIsKnownAsAWhole asks that the CA of the front proxy counts only with the
// names that it may have: without them, any certificate of that CA would do.
func TestFrontProxyIsKnownAsAWhole(t *testing.T) {
	t.Parallel()
	ca, err := pki.New(t.TempDir(), "ca", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(ca.Files().Cert)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := newFrontProxy(fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data: map[string]string{
			"requestheader-client-ca-file": string(content), "requestheader-allowed-names": `["front-proxy-client"]`,
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`,
			"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	go proxy.ConfigMapCAController.Run(t.Context(), 1)
	for len(proxy.CurrentCABundleContent()) == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if _, ok := proxy.VerifyOptions(); ok {
		t.Error("the CA counts before the names are known")
	}
	if err := proxy.RequestHeaderAuthRequestController.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := proxy.VerifyOptions(); !ok {
		t.Error("the CA does not count though the names are known")
	}
	config := proxy.config()
	for name, got := range map[string][]string{
		"front-proxy-client": config.AllowedClientNames.Value(), "X-Remote-User": config.UsernameHeaders.Value(), "X-Remote-Uid": config.UIDHeaders.Value(),
		"X-Remote-Group": config.GroupHeaders.Value(), "X-Remote-Extra-": config.ExtraHeaderPrefixes.Value(),
	} {
		if !slices.Equal(got, []string{name}) {
			t.Errorf("got %v, want %s", got, name)
		}
	}
}

func listenerOf(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// TestStartsWithoutKubeAPIServer makes the configuration of a server whose kube-apiserver is
// down. It needs etcd only once it runs.
func TestStartsWithoutKubeAPIServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, `
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`)
	ca, err := pki.New(dir, "ca", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o := NewOptions()
	o.DataDir, o.CoreAPI.CoreAPIKubeconfigPath = dir, kubeconfig
	o.SecureServing.Listener, o.FrontDoor.Listener = listenerOf(t), listenerOf(t)
	o.FrontDoor.ClientCAFile, o.FrontDoor.AllowedNames = ca.Files().Cert, []string{"kube-apiserver"}
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	config, err := completed.Config()
	if err != nil {
		t.Fatal(err)
	}
	door, serving := config.ExtraConfig.FrontDoor, config.GenericConfig.SecureServing
	if door == nil || door.Serving.Listener != o.FrontDoor.Listener || !slices.Equal(door.AllowedNames, []string{"kube-apiserver"}) {
		t.Fatalf("got %+v, want the front door that was asked for", door)
	}
	if _, ok := serving.ClientCA.VerifyOptions(); ok {
		t.Error("clients are believed though nobody knows their CA")
	}
	mine, _ := serving.Cert.CurrentCertKeyContent()
	its, _ := door.Serving.Cert.CurrentCertKeyContent()
	if len(its) == 0 || !slices.Equal(mine, its) {
		t.Error("the front door has another serving certificate")
	}
	clientCA, err := os.ReadFile(ca.Files().Cert)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(door.Serving.ClientCA.CurrentCABundleContent(), clientCA) {
		t.Error("the clients of the front door have another CA")
	}
}
