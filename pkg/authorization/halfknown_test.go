/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// halves evaluates conditions by their text, in two steps or at once, as an evaluator must: in
// the first step it returns conditions of an unknown type as residuals.
type halves struct {
	literal
	// first is set in the first of two steps.
	first bool
}

func (h halves) EvaluateCondition(ctx context.Context, c authorization.Condition) authorization.Outcome {
	switch {
	case c.Text == isUnsupported && h.first:
		return authorization.Residual(c)
	case c.Text == isExhausted:
		return authorization.Exhausted(errCondition)
	}
	return h.literal.EvaluateCondition(ctx, c)
}

// isExhausted is the text of a condition that the evaluation cannot afford.
const isExhausted = "exhausted"

// TestTwoStagesEqualOneWithUnknownTypes is the law with conditions whose type is unknown: a first
// step must not drop a set that fails in the second.
func TestTwoStagesEqualOneWithUnknownTypes(t *testing.T) {
	t.Parallel()
	eachTwoStages(t, []string{isTrue, isFalse, isError, isLater, isUnsupported}, func(d authorization.Decision, later map[string]string, inTwo, atOnce string) {
		if inTwo != atOnce {
			t.Fatalf("%+v with %v: in two steps %s, at once %s", d.Chain(), later, inTwo, atOnce)
		}
	})
}

// eachTwoStages evaluates random chains in two steps and at once.
func eachTwoStages(t *testing.T, values []string, compare func(d authorization.Decision, later map[string]string, inTwo, atOnce string)) {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12)) //nolint:gosec // not for secrets
	for c := cases.Of(20_000); c.Next(); {
		d := authorization.Chained(randomSets(r, 2, values)...)
		later := map[string]string{}
		for i := range 4 {
			later[fmt.Sprintf("example.com/c%d", i)] = []string{isTrue, isFalse, isError}[r.IntN(3)]
		}
		first := d.Evaluate(t.Context(), halves{first: true})
		second := first.Evaluate(t.Context(), halves{literal: literal{later: later}})
		compare(d, later, kindOf(second), kindOf(d.Evaluate(t.Context(), halves{literal: literal{later: later}})))
	}
}

// TestBudgetNeverOpens: whether a condition is over the budget in the first of two steps, in the
// second or at once, the decision is never Allow unless it is with every value of the condition.
func TestBudgetNeverOpens(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14)) //nolint:gosec // not for secrets
	for c := cases.Of(20_000); c.Next(); {
		d := authorization.Chained(randomSets(r, 2, []string{isTrue, isFalse, isError, isLater, isExhausted})...)
		var allowed, notAllowed bool
		later := map[string]string{}
		for i := range 4 {
			later[fmt.Sprintf("example.com/c%d", i)] = []string{isTrue, isFalse, isError}[r.IntN(3)]
		}
		got := kindOf(d.Evaluate(t.Context(), halves{first: true}).Evaluate(t.Context(), halves{literal: literal{later: later}}))
		if atOnce := kindOf(d.Evaluate(t.Context(), halves{literal: literal{later: later}})); got != atOnce {
			t.Fatalf("%+v with %v: in two steps %s, at once %s", d.Chain(), later, got, atOnce)
		}
		for _, value := range []string{isTrue, isFalse} {
			if affordable(later, value, d).IsAllow() {
				allowed = true
			} else {
				notAllowed = true
			}
		}
		if got == "Allow" && notAllowed {
			t.Fatalf("%+v with %v: Allow, though not with every value of what is over the budget (allowed with one: %v)", d.Chain(), later, allowed)
		}
	}
}

// TestFirstStepOverBudgetNeverOpens: a condition that only the first of two steps cannot afford makes nothing
// Allow that is not Allow at once, also if others have an unknown type.
func TestFirstStepOverBudgetNeverOpens(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(17, 18)) //nolint:gosec // not for secrets
	allowed := 0
	tried := cases.Of(30_000)
	for tried.Next() {
		d := authorization.Chained(randomSets(r, 2, []string{isTrue, isFalse, isError, isLater, isUnsupported, isExhausted})...)
		later := map[string]string{}
		for i := range 4 {
			later[fmt.Sprintf("example.com/c%d", i)] = []string{isTrue, isFalse, isError}[r.IntN(3)]
		}
		first := d.Evaluate(t.Context(), halves{first: true})
		for _, value := range []string{isTrue, isFalse, isError} {
			inTwo, atOnce := affordable(later, value, first), affordable(later, value, d)
			if inTwo.IsAllow() && !atOnce.IsAllow() {
				t.Fatalf("%+v with %v, and %s what is over the budget: in two steps Allow, at once %s", d.Chain(), later, value, kindOf(atOnce))
			}
			if inTwo.IsAllow() {
				allowed++
			}
		}
	}
	if allowed < tried.Share(1000) {
		t.Errorf("only %d decisions were Allow", allowed)
	}
}

// affordable evaluates a decision in which the conditions over the budget have a value.
func affordable(later map[string]string, value string, d authorization.Decision) authorization.Decision {
	return d.Evaluate(context.Background(), authorization.ConditionEvaluatorFunc(func(ctx context.Context, c authorization.Condition) authorization.Outcome {
		if c.Text == isExhausted {
			c.Text = value
		}
		return literal{later: later}.EvaluateCondition(ctx, c)
	}))
}

// TestHalfKnownDoesNotOpen has the cases by name: the second set becomes Allow in the first step.
func TestHalfKnownDoesNotOpen(t *testing.T) {
	t.Parallel()
	unknown := condition(0, authorization.EffectAllow, isUnsupported)
	unknownNoOpinion := condition(1, authorization.EffectNoOpinion, isUnsupported)
	held, denies := condition(2, authorization.EffectAllow, isTrue), condition(3, authorization.EffectDeny, isExhausted)
	exhausted := condition(0, authorization.EffectAllow, isExhausted)
	for _, tc := range []struct {
		name              string
		first             authorization.Set
		wantHalf, wantAll string
	}{
		{"an Allow condition of an unknown type", setOf([]authorization.Condition{unknown}, ""), "conditional", "Deny"},
		{"an Allow condition of an unknown type, failing to NoOpinion", setOf([]authorization.Condition{unknown}, authorization.FailureModeNoOpinion), "Allow", "Allow"},
		{"a NoOpinion condition of an unknown type", setOf([]authorization.Condition{unknownNoOpinion, held}, ""), "conditional", "Deny"},
		{"an unknown type in a nested chain", authorization.Set{AuthorizerName: "n", Decision: authorization.Chained(setOf([]authorization.Condition{unknown}, ""))}, "conditional", "Deny"},
		{"a Deny condition over the budget", setOf([]authorization.Condition{denies}, ""), "Deny", "Deny"},
		{"a Deny condition over the budget, failing to NoOpinion", setOf([]authorization.Condition{denies}, authorization.FailureModeNoOpinion), "Deny", "Deny"},
		{"an Allow condition over the budget beside a NoOpinion condition of an unknown type", setOf([]authorization.Condition{unknownNoOpinion, exhausted}, ""), "Deny", "Deny"},
		{"an Allow condition over the budget beside a NoOpinion condition of an unknown type, failing to NoOpinion", setOf([]authorization.Condition{unknownNoOpinion, exhausted}, authorization.FailureModeNoOpinion), "Allow", "Allow"},
		{"an Allow condition over the budget", setOf([]authorization.Condition{exhausted}, ""), "Allow", "Allow"},
		{"an Allow condition over the budget, failing to NoOpinion", setOf([]authorization.Condition{condition(0, authorization.EffectAllow, isExhausted)}, authorization.FailureModeNoOpinion), "Allow", "Allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			second := setOf([]authorization.Condition{condition(0, authorization.EffectAllow, isTrue)}, "")
			second.AuthorizerName = "b"
			d := authorization.Chained(tc.first, second)
			half := d.Evaluate(t.Context(), halves{first: true})
			if got := kindOf(half); got != tc.wantHalf {
				t.Errorf("in the first step: got %s, want %s", got, tc.wantHalf)
			}
			if got := kindOf(half.Evaluate(t.Context(), halves{})); got != tc.wantAll {
				t.Errorf("in two steps: got %s, want %s", got, tc.wantAll)
			}
			if got := kindOf(d.Evaluate(t.Context(), halves{})); got != tc.wantAll {
				t.Errorf("at once: got %s, want %s", got, tc.wantAll)
			}
		})
	}
}

// TestFoldAllowsWhatEveryValueAllows: a caller without conditions is answered as ever.
func TestFoldAllowsWhatEveryValueAllows(t *testing.T) {
	t.Parallel()
	d := authorization.Chained(
		setOf([]authorization.Condition{condition(0, authorization.EffectAllow, isUnsupported)}, ""),
		authorization.Set{AuthorizerName: "b", Decision: authorization.Allow("because", nil)},
	)
	if got := d.Fold(); !got.IsAllow() || got.Reason() != "because" {
		t.Errorf("got %s (%s), want Allow with the reason of the set that allows", kindOf(got), got.Reason())
	}
}

// TestTimeNeverOpens: a set that cannot be evaluated since time is up hides no denial.
func TestTimeNeverOpens(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := authorization.Chained(
		setOf([]authorization.Condition{condition(0, authorization.EffectDeny, isFalse)}, authorization.FailureModeNoOpinion),
		authorization.Set{AuthorizerName: "b", Decision: authorization.Allow("", nil)},
	).Evaluate(ctx, literal{})
	if !got.IsDeny() || !errors.Is(got.Err(), context.Canceled) {
		t.Errorf("got %s (%v), want Deny with the error of the context", kindOf(got), got.Err())
	}
}
