/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// publisher is a server with discovery and OpenAPI.
type publisher struct {
	mu        sync.Mutex
	resources map[string][]metav1.APIResource // by group/version; nil if its server is down
	openAPI   string                          // the document of example.com/v1
	down      bool
	lists     int // how often the list was asked for
}

func (p *publisher) set(change func(p *publisher)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch path := r.URL.Path; {
	case p.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case path == "/api":
		p.list(w, false)
	case path == "/apis":
		p.lists++
		p.list(w, true)
	case path == "/openapi/v3" && p.openAPI != "":
		_, _ = w.Write([]byte(`{"paths": {"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1"}}}`))
	case path == "/openapi/v3":
		_, _ = w.Write([]byte(`{"paths": {}}`))
	case path == "/openapi/v3/apis/example.com/v1":
		_, _ = w.Write([]byte(p.openAPI))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// list writes aggregated discovery, as kube-apiserver does.
func (p *publisher) list(w http.ResponseWriter, groups bool) {
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	for name, resources := range p.resources {
		gv, err := schema.ParseGroupVersion(name)
		if err != nil || (gv.Group != "") != groups {
			continue
		}
		version := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		if resources == nil {
			version.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		}
		for i := range resources {
			version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
				Resource: resources[i].Name, Scope: apidiscoveryv2.ScopeNamespace,
				ResponseKind: &metav1.GroupVersionKind{Group: resources[i].Group, Version: resources[i].Version, Kind: resources[i].Kind},
			})
		}
		list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}, Versions: []apidiscoveryv2.APIVersionDiscovery{version}})
	}
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	_ = json.NewEncoder(w).Encode(list)
}

// client is a client of the server without a network, so that time can be a bubble's.
func (p *publisher) client(t *testing.T) discovery.DiscoveryInterface {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{Host: "http://publisher"}, &http.Client{Transport: transport{p}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func published(names ...string) []metav1.APIResource {
	resources := []metav1.APIResource{}
	for _, name := range names {
		resources = append(resources, metav1.APIResource{Name: strings.ToLower(name) + "s", Kind: name})
	}
	return resources
}

func TestDiscoveryKinds(t *testing.T) {
	t.Parallel()
	kube := &publisher{resources: map[string][]metav1.APIResource{
		"v1":                      published("Pod", "Event"),
		"events.k8s.io/v1":        published("Event"),
		"authorization.k8s.io/v1": published("Review"),
		"stale.example.com/v1":    nil,
		"moved.example.com/v1":    {{Name: "widgets", Group: "example.com", Version: "v1", Kind: "Widget"}},
	}}
	own := &publisher{resources: map[string][]metav1.APIResource{"authorization.k8s.io/v1alpha1": published("Review"), "own.example.com/v1": published("Machine")}}
	down := &publisher{down: true}
	type servers []*publisher
	for _, tc := range []struct {
		name     string
		servers  servers
		resource schema.GroupVersionResource
		want     []string
		wantErr  bool
	}{
		{"the core group", servers{own, kube}, schema.GroupVersionResource{Resource: "events"}, []string{"/v1, Kind=Event"}, false},
		{"versions on two servers", servers{own, kube}, schema.GroupVersionResource{Group: "authorization.k8s.io", Resource: "reviews"}, []string{"authorization.k8s.io/v1alpha1, Kind=Review", "authorization.k8s.io/v1, Kind=Review"}, false},
		{"one version", servers{own, kube}, schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "reviews"}, []string{"authorization.k8s.io/v1, Kind=Review"}, false},
		{"the same on two servers", servers{kube, kube}, schema.GroupVersionResource{Resource: "pods"}, []string{"/v1, Kind=Pod"}, false},
		{"a kind of another group", servers{kube}, schema.GroupVersionResource{Group: "moved.example.com", Resource: "widgets"}, []string{"example.com/v1, Kind=Widget"}, false},
		{"the singular is no name", servers{own, kube}, schema.GroupVersionResource{Resource: "pod"}, nil, false},
		{"unknown", servers{own, kube}, schema.GroupVersionResource{Group: "nope", Resource: "pods"}, nil, false},
		{"a server behind the server is down", servers{own, kube}, schema.GroupVersionResource{Group: "stale.example.com", Resource: "widgets"}, nil, true},
		{"in another version", servers{own, kube}, schema.GroupVersionResource{Group: "stale.example.com", Version: "v2", Resource: "widgets"}, nil, false},
		{"a server is down", servers{down}, schema.GroupVersionResource{Resource: "pods"}, nil, true},
		{"the other server is down", servers{own, down}, schema.GroupVersionResource{Group: "own.example.com", Resource: "machines"}, []string{"own.example.com/v1, Kind=Machine"}, true},
		{"no servers", nil, schema.GroupVersionResource{Resource: "pods"}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := discoveryOf(t, tc.servers...).KindsFor(tc.resource)
			if (err != nil) != tc.wantErr {
				t.Errorf("got %v, want an error: %v", err, tc.wantErr)
			}
			var got []string
			for _, kind := range found {
				got = append(got, kind.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func discoveryOf(t *testing.T, servers ...*publisher) *typechecking.Discovery {
	t.Helper()
	var clients []discovery.DiscoveryInterface
	for _, s := range servers {
		clients = append(clients, s.client(t))
	}
	return typechecking.NewDiscovery(clients...)
}

// document is an OpenAPI document with a Widget.
const document = `{"components": {"schemas": {
	"Widget": {"type": "object", "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}},
		"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]},
	"Spec": {"type": "object", "properties": {"size": {"type": "integer"}}}
}}}`

func TestDiscoverySchemas(t *testing.T) {
	t.Parallel()
	own, kube, down, broken := &publisher{}, &publisher{openAPI: document}, &publisher{down: true}, &publisher{openAPI: "{"}
	type servers []*publisher
	for _, tc := range []struct {
		name    string
		servers servers
		kind    string
		want    string // "found", "not found" or "failed"
	}{
		{"of the second server", servers{own, kube}, "Widget", "found"},
		{"while the first is down", servers{down, kube}, "Widget", "found"},
		{"of none", servers{own, kube}, "Gadget", "not found"},
		{"of none while one is down", servers{down, kube}, "Gadget", "failed"},
		{"not OpenAPI", servers{own, broken}, "Widget", "failed"},
		{"no servers", nil, "Widget", "not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := discoveryOf(t, tc.servers...).ResolveSchema(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: tc.kind})
			got := "failed"
			switch {
			case err == nil && found.Properties["spec"].Properties["size"].Type.Contains("integer"):
				got = "found"
			case errors.Is(err, resolver.ErrSchemaNotFound):
				got = "not found"
			}
			if got != tc.want {
				t.Errorf("got %s: %v", got, err)
			}
		})
	}
}

// TestNewResourcesAreSeen checks that a policy for a resource that comes later gets its
// warnings, without asking for all resources every time.
func TestNewResourcesAreSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := &publisher{resources: map[string][]metav1.APIResource{"v1": published("Pod")}}
		d := discoveryOf(t, kube)
		c := checker(t, d, d)
		steps := []struct {
			name      string
			change    func(p *publisher)
			after     time.Duration
			want      int
			wantErr   bool
			wantLists int
		}{
			{"unknown", func(*publisher) {}, 0, 0, false, 1},
			{"there, but not seen yet", func(p *publisher) { p.resources["example.com/v1"], p.openAPI = published("Widget"), document }, 59 * time.Second, 0, false, 1},
			{"seen", func(*publisher) {}, time.Second, 1, false, 2},
			{"down, but not asked", func(p *publisher) { p.down = true }, 59 * time.Second, 1, false, 2},
			{"missed", func(*publisher) {}, time.Second, 0, true, 2},
			{"back", func(p *publisher) { p.down = false }, 0, 1, false, 3},
		}
		for _, step := range steps {
			kube.set(step.change)
			time.Sleep(step.after)
			for range 2 {
				got, err := c.Check("", policy("widgets", `object.spec.sise == 1`))
				if len(got.ExpressionWarnings) != step.want || (err != nil) != step.wantErr {
					t.Errorf("%s: got %v, %v", step.name, warningsOf(got), err)
				}
			}
			kube.set(func(p *publisher) {
				if p.lists != step.wantLists {
					t.Errorf("%s: the list was fetched %d times, want %d", step.name, p.lists, step.wantLists)
				}
			})
		}
	})
}

// TestGroupsThatAreDown checks that a group whose server is down makes a check incomplete,
// and spoils no other.
func TestGroupsThatAreDown(t *testing.T) {
	t.Parallel()
	d := discoveryOf(t, &publisher{
		openAPI:   document,
		resources: map[string][]metav1.APIResource{"example.com/v1": published("Widget"), "stale.example.com/v1": nil},
	})
	got, err := checker(t, d, d).Check("", &policyv1alpha1.AuthorizationPolicySpec{
		Condition: `object.spec.sise == 1`,
		Rules:     []policyv1alpha1.PolicyRule{rule("stale.example.com,example.com", "", "widgets")},
	})
	if len(got.ExpressionWarnings) != 1 || !errors.Is(err, typechecking.ErrIncomplete) {
		t.Errorf("got %v, %v; want a warning and ErrIncomplete", warningsOf(got), err)
	}
}
