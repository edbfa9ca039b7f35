/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	stdcmp "cmp"
	"testing"

	"github.com/google/go-cmp/cmp"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

func newBarrierCompiler(t *testing.T) *barrier.Compiler {
	t.Helper()
	policies := compilers.Policies(t)
	barriers, err := barrier.NewCompiler(barrier.Config{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	return barriers
}

// TestBarrierWarnings verifies what an author hears about the barrier of a policy, and what a dry run adds.
func TestBarrierWarnings(t *testing.T) {
	barriers := newBarrierCompiler(t)
	const (
		none    = "spec.rules[0] (get secrets): no ValidatingAdmissionPolicy enforces the policy: admission sees create, update, patch, delete and deletecollection, and connections with get and create"
		update  = "spec.rules[0] (patch, update secrets): no ValidatingAdmissionPolicy enforces the policy: an update or a patch can also create the object, and the condition is not false then: name the verb create, too, or begin the condition with operation == \"UPDATE\" && or oldObject != null &&"
		enforce = "spec.rules[0] (delete secrets): kube-apiserver will enforce the policy with the ValidatingAdmissionPolicy p.cluster.policy.proviso.dev"
		warn    = "spec.rules[0] (delete secrets): kube-apiserver will warn of what the policy would deny, with the ValidatingAdmissionPolicy p.cluster.policy.proviso.dev"
	)
	for _, test := range []struct {
		name        string
		isOff       bool
		isDryRun    bool
		effect      policyapi.PolicyEffect
		enforcement policyapi.PolicyEnforcement
		condition   string
		want        []string
	}{
		{name: "a write", effect: policyapi.PolicyEffectDeny, want: []string{update, none}},
		{name: "a dry run", isDryRun: true, effect: policyapi.PolicyEffectDeny, want: []string{update, none, enforce}},
		{name: "a dry run in Audit", isDryRun: true, effect: policyapi.PolicyEffectDeny, enforcement: policyapi.PolicyEnforcementAudit, want: []string{update, none, warn}},
		{name: "another effect", isDryRun: true, effect: policyapi.PolicyEffectAllow},
		{name: "no barriers", isDryRun: true, isOff: true, effect: policyapi.PolicyEffectDeny},
		{name: "a condition that does not compile", isDryRun: true, effect: policyapi.PolicyEffectDeny, condition: "object."},
	} {
		t.Run(test.name, func(t *testing.T) {
			checker := newChecker(t)
			if !test.isOff {
				checker = checker.WithBarriers(barriers, nil)
			}
			ctx := t.Context()
			if test.isDryRun {
				ctx = policy.WithDryRun(ctx)
			}
			spec := &policyapi.AuthorizationPolicySpec{
				Effect: test.effect, Enforcement: test.enforcement, Condition: test.condition,
				Rules: []policyapi.PolicyRule{{Verbs: []string{"delete", "get", "update", "patch"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
			}
			if diff := cmp.Diff(test.want, checker.Warn(ctx, engine.Key{Name: "p"}, spec)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckChange refuses changes after which barriers would work too long, except those after which they work less.
func TestCheckChange(t *testing.T) {
	t.Parallel()
	barriers := newBarrierCompiler(t)
	const cheap, dear, dearer = `oldObject.a == "b"`, `oldObject.a == oldObject.b`, `oldObject.a == oldObject.b || oldObject.a == oldObject.c`
	isOver := func(b *barrier.Barrier) string {
		if b.Key.Namespace == "full" {
			return "no room"
		}
		return ""
	}
	for _, test := range []struct {
		name, namespace   string
		effect            policyapi.PolicyEffect
		condition, before string
		isOff, isRefused  bool
	}{
		{name: "with room", namespace: "a", condition: dear},
		{name: "a creation", namespace: "full", condition: cheap, isRefused: true},
		{name: "more work", namespace: "full", condition: dearer, before: dear, isRefused: true},
		{name: "as much work", namespace: "full", condition: `oldObject.b == oldObject.a`, before: dear},
		{name: "less work", namespace: "full", condition: cheap, before: dear},
		{name: "a policy without a barrier before", namespace: "full", condition: cheap, before: `request.path == "/a"`, isRefused: true},
		{name: "no barrier", namespace: "full", condition: `request.path == "/a"`},
		{name: "another effect", namespace: "full", effect: policyapi.PolicyEffectAllow, condition: dear},
		{name: "no barriers", namespace: "full", condition: dear, isOff: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checker := newChecker(t)
			if !test.isOff {
				checker = checker.WithBarriers(barriers, isOver)
			}
			spec := func(condition string) *policyapi.AuthorizationPolicySpec {
				if condition == "" {
					return nil
				}
				return &policyapi.AuthorizationPolicySpec{
					Effect: stdcmp.Or(test.effect, policyapi.PolicyEffectDeny), Condition: condition,
					Rules: []policyapi.PolicyRule{{Verbs: []string{"delete"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
				}
			}
			errs := checker.CheckChange(engine.Key{Namespace: test.namespace, Name: "p"}, spec(test.condition), spec(test.before))
			if isRefused := len(errs) > 0; isRefused != test.isRefused || isRefused && (errs[0].Field != "spec.condition" || errs[0].Detail != "no room") {
				t.Errorf("got %v, want it to be refused: %v", errs, test.isRefused)
			}
		})
	}
}
