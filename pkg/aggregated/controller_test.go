/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aggregated

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/registration"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
	"github.com/proviso-authz/proviso/test/testutil/conflicts"
)

var create = authorizer.AttributesRecord{Verb: "create", APIGroup: group, APIVersion: "v1", Resource: "things", ResourceRequest: true}

// running is a controller that runs, with a client that stores what it is given.
type running struct {
	*Controller
	client   *fake.Clientset
	services *apiServices

	mu   sync.Mutex
	now  time.Time
	asks int // for the time
	lost error
}

func start(t *testing.T, bound time.Duration, objects ...runtime.Object) *running {
	t.Helper()
	r := &running{client: fake.NewSimpleClientset(objects...), services: newServices(), now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	r.services.set("v2", registration.ServingRegistered)
	conflicts.Refuse(t, r.client)
	r.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.lost != nil, nil, r.lost
	})
	var err error
	r.Controller, err = NewController(Config{
		Client: r.client, Enforcement: NewEnforcement(r.services, true), FrontDoor: true, StalenessBound: bound,
		Store: clientstore.Of(r.client.PolicyV1alpha1().EnforcementConfigurations(), clientstore.Latest), End: func(cause error) { t.Errorf("it ends the process: %v", cause) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.pace.Burst = 1
	r.pace.Now = func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asks++
		return r.now
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	r.eventually(t, "it watches", func() bool {
		for _, action := range r.client.Actions() {
			if action.GetVerb() == "watch" {
				return r.config.Enforcement.Current() != nil
			}
		}
		return false
	})
	return r
}

func (r *running) set(now time.Time, lost error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.lost = now, lost
}

func (r *running) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// reason returns the reason of the condition Effective that is stored, or "".
func (r *running) reason(t *testing.T) string {
	t.Helper()
	c, err := r.client.PolicyV1alpha1().EnforcementConfigurations().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	if effective := meta.FindStatusCondition(c.Status.Conditions, policyv1alpha1.EnforcementEffective); effective != nil {
		return effective.Reason
	}
	return ""
}

// TestController follows a configuration from its creation to its deletion.
func TestController(t *testing.T) {
	t.Parallel()
	r := start(t, time.Minute)
	e, configurations := r.config.Enforcement, r.client.PolicyV1alpha1().EnforcementConfigurations()
	if !e.IsEmpty() || e.Enforces(create) {
		t.Error("something is enforced without configurations")
	}
	c, err := configurations.Create(t.Context(), stored("a", nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "it takes effect", func() bool { return e.Enforces(create) && !e.IsEmpty() })
	r.eventually(t, "its status says so", func() bool { return r.reason(t) == policyv1alpha1.ReasonRegistered })
	if err := r.Ready().Check(nil); err != nil {
		t.Errorf("got %v, want ready", err)
	}
	c.Spec.Service.Name = "other"
	if _, err := configurations.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "the change takes effect", func() bool { return !e.Enforces(create) && !e.IsEmpty() })
	if err := configurations.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "it is gone", func() bool { return e.IsEmpty() && !e.Enforces(create) })
}

// TestStoreIsLost counts no configuration while the store is out of reach for longer than the bound.
func TestStoreIsLost(t *testing.T) {
	t.Parallel()
	r := start(t, 100*time.Millisecond, stored("a", nil))
	enforces := func() bool { return r.config.Enforcement.Enforces(create) }
	r.eventually(t, "it takes effect", func() bool { return enforces() && r.Ready().Check(nil) == nil })
	r.set(r.now, errors.New("etcd is gone"))
	r.eventually(t, "it does not count, and the server is not ready", func() bool { return !enforces() && r.Ready().Check(nil) != nil })
	if got := r.config.Enforcement.Resources(); len(got) != 4 || got[0].IsEnforced {
		t.Errorf("without the store: got %+v, want what the configuration names, not enforced", got)
	}
	r.set(r.now, nil)
	r.eventually(t, "it counts again", func() bool { return enforces() && r.Ready().Check(nil) == nil })
}

// TestStatusIsWrittenLater has APIServices that change within the interval of a status: it is written after the rest of the interval,
// and the controller does not try all the time.
func TestStatusIsWrittenLater(t *testing.T) {
	t.Parallel()
	r := start(t, time.Minute, stored("a", nil))
	// The next write must not be the first one for the controller, too. A real server would refuse it as a conflict.
	r.eventually(t, "a new configuration", func() bool {
		cached, _, _ := r.informer.GetIndexer().GetByKey("a")
		c, ok := cached.(*policyv1alpha1.EnforcementConfiguration)
		return ok && r.reason(t) == policyv1alpha1.ReasonRegistered && c.Status.ObservedGeneration == c.Generation && len(c.Status.Conditions) > 0
	})
	turn := func(serving registration.Serving) {
		r.services.set("v1", serving)
		r.Recheck()
	}
	turn(registration.ServingMissing)
	r.eventually(t, "the first change", func() bool { return r.reason(t) == policyv1alpha1.ReasonMissing })
	begun := r.now
	r.set(begun.Add(controller.PaceInterval-2*time.Second), nil)
	turn(registration.ServingUnavailable)
	asks := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.asks
	}
	before := asks()
	r.eventually(t, "it looks", func() bool { return asks() > before })
	if got := r.reason(t); got != policyv1alpha1.ReasonMissing {
		t.Errorf("within the interval: got %s", got)
	}
	time.Sleep(100 * time.Millisecond)
	if n := asks() - before; n > 20 {
		t.Errorf("%d attempts within the interval", n)
	}
	r.set(begun.Add(controller.PaceInterval), nil)
	r.eventually(t, "after the interval", func() bool { return r.reason(t) == policyv1alpha1.ReasonUnavailable })
}

// TestStatusOfNamesake deletes a configuration, and creates another with its name within the interval.
func TestStatusOfNamesake(t *testing.T) {
	t.Parallel()
	r := newRig(t, true)
	c := stored("a", nil)
	r.write(t, c)
	r.services.set("v2", registration.ServingRegistered)
	if _, n := r.write(t, c); n != 1 {
		t.Fatalf("got %d writes of what has changed", n)
	}
	if err := r.informer.GetIndexer().Delete(c); err != nil {
		t.Fatal(err)
	}
	if err := r.writeStatus(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	r.services.set("v2", registration.ServingUnavailable)
	if got, n := r.write(t, c); n != 1 || got.Reason != policyv1alpha1.ReasonUnavailable {
		t.Errorf("got %+v after %d writes: the deleted configuration delays the new one", got, n)
	}
}

// TestStatusKeepsTheRest writes the object as it is stored, with other conditions, and does not change the cache.
func TestStatusKeepsTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, true)
	cached := stored("a", func(c *policyv1alpha1.EnforcementConfiguration) {
		c.UID, c.ResourceVersion, c.Generation = "u", "7", 3
		c.Status = policyv1alpha1.EnforcementConfigurationStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{
			{Type: "Other", Status: metav1.ConditionTrue, Reason: "Kept"}, {Type: policyv1alpha1.EnforcementEffective, Status: metav1.ConditionTrue, Reason: "Old", ObservedGeneration: 2},
		}}
	})
	if err := r.informer.GetIndexer().Add(cached); err != nil {
		t.Fatal(err)
	}
	if err := r.writeStatus(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	actions := r.client.Actions()
	if len(actions) != 1 {
		t.Fatalf("got %v, want one write", actions)
	}
	r.client.ClearActions()
	written := actions[0].(clienttesting.UpdateAction).GetObject().(*policyv1alpha1.EnforcementConfiguration)
	got := meta.FindStatusCondition(written.Status.Conditions, policyv1alpha1.EnforcementEffective)
	if got.Reason != policyv1alpha1.ReasonMissing || got.ObservedGeneration != 3 || written.Status.ObservedGeneration != 3 {
		t.Errorf("got %+v", written.Status)
	}
	if written.UID != "u" || written.ResourceVersion != "7" || written.Spec.APIGroup != group || meta.FindStatusCondition(written.Status.Conditions, "Other") == nil {
		t.Errorf("got %+v, want the rest as it was", written)
	}
	if cached.Status.ObservedGeneration != 2 || cached.Status.Conditions[1].Reason != "Old" {
		t.Errorf("the cache has %+v", cached.Status)
	}
	r.now = r.now.Add(time.Hour)
	if _, n := r.write(t, written); n != 0 {
		t.Errorf("%d writes without a change", n)
	}
}

// TestStatusThatCannotBeWritten returns the error, so that it is tried again at once.
func TestStatusThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, true)
	c := stored("a", nil)
	r.write(t, c)
	r.services.set("v1", registration.ServingKubeAPIServer)
	conflict := apierrors.NewConflict(policyv1alpha1.Resource("enforcementconfigurations"), "a", errors.New("changed"))
	fails := true
	r.client.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return fails, nil, conflict })
	if err := r.writeStatus(t.Context(), "a"); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want the conflict", err)
	}
	r.client.ClearActions()
	fails = false
	if got, n := r.write(t, c); n != 1 || got.Reason != policyv1alpha1.ReasonKubeAPIServer {
		t.Errorf("tried again: got %+v after %d writes", got, n)
	}
}

// TestEffective has configurations whose versions have several problems, or none that is known.
func TestEffective(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		v1, v2        registration.Serving
		noServices    bool
		unconditional bool
		frontDoor     bool
		change        func(*policyv1alpha1.EnforcementConfiguration)
		wantStatus    metav1.ConditionStatus
		wantReason    string
		wantMessage   string
	}{
		{name: "every version", v1: registration.ServingRegistered, v2: registration.ServingRegistered, frontDoor: true, wantStatus: metav1.ConditionTrue, wantReason: policyv1alpha1.ReasonRegistered,
			wantMessage: "the front door lets requests pass on conditions, which the server enforces"},
		{name: "two problems", v1: registration.ServingUnavailable, v2: registration.ServingKubeAPIServer, frontDoor: true, wantStatus: metav1.ConditionFalse, wantReason: policyv1alpha1.ReasonUnavailable,
			wantMessage: "v1: kube-apiserver does not reach the server: see the condition Available of the APIService; v2: the APIService belongs to kube-apiserver. Conditions on requests in these versions are folded"},
		{name: "no APIServices", noServices: true, frontDoor: true, wantStatus: metav1.ConditionFalse, wantReason: policyv1alpha1.ReasonUnknown, wantMessage: "v1: the APIServices cannot be read; v2: the APIServices cannot be read" + folded},
		{name: "another Service", v1: registration.ServingRegistered, v2: registration.ServingRegistered, frontDoor: true, wantStatus: metav1.ConditionFalse, wantReason: policyv1alpha1.ReasonAnotherService,
			change:      func(c *policyv1alpha1.EnforcementConfiguration) { c.Spec.Service.Namespace = "other" },
			wantMessage: "v1: the APIService names another Service; v2: the APIService names another Service" + folded},
		{name: "no conditions", v1: registration.ServingRegistered, v2: registration.ServingRegistered, frontDoor: true, unconditional: true, wantStatus: metav1.ConditionFalse, wantReason: policyv1alpha1.ReasonConditionsDisabled,
			wantMessage: "v1: the feature gate ConditionalAuthorization is off; v2: the feature gate ConditionalAuthorization is off" + folded},
		{name: "no front door", v1: registration.ServingRegistered, v2: registration.ServingRegistered, wantStatus: metav1.ConditionFalse, wantReason: policyv1alpha1.ReasonFrontDoorDisabled,
			wantMessage: "the front door is disabled, so that kube-apiserver does not ask about these requests"},
		{name: "being deleted, without a front door", v1: registration.ServingRegistered, wantStatus: metav1.ConditionFalse, wantReason: policyv1alpha1.ReasonDeleted, wantMessage: "the configuration is being deleted",
			change: func(c *policyv1alpha1.EnforcementConfiguration) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tc.frontDoor)
			r.services.set("v1", tc.v1)
			r.services.set("v2", tc.v2)
			if tc.noServices {
				r.config.Enforcement.services = nil
			}
			r.config.Enforcement.conditional = !tc.unconditional
			c := stored("a", tc.change)
			got, n := r.write(t, c)
			if n != 1 || got.Status != tc.wantStatus || got.Reason != tc.wantReason || got.Message != tc.wantMessage || got.ObservedGeneration != 1 {
				t.Errorf("got %+v after %d writes, want %s %s %q", got, n, tc.wantStatus, tc.wantReason, tc.wantMessage)
			}
			c.Status.Conditions[0].Message = "of another replica"
			wantWrites := 1
			if tc.noServices { // what is not known is no reason to write
				wantWrites = 0
			}
			if _, n := r.write(t, c); n != wantWrites {
				t.Errorf("%d writes over another replica, want %d", n, wantWrites)
			}
		})
	}
}

// TestConfigIsIncomplete returns an error instead of a controller that fails later.
func TestConfigIsIncomplete(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		change  func(*Config)
		wantErr string
	}{
		{name: "complete", change: func(*Config) {}},
		{name: "no client", change: func(c *Config) { c.Client = versioned.Interface(nil) }, wantErr: "needs a client and an Enforcement"},
		{name: "no Enforcement", change: func(c *Config) { c.Enforcement = nil }, wantErr: "needs a client and an Enforcement"},
		{name: "no bound", change: func(c *Config) { c.StalenessBound = 0 }, wantErr: "enforcement-configurations"},
		{name: "no end", change: func(c *Config) { c.End = nil }, wantErr: "enforcement-configurations"},
		{name: "no store", change: func(c *Config) { c.Store = nil }, wantErr: "enforcement-configurations"},
	} {
		client := fake.NewSimpleClientset()
		config := Config{
			Client: client, Enforcement: NewEnforcement(nil, true), StalenessBound: time.Minute,
			Store: clientstore.Of(client.PolicyV1alpha1().EnforcementConfigurations(), clientstore.Latest), End: func(error) {},
		}
		tc.change(&config)
		if _, err := NewController(config); (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.wantErr)
		}
	}
}
