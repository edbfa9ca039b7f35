/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// TestDecideAndSteps decides requests in both phases, and compares the decision with the opinions of the authorizers.
func TestDecideAndSteps(t *testing.T) {
	t.Parallel()
	compilers, err := simulation.NewCompilers()
	if err != nil {
		t.Fatal(err)
	}
	rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"things"}}}
	alice := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}}
	source, err := compilers.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{
		{Name: "allow"}: {Effect: policyv1alpha1.PolicyEffectAllow, Subjects: alice, Rules: rules, Condition: `object.class == "dev" && (object.size == 1 || oldObject.size == 1)`},
		{Name: "deny"}:  {Effect: policyv1alpha1.PolicyEffectDeny, Rules: rules, Condition: `object.class == "prod"`},
	})
	if err != nil {
		t.Fatal(err)
	}
	const (
		dev    = `{"apiVersion": "v1", "kind": "Thing", "class": "dev", "size": 1}`
		large  = `{"apiVersion": "v1", "kind": "Thing", "class": "dev", "size": 2}`
		prod   = `{"apiVersion": "v1", "kind": "Thing", "class": "prod", "size": 1}`
		others = `{"apiVersion": "v1", "kind": "Thing", "class": "other", "size": 1}`
	)
	permissions := []rbacv1.PolicyRule{{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"things"}}}
	for _, tc := range []struct {
		name             string
		user             string
		object           string
		permissions      []rbacv1.PolicyRule
		absent           []cel.Variable
		decision, result answer.Verdict
	}{
		{name: "without an object", user: "alice", decision: answer.YesIf},
		{name: "an object that is allowed", user: "alice", object: dev, decision: answer.YesIf, result: answer.Yes},
		{name: "an object that is not allowed", user: "alice", object: others, decision: answer.YesIf, result: answer.No},
		{name: "an object that is denied", user: "alice", object: prod, decision: answer.YesIf, result: answer.No},
		{name: "another user", user: "bob", object: dev, decision: answer.No, result: answer.No},
		{name: "a permission", user: "bob", object: dev, permissions: permissions, decision: answer.YesIf, result: answer.Yes},
		{name: "a permission does not beat a Deny", user: "bob", object: prod, permissions: permissions, decision: answer.YesIf, result: answer.No},
		{name: "a stored object that is absent, and decides", user: "alice", object: large, absent: []cel.Variable{cel.OldObject}, decision: answer.YesIf},
		{name: "a stored object that is absent, and does not decide", user: "alice", object: dev, absent: []cel.Variable{cel.OldObject}, decision: answer.YesIf, result: answer.Yes},
		{name: "a stored object that is absent, and a Deny", user: "alice", object: prod, absent: []cel.Variable{cel.OldObject}, decision: answer.YesIf, result: answer.No},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &simulation.Request{Permissions: tc.permissions, Absent: tc.absent, Spec: &authorizationv1alpha1.SubjectAccessReviewSpec{
				User: tc.user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "update", Version: "v1", Resource: "things", Name: "a"},
			}}
			if tc.object != "" {
				r.Data = data(tc.object)
			}
			decisions, err := compilers.Decide(t.Context(), source, r)
			if err != nil || decisions.Decision != tc.decision || decisions.Outcome != tc.result {
				t.Errorf("got %+v, %v, want %s and %q", decisions, err, tc.decision, tc.result)
			}
			steps, err := compilers.Steps(t.Context(), source, r)
			if err != nil || len(steps) != 5 {
				t.Fatalf("got %+v, %v", steps, err)
			}
			got := answer.No
			for _, step := range steps {
				if !step.Decision.IsNoOpinion() {
					if step.Decision.IsAllow() {
						got = answer.Yes
					}
					break
				}
			}
			if tc.result != "" && got != tc.result {
				t.Errorf("the authorizers come to %s, want %s", got, tc.result)
			}
		})
	}
}
