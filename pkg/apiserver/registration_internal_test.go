/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	authorizationprovisov1alpha1 "github.com/proviso-authz/proviso/apis/authorizationproviso/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/accessreview"
)

// TestReviewsBehindTheFrontDoor checks that conditions on reviews count as enforced only if kube-apiserver is known to pass the
// reviews on to this server.
func TestReviewsBehindTheFrontDoor(t *testing.T) {
	t.Parallel()
	const service, none = `{"namespace":"proviso-system","name":"proviso-apiserver"}`, "null"
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name                                          string
		official, own, demo                           string // the Services of the APIServices, or empty if there is no APIService
		looked                                        bool
		wantOfficial, wantOwn, wantDemo, wantPolicies bool
	}{
		{"not known yet", service, service, service, false, false, false, false, false},
		{"Proviso", service, service, service, true, true, true, true, true},
		{"kube-apiserver", none, service, service, true, false, true, true, true},
		{"missing", "", service, service, true, false, true, true, true},
		{"the own group is missing", service, "", service, true, true, false, true, true},
		{"a CustomResourceDefinition serves the group of machines", service, service, none, true, true, true, false, true},
		{"another server serves the group of machines", service, service, strings.Replace(service, "proviso", "other", 1), true, true, true, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reference := tc.official
				switch {
				case strings.HasSuffix(r.URL.Path, "policy.proviso.dev"):
					reference = service
				case strings.HasSuffix(r.URL.Path, "demo.proviso.dev"):
					reference = tc.demo
				case strings.HasSuffix(r.URL.Path, "proviso.dev"):
					reference = tc.own
				}
				w.Header().Set("Content-Type", "application/json")
				if reference == "" || !strings.Contains(r.URL.Path, "apiservices/") {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				_, _ = fmt.Fprintf(w, `{"metadata":{"name":"x"},"spec":{"service":%s}}`, reference)
			}))
			defer server.Close()
			client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			enforcer, err := enforcement.New(enforcement.Config{Chain: chain, Conditional: true})
			if err != nil {
				t.Fatal(err)
			}
			enforcer.MarkEnforced()
			watcher := (CompletedConfig{&completedConfig{extra: ExtraConfig{EnableDemoAPI: true}}}).newWatcher(client.RESTClient())
			if tc.looked {
				if err := watcher.Look(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			behind := CompletedConfig{&completedConfig{extra: ExtraConfig{Enforcer: enforcer}}}.enforcesBehind(watcher)
			serves := CompletedConfig{&completedConfig{extra: ExtraConfig{Enforcer: enforcer}}}.servesBehind(watcher)
			for _, version := range servedVersions {
				group := genericapiserver.NewDefaultAPIGroupInfo(version.Group, Scheme, ParameterCodec, Codecs)
				group.VersionedResourcesStorageMap[version.Version] = map[string]rest.Storage{"subjectaccessreviews": accessreview.NewSubjectREST(nil)}
				enforcer.Cover(&group)
				a := authorizer.AttributesRecord{Verb: "create", APIGroup: version.Group, APIVersion: version.Version, Resource: "subjectaccessreviews", ResourceRequest: true}
				if without := (CompletedConfig{&completedConfig{extra: ExtraConfig{Enforcer: enforcer}}}).enforcesBehind(nil); without(a) != (version.Group == demov1alpha1.GroupName || version.Group == policyv1alpha1.GroupName) {
					t.Errorf("%s: enforced behind kube-apiserver without a look at it: %v", version, without(a))
				}
				want := map[string]bool{authorizationv1alpha1.GroupName: tc.wantOfficial, authorizationprovisov1alpha1.GroupName: tc.wantOwn, demov1alpha1.GroupName: tc.wantDemo, policyv1alpha1.GroupName: tc.wantPolicies}
				if behind(a) != want[version.Group] {
					t.Errorf("%s: enforced behind kube-apiserver: %v", version, behind(a))
				}
				enforced := behind(a)
				if a.Verb = "list"; serves(a) != enforced {
					t.Errorf("%s: served behind kube-apiserver: %v", version, !enforced)
				}
				if behind(a) {
					t.Errorf("%s: a request that this server does not cover counts as enforced", version)
				}
			}
			if a := (authorizer.AttributesRecord{Verb: "create", APIGroup: demov1alpha1.GroupName, APIVersion: "*", Resource: "subjectaccessreviews", ResourceRequest: true}); behind(a) {
				t.Error("a request for all versions counts as enforced")
			}
			for _, version := range []string{"v1", "*"} {
				if a := (authorizer.AttributesRecord{Verb: "create", APIVersion: version, Resource: "pods", ResourceRequest: true}); serves(a) || behind(a) {
					t.Errorf("pods in %s count as served", version)
				}
			}
		})
	}
}
