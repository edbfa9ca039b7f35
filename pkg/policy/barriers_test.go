/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	stdcmp "cmp"
	"testing"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
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
