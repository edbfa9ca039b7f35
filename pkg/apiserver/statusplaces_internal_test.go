/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/aggregated"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/registration"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPlacesAfterAStart checks that the status of policies about resources of other servers is not changed by a restart: it is not
// known what these servers enforce until the configurations have been loaded and the APIServices have been read.
func TestPlacesAfterAStart(t *testing.T) {
	t.Parallel()
	const format = `{"kind": "APIServiceList", "items": [{"spec": {"group": "things.example.com", "version": "v1",
		"service": {"namespace": "things", "name": %q}}, "status": {"conditions": [{"type": "Available", "status": %q}]}}]}`
	list := fmt.Sprintf(format, "things", "True")
	client, err := kubernetes.NewForConfig(&restclient.Config{Host: "http://kube-apiserver", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(list))}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	services := registration.NewServices(client.Discovery().RESTClient())
	enforcement := aggregated.NewEnforcement(services, true)
	p := newStatusPlaces(noPlaces(t), &otherServers{services: services, enforcement: enforcement}, nil)
	server := enforcementstatus.Server{FrontDoor: true, Places: p.current.Load}
	changes := 0
	want := func(when string, areKnown bool) {
		t.Helper()
		before := p.look(nil, func() {})
		p.look(before, func() { changes++ })
		if server.AreKnown() != areKnown {
			t.Errorf("%s: places are known: %t, want %t", when, !areKnown, areKnown)
		}
	}
	want("before configurations are loaded", false)
	policies := fake.NewSimpleClientset(&policyv1alpha1.EnforcementConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "things"}, Spec: policyv1alpha1.EnforcementConfigurationSpec{
		APIGroup: "things.example.com", APIVersions: []string{"v1"}, Resources: []string{"things"},
		Service: policyv1alpha1.EnforcementService{Namespace: "things", Name: "things", Port: 443},
	}})
	controller, err := aggregated.NewController(aggregated.Config{
		Client: policies, Enforcement: enforcement, FrontDoor: true, StalenessBound: time.Minute, Store: clientstore.Of(policies.PolicyV1alpha1().EnforcementConfigurations(), clientstore.Latest), End: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	go controller.Run(t.Context())
	for enforcement.Current() == nil {
		time.Sleep(time.Millisecond)
	}
	want("before APIServices are read", false)
	if err := services.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("after both", true)
	if resources := enforcement.Resources(); len(resources) != 1 || !resources[0].IsEnforced {
		t.Errorf("got %+v", resources)
	}
	table, err := place.NewTable(nil, &place.AggregatedServer{Enforces: enforcement.Enforces, Configuration: enforcement.Configuration})
	if err != nil {
		t.Fatal(err)
	}
	// The status of the configuration has the reason.
	for i, answer := range []string{fmt.Sprintf(format, "other", "True"), fmt.Sprintf(format, "things", "False"), fmt.Sprintf(format, "other", "False")} {
		list, changes = answer, 0
		if err := services.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		isEvaluated, problem := table.Evaluated(t.Context(), &place.Request{Attributes: authorizer.AttributesRecord{Verb: "create", APIGroup: "things.example.com", APIVersion: "v1", Resource: "things", ResourceRequest: true, User: &user.DefaultInfo{Name: "a"}}}, onCondition, nil)
		if isEvaluated || strings.Contains(problem, "inner door") || problem == "" {
			t.Errorf("change %d, before it shows: a review says %t, %q", i, isEvaluated, problem)
		}
		if want("after a change", true); changes != 1 {
			t.Errorf("change %d: it is reported %d times, want once", i, changes)
		}
	}
}

func noPlaces(t *testing.T) *place.Table {
	t.Helper()
	table, err := place.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
