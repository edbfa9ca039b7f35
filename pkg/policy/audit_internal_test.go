/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// putAs stores a Deny policy on secrets with an enforcement.
func (s *stepper) putAs(t *testing.T, generation int64, enforcement policyv1alpha1.PolicyEnforcement, condition string, status policyv1alpha1.AuthorizationPolicyStatus) {
	t.Helper()
	p := &policyv1alpha1.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID("u"), Generation: generation},
		Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectDeny, Enforcement: enforcement, Condition: condition,
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
		},
		Status: status,
	}
	if err := s.informers[0].GetIndexer().Add(p); err != nil {
		t.Fatal(err)
	}
	s.observe(p)
	s.publish(t.Context())
}

// ask has alice get secrets, and returns whether that is denied.
func (s *stepper) ask(t *testing.T, times int) (denied bool) {
	t.Helper()
	for range times {
		audit := &authorization.Audit{}
		request := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}}, Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: "n", ResourceRequest: true}
		denied = (&engine.Authorizer{Source: s.source}).Decide(t.Context(), authorization.Request{Attributes: request, Audit: audit}).IsDeny()
		audit.Settle(t.Context())
		audit.Finish(authorization.RemainderNone)
	}
	return denied
}

var pKey = engine.Key{Name: "p"}

// write writes the status of the policy, and returns what was written, nil for nothing.
func (s *stepper) write(t *testing.T) *policyv1alpha1.PolicyAuditStatus {
	t.Helper()
	if err := s.writeStatus(t.Context(), pKey); err != nil {
		t.Fatal(err)
	}
	status, n := s.written(t, pKey)
	if n == 0 {
		return nil
	}
	if status.Audit == nil {
		return &policyv1alpha1.PolicyAuditStatus{Decided: -1}
	}
	return status.Audit
}

// TestAuditStatus follows a policy with the enforcement Audit: each replica adds what it has counted, at its pace, and counts begin again
// with each generation.
func TestAuditStatus(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.accepting()
	now := time.Now()
	s.auditPace.Now = func() time.Time { return now }
	expect := func(what string, got *policyv1alpha1.PolicyAuditStatus, generation, decided int64) {
		t.Helper()
		if got == nil || got.ObservedGeneration != generation || got.Decided != decided || (got.LastTime == nil) != (decided <= 0) {
			t.Errorf("%s: got %+v, want %d of generation %d", what, got, decided, generation)
		}
	}
	s.putAs(t, 1, "Audit", "", policyv1alpha1.AuthorizationPolicyStatus{})
	expect("at first", s.write(t), 1, 0)
	if s.ask(t, 3) {
		t.Error("denied")
	}
	expect("three", s.write(t), 1, 3)
	s.ask(t, 2)
	s.reportAudits()
	if got := s.write(t); got != nil {
		t.Errorf("got %+v before its time", got)
	}
	now = now.Add(time.Minute)
	// Another replica has added to the status meanwhile.
	other := s.get(pKey).status.DeepCopy()
	other.Audit.Decided += 10
	s.putAs(t, 1, "Audit", "", *other)
	expect("two more", s.write(t), 1, 15)
	now = now.Add(time.Minute)
	if got := s.write(t); got != nil {
		t.Errorf("got %+v, though nothing was counted", got)
	}
	s.ask(t, 1)
	s.putAs(t, 2, "Audit", `request.verb == "get"`, *s.get(pKey).status)
	expect("changed", s.write(t), 2, 0)
	s.ask(t, 1)
	expect("after the change", s.write(t), 2, 1)
	s.putAs(t, 3, "Enforce", `request.verb == "get"`, *s.get(pKey).status)
	if !s.ask(t, 1) {
		t.Error("not denied, though the policy is enforced")
	}
	expect("enforced", s.write(t), 0, -1)
	s.putAs(t, 4, "Audit", `request.verb == "get"`, *s.get(pKey).status)
	if s.ask(t, 1) {
		t.Error("denied in Audit")
	}
	now = now.Add(time.Minute)
	expect("audited again", s.write(t), 4, 1)
	if key, later := s.get(pKey), s.auditPace.Wait(pKey, anyGeneration); key == nil || later <= 0 {
		t.Errorf("the pace is %s", later)
	}
}

// TestAuditStatusIsNotLost checks that counts are kept if the status cannot be written, and that they are in the next write once.
func TestAuditStatusIsNotLost(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.putAs(t, 1, "Audit", "", policyv1alpha1.AuthorizationPolicyStatus{})
	s.ask(t, 4)
	conflict := apierrors.NewConflict(policyv1alpha1.Resource("clusterauthorizationpolicies"), "p", errors.New("changed"))
	s.config.Client.(*fake.Clientset).PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	for range 3 {
		if err := s.writeStatus(t.Context(), pKey); !apierrors.IsConflict(err) {
			t.Fatalf("got %v", err)
		}
	}
	s.config.Client.(*fake.Clientset).ClearActions()
	s.accepting()
	if got := s.write(t); got == nil || got.Decided != 4 {
		t.Errorf("got %+v, want 4", got)
	}
	if got := s.results[pKey].counts.Take(); !got.IsZero() {
		t.Errorf("%+v would be written again", got)
	}
}

// TestLastGoodOfAnotherEnforcement checks that a policy that is to be enforced and does not compile denies, though its last good
// compilation had the enforcement Audit, and that a policy in Audit denies nothing, though its last good compilation was enforced.
func TestLastGoodOfAnotherEnforcement(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		before, after policyv1alpha1.PolicyEnforcement
		want          bool
	}{{"Audit", "Enforce", true}, {"Audit", "", true}, {"Enforce", "Audit", false}, {"Audit", "Audit", false}, {"Enforce", "Enforce", false}} {
		s := newStepper(t)
		s.putAs(t, 1, tc.before, `request.verb == "x"`, policyv1alpha1.AuthorizationPolicyStatus{})
		s.putAs(t, 2, tc.after, `request.`, policyv1alpha1.AuthorizationPolicyStatus{})
		if got := s.ask(t, 1); got != tc.want {
			t.Errorf("from %s to %q: got denied=%t, want %t", tc.before, tc.after, got, tc.want)
		}
	}
}

// TestPendingAudit checks that a policy that is still to be compiled replaces an enforced one of the same name that was deleted.
func TestPendingAudit(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.putAs(t, 1, "Enforce", "", policyv1alpha1.AuthorizationPolicyStatus{})
	if !s.ask(t, 1) {
		t.Error("not denied")
	}
	changes := map[engine.Key]*engine.Policy{}
	spec := s.get(pKey).spec.DeepCopy()
	spec.Enforcement = "Audit"
	s.postpone(waiting{key: pKey, content: &content{meta: &metav1.ObjectMeta{Name: "p", UID: "another"}, spec: spec}}, changes)
	if p, ok := changes[pKey]; !ok || p != nil {
		t.Errorf("got %v, %t: want the old policy to be removed", p, ok)
	}
}
