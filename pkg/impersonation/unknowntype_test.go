/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// conditioned answers everything with one set of conditions.
type conditioned struct {
	conditions []authorization.Condition
	mode       authorization.FailureMode
}

func (c conditioned) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (c conditioned) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorization.ToUpstream(authorization.Chained(authorization.Set{
		AuthorizerName: "first", FailureMode: c.mode, Decision: authorization.Conditions(c.conditions...),
	}))
}

func (c conditioned) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

// TestUnknownTypeBeforeAllow: with all data, a set with a condition of an unknown type fails
// and denies. The mode conditional must not drop it because an Allow follows.
func TestUnknownTypeBeforeAllow(t *testing.T) {
	t.Parallel()
	shared := compilerOf(t)
	partial, err := partial.NewConditionCompiler(shared)
	if err != nil {
		t.Fatal(err)
	}
	opaque := authorization.Condition{ID: "example.com/opaque", Type: "example.com/opaque", Text: "?"}
	held := authorization.Condition{ID: "example.com/held", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "true"}
	onObject := authorization.Condition{ID: "example.com/object", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "object.x == 1"}
	with := func(c authorization.Condition, effect authorization.Effect) authorization.Condition {
		c.Effect = effect
		return c
	}
	for _, tc := range []struct {
		name       string
		conditions []authorization.Condition
		mode       authorization.FailureMode
		want       bool
	}{
		{"an unknown Allow", []authorization.Condition{with(opaque, authorization.EffectAllow)}, "", false},
		{"an unknown Allow, failing to NoOpinion", []authorization.Condition{with(opaque, authorization.EffectAllow)}, authorization.FailureModeNoOpinion, true},
		{"an unknown NoOpinion", []authorization.Condition{with(opaque, authorization.EffectNoOpinion), held}, "", false},
		{"an unknown Deny", []authorization.Condition{with(opaque, authorization.EffectDeny)}, "", false},
		{"an Allow on the object", []authorization.Condition{onObject}, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain, err := authorization.NewChain(
				authorization.Member{Name: "first", Decider: authorization.DeciderOf(conditioned{tc.conditions, tc.mode})},
				authorization.Member{Name: "second", Decider: authorization.DeciderOf(unconditional{func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					if a.GetVerb() == impersonation.VerbConditional {
						return authorizer.DecisionAllow, "", nil
					}
					return authorizer.DecisionNoOpinion, "", nil
				}})},
			)
			if err != nil {
				t.Fatal(err)
			}
			reviewer, err := impersonation.NewReviewer(chain, false, &impersonation.Conditional{Chain: chain, Denials: chain, Compiler: shared, Partial: partial})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := reviewer.Review(t.Context(), getPod, &user.DefaultInfo{Name: "bob"})
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.User != nil; got != tc.want {
				t.Errorf("impersonated: %v (%s), want %v", got, answer.Reason, tc.want)
			}
			if !tc.want && !strings.Contains(answer.Reason, "cannot") {
				t.Errorf("refused without a reason: %q", answer.Reason)
			}
			if len(answer.Residual) > 0 {
				t.Errorf("a residual %q, want none", textsOf(answer.Residual))
			}
		})
	}
}
