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
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The text of a condition in these tests is what it evaluates to.
const (
	isTrue        = "true"
	isFalse       = "false"
	isError       = "error"
	isUnsupported = "unsupported"
	// isLater is decided in a second stage, by the ID of the condition.
	isLater = "later"
)

var errCondition = errors.New("the condition failed")

// literal evaluates conditions by their text.
type literal struct {
	// later says what a condition that is decided later evaluates to. Nil leaves it as a
	// residual.
	later map[string]string
}

func (l literal) EvaluateCondition(_ context.Context, c authorization.Condition) authorization.Outcome {
	text := c.Text
	if text == isLater && l.later != nil {
		text = l.later[c.ID]
	}
	switch text {
	case isTrue:
		return authorization.True()
	case isFalse:
		return authorization.False()
	case isError:
		return authorization.Failed(errCondition)
	case isLater:
		return authorization.Residual(c)
	default:
		return authorization.Unsupported(nil)
	}
}

var (
	allEffects = []authorization.Effect{authorization.EffectDeny, authorization.EffectNoOpinion, authorization.EffectAllow}
	allModes   = []authorization.FailureMode{authorization.FailureModeDeny, authorization.FailureModeNoOpinion, ""}
)

func condition(id int, effect authorization.Effect, text string) authorization.Condition {
	return authorization.Condition{ID: fmt.Sprintf("example.com/c%d", id), Effect: effect, Type: "example.com/literal", Text: text}
}

// wantOfSet is KEP-5681, "Computing a concrete decision from a ConditionSet", sentence by
// sentence, over conditions of which all have a value. It knows nothing of the
// implementation.
func wantOfSet(conditions []authorization.Condition, mode authorization.FailureMode) string {
	has := func(effect authorization.Effect, text string) bool {
		return slices.ContainsFunc(conditions, func(c authorization.Condition) bool { return c.Effect == effect && c.Text == text })
	}
	failure := "Deny"
	if mode == authorization.FailureModeNoOpinion {
		failure = "NoOpinion"
	}
	switch {
	case has(authorization.EffectDeny, isTrue):
		return "Deny"
	case has(authorization.EffectDeny, isError):
		return failure
	case has(authorization.EffectNoOpinion, isTrue), has(authorization.EffectNoOpinion, isError):
		return "NoOpinion"
	case has(authorization.EffectAllow, isTrue):
		return "Allow"
	}
	return "NoOpinion"
}

// wantOfSetWithUnsupported adds conditions that nobody can evaluate: if what they are
// makes a difference, the set is a failure.
func wantOfSetWithUnsupported(conditions []authorization.Condition, mode authorization.FailureMode) string {
	results := map[string]bool{}
	var assign func(i int, assigned []authorization.Condition)
	assign = func(i int, assigned []authorization.Condition) {
		if i == len(conditions) {
			results[wantOfSet(assigned, mode)] = true
			return
		}
		values := []string{conditions[i].Text}
		if conditions[i].Text == isUnsupported {
			values = []string{isTrue, isFalse, isError}
		}
		for _, value := range values {
			c := conditions[i]
			c.Text = value
			assign(i+1, append(slices.Clone(assigned), c))
		}
	}
	assign(0, nil)
	if len(results) == 1 {
		for result := range results {
			return result
		}
	}
	if mode == authorization.FailureModeNoOpinion {
		return "NoOpinion"
	}
	return "Deny"
}

func kindOf(d authorization.Decision) string {
	switch {
	case d.IsAllow():
		return "Allow"
	case d.IsDeny():
		return "Deny"
	case d.IsNoOpinion():
		return "NoOpinion"
	default:
		return "conditional"
	}
}

// eachSet calls f with every set of up to three conditions, in every order.
func eachSet(values []string, f func([]authorization.Condition)) {
	var extend func(conditions []authorization.Condition)
	extend = func(conditions []authorization.Condition) {
		if len(conditions) > 0 {
			f(conditions)
		}
		if len(conditions) == 3 {
			return
		}
		for _, effect := range allEffects {
			for _, value := range values {
				extend(append(slices.Clone(conditions), condition(len(conditions), effect, value)))
			}
		}
	}
	extend(nil)
}

func setOf(conditions []authorization.Condition, mode authorization.FailureMode) authorization.Set {
	return authorization.Set{AuthorizerName: "a", FailureMode: mode, Decision: authorization.Conditions(conditions...)}
}

func TestEvaluateSetAsTheKEPSays(t *testing.T) {
	t.Parallel()
	n := 0
	eachSet([]string{isTrue, isFalse, isError, isUnsupported}, func(conditions []authorization.Condition) {
		for _, mode := range allModes {
			n++
			got := authorization.Chained(setOf(conditions, mode)).Evaluate(t.Context(), literal{})
			want := wantOfSetWithUnsupported(conditions, mode)
			if kindOf(got) != want {
				t.Errorf("conditions %v, failure mode %q: got %s, want %s", conditions, mode, kindOf(got), want)
			}
		}
	})
	if want := 3 * (12 + 12*12 + 12*12*12); n != want {
		t.Errorf("tried %d sets, want %d", n, want)
	}
}

func TestEvaluateSetIgnoresOrder(t *testing.T) {
	t.Parallel()
	eachSet([]string{isTrue, isFalse, isError, isUnsupported, isLater}, func(conditions []authorization.Condition) {
		reversed := slices.Clone(conditions)
		slices.Reverse(reversed)
		for _, mode := range allModes {
			got := describe(t, authorization.Chained(setOf(reversed, mode)).Evaluate(t.Context(), literal{}))
			want := describe(t, authorization.Chained(setOf(conditions, mode)).Evaluate(t.Context(), literal{}))
			if got != want {
				t.Errorf("conditions %v: reversed they give\n%s\nbut not\n%s", conditions, got, want)
			}
		}
	})
}

// describe renders everything of a decision that a user can see.
func describe(t *testing.T, d authorization.Decision) string {
	t.Helper()
	wire, err := authorization.SetsToWire(d.Chain())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %q %v %+v", kindOf(d), d.Reason(), d.Err(), wire)
}

// TestTwoStagesEqualOne is the law of the whole project in small: evaluating with what
// is known and then with the rest gives what evaluating with everything gives.
func TestTwoStagesEqualOne(t *testing.T) {
	t.Parallel()
	eachSet([]string{isTrue, isFalse, isError, isLater}, func(conditions []authorization.Condition) {
		for _, mode := range allModes {
			first := authorization.Chained(setOf(conditions, mode)).Evaluate(t.Context(), literal{})
			for _, later := range assignments(conditions) {
				second := first.Evaluate(t.Context(), literal{later: later})
				atOnce := authorization.Chained(setOf(conditions, mode)).Evaluate(t.Context(), literal{later: later})
				if kindOf(second) != kindOf(atOnce) {
					t.Errorf("conditions %v with %v, failure mode %q: in two stages %s, at once %s", conditions, later, mode, kindOf(second), kindOf(atOnce))
				}
			}
		}
	})
}

// TestTwoStagesEqualOneInChains is the same law over random trees.
func TestTwoStagesEqualOneInChains(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		d := authorization.Chained(randomSets(r, 2, []string{isTrue, isFalse, isError, isLater})...)
		first := d.Evaluate(t.Context(), literal{})
		for _, value := range []string{isTrue, isFalse, isError} {
			later := map[string]string{}
			for i := range 4 {
				later[fmt.Sprintf("example.com/c%d", i)] = value
			}
			// One condition is decided otherwise than the rest.
			later[fmt.Sprintf("example.com/c%d", r.IntN(4))] = []string{isTrue, isFalse, isError}[r.IntN(3)]
			second, atOnce := first.Evaluate(t.Context(), literal{later: later}), d.Evaluate(t.Context(), literal{later: later})
			if kindOf(second) != kindOf(atOnce) {
				t.Fatalf("%+v with %v: in two stages %s, at once %s", d.Chain(), later, kindOf(second), kindOf(atOnce))
			}
		}
	}
}

// assignments returns every way in which the conditions that are decided later can be.
func assignments(conditions []authorization.Condition) []map[string]string {
	result := []map[string]string{{}}
	for _, c := range conditions {
		if c.Text != isLater {
			continue
		}
		var extended []map[string]string
		for _, assignment := range result {
			for _, value := range []string{isTrue, isFalse, isError} {
				next := map[string]string{c.ID: value}
				for k, v := range assignment {
					next[k] = v
				}
				extended = append(extended, next)
			}
		}
		result = extended
	}
	return result
}

// leaves are decisions of every kind, from which chains are built.
func leaves() []authorization.Decision {
	decisions := []authorization.Decision{
		authorization.Allow("", nil), authorization.Deny("", nil), authorization.NoOpinion("", nil),
	}
	for _, effect := range allEffects {
		for _, value := range []string{isTrue, isFalse, isError} {
			decisions = append(decisions, authorization.Conditions(condition(0, effect, value)))
		}
	}
	return append(decisions,
		authorization.Conditions(condition(0, authorization.EffectAllow, isTrue), condition(1, authorization.EffectDeny, isTrue)),
		authorization.Chained())
}

// wantOfChain is KEP-5681, "Computing a concrete decision from a conditional
// authorization chain": the first that is not NoOpinion is final.
func wantOfChain(sets []authorization.Set) string {
	for _, set := range sets {
		want := ""
		switch {
		case set.Decision.IsUnconditional():
			want = kindOf(set.Decision)
		case len(set.Decision.Conditions()) > 0:
			want = wantOfSet(set.Decision.Conditions(), set.FailureMode)
		default:
			want = wantOfChain(set.Decision.Chain())
		}
		if want != "NoOpinion" {
			return want
		}
	}
	return "NoOpinion"
}

// eachChain calls f with every chain of up to three sets, each of them a leaf or a
// nested chain of two leaves.
func eachChain(f func([]authorization.Set)) {
	decisions := leaves()
	nested := slices.Clone(decisions)
	for _, a := range leaves() {
		for _, b := range leaves() {
			nested = append(nested, authorization.Chained(
				authorization.Set{AuthorizerName: "x", Decision: a},
				authorization.Set{AuthorizerName: "y", FailureMode: authorization.FailureModeNoOpinion, Decision: b}))
		}
	}
	for _, a := range nested {
		f([]authorization.Set{{AuthorizerName: "a", Decision: a}})
		for _, b := range nested {
			f([]authorization.Set{{AuthorizerName: "a", Decision: a}, {AuthorizerName: "b", Decision: b}})
		}
	}
	for _, a := range decisions {
		for _, b := range decisions {
			for _, c := range decisions {
				f([]authorization.Set{
					{AuthorizerName: "a", Decision: a},
					{AuthorizerName: "b", FailureMode: authorization.FailureModeNoOpinion, Decision: b},
					{AuthorizerName: "c", Decision: c},
				})
			}
		}
	}
}

func TestEvaluateChainAsTheKEPSays(t *testing.T) {
	t.Parallel()
	eachChain(func(sets []authorization.Set) {
		d := authorization.Chained(sets...)
		got, want := d.Evaluate(t.Context(), literal{}), wantOfChain(sets)
		if kindOf(got) != want {
			t.Errorf("chain %+v: got %s, want %s", sets, kindOf(got), want)
		}
		if got.IsAllow() && !d.CanBecomeAllowed() {
			t.Errorf("chain %+v: it was allowed though it could not become so", sets)
		}
		if got.IsDeny() && !d.CanBecomeDenied() && !strings.Contains(fmt.Sprintf("%+v", sets), isError) {
			t.Errorf("chain %+v: it was denied though it could not become so", sets)
		}
	})
}

func TestFoldNeverOpensAnything(t *testing.T) {
	t.Parallel()
	eachChain(func(sets []authorization.Set) {
		d := authorization.Chained(sets...)
		folded, evaluated := d.Fold(), d.Evaluate(t.Context(), literal{})
		if !folded.IsUnconditional() {
			t.Fatalf("chain %+v: folded it is still conditional", sets)
		}
		if folded.IsAllow() && !evaluated.IsAllow() {
			t.Errorf("chain %+v: folded to Allow, though it evaluates to %s", sets, kindOf(evaluated))
		}
		if folded.IsNoOpinion() && d.CanBecomeDenied() {
			t.Errorf("chain %+v: folded to NoOpinion, though it could deny", sets)
		}
	})
}

func TestFoldSaysThatItFolded(t *testing.T) {
	t.Parallel()
	allows, denies, holds := condition(0, authorization.EffectAllow, isLater), condition(1, authorization.EffectDeny, isLater), condition(2, authorization.EffectNoOpinion, isLater)
	always := authorization.Condition{ID: "example.com/c3", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "true"}
	notEvaluated := func(i int) string {
		return fmt.Sprintf("condition=example.com/c%d reason=Error: its condition cannot be evaluated for this request", i)
	}
	for _, tc := range []struct {
		name string
		set  authorization.Set
		want string
		// reason is the reason of a request. The reason of a review is made from DependsOn.
		reason string
	}{
		{"Allow condition", setOf([]authorization.Condition{allows}, ""), "NoOpinion", notEvaluated(0)},
		{"Deny condition", setOf([]authorization.Condition{denies}, ""), "Deny", notEvaluated(1)},
		{"Deny and Allow conditions", setOf([]authorization.Condition{allows, denies}, ""), "Deny", notEvaluated(1)},
		{"NoOpinion and Allow conditions", setOf([]authorization.Condition{allows, holds}, ""), "NoOpinion", notEvaluated(0) + "; " + notEvaluated(2)},
		{"NoOpinion condition, and an Allow that holds", setOf([]authorization.Condition{always, holds}, ""), "NoOpinion", notEvaluated(2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := authorization.Chained(tc.set)
			if got := d.Fold(); kindOf(got) != tc.want || got.Reason() != tc.reason {
				t.Errorf("got %s with reason %q, want %s with %q", kindOf(got), got.Reason(), tc.want, tc.reason)
			}
			if got := d.FoldReview(); kindOf(got) != tc.want || got.Reason() != "the decision depends on conditions, which cannot be evaluated or shown here: "+d.DependsOn() {
				t.Errorf("for a review: got %s with reason %q, want %s with what it depends on", kindOf(got), got.Reason(), tc.want)
			}
		})
	}
}

func TestEvaluateStopsAtTheFirstFinalSet(t *testing.T) {
	t.Parallel()
	evaluated := []string{}
	evaluator := authorization.ConditionEvaluatorFunc(func(ctx context.Context, c authorization.Condition) authorization.Outcome {
		evaluated = append(evaluated, c.ID)
		return literal{}.EvaluateCondition(ctx, c)
	})
	authorization.Chained(
		setOf([]authorization.Condition{condition(1, authorization.EffectAllow, isFalse)}, ""),
		authorization.Set{AuthorizerName: "b", Decision: authorization.Conditions(condition(2, authorization.EffectAllow, isTrue))},
		authorization.Set{AuthorizerName: "c", Decision: authorization.Conditions(condition(3, authorization.EffectDeny, isTrue))},
	).Evaluate(t.Context(), evaluator)
	if diff := cmp.Diff([]string{"example.com/c1", "example.com/c2"}, evaluated); diff != "" {
		t.Errorf("conditions that were evaluated (-want +got):\n%s", diff)
	}
}

// TestSimplifyingAgreesWithEvaluating: what a review says without evaluating anything
// must be what an evaluation says, whoever can evaluate what.
func TestSimplifyingAgreesWithEvaluating(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for range 5000 {
		d := authorization.Chained(randomSets(r, 2, complete)...)
		status, evaluated := authorization.Status(d), d.Evaluate(t.Context(), literal{})
		if status.Allowed && !evaluated.IsAllow() || status.Denied && !evaluated.IsDeny() {
			t.Fatalf("%+v: a review says %+v, an evaluation %s", d.Chain(), status, kindOf(evaluated))
		}
		if evaluated.IsAllow() && !d.CanBecomeAllowed() {
			t.Fatalf("%+v was allowed though it could not become so", d.Chain())
		}
	}
}

func TestConditionsThatCannotMatterAreNotShown(t *testing.T) {
	t.Parallel()
	d := authorization.Chained(setOf([]authorization.Condition{condition(0, authorization.EffectNoOpinion, isTrue)}, ""))
	if status := authorization.Status(d); len(status.ConditionsChain) > 0 || status.Allowed || status.Denied {
		t.Errorf("a set that can only have no opinion: got %+v, want no opinion", status)
	}
}

// TestHeldAllowConditionHolds: an Allow condition that held in the first stage holds in
// the second, also where conditions evaluate themselves.
func TestHeldAllowConditionHolds(t *testing.T) {
	t.Parallel()
	later := condition(1, authorization.EffectDeny, isLater)
	first := authorization.Chained(setOf([]authorization.Condition{condition(0, authorization.EffectAllow, isTrue), later}, "")).Evaluate(t.Context(), literal{})
	got := first.Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{later: map[string]string{later.ID: isFalse}}))
	if !got.IsAllow() {
		t.Errorf("got %s (%v), want Allow", kindOf(got), got.Err())
	}
}

func TestEvaluationStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	evaluated := 0
	counting := authorization.ConditionEvaluatorFunc(func(context.Context, authorization.Condition) authorization.Outcome {
		evaluated++
		return authorization.True()
	})
	got := authorization.Conditions(condition(0, authorization.EffectAllow, isTrue)).Evaluate(ctx, counting)
	if !got.IsDeny() || evaluated > 0 || !errors.Is(got.Err(), context.Canceled) {
		t.Errorf("got %s with %v after %d evaluations, want Deny with the error of the context after none", kindOf(got), got.Err(), evaluated)
	}
}

func TestReasonNamesTheConditionAndItsDescription(t *testing.T) {
	t.Parallel()
	const named = `condition=example.com/c7 (protected data)`
	for _, tc := range []struct {
		name   string
		effect authorization.Effect
		text   string
		folded bool
		want   string
	}{
		{"denied", authorization.EffectDeny, isTrue, false, `condition=example.com/c7 reason=Denied: protected data`},
		{"failed", authorization.EffectDeny, isError, false, named + " with effect Deny: "},
		{"failed and held back", authorization.EffectNoOpinion, isError, false, named + " with effect NoOpinion: "},
		{"not allowed", authorization.EffectAllow, isFalse, false, "condition=example.com/c7 reason=NotMet: protected data; condition=example.com/c8 reason=NotMet: its condition does not hold"},
		{"folded to Deny", authorization.EffectDeny, isTrue, true, "condition=example.com/c7 reason=Error: protected data: its condition cannot be evaluated for this request: <nil>"},
		{"folded to NoOpinion", authorization.EffectAllow, isTrue, true, "condition=example.com/c7 reason=Error: protected data: its condition cannot be evaluated for this request; condition=example.com/c8 reason=Error: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := condition(7, tc.effect, tc.text)
			c.Description = "protected data"
			d := authorization.Conditions(c, condition(8, authorization.EffectAllow, isFalse))
			if tc.folded {
				d = authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: authorization.Conditions(c)}, authorization.Set{AuthorizerName: "b", Decision: d}).Fold()
			} else {
				d = d.Evaluate(t.Context(), literal{})
			}
			if got := fmt.Sprintf("%s: %v", d.Reason(), d.Err()); !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestErrorsAreReportedAndBounded(t *testing.T) {
	t.Parallel()
	var conditions []authorization.Condition
	for i := range 100 {
		conditions = append(conditions, condition(i, authorization.EffectAllow, isError))
	}
	got := authorization.Conditions(conditions...).Evaluate(t.Context(), literal{})
	if !got.IsNoOpinion() || !errors.Is(got.Err(), errCondition) || !strings.Contains(got.Err().Error(), "and 92 more errors") {
		t.Errorf("got %s with error %v, want NoOpinion with eight errors and a count of the others", kindOf(got), got.Err())
	}
}

func TestConditionsFailClosed(t *testing.T) {
	t.Parallel()
	many := func(n int, effect authorization.Effect) []authorization.Condition {
		var conditions []authorization.Condition
		for i := range n {
			conditions = append(conditions, condition(i, effect, isTrue))
		}
		return conditions
	}
	bad := func(change func(*authorization.Condition)) []authorization.Condition {
		c := condition(0, authorization.EffectDeny, isTrue)
		change(&c)
		return []authorization.Condition{c}
	}
	for _, tc := range []struct {
		name       string
		conditions []authorization.Condition
		want       string
	}{
		{"none", nil, "NoOpinion"},
		{"as many as a review holds", many(128, authorization.EffectAllow), "conditional"},
		{"more than a review holds", many(129, authorization.EffectDeny), "conditional"},
		{"more than a review holds, the same ID twice", append(many(129, authorization.EffectDeny), many(1, authorization.EffectDeny)...), "Deny"},
		{"more than a review holds, the last one without type", append(many(129, authorization.EffectAllow), authorization.Condition{ID: "example.com/z", Effect: authorization.EffectAllow}), "NoOpinion"},
		{"the same ID twice", append(many(1, authorization.EffectDeny), many(1, authorization.EffectDeny)...), "Deny"},
		{"an ID without domain", bad(func(c *authorization.Condition) { c.ID = "x" }), "Deny"},
		{"a reserved ID", bad(func(c *authorization.Condition) { c.ID = "node.k8s.io/x" }), "Deny"},
		{"no type", bad(func(c *authorization.Condition) { c.Type = "" }), "Deny"},
		{"an unknown effect", bad(func(c *authorization.Condition) { c.Effect = "Maybe" }), "NoOpinion"},
		{"a long text, which matters only when it is serialised", bad(func(c *authorization.Condition) { c.Text = strings.Repeat("x", 20000) }), "conditional"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := authorization.Conditions(tc.conditions...)
			if kindOf(got) != tc.want {
				t.Errorf("got %s, want %s", kindOf(got), tc.want)
			}
			if tc.want != "conditional" && !errors.Is(got.Err(), authorization.ErrInvalidConditions) {
				t.Errorf("got error %v, want ErrInvalidConditions", got.Err())
			}
		})
	}
}

func TestZeroValuesDeny(t *testing.T) {
	t.Parallel()
	if d := (authorization.Decision{}); !d.IsDeny() || d.CanBecomeAllowed() {
		t.Errorf("the zero Decision is %s, want Deny", kindOf(d))
	}
	if d := authorization.Chained(authorization.Set{}).Evaluate(t.Context(), literal{}); !d.IsDeny() {
		t.Errorf("the zero Set evaluates to %s, want Deny", kindOf(d))
	}
	if o := (authorization.Outcome{}); !o.IsUnsupported() || o.IsTrue() || o.IsFalse() {
		t.Error("the zero Outcome must be Unsupported")
	}
}

// complete are the values of conditions that are decided, or never will be.
var complete = []string{isTrue, isFalse, isError, isUnsupported}

// randomDecision makes a tree of decisions, at most depth deep.
func randomDecision(r *rand.Rand, depth int, values []string) authorization.Decision {
	switch n := r.IntN(8); {
	case n == 0:
		return authorization.Allow("", nil)
	case n == 1:
		return authorization.Deny("", nil)
	case n == 2:
		return authorization.NoOpinion("", nil)
	case n < 6 || depth == 0:
		var conditions []authorization.Condition
		for i := range 1 + r.IntN(4) {
			c := condition(i, allEffects[r.IntN(3)], values[r.IntN(len(values))])
			if c.Text != isUnsupported {
				c.Type = authorization.ConditionTypeCEL
			}
			conditions = append(conditions, c)
		}
		return authorization.Conditions(conditions...)
	default:
		return authorization.Chained(randomSets(r, depth-1, values)...)
	}
}

func randomSets(r *rand.Rand, depth int, values []string) []authorization.Set {
	var sets []authorization.Set
	for i := range 1 + r.IntN(3) {
		sets = append(sets, authorization.Set{
			AuthorizerName: fmt.Sprintf("authorizer-%d", i), FailureMode: allModes[r.IntN(3)], Decision: randomDecision(r, depth, values),
		})
	}
	return sets
}

// TestDecisionsAreImmutable changes what decisions were made from, and what they return.
func TestDecisionsAreImmutable(t *testing.T) {
	t.Parallel()
	allowing := authorization.Set{AuthorizerName: "b", Decision: authorization.Allow("", nil)}
	t.Run("the sets of a chain", func(t *testing.T) {
		t.Parallel()
		sets := []authorization.Set{{AuthorizerName: "a", Decision: authorization.Deny("", nil)}, allowing}
		d := authorization.Chained(sets...)
		sets[0], d.Chain()[0] = allowing, allowing
		if got := d.Evaluate(t.Context(), literal{}); !got.IsDeny() {
			t.Errorf("got %s, want Deny", kindOf(got))
		}
	})
	t.Run("the conditions of a set", func(t *testing.T) {
		t.Parallel()
		conditions := []authorization.Condition{condition(0, authorization.EffectDeny, isTrue)}
		d := authorization.Conditions(conditions...)
		conditions[0].Effect, d.Conditions()[0].Effect = authorization.EffectAllow, authorization.EffectAllow
		if got := d.Evaluate(t.Context(), literal{}); !got.IsDeny() {
			t.Errorf("got %s, want Deny", kindOf(got))
		}
	})
}
