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

// TestSource pins contexts to the states of a source, also to the state in which it holds nothing.
func TestSource(t *testing.T) {
	t.Parallel()
	one, two := 1, 2
	stateOf := func(value *int, stale string) authorization.State[int] {
		return authorization.State[int]{Value: value, Stale: stale}
	}
	source, other := &authorization.Source[int]{}, &authorization.Source[int]{}
	empty := source.Pin(t.Context())
	source.Store(&one)
	source.SetStale("no news")
	first := source.Pin(t.Context())
	source.Store(&two)
	source.SetStale("")
	for _, tc := range []struct {
		name   string
		source *authorization.Source[int]
		ctx    context.Context
		want   authorization.State[int]
	}{
		{"pinned before the first value", source, empty, stateOf(nil, "")},
		{"pinned while the value was stale", source, first, stateOf(&one, "no news")},
		{"pinned again", source, source.Pin(first), stateOf(&one, "no news")},
		{"pinned to a state", source, source.PinTo(first, stateOf(&two, "")), stateOf(&two, "")},
		{"not pinned", source, t.Context(), stateOf(&two, "")},
		{"another source", other, first, stateOf(nil, "")},
		{"two sources", source, other.Pin(first), stateOf(&one, "no news")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.source.StateOf(tc.ctx); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// sourced returns a condition that only it can evaluate. It evaluates the condition by its source, and then
// changes the source.
type sourced struct {
	source *authorization.Source[int]
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
	a := &sourced{source: &authorization.Source[int]{}}
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
