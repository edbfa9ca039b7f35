/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// reference returns a decision in the types of k8s.io/apiserver, as a kube-apiserver would read it.
func reference(d *upstreamform.Decision) authorizer.ConditionsAwareDecision {
	switch d.Type {
	case upstreamform.TypeAllow:
		return authorizer.ConditionsAwareDecisionAllow(d.Allow.Reason, nil)
	case upstreamform.TypeNoOpinion:
		return authorizer.ConditionsAwareDecisionNoOpinion(d.NoOpinion.Reason, nil)
	case upstreamform.TypeConditionsMap:
		m := d.ConditionsMap
		return authorizer.ConditionsAwareDecisionConditionsMap(referenceConditions(m.DenyConditions), referenceConditions(m.NoOpinionConditions), referenceConditions(m.AllowConditions))
	case upstreamform.TypeUnion:
		var union authorizer.ConditionsAwareDecisionUnion
		for i := range d.Union {
			union.Add(d.Union[i].AuthorizerName, reference(&d.Union[i].Decision))
		}
		return union.ToDecision()
	default:
		return authorizer.ConditionsAwareDecisionDeny(d.Deny.Reason, nil)
	}
}

func referenceConditions(conditions []upstreamform.Condition) (result []authorizer.Condition) {
	for _, c := range conditions {
		result = append(result, authorizer.GenericCondition{ID: c.ID, Type: c.Type, Condition: c.Condition})
	}
	return result
}

// clients are the ways in which a client can evaluate what it cannot: an error, or nothing, after which it goes by the failure decision.
var clients = map[string]authorizer.ConditionEvaluationResult{
	"an error":      authorizer.ConditionEvaluationResultError(errors.New("no evaluator")),
	"no evaluation": authorizer.ConditionsEvaluationResultUnevaluatable(),
}

// referenceOpenness evaluates a decision with the evaluator of k8s.io/apiserver, and orders the result like openness.
func referenceOpenness(ctx context.Context, d *upstreamform.Decision, unsupported authorizer.ConditionEvaluationResult) int {
	result := authorizer.PartiallyEvaluateConditionsAwareDecision(ctx, reference(d), nil, func(_ context.Context, c authorizer.Condition, _ authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
		switch c.GetCondition() {
		case "true", "false":
			return authorizer.ConditionEvaluationResultBoolean(c.GetCondition() == "true")
		case "unsupported":
			return unsupported
		}
		return authorizer.ConditionEvaluationResultError(errors.New(c.GetCondition()))
	})
	failed := result.FailureDecision()
	switch {
	case result.IsAllow(), !result.IsUnconditional() && failed == authorizer.DecisionAllow:
		return 2
	case result.IsNoOpinion(), !result.IsUnconditional() && failed == authorizer.DecisionNoOpinion:
		return 1
	default:
		return 0
	}
}

// evaluable returns a decision whose CEL conditions can all be evaluated: every client can do that.
func evaluable(d authorization.Decision) authorization.Decision {
	conditions, sets := d.Conditions(), d.Chain()
	for i := range conditions {
		if conditions[i].Type != typeOpaque && conditions[i].Text == "unsupported" {
			conditions[i].Text = "error"
		}
	}
	for i := range sets {
		sets[i].Decision = evaluable(sets[i].Decision)
	}
	switch {
	case len(conditions) > 0:
		return authorization.Conditions(conditions...)
	case len(sets) > 0:
		return authorization.Chained(sets...)
	default:
		return d
	}
}

// TestReferenceIsNeverMoreOpen evaluates random decisions with the evaluator of k8s.io/apiserver, which has no failure modes. A client that
// cannot evaluate a condition gets nothing more than Proviso gives.
func TestReferenceIsNeverMoreOpen(t *testing.T) {
	t.Parallel()
	for name, unsupported := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(*lawSeed, 141959)) //nolint:gosec // not for secrets
			conditional, more, allowed := 0, 0, 0
			tried := cases.Of(*lawCases)
			for tried.Next() {
				d := evaluable(randomChain(r, 2))
				form, _ := upstreamform.Encode(d)
				if form == nil {
					continue
				}
				conditional++
				before, after := d.Evaluate(t.Context(), byText), referenceOpenness(t.Context(), form, unsupported)
				if after == 2 {
					allowed++
				}
				if after <= openness(before) {
					continue
				}
				if more++; more <= 3 {
					t.Errorf("Proviso decides %+v, and the reference is more open (%d): %s", before, after, marshalled(t, form))
				}
			}
			t.Logf("%d conditional decisions, %d allowed, %d more open", conditional, allowed, more)
			if conditional < tried.Tried()/4 || allowed < conditional/20 {
				t.Errorf("of %d decisions only %d are conditional, and %d allow", tried.Tried(), conditional, allowed)
			}
		})
	}
}

// TestFailureModesEndChains shows which sets end a chain: those that must deny if a condition fails that a client may not know.
func TestFailureModesEndChains(t *testing.T) {
	t.Parallel()
	condition := func(effect authorization.Effect, conditionType string) authorization.Condition {
		return authorization.Condition{ID: fmt.Sprintf("example.com/%s%d", effect, len(conditionType)), Effect: effect, Type: conditionType, Text: "unsupported"}
	}
	const cel = authorization.ConditionTypeCEL
	opaque := authorization.Conditions(condition(authorization.EffectAllow, typeOpaque))
	set := func(name string, mode authorization.FailureMode, d authorization.Decision) authorization.Set {
		return authorization.Set{AuthorizerName: name, FailureMode: mode, Decision: d}
	}
	open := set("b", "", authorization.Allow("", nil))
	var many []authorization.Set
	for i := range 32 {
		many = append(many, set(fmt.Sprintf("a%d", i), authorization.FailureModeNoOpinion, opaque))
	}
	many[31].FailureMode = authorization.FailureModeDeny
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     []string // the members of the form
		last     string
	}{
		{"an opaque condition without a mode", authorization.Chained(set("a", "", opaque), open), []string{"a", "failure-mode"}, upstreamform.TypeDeny},
		{"the failure mode Deny", authorization.Chained(set("a", authorization.FailureModeDeny, opaque)), []string{"a", "failure-mode"}, upstreamform.TypeDeny},
		{"the failure mode NoOpinion", authorization.Chained(set("a", authorization.FailureModeNoOpinion, opaque), set("b", "", authorization.Deny("", nil))), []string{"a", "b"}, upstreamform.TypeDeny},
		{"CEL", authorization.Chained(set("a", "", authorization.Conditions(condition(authorization.EffectAllow, cel)))), []string{"a"}, upstreamform.TypeConditionsMap},
		{"bound CEL", authorization.Chained(set("a", "", authorization.Conditions(condition(authorization.EffectAllow, authorization.ConditionTypeCELBound)))), []string{"a"}, upstreamform.TypeConditionsMap},
		{"an opaque condition that denies", authorization.Chained(set("a", "", authorization.Conditions(condition(authorization.EffectDeny, typeOpaque))), open), []string{"a", "b"}, upstreamform.TypeAllow},
		{"an opaque condition beside one that denies", authorization.Chained(set("a", "", authorization.Conditions(condition(authorization.EffectDeny, cel), condition(authorization.EffectAllow, typeOpaque))), open), []string{"a", "failure-mode"}, upstreamform.TypeDeny},
		{"an opaque condition that holds CEL back", authorization.Chained(set("a", "", authorization.Conditions(condition(authorization.EffectNoOpinion, typeOpaque), condition(authorization.EffectAllow, cel))), open), []string{"a", "failure-mode"}, upstreamform.TypeDeny},
		{"in a nested chain", authorization.Chained(set("n", "", authorization.Chained(set("a", "", opaque), set("c", authorization.FailureModeNoOpinion, opaque))), open), []string{"n", "failure-mode"}, upstreamform.TypeDeny},
		{"an authorizer with the name of the Deny", authorization.Chained(set("c", authorization.FailureModeNoOpinion, opaque), set("failure-mode", "", opaque)), []string{"c", "failure-mode"}, upstreamform.TypeDeny},
		{"32 sets", authorization.Chained(many...), nil, upstreamform.TypeDeny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			form, _ := upstreamform.Encode(tc.decision)
			if form == nil {
				t.Fatal("the decision is unconditional")
			}
			var names []string
			for _, m := range form.Union {
				names = append(names, m.AuthorizerName)
			}
			if last := form.Union[len(form.Union)-1].Decision.Type; last != tc.last || tc.want != nil && fmt.Sprint(names) != fmt.Sprint(tc.want) {
				t.Errorf("got %q with %s at the end, want %q with %s", names, last, tc.want, tc.last)
			}
			if _, err := upstreamform.Decode("webhook", form); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAuthorsGetTheirConditionsUnchanged sends opaque conditions back to their author, who can evaluate them: without a Deny at the end.
func TestAuthorsGetTheirConditionsUnchanged(t *testing.T) {
	t.Parallel()
	sets := func(names ...string) (sets []authorizationapi.SubjectAccessReviewConditionSet) {
		for _, name := range names {
			sets = append(sets, authorizationapi.SubjectAccessReviewConditionSet{AuthorizerName: name, Conditions: []authorizationapi.SubjectAccessReviewCondition{
				{ID: "example.com/c", Effect: authorizationapi.ConditionEffectAllow, Type: typeOpaque, Condition: "?"},
			}})
		}
		return sets
	}
	chain := upstreamform.EncodeOwn("author", sets("a", "b"))
	if len(chain.Union) != 2 || chain.Union[1].Decision.Type != upstreamform.TypeConditionsMap {
		t.Errorf("got %s", marshalled(t, chain))
	}
	if own := upstreamform.EncodeOwn("author", sets("author")); own.Type != upstreamform.TypeConditionsMap {
		t.Errorf("got %s", marshalled(t, own))
	}
}
