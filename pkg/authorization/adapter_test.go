/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// decides is a Decider that k8s.io/apiserver does not know.
type decides struct{ decision authorization.Decision }

func (d decides) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	return d.decision
}

// inProcess is a condition with a known outcome.
func inProcess(effect authorization.Effect, outcome authorization.Outcome) authorization.Condition {
	return authorization.Condition{
		ID: "example.com/c", Effect: effect, Type: authorization.ConditionTypeCEL, Text: "object.x",
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome { return outcome },
	}
}

// TestAuthorizerOf asks the adapter what callers without conditions, and with them, are told.
func TestAuthorizerOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		folded   authorizer.Decision
		// evaluated is the result of EvaluateConditions.
		evaluated authorizer.Decision
	}{
		{name: "Allow", decision: authorization.Allow("", nil), folded: authorizer.DecisionAllow, evaluated: authorizer.DecisionAllow},
		{name: "Deny", decision: authorization.Deny("", nil), folded: authorizer.DecisionDeny, evaluated: authorizer.DecisionDeny},
		{name: "NoOpinion", decision: authorization.NoOpinion("", nil), folded: authorizer.DecisionNoOpinion, evaluated: authorizer.DecisionNoOpinion},
		{name: "a true Allow condition", decision: authorization.Conditions(inProcess(authorization.EffectAllow, authorization.True())), folded: authorizer.DecisionNoOpinion, evaluated: authorizer.DecisionAllow},
		{name: "a false Deny condition", decision: authorization.Conditions(inProcess(authorization.EffectDeny, authorization.False())), folded: authorizer.DecisionDeny, evaluated: authorizer.DecisionNoOpinion},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := authorization.AuthorizerOf(decides{tc.decision})
			if got, _, _ := a.Authorize(t.Context(), nil); got != tc.folded {
				t.Errorf("without conditions: got %v, want %v", got, tc.folded)
			}
			got, _, err := a.EvaluateConditions(t.Context(), a.ConditionsAwareAuthorize(t.Context(), nil), nil)
			if got != tc.evaluated || err != nil {
				t.Errorf("evaluated: got %v, %v, want %v", got, err, tc.evaluated)
			}
		})
	}
}

// TestDeciderOf asks that authorizers of k8s.io/apiserver keep what else they are, and that nothing is
// wrapped twice.
func TestDeciderOf(t *testing.T) {
	t.Parallel()
	if d := authorization.DeciderOf(nil); d != nil {
		t.Errorf("nil: got %v", d)
	}
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	if d := authorization.DeciderOf(chain); d != authorization.Decider(chain) {
		t.Errorf("a Decider: got %v, want the same", d)
	}
	if d := authorization.DeciderOf(authorization.AuthorizerOf(chain)); d != authorization.Decider(chain) {
		t.Errorf("the authorizer of a Decider: got %v, want the Decider", d)
	}
	moves := &moving{}
	if pinned := authorization.Pin(t.Context(), authorization.DeciderOf(moves)); pinned == t.Context() {
		t.Error("an authorizer that is a Pinner was not pinned")
	}
}

// TestUnconditional asks that a value that is no decision denies.
func TestUnconditional(t *testing.T) {
	t.Parallel()
	if d := authorization.Unconditional(authorizer.Decision(99), "r", nil); !d.IsDeny() {
		t.Errorf("an unknown value: got %+v, want Deny", d)
	}
	if d := authorization.Unconditional(authorizer.DecisionNoOpinion, "r", nil); !d.IsNoOpinion() || d.Reason() != "r" {
		t.Errorf("NoOpinion: got %+v", d)
	}
}
