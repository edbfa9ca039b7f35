/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package registration_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/registration"
)

// TestServices checks which versions count as served by kube-apiserver itself, and for how long.
func TestServices(t *testing.T) {
	t.Parallel()
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	kube := &kubeAPIServer{answers: map[string]string{}}
	server := httptest.NewServer(kube)
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	services := registration.NewServices(client.RESTClient())
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	services.SetNow(func() time.Time { return now })
	core, widgets, metrics := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v1"}, schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1"}
	want := func(when string, wantFailure bool, local ...schema.GroupVersion) {
		t.Helper()
		if err := services.Look(t.Context()); (err != nil) != wantFailure {
			t.Errorf("%s: the look ended with %v", when, err)
		}
		got := map[schema.GroupVersion]bool{}
		for _, version := range local {
			got[version] = true
		}
		for _, version := range []schema.GroupVersion{core, widgets, metrics, {Group: "example.com", Version: "v2"}, {}} {
			versions, _ := services.Versions(version.Group)
			if services.IsLocal(version) != got[version] || versions[version.Version] != got[version] {
				t.Errorf("%s: %s is local: %t, %v", when, version, services.IsLocal(version), versions)
			}
		}
	}
	if services.IsLocal(core) {
		t.Error("a version is local before the first look")
	}
	const head, remote = `{"kind": "APIServiceList", "items": [{"spec": {"version": "v1"}}`, `{"spec": {"group": "metrics.k8s.io", "version": "v1", "service": {"namespace": "kube-system", "name": "metrics"}}}`
	kube.set(path, head+`, `+remote+`, {"spec": {"group": "example.com", "version": "v1", "service": null}}]}`)
	want("first look", false, core, widgets)
	kube.set(path, head+`, `+remote+`, {"spec": {"group": "example.com", "version": "v1", "service": {"name": "taken-over"}}}]}`)
	want("another server takes over", false, core)
	if got, isKnown := services.Versions("metrics.k8s.io"); len(got) != 1 || got["v1"] || !isKnown {
		t.Errorf("got the versions %v, want one of another server", got)
	}
	kube.set(path, head+`]}`)
	want("gone", false, core)
	for name, answer := range map[string]string{"error": "error", "not found": "", "something else": `{"kind": "Status"}`, "not JSON": `{`} {
		kube.set(path, answer)
		want(name, true, core)
	}
	now = now.Add(15 * time.Second)
	want("within the bound", true, core)
	now = now.Add(time.Nanosecond)
	want("after the bound", true)
	if got, isKnown := services.Versions("metrics.k8s.io"); len(got) > 0 || isKnown {
		t.Errorf("after the bound: got the versions %v", got)
	}
}

// TestServing compares the server of a version with a Service. Only an APIService with that Service and port that is available, and that
// kube-apiserver does not manage, counts.
func TestServing(t *testing.T) {
	t.Parallel()
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	kube := &kubeAPIServer{answers: map[string]string{}}
	server := httptest.NewServer(kube)
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	things, service := schema.GroupVersion{Group: "things.example.com", Version: "v1"}, &registration.Service{Namespace: "things", Name: "things"}
	const available = `"status": {"conditions": [{"type": "Other", "status": "True"}, {"type": "Available", "status": "True"}]}`
	spec := func(service string) string {
		return `"spec": {"group": "things.example.com", "version": "v1", "service": ` + service + `}`
	}
	const its = `{"namespace": "things", "name": "things", "port": 443}`
	for _, tc := range []struct {
		name, item string
		want       registration.Serving
	}{
		{name: "registered", item: `{` + spec(its) + `, ` + available + `}`, want: registration.ServingRegistered},
		{name: "the default port", item: `{` + spec(`{"namespace": "things", "name": "things"}`) + `, ` + available + `}`, want: registration.ServingRegistered},
		{name: "not managed", item: `{"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": "false"}}, ` + spec(its) + `, ` + available + `}`, want: registration.ServingRegistered},
		{name: "another port", item: `{` + spec(`{"namespace": "things", "name": "things", "port": 8443}`) + `, ` + available + `}`, want: registration.ServingAnotherService},
		{name: "another name", item: `{` + spec(`{"namespace": "things", "name": "other"}`) + `, ` + available + `}`, want: registration.ServingAnotherService},
		{name: "another namespace", item: `{` + spec(`{"namespace": "other", "name": "things"}`) + `, ` + available + `}`, want: registration.ServingAnotherService},
		{name: "local", item: `{` + spec(`null`) + `, ` + available + `}`, want: registration.ServingKubeAPIServer},
		{name: "managed", item: `{"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}, ` + spec(its) + `, ` + available + `}`, want: registration.ServingKubeAPIServer},
		{name: "not available", item: `{` + spec(its) + `, "status": {"conditions": [{"type": "Available", "status": "False"}]}}`, want: registration.ServingUnavailable},
		{name: "no condition", item: `{` + spec(its) + `}`, want: registration.ServingUnavailable},
		{name: "another version", item: `{"spec": {"group": "things.example.com", "version": "v2", "service": ` + its + `}, ` + available + `}`, want: registration.ServingMissing},
		{name: "null", item: `null`, want: registration.ServingMissing},
	} {
		kube.set(path, `{"kind": "APIServiceList", "items": [`+tc.item+`]}`)
		services := registration.NewServices(client.RESTClient())
		now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		services.SetNow(func() time.Time { return now })
		if got := services.Serving(things, service); got != registration.ServingUnknown || services.IsKnown() {
			t.Errorf("%s: before the first look: got %s", tc.name, got)
		}
		if err := services.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := services.Serving(things, service); got != tc.want || !services.IsKnown() {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
		now = now.Add(16 * time.Second)
		if got := services.Serving(things, service); got != registration.ServingUnknown {
			t.Errorf("%s: after the bound: got %s", tc.name, got)
		}
	}
}
