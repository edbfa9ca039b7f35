/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// quotes answers with a text that has the URL of the request.
func quotes(format string, code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, format, "https://"+r.Host+r.URL.Path)
	}
}

// withoutTLS has a server without TLS at the address of one that it closes.
func withoutTLS(t *testing.T, s *httptest.Server) {
	t.Helper()
	address := s.Listener.Addr().String()
	s.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	plain := &httptest.Server{Listener: listener, Config: &http.Server{Handler: says("{}"), ReadHeaderTimeout: time.Second}}
	plain.Start()
	t.Cleanup(plain.Close)
}

// TestFailuresShowNoServer has the failures of a webhook, and of kube-apiserver, as every user may see them: with their kind, and with neither the address
// of the server nor what it answered.
func TestFailuresShowNoServer(t *testing.T) {
	t.Parallel()
	const quoted = `{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":"at %%[1]s","message":"not at %%[1]s"}`
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		// change, if not nil, changes the server when its address is configured.
		change    func(*testing.T, *httptest.Server)
		isOtherCA bool
		want      string
		// wantOfKube is what is wanted if the server is kube-apiserver. If empty, want is.
		wantOfKube string
	}{
		{name: "a closed port", answer: says("{}"), change: func(_ *testing.T, s *httptest.Server) { s.Close() }, want: "it cannot be reached"},
		{name: "500 with a body", answer: quotes("failed at %s", http.StatusInternalServerError), want: "it answered 500 Internal Server Error"},
		{name: "500 with a Status", answer: quotes(fmt.Sprintf(quoted, 500), http.StatusInternalServerError), want: "it answered 500 Internal Server Error"},
		{name: "403 with a Status", answer: quotes(fmt.Sprintf(quoted, 403), http.StatusForbidden), want: "it answered 403 Forbidden"},
		{name: "a redirect to a closed port", answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, want: "it cannot be reached"},
		{name: "a certificate of another CA", answer: says("{}"), isOtherCA: true, want: "a TLS connection with it cannot be made"},
		{name: "no TLS", answer: says("{}"), change: withoutTLS, want: "a TLS connection with it cannot be made"},
		{name: "a timeout", answer: hangs, want: "it did not answer in time"},
		{name: "no JSON", answer: quotes("at %s", http.StatusOK), want: "the answer is malformed", wantOfKube: "the call failed"},
		{name: "a connection that ends", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "it cannot be reached"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that the client has gone
				tc.answer(w, r)
			}))
			t.Cleanup(s.Close)
			at := place{s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
			if tc.isOtherCA {
				var err error
				if at.ca, _, err = cert.GenerateSelfSignedCertKey("other.example.com", nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			fails := failingAt(t, at)
			if tc.change != nil {
				tc.change(t, s)
			}
			for of, fail := range fails {
				want := `webhook "w": ` + tc.want
				if of == "kube-apiserver" {
					want = "asking kube-apiserver for authorization: " + cmp.Or(tc.wantOfKube, tc.want)
				}
				err := fail()
				if err == nil || err.Error() != want {
					t.Errorf("%s: got %v, want %s", of, err, want)
				}
				for cause := err; cause != nil; cause = errors.Unwrap(cause) {
					if status := apierrors.APIStatus(nil); strings.Contains(cause.Error(), "127.0.0.1") || strings.Contains(cause.Error(), "https:") || errors.As(cause, &status) {
						t.Errorf("%s: a user can see the server: %v", of, cause)
					}
				}
			}
		})
	}
}

// failingAt returns functions whose errors are about a server: a webhook that decides there, one that has its conditions evaluated there, and
// kube-apiserver.
func failingAt(t *testing.T, at place) map[string]func() error {
	t.Helper()
	opaque := newRemote(t, says(status(`"conditionsChain":`+allowIf(unknown, "?"))), nil)
	good := place{opaque.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: opaque.Certificate().Raw})}
	chainWith := func(reviews, conditions place) *authorization.Chain {
		return chainOf(t, newSource(t, conditional(t, "w", opaque).with(entry{
			"timeout": "2s", "connectionInfo": map[string]any{"type": "KubeConfigFile", "kubeConfigFile": kubeconfigOf(t, reviews, conditions)},
		})))
	}
	decides, evaluates := chainWith(at, good), chainWith(good, at)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: at.url, Timeout: 2 * time.Second, TLSClientConfig: rest.TLSClientConfig{CAData: at.ca}})
	if err != nil {
		t.Fatal(err)
	}
	asks := newAuthorizer(t, nil, func(c *webhook.Config) { c.Client = kube.AuthorizationV1().SubjectAccessReviews() })
	return map[string]func() error{
		"decision":       func() error { return decides.Begin(t.Context(), asking()).Decision().Err() },
		"evaluation":     func() error { return evaluate(t, evaluates.Begin(t.Context(), asking())).Err() },
		"kube-apiserver": func() error { return asks.Decide(t.Context(), attributes("alice")).Err() },
	}
}
