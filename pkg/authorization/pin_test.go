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
	"github.com/proviso-authz/proviso/pkg/freshness"
)

// sourced returns a condition that only it can evaluate. It evaluates the condition by its source, and then
// changes the source.
type sourced struct {
	source *freshness.Source[int]
	seen   []int
}

func (s *sourced) Pin(ctx context.Context) context.Context { return s.source.Pin(ctx) }

func (s *sourced) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	return authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))
}

func (s *sourced) EvaluateConditions(ctx context.Context, _ authorizer.ConditionsAwareDecision, _ authorizer.ConditionsData) (authorizer.Decision, string, error) {
	now := *s.source.StateOf(ctx).Value
	s.seen = append(s.seen, now)
	now++
	s.source.Store(&now)
	return authorizer.DecisionNoOpinion, "", nil
}

// TestEvaluationsArePinned evaluates two sets of one source, which changes after the first.
func TestEvaluationsArePinned(t *testing.T) {
	t.Parallel()
	a := &sourced{source: &freshness.Source[int]{}}
	a.source.Store(new(int))
	chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: a}, authorization.Member{Name: "b", Decider: a})
	if err != nil {
		t.Fatal(err)
	}
	decision := chain.ConditionsAwareAuthorize(t.Context(), authorizer.AttributesRecord{})
	if got, _, err := chain.EvaluateConditions(t.Context(), decision, nil); got != authorizer.DecisionNoOpinion || len(a.seen) != 2 || a.seen[0] != a.seen[1] {
		t.Errorf("got %v, %v from the states %v, want NoOpinion from one state", got, err, a.seen)
	}
}
