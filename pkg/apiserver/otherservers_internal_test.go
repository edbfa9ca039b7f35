/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/aggregated"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// canaryKube is a kube-apiserver that calls both doors for canaries.
type canaryKube struct {
	mu       sync.Mutex
	isCanary func(certificate string, a authorizer.Attributes) bool
	client   place.Client
	digest   string
	token    string
}

func (k *canaryKube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		host, port, _ := strings.Cut(r.Host, ":")
		_, _ = fmt.Fprintf(w, `{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "items": [{"ports": [{"name": "https", "port": %s}], "endpoints": [{"addresses": [%q]}]}]}`, port, host)
		return
	case strings.HasSuffix(r.URL.Path, "/leases"):
		_, _ = fmt.Fprintf(w, `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": [{"metadata": {"name": "apiserver-a"}, "spec": {"renewTime": %q}}]}`,
			time.Now().UTC().Format(metav1.RFC3339Micro))
		return
	case strings.HasSuffix(r.URL.Path, "/apiservices"):
		_, _ = fmt.Fprint(w, `{"kind": "APIServiceList", "items": [{"spec": {"version": "v1"}}]}`)
		return
	}
	k.token = r.Header.Get("Authorization")
	extra := map[string][]string{innerdoor.CanaryExtra: r.Header.Values("Impersonate-Extra-" + strings.ReplaceAll(innerdoor.CanaryExtra, "/", "%2F"))}
	a := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: r.Header.Get("Impersonate-User"), Extra: extra}, Verb: map[string]string{"POST": "create", "PUT": "update", "DELETE": "delete"}[r.Method],
		APIVersion: "v1", Resource: "configmaps", Namespace: "proviso-system", ResourceRequest: true,
	}
	if strings.HasSuffix(r.URL.Path, "/"+innerdoor.CanaryName) {
		a.Name = innerdoor.CanaryName
	} else if selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil && a.Verb == "delete" {
		a.Verb, a.FieldSelectorRequirements = "deletecollection", selector.Requirements()
	}
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden}
	if k.isCanary(k.client.Certificate, a) {
		status = innerdoor.RefuseCanary(&admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{
			Username: a.User.GetName(), Extra: map[string]authenticationv1.ExtraValue{innerdoor.CanaryExtra: extra[innerdoor.CanaryExtra]},
		}}, k.digest).Result
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// TestFolding probes a kube-apiserver over TLS, by its endpoint and by its address.
func TestFolding(t *testing.T) {
	t.Parallel()
	for name, byAddress := range map[string]bool{"the Service": false, "an address": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := &canaryKube{client: place.Client{Name: "kube-apiserver", Certificate: "one"}}
			server := httptest.NewTLSServer(kube)
			t.Cleanup(server.Close)
			config := manifest.Config{
				URL: "https://a:1", CABundle: []byte("ca"), Namespace: "proviso-system", Resources: []innerdoor.Resource{{Resource: "pods"}},
				Identities: manifest.Identities{Users: []string{"node"}},
			}
			var given []string
			if byAddress {
				given = []string{server.URL}
			}
			client := &restclient.Config{Host: server.URL, BearerToken: "secret"}
			client.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			apiServices, err := discovery.NewDiscoveryClientForConfig(client)
			if err != nil {
				t.Fatal(err)
			}
			servers, err := newCluster(client, given)
			if err != nil {
				t.Fatal(err)
			}
			services := registration.NewServices(apiServices.RESTClient())
			o := &otherServers{services: services, enforcement: aggregated.NewEnforcement(services, true), frontDoor: &FrontDoorConfig{InnerDoor: &config}}
			if o.prober, err = newProber(servers, config); err != nil {
				t.Fatal(err)
			}
			if kube.digest, err = manifest.Digest(config); err != nil {
				t.Fatal(err)
			}
			door := o.innerDoor()
			kube.isCanary = o.prober.IsCanary
			table, err := place.NewTable(nil, door)
			if err != nil {
				t.Fatal(err)
			}
			core := schema.GroupVersion{Version: "v1"}
			if door.Known(&kube.client) || door.IsLocal(core) {
				t.Error("known before the first round")
			}
			places := newStatusPlaces(noPlaces(t), o, nil)
			wantPlaces(t, places, "before the first round", 0)
			wantReviewed(t, table, "before the first round", "dana", "not known to serve this version")
			o.prober.Round(t.Context())
			if err := services.Look(t.Context()); err != nil {
				t.Error(err)
			}
			if !door.Known(&kube.client) || door.Known(&place.Client{Name: "kube-apiserver", Certificate: "other"}) || !door.IsLocal(core) {
				t.Errorf("got %+v", o.prober.States())
			}
			wantPlaces(t, places, "probed", 1)
			wantReviewed(t, table, "probed", "dana", "")
			wantReviewed(t, table, "probed", "node", "does not decide for this user")
			if !door.Listed(innerdoor.Resource{Resource: "pods"}) || door.Listed(innerdoor.Resource{Resource: "pods", Subresource: "status"}) || !door.LeavesOut(&user.DefaultInfo{Name: "node"}) {
				t.Error("the list, or who is left out, got lost")
			}
			if kube.token != "Bearer secret" {
				t.Errorf("canaries authenticate by %q", kube.token)
			}
			kube.mu.Lock()
			kube.digest = "other"
			kube.mu.Unlock()
			o.prober.Round(t.Context())
			if door.Known(&kube.client) {
				t.Error("a server with another manifest is known")
			}
			wantPlaces(t, places, "another manifest", 1)
			wantReviewed(t, table, "another manifest", "dana", "not every kube-apiserver is known")
			if isEvaluated, problem := table.Evaluated(t.Context(), &place.Request{Attributes: authorizer.AttributesRecord{Verb: "create", Path: "/pods"}}, onCondition, nil); isEvaluated || problem != "" {
				t.Errorf("a path: got %t, %q", isEvaluated, problem)
			}
		})
	}
	if _, err := newProber(nil, manifest.Config{}); err == nil {
		t.Error("no error without kube-apiserver")
	}
	if _, err := newProber(&cluster.Cluster{}, manifest.Config{}); err == nil {
		t.Error("no error without a manifest")
	}
}

// TestClientOf has the names by which the certificates of servers are verified.
func TestClientOf(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	for _, tc := range []struct {
		name, host, serverName string
		sharesName             bool
		want                   bool
	}{
		{name: "the name of the Service", host: "https://example.com", sharesName: true, want: true},
		{name: "another name", host: "https://example.org", sharesName: true},
		{name: "a name that is configured", host: "https://example.org", serverName: "example.com", sharesName: true, want: true},
		{name: "its own address", host: "https://example.org", want: true},
		{name: "not a URL", host: "https://[", sharesName: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			config := &restclient.Config{Host: tc.host}
			config.CAData, config.ServerName = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), tc.serverName
			client, err := clientOf(config, server.URL, tc.sharesName)
			if err == nil {
				var response *http.Response
				if response, err = client.Get(server.URL); err == nil {
					_ = response.Body.Close()
				}
			}
			if (err == nil) != tc.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// wantPlaces looks twice at what other components do. changes is how often that changes.
func wantPlaces(t *testing.T, p *statusPlaces, when string, changes int) {
	t.Helper()
	got := 0
	count := func() { got++ }
	first := p.look(nil, count)
	if got > 0 {
		t.Errorf("%s: what was seen once counts", when)
	}
	for range 3 {
		first = p.look(first, count)
	}
	if got != changes {
		t.Errorf("%s: %d changes, want %d", when, got, changes)
	}
}

// onCondition is a decision that conditions allow.
var onCondition = authorization.Chained(authorization.Set{AuthorizerName: engine.GrantingName, Decision: authorization.Conditions(authorization.Condition{
	ID: "example.com/c", Effect: authorization.EffectAllow, Type: "example.com/literal", Text: "true",
})})

// wantReviewed compares a part of what a review of a user about pods says.
func wantReviewed(t *testing.T, places *place.Table, when, name, problem string) {
	t.Helper()
	a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Verb: "create", APIVersion: "v1", Resource: "pods", ResourceRequest: true}
	if isEvaluated, got := places.Evaluated(t.Context(), &place.Request{Attributes: a}, onCondition, nil); isEvaluated != (problem == "") || !strings.Contains(got, problem) || (got == "") != isEvaluated {
		t.Errorf("%s: a review of %s: got %t, %q, want %q", when, name, isEvaluated, got, problem)
	}
}
