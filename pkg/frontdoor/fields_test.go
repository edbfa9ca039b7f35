/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// kube stands for kube-apiserver and its RBAC, by which alice has the verb granular unless
// it says otherwise. As kube-apiserver does, it asks the front door first.
type kube struct {
	door    *frontdoor.Decider
	answer  authorizer.Decision
	err     error
	blocks  bool
	asked   atomic.Int32
	strange atomic.Int32 // checks that are not about alice's verb granular on the machine
}

func (k *kube) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	k.asked.Add(1)
	if a.GetVerb() != "granular" || a.GetUser().GetName() != "alice" || a.GetName() != "web" || a.GetNamespace() != "demo" || a.GetResource() != "virtualmachines" || a.GetAPIVersion() != "v1alpha1" {
		k.strange.Add(1)
	}
	if k.blocks {
		<-ctx.Done()
		return authorizer.DecisionDeny, "", ctx.Err()
	}
	if k.err != nil {
		return k.answer, "", k.err
	}
	// The client of kube-apiserver adds the marker.
	check := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: a.GetUser().GetName(), Extra: map[string][]string{authorization.DelegationMarker: {"true"}}}, Verb: a.GetVerb(),
		APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(), Resource: a.GetResource(), Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
	}
	decision, err := k.door.Decide(ctx, check)
	if err != nil || !decision.IsNoOpinion() {
		return authorizer.DecisionDeny, "", err
	}
	return k.answer, "", nil
}

// enforcesWrites says that every write of machines is enforced.
func enforcesWrites(a authorizer.Attributes) bool {
	if a.GetVerb() == "delete" {
		return true
	}
	_, ok := granular.GranularCheck(a)
	return ok && a.GetAPIGroup() == "demo.proviso.dev" && a.GetAPIVersion() == "v1alpha1" && a.GetResource() == "virtualmachines"
}

func newFieldsDoor(t *testing.T, policies map[string]policy, k *kube) *frontdoor.Decider {
	t.Helper()
	source := publish(t, policies)
	door, err := frontdoor.New(frontdoor.Config{
		Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, Places: places{enforces: enforcesWrites}.table(),
		Fields: &frontdoor.Fields{Check: granular.GranularCheck, KubeAPIServer: k},
	})
	if err != nil {
		t.Fatal(err)
	}
	k.door = door
	return door
}

func onVerb(effect policyv1alpha1.PolicyEffect, condition, verb string) policy {
	return policy{effect: effect, condition: condition, rule: policyv1alpha1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
}

// TestFields asks who passes because of permission on fields, and how often kube-apiserver
// is asked for that.
func TestFields(t *testing.T) {
	t.Parallel()
	verb := func(verb string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) { a.Verb = verb }
	}
	yes := &kube{answer: authorizer.DecisionAllow}
	for _, tc := range []struct {
		name      string
		policies  map[string]policy
		kube      *kube
		change    func(*authorizer.AttributesRecord)
		want      string
		wantAsked int32
	}{
		{"a patch", nil, yes, nil, "Allow", 1},
		{"an update", nil, yes, verb("update"), "Allow", 1},
		{"a creation", nil, yes, verb("create"), "Allow", 1},
		{"kube-apiserver has no opinion", nil, &kube{answer: authorizer.DecisionNoOpinion}, nil, "NoOpinion", 1},
		{"kube-apiserver denies", nil, &kube{answer: authorizer.DecisionDeny}, nil, "NoOpinion", 1},
		{"an error", nil, &kube{answer: authorizer.DecisionDeny, err: errors.New("x")}, nil, "NoOpinion", 1},
		{"an error that says Allow", nil, &kube{answer: authorizer.DecisionAllow, err: errors.New("x")}, nil, "NoOpinion", 1},
		{"no answer", nil, &kube{blocks: true}, nil, "NoOpinion", 1},

		{"a deletion, which changes no field", nil, yes, verb("delete"), "NoOpinion", 0},
		{"a read", nil, yes, verb("get"), "NoOpinion", 0},
		{"the verb itself", nil, yes, verb("granular"), "NoOpinion", 0},
		{"every verb", nil, yes, verb("*"), "NoOpinion", 0},
		{"another version, which nobody enforces", nil, yes, func(a *authorizer.AttributesRecord) { a.APIVersion = "v1" }, "NoOpinion", 0},
		{"every version", nil, yes, func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }, "NoOpinion", 0},
		{"elsewhere", nil, yes, configMaps("update"), "NoOpinion", 0},
		{"a path", nil, yes, metricsPath, "NoOpinion", 0},
		{"impersonation", nil, yes, func(a *authorizer.AttributesRecord) {
			a.Verb, a.APIGroup, a.APIVersion, a.Resource = "impersonate", "", "v1", "users"
		}, "NoOpinion", 0},

		{"when Proviso asks", nil, yes, marked(authorization.DelegationMarker), "NoOpinion", 0},
		{"when Proviso asks for the verb itself", nil, yes, both(verb("granular"), marked(authorization.DelegationMarker)), "NoOpinion", 0},
		{"with a marker in another case", nil, yes, marked("Authorization.Proviso.Dev/Delegated"), "NoOpinion", 0},
		{"with a marker, by a policy", map[string]policy{"p": onVerb(allow, "", "granular")}, yes, marked(authorization.DelegationMarker), "NoOpinion", 0},

		{"a policy allows", always, yes, nil, "Allow", 0},
		{"a policy allows on conditions", onCondition, yes, nil, "Allow", 0},
		{"a policy denies", never, yes, nil, "Deny", 0},
		{"a policy denies on conditions, which Proviso evaluates", map[string]policy{"p": onVerb(deny, "object.a == 1", "patch")}, yes, nil, "Allow", 1},
		{"a policy holds back policies", heldBack, yes, nil, "Allow", 1},

		{"a policy gives the verb", map[string]policy{"p": onVerb(allow, "", "granular")}, &kube{answer: authorizer.DecisionNoOpinion}, nil, "Allow", 0},
		{"a policy gives the verb on conditions, which nobody evaluates", map[string]policy{"p": onVerb(allow, "object.a == 1", "granular")}, &kube{answer: authorizer.DecisionNoOpinion}, nil, "NoOpinion", 1},
		{"a policy denies the verb", map[string]policy{"p": onVerb(deny, "", "granular")}, yes, nil, "NoOpinion", 0},
		{"a policy denies the verb on conditions, which nobody evaluates", map[string]policy{"p": onVerb(deny, "object.a == 1", "granular")}, yes, nil, "NoOpinion", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := &kube{answer: tc.kube.answer, err: tc.kube.err, blocks: tc.kube.blocks}
			attributes := asAlice(both(verb("patch"), func(a *authorizer.AttributesRecord) {
				a.Name = "web"
				if tc.change != nil {
					tc.change(a)
				}
			}))
			got, err := newFieldsDoor(t, tc.policies, k).Decide(t.Context(), attributes)
			if err != nil {
				t.Fatal(err)
			}
			if show(got) != tc.want || k.asked.Load() != tc.wantAsked || k.strange.Load() != 0 {
				t.Errorf("got %s (%s), and %d checks of which %d are strange; want %s and %d", show(got), got.Reason(), k.asked.Load(), k.strange.Load(), tc.want, tc.wantAsked)
			}
		})
	}
}

// TestNoFields leaves the gate off.
func TestNoFields(t *testing.T) {
	t.Parallel()
	got, err := newDoor(t, publish(t, nil), enforcesWrites).Decide(t.Context(), asAlice(nil))
	if err != nil || !got.IsNoOpinion() {
		t.Errorf("got %s, %v", show(got), err)
	}
	for _, fields := range []*frontdoor.Fields{{}, {Check: granular.GranularCheck}, {KubeAPIServer: &kube{}}} {
		source := &engine.Source{}
		if _, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, Places: places{enforces: enforcesWrites}.table(), Fields: fields}); err == nil {
			t.Errorf("%+v: a front door was made", fields)
		}
	}
}
