/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/door"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/test/testutil/pki"
)

func emptySource() *engine.Source { return &engine.Source{} }

// listener is a front door that listens, with a CA of clients.
type listener struct {
	address string
	handler http.Handler
	ca      *pki.Authority // of clients, and of the listener
	stop    func()
}

func newAuthority(t testing.TB, name string) *pki.Authority {
	t.Helper()
	ca, err := pki.New(t.TempDir(), name, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// otherRoute is another handler of the listener. It says how long it may take.
var otherRoute = frontdoor.Route{Pattern: "/other/{name}", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, hasDeadline := r.Context().Deadline()
	_, _ = fmt.Fprintf(w, "%s deadline=%t", r.PathValue("name"), hasDeadline)
	if r.PathValue("name") == "reads" {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		door.SetReadDeadline(ctx, w)
		_, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, err)
	}
})}

// TestOtherRoutes asks who reaches another handler of the listener: the same clients, without the deadline of reviews.
func TestOtherRoutes(t *testing.T) {
	t.Parallel()
	l := newListener(t, newDoor(t, publish(t, always), enforcesMachines), "kube-apiserver")
	for _, tc := range []struct {
		name, path string
		state      *tls.ConnectionState
		want       int
		body       string
	}{
		{name: "kube-apiserver", path: "/other/a", state: l.state(t, "kube-apiserver"), want: http.StatusOK, body: "a deadline=false"},
		{name: "another client", path: "/other/a", state: l.state(t, "other"), want: http.StatusForbidden},
		{name: "without a certificate", path: "/other/a", state: &tls.ConnectionState{}, want: http.StatusUnauthorized},
		{name: "without TLS", path: "/other/a", want: http.StatusUnauthorized},
		{name: "another path", path: "/others", state: l.state(t, "kube-apiserver"), want: http.StatusNotFound},
	} {
		r := httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader("{}"))
		r.TLS = tc.state
		w := httptest.NewRecorder()
		l.handler.ServeHTTP(w, r)
		if w.Code != tc.want || tc.body != "" && w.Body.String() != tc.body || tc.want >= 400 && strings.Contains(w.Body.String(), "deadline=") {
			t.Errorf("%s: got %d %s, want %d %s", tc.name, w.Code, w.Body, tc.want, tc.body)
		}
	}
}

func newListener(t testing.TB, door *frontdoor.Decider, names ...string) *listener {
	t.Helper()
	return newTracedListener(t, door, nil, names...)
}

func newTracedListener(t testing.TB, door *frontdoor.Decider, traces trace.TracerProvider, names ...string) *listener {
	t.Helper()
	ca := newAuthority(t, "ca")
	pair, err := ca.Server("server", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	serving := &genericapiserver.SecureServingInfo{}
	if serving.Cert, err = dynamiccertificates.NewDynamicServingContentFromFiles("serving", pair.Cert, pair.Key); err != nil {
		t.Fatal(err)
	}
	if serving.ClientCA, err = dynamiccertificates.NewDynamicCAContentFromFile("clients", ca.Files().Cert); err != nil {
		t.Fatal(err)
	}
	if serving.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	clients, err := frontdoor.NewClients(serving.ClientCA.VerifyOptions, names)
	if err != nil {
		t.Fatal(err)
	}
	clients.TracerProvider = traces
	handler := frontdoor.NewHandler(door, clients, otherRoute)
	server, err := frontdoor.NewServer(serving, handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := server.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		cancel()
		wait()
	}
	t.Cleanup(stop)
	return &listener{address: serving.Listener.Addr().String(), handler: handler, ca: ca, stop: stop}
}

func (l *listener) clientPair(t testing.TB, name string) pki.Pair {
	t.Helper()
	pair, err := l.ca.Client("client", name)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// client trusts the listener, and shows the certificate of a pair if it has one.
func (l *listener) client(t testing.TB, pair pki.Pair) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(l.ca.Files().Cert)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(ca)
	if pair.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		// Shown whether or not the server names the CA.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// state is that of a connection of a client with a certificate.
func (l *listener) state(t *testing.T, name string) *tls.ConnectionState {
	t.Helper()
	pair := l.clientPair(t, name)
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate.Leaf}}
}

func (l *listener) ask(t testing.TB, client *http.Client) (code int, body string) {
	t.Helper()
	response, err := client.Post("https://"+l.address+frontdoor.AuthorizePath, "application/json", strings.NewReader(reviewJSON))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestClients(t *testing.T) {
	t.Parallel()
	of := func(name string) func(*testing.T, *listener) pki.Pair {
		return func(t *testing.T, l *listener) pki.Pair { t.Helper(); return l.clientPair(t, name) }
	}
	for _, tc := range []struct {
		name  string
		names []string
		pair  func(*testing.T, *listener) pki.Pair
		want  int
	}{
		{"any name", nil, of("anybody"), 200},
		{"one of the names", []string{"other", "kube-apiserver"}, of("kube-apiserver"), 200},
		{"another name", []string{"kube-apiserver"}, of("alice"), 403},
		{"a name in another case", []string{"kube-apiserver"}, of("Kube-apiserver"), 403},
		{"no name", nil, of(""), 401},
		{"no certificate", nil, func(*testing.T, *listener) pki.Pair { return pki.Pair{} }, 401},
		{"another CA of the same name", nil, func(t *testing.T, _ *listener) pki.Pair {
			t.Helper()
			pair, err := newAuthority(t, "ca").Client("client", "kube-apiserver")
			if err != nil {
				t.Fatal(err)
			}
			return pair
		}, 401},
		{"a certificate that is for servers", nil, func(t *testing.T, l *listener) pki.Pair {
			t.Helper()
			pair, err := l.ca.ServerOnly("server-only", "kube-apiserver")
			if err != nil {
				t.Fatal(err)
			}
			return pair
		}, 401},
		{"a certificate that has expired", nil, func(t *testing.T, l *listener) pki.Pair {
			t.Helper()
			expired, err := pki.New(filepath.Dir(l.ca.Files().Cert), "ca", -time.Second)
			if err != nil {
				t.Fatal(err)
			}
			pair, err := expired.Client("expired", "kube-apiserver")
			if err != nil {
				t.Fatal(err)
			}
			return pair
		}, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newListener(t, newDoor(t, publish(t, always), enforcesMachines), tc.names...)
			code, body := l.ask(t, l.client(t, tc.pair(t, l)))
			if code != tc.want || strings.Contains(body, "allowed") != (tc.want == 200) {
				t.Errorf("got %d %s, want %d", code, body, tc.want)
			}
		})
	}
}

// TestClientCAIsReloaded replaces the CA of clients: the new one is believed, and the old
// one no more, also on connections that are open.
func TestClientCAIsReloaded(t *testing.T) {
	t.Parallel()
	l := newListener(t, newDoor(t, publish(t, always), enforcesMachines))
	before := l.client(t, l.clientPair(t, "kube-apiserver"))
	if code, body := l.ask(t, before); code != http.StatusOK {
		t.Fatalf("before: got %d %s", code, body)
	}
	next := newAuthority(t, "next")
	pair, err := next.Client("client", "kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	after := l.client(t, pair)
	if code, body := l.ask(t, after); code != http.StatusUnauthorized {
		t.Fatalf("before: got %d %s for the next CA", code, body)
	}
	content, err := os.ReadFile(next.Files().Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.ca.Files().Cert, content, 0o600); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		code, _ := l.ask(t, after)
		return code == http.StatusOK, nil
	})
	if err != nil {
		t.Fatal("the next CA is not believed")
	}
	if code, body := l.ask(t, before); code != http.StatusUnauthorized {
		t.Errorf("afterwards: got %d %s for the CA that was replaced", code, body)
	}
}

// TestStop asks that the server lets go of its port, and waits for what it answers.
func TestStop(t *testing.T) {
	t.Parallel()
	l := newListener(t, newDoor(t, publish(t, always), enforcesMachines))
	if code, body := l.ask(t, l.client(t, l.clientPair(t, "kube-apiserver"))); code != http.StatusOK {
		t.Fatalf("got %d %s", code, body)
	}
	l.stop()
	if connection, err := net.Dial("tcp", l.address); err == nil {
		_ = connection.Close()
		t.Error("it still listens")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if clients, err := frontdoor.NewClients(nil, nil); err == nil {
		t.Errorf("clients without a CA: got %v", clients)
	}
	if server, err := frontdoor.NewServer(&genericapiserver.SecureServingInfo{}, http.NotFoundHandler()); err == nil {
		t.Errorf("a server without a port: got %v", server)
	}
}
