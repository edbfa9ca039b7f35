/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aggregated

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/registration"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
)

// apiServices are APIServices by group and version.
type apiServices struct {
	mu       sync.Mutex
	services map[schema.GroupVersion]registration.Serving
	unknown  bool
}

// Serving implements Services. Only the Service things/things on port 8443 is registered.
func (s *apiServices) Serving(version schema.GroupVersion, by *registration.Service) registration.Serving {
	s.mu.Lock()
	defer s.mu.Unlock()
	serving, ok := s.services[version]
	switch {
	case s.unknown:
		return registration.ServingUnknown
	case !ok:
		return registration.ServingMissing
	case serving == registration.ServingRegistered && (by.Namespace != "things" || by.Name != "things" || *by.Port != 8443):
		return registration.ServingAnotherService
	}
	return serving
}

// IsKnown implements Services.
func (s *apiServices) IsKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unknown
}

func (s *apiServices) set(version string, serving registration.Serving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services[schema.GroupVersion{Group: group, Version: version}] = serving
}

const group = "things.example.com"

func stored(name string, change func(*policyv1alpha1.EnforcementConfiguration)) *policyv1alpha1.EnforcementConfiguration {
	c := &policyv1alpha1.EnforcementConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: policyv1alpha1.EnforcementConfigurationSpec{
		APIGroup: group, APIVersions: []string{"v1", "v2"}, Resources: []string{"things", "things/status"},
		Service: policyv1alpha1.EnforcementService{Namespace: "things", Name: "things", Port: 8443},
	}}
	if change != nil {
		change(c)
	}
	return c
}

func newServices() *apiServices {
	return &apiServices{services: map[schema.GroupVersion]registration.Serving{
		{Group: group, Version: "v1"}: registration.ServingRegistered, {Group: group, Version: "v3"}: registration.ServingRegistered, // v3 is not named
	}}
}

// TestEnforces has requests that count as enforced, and requests that must not.
func TestEnforces(t *testing.T) {
	t.Parallel()
	request := func(verb, version, resource, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: group, APIVersion: version, Resource: resource, Subresource: subresource, ResourceRequest: true}
	}
	of := func(a authorizer.AttributesRecord, change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		change(&a)
		return a
	}
	create := request("create", "v1", "things", "")
	for _, tc := range []struct {
		name    string
		request authorizer.AttributesRecord
		stored  []*policyv1alpha1.EnforcementConfiguration
		serving registration.Serving
		want    bool
	}{
		{name: "create", request: create, want: true},
		{name: "update", request: request("update", "v1", "things", ""), want: true},
		{name: "patch", request: request("patch", "v1", "things", ""), want: true},
		{name: "delete", request: request("delete", "v1", "things", ""), want: true},
		{name: "deletecollection", request: request("deletecollection", "v1", "things", ""), want: true},
		{name: "get", request: request("get", "v1", "things", "")},
		{name: "a verb of its own", request: request("bind", "v1", "things", "")},
		{name: "any verb", request: request("*", "v1", "things", "")},
		{name: "status", request: request("update", "v1", "things", "status"), want: true},
		{name: "a POST to a subresource", request: request("create", "v1", "things", "status")},
		{name: "a DELETE of a subresource", request: request("delete", "v1", "things", "status")},
		{name: "another subresource", request: request("update", "v1", "things", "scale")},
		{name: "another resource", request: request("create", "v1", "others", "")},
		{name: "another group", request: of(create, func(a *authorizer.AttributesRecord) { a.APIGroup = "example.com" })},
		{name: "a version that is not registered", request: request("create", "v2", "things", "")},
		{name: "a version that is not named", request: request("create", "v3", "things", "")},
		{name: "no version", request: request("create", "", "things", "")},
		{name: "any version", request: request("create", "*", "things", "")},
		{name: "a path", request: authorizer.AttributesRecord{Verb: "create", APIGroup: group, APIVersion: "v1", Resource: "things", Path: "/x"}},
		{name: "unavailable", request: create, serving: registration.ServingUnavailable},
		{name: "another Service", request: create, serving: registration.ServingAnotherService},
		{name: "kube-apiserver", request: create, serving: registration.ServingKubeAPIServer},
		{name: "missing", request: create, serving: registration.ServingMissing},
		{name: "unknown", request: create, serving: registration.ServingUnknown},
		{name: "a configuration of another Service", request: create, stored: []*policyv1alpha1.EnforcementConfiguration{stored("a", func(c *policyv1alpha1.EnforcementConfiguration) { c.Spec.Service.Name = "other" })}},
		{name: "of two configurations one", request: create, want: true, stored: []*policyv1alpha1.EnforcementConfiguration{
			stored("a", func(c *policyv1alpha1.EnforcementConfiguration) { c.Spec.Service.Port = 443 }), stored("b", nil),
		}},
		{name: "finalizers, in a configuration of an earlier release", request: request("update", "v1", "things", "finalizers"), stored: []*policyv1alpha1.EnforcementConfiguration{
			stored("a", func(c *policyv1alpha1.EnforcementConfiguration) {
				c.Spec.Resources = []string{"things", "things/finalizers"}
			}),
		}},
		{name: "a configuration that is being deleted", request: create, stored: []*policyv1alpha1.EnforcementConfiguration{stored("a", func(c *policyv1alpha1.EnforcementConfiguration) {
			c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		})}},
		{name: "no configuration", request: create, stored: []*policyv1alpha1.EnforcementConfiguration{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			services := newServices()
			if tc.serving != "" {
				services.set("v1", tc.serving)
			}
			if tc.stored == nil {
				tc.stored = []*policyv1alpha1.EnforcementConfiguration{stored("a", nil)}
			}
			for _, services := range []Services{services, nil} {
				e := NewEnforcement(services, true)
				if e.Enforces(tc.request) || !e.IsEmpty() || len(e.Resources()) > 0 {
					t.Error("something is enforced before configurations are published")
				}
				e.publish(tc.stored)
				want := tc.want && services != nil
				if got := e.Enforces(tc.request); got != want {
					t.Errorf("got %t, want %t", got, want)
				}
				if e.conditional = false; e.Enforces(tc.request) || slices.ContainsFunc(e.Resources(), func(r Resource) bool { return r.IsEnforced }) {
					t.Error("something is enforced while no request may pass on conditions")
				}
				e.conditional = true
				if e.SetStale("the store is out of reach"); e.Enforces(tc.request) || slices.ContainsFunc(e.Resources(), func(r Resource) bool { return r.IsEnforced }) {
					t.Error("something is enforced while configurations may be out of date")
				}
			}
		})
	}
}

// TestResources lists what configurations name.
func TestResources(t *testing.T) {
	t.Parallel()
	e := NewEnforcement(newServices(), true)
	late := stored("c", nil)
	e.publish([]*policyv1alpha1.EnforcementConfiguration{stored("b", nil), stored("a", nil), late})
	late.Spec.APIVersions[0], late.Spec.Resources[0], late.Spec.Service.Port = "v3", "*", 443
	for _, r := range e.Resources()[8:] {
		if r.Version == "v3" || r.Resource.Resource == "*" || r.IsEnforced != (r.Version == "v1") {
			t.Errorf("what changes after it is published counts: %+v", r)
		}
	}
	e.publish([]*policyv1alpha1.EnforcementConfiguration{stored("b", nil), stored("a", nil)})
	resources := e.Resources()
	if len(resources) != 8 || resources[0].Configuration != "a" || resources[7].Configuration != "b" {
		t.Fatalf("got %+v", resources)
	}
	for _, r := range resources {
		if r.IsEnforced != (r.Version == "v1") || r.Resource.Resource != "things" || (len(r.Verbs) == 5) != (r.Subresource == "") {
			t.Errorf("got %+v", r)
		}
	}
}

// rig is a controller whose caches the test fills.
type rig struct {
	*Controller
	client   *fake.Clientset
	services *apiServices
	now      time.Time
}

func newRig(t *testing.T, frontDoor bool) *rig {
	t.Helper()
	r := &rig{client: fake.NewSimpleClientset(), services: newServices(), now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	r.client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.UpdateAction).GetObject(), nil
	})
	var err error
	r.Controller, err = NewController(Config{
		Client: r.client, Enforcement: NewEnforcement(r.services, true), FrontDoor: frontDoor, StalenessBound: time.Minute,
		Store: clientstore.Of(r.client.PolicyV1alpha1().EnforcementConfigurations(), clientstore.Latest), End: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.pace.Burst, r.pace.Now = 1, func() time.Time { return r.now }
	return r
}

// write stores a configuration, publishes it, and writes its status. It returns the condition Effective that is stored then, and how
// often a status was written.
func (r *rig) write(t *testing.T, c *policyv1alpha1.EnforcementConfiguration) (*metav1.Condition, int) {
	t.Helper()
	if err := r.informer.GetIndexer().Update(c); err != nil {
		t.Fatal(err)
	}
	r.publish()
	if err := r.writeStatus(t.Context(), c.Name); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, action := range r.client.Actions() {
		update := action.(clienttesting.UpdateAction)
		if update.GetSubresource() != "status" {
			t.Errorf("got the action %v", action)
		}
		*c = *update.GetObject().(*policyv1alpha1.EnforcementConfiguration)
		n++
	}
	r.client.ClearActions()
	return meta.FindStatusCondition(c.Status.Conditions, policyv1alpha1.EnforcementEffective), n
}

// TestStatus follows a configuration whose APIServices change. Such changes are written at most once in an interval.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, true)
	c := stored("a", nil)
	want := func(when string, status metav1.ConditionStatus, reason, message string, wantWrites int) {
		t.Helper()
		got, n := r.write(t, c)
		if n != wantWrites || got == nil || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) || got.ObservedGeneration != c.Generation {
			t.Errorf("%s: got %+v after %d writes, want %s %s %q after %d", when, got, n, status, reason, message, wantWrites)
		}
	}
	want("one version is missing", metav1.ConditionFalse, policyv1alpha1.ReasonMissing, "v2: there is no APIService. Conditions on requests in these versions are folded", 1)
	r.services.set("v2", registration.ServingRegistered)
	want("registered", metav1.ConditionTrue, policyv1alpha1.ReasonRegistered, "the front door lets requests pass on conditions", 1)
	want("no change", metav1.ConditionTrue, policyv1alpha1.ReasonRegistered, "", 0)
	r.services.set("v1", registration.ServingAnotherService)
	want("taken over, within the interval", metav1.ConditionTrue, policyv1alpha1.ReasonRegistered, "", 0)
	r.now = r.now.Add(30 * time.Second)
	want("taken over", metav1.ConditionFalse, policyv1alpha1.ReasonAnotherService, "v1: the APIService names another Service", 1)
	r.now = r.now.Add(30 * time.Second)
	r.services.unknown = true
	want("unknown", metav1.ConditionFalse, policyv1alpha1.ReasonAnotherService, "", 0)
	c.Generation, r.services.unknown = 2, false
	want("a new generation", metav1.ConditionFalse, policyv1alpha1.ReasonAnotherService, "", 1)
	c.DeletionTimestamp = &metav1.Time{Time: r.now}
	want("being deleted", metav1.ConditionFalse, policyv1alpha1.ReasonDeleted, "", 1)
	if err := r.writeStatus(t.Context(), "gone"); err != nil || len(r.client.Actions()) > 0 {
		t.Errorf("a configuration that is gone: %v", err)
	}
	if got, n := newRig(t, false).write(t, stored("a", nil)); n != 1 || got.Reason != policyv1alpha1.ReasonFrontDoorDisabled || got.Status != metav1.ConditionFalse {
		t.Errorf("without a front door: got %+v", got)
	}
}

// TestReasons explains every value of Serving.
func TestReasons(t *testing.T) {
	t.Parallel()
	for serving, reason := range map[registration.Serving]string{
		registration.ServingUnknown: policyv1alpha1.ReasonUnknown, registration.ServingMissing: policyv1alpha1.ReasonMissing, registration.ServingKubeAPIServer: policyv1alpha1.ReasonKubeAPIServer,
		registration.ServingAnotherService: policyv1alpha1.ReasonAnotherService, registration.ServingUnavailable: policyv1alpha1.ReasonUnavailable,
	} {
		if string(serving) != reason || texts[serving] == "" {
			t.Errorf("%s: the reason is %s, with the text %q", serving, reason, texts[serving])
		}
	}
	if _, err := NewController(Config{}); err == nil {
		t.Error("no error without a client")
	}
}
