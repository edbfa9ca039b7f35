/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// fixed is an authorizer that always answers the same, and counts how often.
type fixed struct {
	authorizer.Authorizer
	decision authorization.Decision
	asked    int
}

func (f *fixed) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	f.asked++
	return authorization.ToUpstream(f.decision)
}

func (f *fixed) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

func chainOf(t *testing.T, authorizers ...*fixed) *authorization.Chain {
	t.Helper()
	var members []authorization.Member
	for i, a := range authorizers {
		members = append(members, authorization.Member{Name: string(rune('a' + i)), Decider: authorization.DeciderOf(a)})
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

var (
	allowIf = authorization.Conditions(condition(0, authorization.EffectAllow, isTrue))
	denyIf  = authorization.Conditions(condition(0, authorization.EffectDeny, isTrue))
)

func TestChainDecides(t *testing.T) {
	t.Parallel()
	allow, deny, noOpinion := authorization.Allow("allow", nil), authorization.Deny("deny", nil), authorization.NoOpinion("none", nil)
	for _, tc := range []struct {
		name      string
		decisions []authorization.Decision
		want      string
		wantNames []string
		wantAsked int
	}{
		{"nobody", nil, "NoOpinion", nil, 0},
		{"the first Allow is final", []authorization.Decision{noOpinion, allow, deny}, "Allow", nil, 2},
		{"the first Deny is final", []authorization.Decision{deny, allow}, "Deny", nil, 1},
		{"nobody has an opinion", []authorization.Decision{noOpinion, noOpinion}, "NoOpinion", nil, 2},
		{"all conditions until an Allow", []authorization.Decision{denyIf, noOpinion, allowIf, allow, deny}, "conditional", []string{"a", "c", "d"}, 4},
		{"a conditional Deny before a Deny can only deny", []authorization.Decision{denyIf, deny, allow}, "Deny", nil, 2},
		{"a conditional Allow before an Allow can only allow", []authorization.Decision{authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "object.x == 1"}), allow}, "Allow", nil, 2},
		{"a conditional Allow of a type that may be unknown before an Allow", []authorization.Decision{allowIf, allow}, "conditional", []string{"a", "b"}, 2},
		{"a conditional Allow before a Deny", []authorization.Decision{allowIf, deny}, "conditional", []string{"a", "b"}, 2},
		{"a nested chain", []authorization.Decision{authorization.Chained(
			authorization.Set{AuthorizerName: "x", Decision: denyIf}, authorization.Set{AuthorizerName: "y", Decision: allow},
		), deny}, "conditional", []string{"a"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var authorizers []*fixed
			for _, d := range tc.decisions {
				authorizers = append(authorizers, &fixed{decision: d})
			}
			got := chainOf(t, authorizers...).Decide(t.Context(), authorizer.AttributesRecord{})
			var names []string
			for _, s := range got.Chain() {
				names = append(names, s.AuthorizerName)
			}
			asked := 0
			for _, a := range authorizers {
				asked += a.asked
			}
			if kindOf(got) != tc.want || asked != tc.wantAsked {
				t.Errorf("got %s after asking %d, want %s after asking %d", kindOf(got), asked, tc.want, tc.wantAsked)
			}
			if diff := cmp.Diff(tc.wantNames, names); diff != "" {
				t.Errorf("sets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChainKeepsErrorsOfAuthorizersWithoutOpinion(t *testing.T) {
	t.Parallel()
	chain := chainOf(t,
		&fixed{decision: authorization.NoOpinion("", errCondition)},
		&fixed{decision: authorization.NoOpinion("not mine", nil)})
	decision, reason, err := chain.Authorize(t.Context(), authorizer.AttributesRecord{})
	if decision != authorizer.DecisionNoOpinion || reason != "not mine" || !errors.Is(err, errCondition) || !strings.Contains(err.Error(), "a: ") {
		t.Errorf("got %v, %q, %v, want NoOpinion with the reason of one and the error of the other, under its name", decision, reason, err)
	}
}

func TestChainFoldsForCallersWithoutConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     authorizer.Decision
	}{
		{"conditional Allow", allowIf, authorizer.DecisionNoOpinion},
		{"conditional Deny", denyIf, authorizer.DecisionDeny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got, _, _ := chainOf(t, &fixed{decision: tc.decision}).Authorize(t.Context(), authorizer.AttributesRecord{}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestChainEvaluatesItsOwnDecisions(t *testing.T) {
	t.Parallel()
	closure := func(outcome authorization.Outcome) authorization.Decision {
		c := condition(0, authorization.EffectAllow, "")
		c.EvaluateFunc = func(context.Context, authorizer.ConditionsData) authorization.Outcome { return outcome }
		return authorization.Conditions(c)
	}
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     authorizer.Decision
	}{
		{"true", closure(authorization.True()), authorizer.DecisionAllow},
		{"false", closure(authorization.False()), authorizer.DecisionNoOpinion},
		{"a residual, which nobody will evaluate", closure(authorization.Residual(authorization.Condition{Text: "x"})), authorizer.DecisionDeny},
		{"nobody can tell", allowIf, authorizer.DecisionDeny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			chain := chainOf(t, &fixed{decision: tc.decision})
			decision := chain.ConditionsAwareAuthorize(t.Context(), authorizer.AttributesRecord{})
			if got, reason, err := chain.EvaluateConditions(t.Context(), decision, nil); got != tc.want {
				t.Errorf("got %v (%s, %v), want %v", got, reason, err, tc.want)
			}
		})
	}
}

func TestNewChainRefuses(t *testing.T) {
	t.Parallel()
	some := &fixed{}
	for _, tc := range []struct {
		name    string
		members []authorization.Member
	}{
		{"no name", []authorization.Member{{Decider: authorization.DeciderOf(some)}}},
		{"a name with a slash", []authorization.Member{{Name: "example.com/a", Decider: authorization.DeciderOf(some)}}},
		{"a name in upper case", []authorization.Member{{Name: "A", Decider: authorization.DeciderOf(some)}}},
		{"no authorizer", []authorization.Member{{Name: "a"}}},
		{"the same name twice", []authorization.Member{{Name: "a", Decider: authorization.DeciderOf(some)}, {Name: "a", Decider: authorization.DeciderOf(some)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if chain, err := authorization.NewChain(tc.members...); err == nil {
				t.Errorf("got %v, want an error", chain)
			}
		})
	}
}

func TestModeOf(t *testing.T) {
	t.Parallel()
	if got := authorization.RequestOf(authorizer.AttributesRecord{}).Mode; got != "" {
		t.Errorf("attributes without a mode: got %q, want none", got)
	}
	if got := authorization.RequestOf(authorization.Request{Mode: "Optimized"}).Mode; got != "Optimized" {
		t.Errorf("got %q, want Optimized", got)
	}
}
