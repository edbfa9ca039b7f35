/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// bundle is a CA bundle that changes.
type bundle struct {
	dynamiccertificates.CAContentProvider
	content string
}

func (b *bundle) CurrentCABundleContent() []byte { return []byte(b.content) }

func TestClientCACheck(t *testing.T) {
	t.Parallel()
	published := func(clientCA string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
			Data:       map[string]string{"client-ca-file": clientCA, "requestheader-client-ca-file": "proxy\n"},
		}
	}
	for _, tc := range []struct {
		name      string
		published *corev1.ConfigMap
		used      string
		wantReady bool
	}{
		{"both are known", published("client\n"), "client\nproxy\n", true},
		{"that of clients is not", published("client\n"), "proxy\n", false},
		{"none is", published("client\n"), "", false},
		{"clients have no CA in this cluster", published(""), "proxy\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check := &clientCACheck{keys: []string{clientCAKey, proxyCAKey}, client: fake.NewClientset(tc.published), bundle: &bundle{content: tc.used}}
			if err := check.Check(httptest.NewRequest(http.MethodGet, "/readyz", nil)); (err == nil) != tc.wantReady {
				t.Errorf("got %v, want ready %v", err, tc.wantReady)
			}
		})
	}
}

// TestClientCACheckWaitsForHeaders asks that kube-apiserver's word counts before it is sent
// anything.
func TestClientCACheckWaitsForHeaders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, published string
		known           []string
		wantReady       bool
	}{
		{"published and known", `["X-Remote-User"]`, []string{"X-Remote-User"}, true},
		{"published and not known", `["X-Remote-User"]`, nil, false},
		{"not published", "", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			published := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
				Data:       map[string]string{"requestheader-username-headers": tc.published},
			}
			check := &clientCACheck{keys: []string{clientCAKey, proxyCAKey}, client: fake.NewClientset(published), bundle: &bundle{}, headers: headerrequest.StaticStringSlice(tc.known)}
			if err := check.Check(httptest.NewRequest(http.MethodGet, "/readyz", nil)); (err == nil) != tc.wantReady {
				t.Errorf("got %v, want ready %v", err, tc.wantReady)
			}
		})
	}
}

func TestClientCACheckFollowsAndRemembers(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data:       map[string]string{"client-ca-file": "client"},
	})
	used := &bundle{}
	check := &clientCACheck{keys: []string{clientCAKey, proxyCAKey}, client: client, bundle: used}
	request := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	if err := check.Check(request); !errors.Is(err, errNoCAs) {
		t.Errorf("before: got %v, want errNoCAs", err)
	}
	if check.known.Load() {
		t.Error("before: the clients count as known")
	}
	used.content = "client"
	check.run(t.Context()) // it ends
	if !check.known.Load() {
		t.Error("after: the clients do not count as known")
	}
	// A check that needs kube-apiserver forever would make a replica unready with it.
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
	if err := check.Check(request); err != nil {
		t.Errorf("with kube-apiserver down: got %v, want ready", err)
	}
}

// TestHandshakesBeforeTheCAs names no CA in handshakes before all are known: a client that is told only the CA of others would send no certificate.
func TestHandshakesBeforeTheCAs(t *testing.T) {
	t.Parallel()
	check := &clientCACheck{bundle: &bundle{content: "some"}}
	told := whenKnown{check.bundle, check}
	if got := told.CurrentCABundleContent(); got != nil {
		t.Errorf("before all are known: got %q", got)
	}
	check.known.Store(true)
	if got := told.CurrentCABundleContent(); string(got) != "some" {
		t.Errorf("after: got %q", got)
	}
	if err := told.RunOnce(t.Context()); err != nil { // of a bundle that needs no running
		t.Error(err)
	}
}
