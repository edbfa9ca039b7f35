/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
)

// http2Server runs a kube-apiserver that allows so many streams on one connection. It returns
// its kubeconfig file.
func http2Server(t *testing.T, streams int, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	server.StartTLS()
	t.Cleanup(server.Close)
	encoded, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{
			"server": server.URL, "certificate-authority-data": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestChecksHaveNoRate has the client of kube-apiserver without a limit of its own. A limit
// only shows in time, so the test looks at the configuration.
func TestChecksHaveNoRate(t *testing.T) {
	t.Parallel()
	o := NewAuthorizationOptions()
	o.RemoteKubeConfigFile = http2Server(t, 1, func(http.ResponseWriter, *http.Request) {})
	config, err := o.clientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if config.QPS >= 0 {
		t.Errorf("the client sends %v requests a second, want no limit", config.QPS)
	}
}

// TestChecksSendNamesAsTheyAre checks a user whose name is not UTF-8. JSON would make it the name of another user.
func TestChecksSendNamesAsTheyAre(t *testing.T) {
	t.Parallel()
	const name = "alice\xff"
	o := NewAuthorizationOptions()
	o.RemoteKubeConfigFile = http2Server(t, 1, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		review := &authorizationv1.SubjectAccessReview{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, review); err != nil || review.Spec.User != name {
			t.Errorf("got a check of %q, %v; want %q", review.Spec.User, err, name)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`))
	})
	a, err := o.kubeAPIServer(0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	decision, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Verb: "get", Resource: "pods", ResourceRequest: true})
	if decision != authorizer.DecisionAllow || err != nil {
		t.Errorf("got %v, %v, want Allow", decision, err)
	}
}

// TestChecksNeedMoreStreams holds the answers of a kube-apiserver whose connections have
// fewer streams than there are checks in flight.
func TestChecksNeedMoreStreams(t *testing.T) {
	t.Parallel()
	const streams, checks = 8, 32
	var (
		held    sync.WaitGroup
		asked   sync.WaitGroup
		clients sync.Map
	)
	o := NewAuthorizationOptions()
	o.RemoteKubeConfigFile = http2Server(t, streams, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by HTTP/%d, want 2", r.ProtoMajor)
		}
		clients.Store(r.RemoteAddr, true)
		held.Done()
		held.Wait() // every check is in flight before one is answered
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`))
	})
	a, err := o.kubeAPIServer(0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		decision, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "get", Resource: "pods", Name: name, ResourceRequest: true})
		if decision != authorizer.DecisionAllow || err != nil {
			t.Errorf("got %v, %v, want Allow", decision, err)
		}
	}
	held.Add(1)
	check("first") // without the limit of the server, which comes with its first answer, a client expects one of 100 streams
	held.Add(checks)
	for i := range checks {
		asked.Go(func() { check(fmt.Sprint(i)) })
	}
	asked.Wait()
	connections := 0
	clients.Range(func(any, any) bool { connections++; return true })
	if connections < checks/streams {
		t.Errorf("%d checks in flight on %d connections of %d streams", checks, connections, streams)
	}
}
