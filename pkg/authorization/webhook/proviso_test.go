/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// front is kube-apiserver with a Proviso behind it. It answers a path with a handler, and others with 404.
type front struct {
	*httptest.Server

	mu     sync.Mutex
	bodies map[string][]string
}

const (
	kubePath       = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	reviewsPath    = "/apis/authorization.proviso.dev/v1alpha1/subjectaccessreviews"
	conditionsPath = "/apis/authorization.proviso.dev/v1alpha1/authorizationconditionsreviews"
)

func newFront(t *testing.T, prefix string, handlers map[string]http.HandlerFunc) *front {
	t.Helper()
	f := &front{bodies: map[string][]string{}}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path := strings.TrimPrefix(r.URL.Path, prefix)
		f.mu.Lock()
		f.bodies[path] = append(f.bodies[path], string(body))
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		handler := handlers[path]
		if handler == nil {
			handler = fails(http.StatusNotFound)
		}
		handler(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) config(prefix string) *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	return &rest.Config{Host: f.URL + prefix, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func (f *front) sent(path string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[path]
}

// TestForProviso checks the decisions of a server that asks Proviso and kube-apiserver with one client configuration.
func TestForProviso(t *testing.T) {
	t.Parallel()
	const ownVersion = `"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"SubjectAccessReview",`
	allowed, denied, silent := says(status(`"allowed":true`)), says(status(`"denied":true`)), says(status(`"allowed":false`))
	opaque := says(status(`"conditionsChain":[{"authorizerName":"p","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/t","condition":"x"}]}]`))
	for _, tc := range []struct {
		name, prefix   string
		kube           http.HandlerFunc
		proviso        http.HandlerFunc
		conditions     http.HandlerFunc
		want           string
		wantConditions bool
	}{
		{name: "both allow", kube: allowed, proviso: allowed, want: "Allow"},
		{name: "behind a prefix", prefix: "/k8s/clusters/c", kube: allowed, proviso: allowed, want: "Allow"},
		{name: "only Proviso allows", kube: silent, proviso: allowed, want: "Allow"},
		{name: "only kube-apiserver allows", kube: allowed, proviso: silent, want: "Allow"},
		{name: "a Deny policy", kube: allowed, proviso: denied, want: "Deny"},
		{name: "kube-apiserver denies", kube: denied, proviso: allowed, want: "Deny"},
		{name: "a condition that holds", kube: silent, proviso: opaque, conditions: says(response(`"allowed":true`)), want: "Allow", wantConditions: true},
		{name: "a condition that does not hold", kube: silent, proviso: opaque, conditions: says(response(`"allowed":false`)), want: "NoOpinion", wantConditions: true},
		{name: "conditions cannot be evaluated", kube: allowed, proviso: opaque, conditions: fails(http.StatusForbidden), want: "Deny", wantConditions: true},
		{name: "Proviso is not registered", kube: allowed, want: "Deny"},
		{name: "Proviso is down", kube: allowed, proviso: fails(http.StatusServiceUnavailable), want: "Deny"},
		{name: "the server may not ask", kube: allowed, proviso: fails(http.StatusForbidden), want: "Deny"},
		{name: "the version of the answer", kube: silent, proviso: says(`{` + ownVersion + `"status":{"allowed":true}}`), want: "Allow"},
		{name: "an answer in another group", kube: allowed, proviso: says(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","status":{"allowed":true}}`), want: "Deny"},
		{name: "kube-apiserver is down", kube: fails(http.StatusServiceUnavailable), proviso: allowed, want: "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, tc.prefix, map[string]http.HandlerFunc{kubePath: tc.kube, reviewsPath: tc.proviso, conditionsPath: tc.conditions})
			chain, err := webhook.ForProviso(f.config(tc.prefix))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := kindOf(evaluate(t, chain.Begin(t.Context(), asking()))); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			}
			for path, version := range map[string]string{reviewsPath: `"apiVersion":"authorization.proviso.dev/v1alpha1"`, conditionsPath: `"apiVersion":"authorization.proviso.dev/v1alpha1"`, kubePath: "authorization.k8s.io/v1"} {
				for _, body := range f.sent(path) {
					if !strings.Contains(body, version) {
						t.Errorf("%s: sent %s, want %s in it", path, body, version)
					}
				}
			}
			if got := len(f.sent(conditionsPath)) > 0; got != tc.wantConditions {
				t.Errorf("conditions were sent: %v, want %v", got, tc.wantConditions)
			}
			if len(f.sent("/apis/authorization.k8s.io/v1alpha1/subjectaccessreviews")) > 0 {
				t.Error("the group was asked that kube-apiserver may serve itself")
			}
			if asked := len(f.sent(reviewsPath)); tc.want == "Allow" && asked != 1 {
				t.Errorf("Proviso was asked %d times, want its answer to be used again", asked)
			}
		})
	}
}

// TestForProvisoLeavesHealthAlone checks that groups and paths that need no permission are allowed while nothing answers.
func TestForProvisoLeavesHealthAlone(t *testing.T) {
	t.Parallel()
	f := newFront(t, "", nil)
	chain, err := webhook.ForProviso(f.config(""), func(c *webhook.ChainConfig) {
		c.AlwaysAllowGroups, c.AlwaysAllowPaths = []string{user.SystemPrivilegedGroup}, []string{"/healthz"}
	})
	if err != nil {
		t.Fatal(err)
	}
	health := asking(func(a *authorizer.AttributesRecord) { a.ResourceRequest, a.Path, a.Verb = false, "/healthz", "get" })
	if got := chain.Decide(t.Context(), health); !got.IsAllow() {
		t.Errorf("got %s, want Allow", kindOf(got))
	}
	if got := chain.Decide(t.Context(), asking()); !got.IsDeny() {
		t.Errorf("another request: got %s, want Deny", kindOf(got))
	}
}

// TestForProvisoIsNotSlowed has a client configuration with a limit of requests, which would be one for all users together: the
// chain bounds its checks itself.
func TestForProvisoIsNotSlowed(t *testing.T) {
	t.Parallel()
	allowed := says(status(`"allowed":true`))
	f := newFront(t, "", map[string]http.HandlerFunc{kubePath: allowed, reviewsPath: allowed})
	config := f.config("")
	config.RateLimiter = flowcontrol.NewFakeNeverRateLimiter()
	chain, err := webhook.ForProviso(config)
	if err != nil {
		t.Fatal(err)
	}
	if got := chain.Decide(t.Context(), asking()); !got.IsAllow() {
		t.Errorf("got %s: %v, want Allow", got.Reason(), got.Err())
	}
	if config.RateLimiter == nil {
		t.Error("the configuration of the caller has changed")
	}
}

// TestForProvisoRefuses checks that a configuration that would be open is refused.
func TestForProvisoRefuses(t *testing.T) {
	t.Parallel()
	f := newFront(t, "", nil)
	insecure := f.config("")
	insecure.Insecure, insecure.CAData = true, nil
	with := func(change func(*webhook.ChainConfig)) []func(*webhook.ChainConfig) {
		return []func(*webhook.ChainConfig){change}
	}
	member := authorization.Member{Name: "proviso", Decider: authorization.DeciderOf(authorizerfactory.NewAlwaysAllowAuthorizer())}
	for _, tc := range []struct {
		name   string
		config *rest.Config
		with   []func(*webhook.ChainConfig)
		want   string
	}{
		{"no configuration", nil, nil, "nil"},
		{"no host", &rest.Config{}, nil, "https"},
		{"http", &rest.Config{Host: "http://127.0.0.1:1"}, nil, "https"},
		{"no scheme", &rest.Config{Host: "127.0.0.1:1"}, nil, "https"},
		{"a certificate that is not verified", insecure, nil, "verified"},
		{"other webhooks", f.config(""), with(func(c *webhook.ChainConfig) { c.Webhooks = &webhook.Source{} }), "must not be replaced"},
		{"another kube-apiserver", f.config(""), with(func(c *webhook.ChainConfig) { c.KubeAPIServer = nil }), "must not be replaced"},
		{"a name that is taken", f.config(""), with(func(c *webhook.ChainConfig) { c.Last = []authorization.Member{member} }), "taken"},
		{"a path that is not valid", f.config(""), with(func(c *webhook.ChainConfig) { c.AlwaysAllowPaths = []string{"/a*b*"} }), "paths"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := webhook.ForProviso(tc.config, tc.with...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
