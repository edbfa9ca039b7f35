/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// TestGroupsOfOtherServers has APIServices of Proviso and of other servers, and times when they are not known: what was known last counts.
func TestGroupsOfOtherServers(t *testing.T) {
	t.Parallel()
	const items = `{"kind":"APIServiceList","items":[
		{"metadata":{"name":"v1.local.example.com"},"spec":{"group":"local.example.com","version":"v1"}},
		{"metadata":{"name":"v1beta1.metrics.example.com"},"spec":{"group":"metrics.example.com","version":"v1beta1","service":{"namespace":"x","name":"metrics"}}},
		{"metadata":{"name":"v1alpha1.demo.proviso.dev"},"spec":{"group":"demo.proviso.dev","version":"v1alpha1","service":{"namespace":"x","name":"machines"}}}
	]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := items
		if name, isOne := strings.CutPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/v1/apiservices/"); isOne {
			service := `{"namespace":"x","name":"machines"}`
			if !strings.HasSuffix(name, "demo.proviso.dev") {
				service = `{"namespace":"x","name":"proviso"}`
			}
			answer = `{"metadata":{"name":"` + name + `"},"spec":{"service":` + service + `}}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	config := CompletedConfig{&completedConfig{extra: ExtraConfig{EnableDemoAPI: true}}}
	b := &barriers{services: registration.NewServices(client.RESTClient()), own: config.newWatcher(client.RESTClient())}
	want := func(when, group string, groups ...string) {
		t.Helper()
		if got := b.remote(group); !slices.Equal(got, groups) {
			t.Errorf("%s: other servers have %q of %q, want %q", when, got, group, groups)
		}
	}
	want("at first", "*")
	if b.areKnown() {
		t.Error("barriers are known before the APIServices were read")
	}
	if err := b.services.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("the own groups are not known yet", "*", "metrics.example.com")
	if err := b.own.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	group := demov1alpha1.SchemeGroupVersion.Group
	for _, when := range []string{"known", "not known any more"} {
		want(when, "*", group, "metrics.example.com")
		want(when, "metrics.example.com", "metrics.example.com")
		want(when, group, group)
		want(when, "local.example.com")
		b.services = registration.NewServices(client.RESTClient())
	}
}
