/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package registration_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/registration"
)

var (
	official = schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1alpha1"}
	own      = schema.GroupVersion{Group: "authorization.proviso.dev", Version: "v1alpha1"}
	policies = schema.GroupVersion{Group: "policy.proviso.dev", Version: "v1alpha1"}
)

// kubeAPIServer answers paths with a body; "" is 404, and "error" is 500.
type kubeAPIServer struct {
	mu      sync.Mutex
	answers map[string]string
}

func (k *kubeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch answer := k.answers[r.URL.Path]; answer {
	case "":
		w.WriteHeader(http.StatusNotFound)
	case "error":
		w.WriteHeader(http.StatusInternalServerError)
	default:
		_, _ = w.Write([]byte(answer))
	}
}

func (k *kubeAPIServer) set(path, answer string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[path] = answer
}

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices/"

// apiService returns an APIService. A service has the form name, or is empty for a version of kube-apiserver.
func apiService(version schema.GroupVersion, service, label, available string) string {
	reference := "null"
	if service != "" {
		reference = fmt.Sprintf(`{"namespace":"proviso-system","name":%q,"port":443}`, service)
	}
	return fmt.Sprintf(`{"kind":"APIService","metadata":{"name":"%s.%s","labels":{"kube-aggregator.kubernetes.io/automanaged":%q}},"spec":{"service":%s},"status":{"conditions":[{"type":"Available","status":%q}]}}`,
		version.Version, version.Group, label, reference, available)
}

func newWatcher(t *testing.T, answers map[string]string) (*kubeAPIServer, *registration.Watcher) {
	t.Helper()
	if _, ok := answers[apiServices+"v1alpha1."+policies.Group]; !ok {
		answers[apiServices+"v1alpha1."+policies.Group] = apiService(policies, "proviso", "", "True")
	}
	kube := &kubeAPIServer{answers: answers}
	server := httptest.NewServer(kube)
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return kube, registration.New(client.RESTClient(), policies, own, official)
}

// TestStates checks which server kube-apiserver is taken to call, and that everything but Proviso counts as not served by it.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		official, own string
		discovery     string
		want          registration.State
		wantServes    bool
		wantMessage   string
		wantServesOwn bool
		wantFailure   bool
		// noPolicies is the answer about the APIService of policies, if it is not Proviso's. wantNoPolicies says that Proviso does not count as the server
		// of policies.
		noPolicies     string
		wantNoPolicies bool
	}{
		{name: "Proviso", official: apiService(official, "proviso", "", "True"), own: apiService(own, "proviso", "", "True"),
			want: registration.Proviso, wantServes: true, wantServesOwn: true},
		{name: "Proviso by its manifest", official: apiService(official, "proviso", "false", "True"), own: apiService(own, "proviso", "", "True"),
			want: registration.Proviso, wantServes: true, wantServesOwn: true},
		{name: "Proviso cannot be reached", official: apiService(official, "proviso", "", "False"), own: apiService(own, "proviso", "", "False"),
			want: registration.Unavailable, wantServes: true, wantServesOwn: true},
		{name: "Proviso without its own group", official: apiService(official, "proviso", "", "True"), want: registration.Proviso, wantServes: true},
		{name: "no APIService", own: apiService(own, "proviso", "", "True"), want: registration.Missing, wantServesOwn: true, wantMessage: "kube-apiserver does not serve the version"},
		{name: "no APIService, and the version is served", own: apiService(own, "proviso", "", "True"), discovery: "{}",
			want: registration.KubeAPIServer, wantServesOwn: true, wantMessage: "kube-apiserver serves the version itself"},
		{name: "kube-apiserver", official: apiService(official, "", "onstart", "True"), own: apiService(own, "proviso", "", "True"), discovery: "{}",
			want: registration.KubeAPIServer, wantServesOwn: true, wantMessage: "kube-apiserver serves the version itself"},
		{name: "kube-apiserver owns a version that it does not serve", official: apiService(official, "", "onstart", "True"), own: apiService(own, "proviso", "", "True"),
			want: registration.KubeAPIServer, wantServesOwn: true, wantMessage: "kube-apiserver does not serve the version"},
		{name: "an APIService without a Service that nobody manages", official: apiService(official, "", "", "True"), own: apiService(own, "proviso", "", "True"),
			want: registration.KubeAPIServer, wantServesOwn: true},
		{name: "applied over the one of kube-apiserver", official: apiService(official, "proviso", "onstart", "True"), own: apiService(own, "proviso", "", "True"), discovery: "{}",
			want: registration.KubeAPIServer, wantServesOwn: true, wantMessage: "restores it when it restarts"},
		{name: "managed continuously", official: apiService(official, "proviso", "true", "True"), own: apiService(own, "proviso", "", "True"), discovery: "{}",
			want: registration.KubeAPIServer, wantServesOwn: true, wantMessage: "restores it when it restarts"},
		{name: "another server", official: apiService(official, "other", "", "True"), own: apiService(own, "proviso", "", "True"),
			want: registration.AnotherServer, wantServesOwn: true, wantMessage: "proviso-system/other"},
		{name: "another server, without the own group", official: apiService(official, "other", "", "True"), want: registration.AnotherServer, wantNoPolicies: true},
		{name: "another server, and kube-apiserver has the own group", official: apiService(official, "other", "", "True"), own: apiService(own, "", "onstart", "True"),
			want: registration.AnotherServer, wantNoPolicies: true},
		{name: "another server has both", official: apiService(official, "other", "", "True"), own: apiService(own, "other", "", "True"), want: registration.AnotherServer, wantNoPolicies: true},
		{name: "another server has the policies", official: apiService(official, "proviso", "", "True"), own: apiService(own, "proviso", "", "True"),
			noPolicies: apiService(policies, "other", "", "True"), want: registration.AnotherServer, wantNoPolicies: true},
		{name: "another server has the policies and a version of reviews", official: apiService(official, "proviso", "", "True"), own: apiService(own, "other", "", "True"),
			noPolicies: apiService(policies, "other", "", "True"), want: registration.AnotherServer, wantServesOwn: true},
		{name: "another server has the policies, and there is no other version", noPolicies: apiService(policies, "other", "", "True"), want: registration.Missing},
		{name: "another server has the own group", official: apiService(official, "proviso", "", "True"), own: apiService(own, "other", "", "True"),
			want: registration.Proviso, wantServes: true},
		{name: "no policies", official: apiService(official, "proviso", "", "True"), own: apiService(own, "proviso", "", "True"), noPolicies: "none", want: registration.Unknown, wantNoPolicies: true},
		{name: "policies of kube-apiserver", official: apiService(official, "proviso", "", "True"), own: apiService(own, "proviso", "", "True"),
			noPolicies: apiService(policies, "", "onstart", "True"), want: registration.Unknown, wantNoPolicies: true},
		{name: "no answer about policies", official: apiService(official, "proviso", "", "True"), own: apiService(own, "proviso", "", "True"),
			noPolicies: "error", want: registration.Unknown, wantFailure: true, wantNoPolicies: true},
		{name: "kube-apiserver fails", official: "error", own: apiService(own, "proviso", "", "True"), want: registration.Unknown, wantServesOwn: true, wantFailure: true},
		{name: "discovery fails", own: apiService(own, "proviso", "", "True"), discovery: "error", want: registration.Missing, wantServesOwn: true, wantFailure: true},
		{name: "not an APIService", official: "{}", own: apiService(own, "proviso", "", "True"), want: registration.Unknown, wantServesOwn: true, wantFailure: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]string{
				apiServices + "v1alpha1." + official.Group: tc.official, apiServices + "v1alpha1." + own.Group: tc.own, "/apis/" + official.String(): tc.discovery,
			}
			if tc.noPolicies != "" {
				answers[apiServices+"v1alpha1."+policies.Group] = strings.TrimPrefix(tc.noPolicies, "none")
			}
			_, watcher := newWatcher(t, answers)
			if watcher.Serves(official) || watcher.Serves(own) {
				t.Error("before the first look Proviso is taken to serve the versions")
			}
			if err := watcher.Look(t.Context()); (err != nil) != tc.wantFailure {
				t.Fatalf("got the error %v, want one: %v", err, tc.wantFailure)
			}
			got := watcher.Result(official)
			if got.State != tc.want || !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("got %+v, want %s with %q", got, tc.want, tc.wantMessage)
			}
			if watcher.Serves(official) != tc.wantServes || watcher.Serves(own) != tc.wantServesOwn {
				t.Errorf("served by Proviso: %v and %v, want %v and %v", watcher.Serves(official), watcher.Serves(own), tc.wantServes, tc.wantServesOwn)
			}
			recorder := httptest.NewRecorder()
			watcher.ServeHTTP(recorder, nil)
			if want := fmt.Sprintf("authorization.k8s.io/v1alpha1: %s: ", tc.want); !strings.Contains(recorder.Body.String(), want) {
				t.Errorf("got the details %q, want %q in them", recorder.Body, want)
			}
			if watcher.Serves(schema.GroupVersion{Group: "demo.proviso.dev", Version: "v1alpha1"}) {
				t.Error("a version that is not watched is taken to be served")
			}
			if got := watcher.Serves(policies); got == tc.wantNoPolicies {
				t.Errorf("policies are served by Proviso: %v", got)
			}
			if got := watcher.Elsewhere(official.Group, nil); got != (tc.want == registration.KubeAPIServer || tc.want == registration.AnotherServer) || watcher.Elsewhere(official.Group, []string{"v1"}) {
				t.Errorf("served elsewhere: %v", got)
			}
		})
	}
}

// TestRegistrationChanges checks that a look replaces the results of an earlier one, and that results of failing looks grow old.
func TestRegistrationChanges(t *testing.T) {
	t.Parallel()
	now := time.Now()
	path := apiServices + "v1alpha1." + official.Group
	kube, watcher := newWatcher(t, map[string]string{path: apiService(official, "proviso", "", "True"), apiServices + "v1alpha1." + own.Group: apiService(own, "proviso", "", "True")})
	watcher.SetNow(func() time.Time { return now })
	for _, step := range []struct {
		name   string
		answer string
		after  time.Duration
		want   registration.State
		fails  bool
		// discovery is the answer about what kube-apiserver serves.
		discovery string
	}{
		{name: "Proviso", answer: apiService(official, "proviso", "", "True"), want: registration.Proviso},
		{name: "kube-apiserver takes over", answer: apiService(official, "", "onstart", "True"), after: time.Second, want: registration.KubeAPIServer},
		{name: "Proviso once more", answer: apiService(official, "proviso", "", "True"), after: time.Second, want: registration.Proviso},
		{name: "kube-apiserver takes over while its discovery fails", answer: apiService(official, "", "onstart", "True"), discovery: "error", after: time.Second, want: registration.KubeAPIServer, fails: true},
		{name: "Proviso again", answer: apiService(official, "proviso", "", "True"), after: time.Second, want: registration.Proviso},
		{name: "kube-apiserver fails for a moment", answer: "error", after: 30 * time.Second, want: registration.Proviso, fails: true},
		{name: "kube-apiserver fails for long", answer: "error", after: 31 * time.Second, want: registration.Unknown, fails: true},
		{name: "kube-apiserver is back", answer: apiService(official, "proviso", "", "True"), after: time.Second, want: registration.Proviso},
	} {
		now = now.Add(step.after)
		kube.set(path, step.answer)
		kube.set("/apis/"+official.String(), step.discovery)
		if err := watcher.Look(t.Context()); (err != nil) != step.fails {
			t.Fatalf("%s: got the error %v", step.name, err)
		}
		if got := watcher.Result(official); got.State != step.want || watcher.Serves(official) != (step.want == registration.Proviso) {
			t.Errorf("%s: got %+v, want %s", step.name, got, step.want)
		}
	}
}
