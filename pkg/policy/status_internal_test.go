/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// written stores a status that the controller has written, as the watch would, and returns how many were written.
func (s *stepper) written(t *testing.T, key engine.Key) (status *policyv1alpha1.AuthorizationPolicyStatus, n int) {
	t.Helper()
	client := s.config.Client.(*fake.Clientset)
	for _, action := range client.Actions() {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok || action.GetSubresource() != "status" {
			t.Errorf("got the action %v, want updates of the status only", action)
			continue
		}
		n++
		switch p := update.GetObject().(type) {
		case *policyv1alpha1.ClusterAuthorizationPolicy:
			status = &p.Status
			s.replace(t, 0, p)
		case *policyv1alpha1.AuthorizationPolicy:
			if p.Namespace != key.Namespace {
				t.Errorf("got an update in namespace %q, want %q", p.Namespace, key.Namespace)
			}
			status = &p.Status
			s.replace(t, 1, p)
		}
	}
	client.ClearActions()
	return status, n
}

func (s *stepper) replace(t *testing.T, informer int, p metav1.Object) {
	t.Helper()
	if err := s.informers[informer].GetIndexer().Update(p); err != nil {
		t.Fatal(err)
	}
}

// accepting makes the client accept every update.
func (s *stepper) accepting() {
	s.config.Client.(*fake.Clientset).PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.UpdateAction).GetObject(), nil
	})
}

// TestStatusIsWrittenOnce writes the status of policies of either scope. The second time nothing has changed, so that
// nothing is written: every replica writes the same status, and a write that changes nothing would wake the others.
func TestStatusIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		key         engine.Key
		effect      policyv1alpha1.PolicyEffect
		condition   string
		wantReady   metav1.ConditionStatus
		wantMessage string
	}{
		{name: "of the cluster", key: engine.Key{Name: "p"}, effect: policyv1alpha1.PolicyEffectAllow, wantReady: metav1.ConditionTrue, wantMessage: "the policy takes effect"},
		{name: "of a namespace", key: engine.Key{Namespace: "n", Name: "p"}, effect: policyv1alpha1.PolicyEffectDeny, condition: `request.name == "s"`, wantReady: metav1.ConditionTrue, wantMessage: "the policy takes effect"},
		{name: "that denies and does not compile", key: engine.Key{Name: "p"}, effect: policyv1alpha1.PolicyEffectDeny, condition: `request.`, wantReady: metav1.ConditionFalse,
			wantMessage: "The last successful compilation still takes effect, if there is one; otherwise the policy denies what its rules match"},
		{name: "that allows and does not compile", key: engine.Key{Namespace: "n", Name: "p"}, effect: policyv1alpha1.PolicyEffectAllow, condition: `now()`, wantReady: metav1.ConditionFalse,
			wantMessage: "otherwise the policy grants nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStepper(t)
			s.accepting()
			s.put(t, tc.key, "u", tc.effect, tc.condition)
			s.publish(t.Context())
			if err := s.writeStatus(t.Context(), tc.key); err != nil {
				t.Fatal(err)
			}
			status, n := s.written(t, tc.key)
			if n != 1 {
				t.Fatalf("got %d updates, want one", n)
			}
			ready, effective := meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyReady), meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyEffective)
			if ready == nil || ready.Status != tc.wantReady || !strings.Contains(ready.Message, tc.wantMessage) {
				t.Errorf("got %+v, want %s with %q", ready, tc.wantReady, tc.wantMessage)
			}
			if effective == nil || tc.wantReady == metav1.ConditionFalse && effective.Message != "see the condition Ready" {
				t.Errorf("got %+v, want it to lead to the condition Ready", effective)
			}
			if tc.wantReady == metav1.ConditionFalse && (status.Enforcement != nil || status.TypeChecking != nil) {
				t.Errorf("got %+v and %+v for a policy that does not compile", status.Enforcement, status.TypeChecking)
			}
			if err := s.writeStatus(t.Context(), tc.key); err != nil {
				t.Fatal(err)
			}
			if status, n := s.written(t, tc.key); n > 0 {
				t.Errorf("got another update, to %+v", status)
			}
		})
	}
}

// TestStatusOfAnotherPolicy checks that no status is written for a policy that has been deleted, that has not been compiled, or
// that has been deleted and created again: then the result of the compilation is about another object with the same name.
func TestStatusOfAnotherPolicy(t *testing.T) {
	t.Parallel()
	key := engine.Key{Name: "p"}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, s *stepper)
		want   int
	}{
		{name: "as compiled", change: func(*testing.T, *stepper) {}, want: 1},
		{name: "gone", change: func(t *testing.T, s *stepper) {
			if err := s.informers[0].GetIndexer().Delete(&policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "replaced by a namesake", change: func(t *testing.T, s *stepper) { s.put(t, key, "other", policyv1alpha1.PolicyEffectDeny, "") }},
		{name: "changed since", change: func(t *testing.T, s *stepper) {
			p := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID("u"), Generation: 7}}
			p.Spec.Effect = policyv1alpha1.PolicyEffectDeny
			s.replace(t, 0, p)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStepper(t)
			s.accepting()
			s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, "")
			s.publish(t.Context())
			tc.change(t, s)
			if err := s.writeStatus(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if _, n := s.written(t, key); n != tc.want {
				t.Errorf("got %d updates, want %d", n, tc.want)
			}
		})
	}
	s := newStepper(t)
	if err := s.writeStatus(t.Context(), engine.Key{Name: "unknown"}); err != nil {
		t.Errorf("a policy that never was: got %v", err)
	}
}

// TestStatusThatCannotBeWritten returns the error, so that the key is tried again. The policy takes effect all the same.
func TestStatusThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	conflict := apierrors.NewConflict(policyv1alpha1.Resource("authorizationpolicies"), "p", errors.New("changed"))
	s.config.Client.(*fake.Clientset).PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	key := engine.Key{Namespace: "n", Name: "p"}
	s.put(t, key, "u", policyv1alpha1.PolicyEffectDeny, "")
	s.publish(t.Context())
	if err := s.writeStatus(t.Context(), key); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want the conflict", err)
	}
	if got := s.decide(t, "n"); got != "deny" {
		t.Errorf("got %s, want deny: what is decided does not depend on the status", got)
	}
}

// TestStatusFollowsPlaces writes the status again when other components evaluate other conditions than before, and only then. Two
// replicas that do not agree write it at most once in an interval each.
func TestStatusFollowsPlaces(t *testing.T) {
	t.Parallel()
	places := func(isProbed bool, lacking ...string) *enforcementstatus.Places {
		return enforcementstatus.NewPlaces(enforcementstatus.Facts{
			InnerDoor: &enforcementstatus.InnerDoor{Probed: isProbed, Lacking: lacking, Writes: []enforcementstatus.Writes{{Resource: schema.GroupResource{Resource: "secrets"}, Verbs: []string{"get"}}}},
			Versions:  map[string]map[string]bool{"": {"v1": true}},
		})
	}
	s := newStepper(t)
	s.accepting()
	s.pace.Burst = 3
	now, current := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), places(false)
	s.pace.Now = func() time.Time { return now }
	s.config.Server = enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return current }}
	key, unconditional := engine.Key{Name: "p"}, engine.Key{Name: "unconditional"}
	s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, `object.metadata.name == "a"`)
	s.put(t, unconditional, "v", policyv1alpha1.PolicyEffectAllow, "")
	s.publish(t.Context())
	write := func(when, want string, wantWrites int) {
		t.Helper()
		if err := s.writeStatus(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		status, n := s.written(t, key)
		if n != wantWrites {
			t.Errorf("%s: %d writes, want %d", when, n, wantWrites)
		}
		if n > 0 && (string(status.Enforcement[0].Result) != want || meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyEffective).Reason != want) {
			t.Errorf("%s: got %+v, want %s", when, status, want)
		}
	}
	write("a new policy", "InnerDoorUnknown", 1)
	if err := s.writeStatus(t.Context(), unconditional); err != nil {
		t.Fatal(err)
	}
	s.written(t, unconditional)
	current = places(true)
	write("probed", "Enforced", 1)
	write("probed, once more", "", 0)
	current = places(true, "https://a")
	write("a server lacks it", "InnerDoorUnknown", 1)
	current = places(true)
	write("probed again", "Enforced", 1)
	now, current = now.Add(controller.PaceInterval-time.Millisecond), places(true, "https://a")
	write("a server lacks it again, within the interval", "", 0)
	now = now.Add(time.Millisecond)
	write("a server lacks it again", "InnerDoorUnknown", 1)

	other := s.get(key) // as another replica writes it
	other.status.Enforcement[0].Result = policyv1alpha1.ResultEnforced
	write("another replica does not agree", "", 0)
	now = now.Add(controller.PaceInterval)
	write("another replica does not agree, later", "InnerDoorUnknown", 1)
	other = s.get(key)
	other.status.Enforcement[0].Result = policyv1alpha1.ResultEnforced
	write("another replica does not agree once more", "", 0)
	other.meta.Generation++
	s.publish(t.Context())
	write("the specification is new", "InnerDoorUnknown", 1)
	other = s.get(key)
	other.status.Enforcement[0].Result = policyv1alpha1.ResultEnforced
	write("another replica does not agree about the new one", "InnerDoorUnknown", 1)
	now, current = now.Add(controller.PaceInterval), places(false)
	write("not probed any more", "", 0)

	if got := s.outdated(); len(got) != 1 || got[0] != key {
		t.Errorf("Recheck enqueues %v, want the one whose status differs", got)
	}
}

// TestRecheckBeyondTheBound finds a policy whose condition Effective changes although the entries that the status has room for do not.
func TestRecheckBeyondTheBound(t *testing.T) {
	t.Parallel()
	places := func(isLocal bool) *enforcementstatus.Places {
		return enforcementstatus.NewPlaces(enforcementstatus.Facts{
			InnerDoor: &enforcementstatus.InnerDoor{Probed: true, Writes: []enforcementstatus.Writes{
				{Resource: schema.GroupResource{Resource: "secrets"}, Verbs: []string{"update"}},
				{Resource: schema.GroupResource{Resource: "secrets"}, Subresource: "status", Verbs: []string{"update"}},
				{Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Verbs: []string{"update"}},
			}},
			Versions: map[string]map[string]bool{"": {"v1": true}, "apps": {"v1": isLocal}},
		})
	}
	s := newStepper(t)
	s.accepting()
	current := places(true)
	s.config.Server = enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return current }, Coverage: func(authorizer.Attributes, []string) (enforced, folded sets.Set[string]) {
		return sets.New("update"), nil
	}}
	key := engine.Key{Name: "p"}
	s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, `object.metadata.name == "a"`)
	p := s.get(key)
	rule := policyv1alpha1.PolicyRule{APIGroups: []string{"", demo.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}, Verbs: []string{"update"}}
	p.spec.Rules = slices.Repeat([]policyv1alpha1.PolicyRule{rule}, policy.MaxRuleEnforcements/2)
	rule.APIGroups, rule.Resources = []string{"apps"}, []string{"deployments"}
	p.spec.Rules = append(p.spec.Rules, rule)
	s.publish(t.Context())
	for _, want := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		if got := s.outdated(); len(got) != 1 {
			t.Fatalf("Recheck enqueues %v, want the policy, whose condition Effective becomes %s", got, want)
		}
		if err := s.writeStatus(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		status, _ := s.written(t, key)
		if effective := meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyEffective); effective.Status != want || len(status.Enforcement) != policy.MaxRuleEnforcements {
			t.Errorf("got %+v with %d entries, want %s", effective, len(status.Enforcement), want)
		}
		if got := s.outdated(); len(got) > 0 {
			t.Errorf("Recheck enqueues %v again", got)
		}
		current = places(false)
	}
}

// TestClosedAnswer says what a policy that has never compiled does: in Audit, nothing.
func TestClosedAnswer(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]policyv1alpha1.AuthorizationPolicySpec{
		"grants nothing":                {Effect: policyv1alpha1.PolicyEffectAllow},
		"denies what its rules match":   {Effect: policyv1alpha1.PolicyEffectNoOpinion, Enforcement: policyv1alpha1.PolicyEnforcementEnforce},
		"denies nothing, because its e": {Effect: policyv1alpha1.PolicyEffectDeny, Enforcement: policyv1alpha1.PolicyEnforcementAudit},
	} {
		if got := closedAnswer(&spec); !strings.Contains(got, want) {
			t.Errorf("%s %s: got %q, want %q", spec.Effect, spec.Enforcement, got, want)
		}
	}
}
