/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

func TestUpstreamKeepsNamesAndFailureModes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		sets []authorization.Set
	}{
		{"a lone set", []authorization.Set{
			{AuthorizerName: "lone", FailureMode: authorization.FailureModeNoOpinion, Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isTrue))},
		}},
		{"two sets", []authorization.Set{
			{AuthorizerName: "first", FailureMode: authorization.FailureModeNoOpinion, Decision: authorization.Conditions(condition(0, authorization.EffectDeny, isTrue))},
			{AuthorizerName: "second", FailureMode: authorization.FailureModeDeny, Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isTrue))},
		}},
		{"nested", []authorization.Set{
			{AuthorizerName: "outer", Decision: authorization.Chained(
				authorization.Set{AuthorizerName: "inner", FailureMode: authorization.FailureModeNoOpinion, Decision: authorization.Conditions(condition(0, authorization.EffectDeny, isTrue))},
				authorization.Set{AuthorizerName: "inner-too", Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isTrue))},
			)},
			{AuthorizerName: "last", Decision: authorization.Allow("", nil)},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			back := authorization.FromUpstream("somebody-else", authorization.ToUpstream(authorization.Chained(tc.sets...)))
			compareSets(t, tc.sets, back.Chain())
		})
	}
}

// TestUpstreamKeepsFailures translates chains that end with Allow after conditions of an unknown type, which upstream would fold to Allow. The
// reason of the Allow is kept.
func TestUpstreamKeepsFailures(t *testing.T) {
	t.Parallel()
	set := func(name string, mode authorization.FailureMode, d authorization.Decision) authorization.Set {
		return authorization.Set{AuthorizerName: name, FailureMode: mode, Decision: d}
	}
	unknown := func(text string) authorization.Decision {
		return authorization.Conditions(condition(0, authorization.EffectAllow, text))
	}
	allow, noOpinion := authorization.Allow("because", errCondition), authorization.FailureModeNoOpinion
	for _, tc := range []struct {
		name string
		sets []authorization.Set
		want string
	}{
		{"an unknown type", []authorization.Set{set("a", "", unknown(isUnsupported)), set("b", "", allow)}, "Deny"},
		{"an unknown type that its author evaluates to false", []authorization.Set{set("a", "", unknown(isFalse)), set("b", "", allow)}, "Allow"},
		{"an unknown type that its author evaluates to true", []authorization.Set{set("a", "", unknown(isTrue)), set("b", "", authorization.Deny("", nil))}, "Allow"},
		{"the failure mode NoOpinion", []authorization.Set{set("a", noOpinion, unknown(isUnsupported)), set("b", "", allow)}, "Allow"},
		{"in a nested chain", []authorization.Set{set("n", "", authorization.Chained(set("a", "", unknown(isUnsupported)), set("b", "", allow))), set("z", "", allow)}, "Deny"},
		{"before a nested chain", []authorization.Set{set("a", "", unknown(isUnsupported)), set("n", "", authorization.Chained(set("a", noOpinion, unknown(isFalse)), set("b", "", allow)))}, "Deny"},
		{"a nested chain before Allow", []authorization.Set{set("n", "", authorization.Chained(set("a", "", unknown(isUnsupported)))), set("z", "", allow)}, "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := authorization.Chained(tc.sets...)
			before, upstream := d.Evaluate(t.Context(), literal{}), authorization.ToUpstream(d)
			after := authorization.FromUpstream("lone", upstream).Evaluate(t.Context(), literal{})
			if kindOf(before) != tc.want || kindOf(after) != tc.want || !strings.Contains(after.Reason(), before.Reason()) {
				t.Errorf("got %s (%s), and %s (%s) after the translation, want %s", kindOf(before), before.Reason(), kindOf(after), after.Reason(), tc.want)
			}
			if alone := authorizer.PartiallyEvaluateConditionsAwareDecision(t.Context(), upstream, nil, nil); tc.want == "Deny" && alone.IsAllow() {
				t.Errorf("an evaluator that does not know the type says %s", alone)
			}
		})
	}
}

func compareSets(t *testing.T, want, got []authorization.Set) {
	t.Helper()
	type flat struct {
		Name, Mode, Kind string
		Conditions       []string
	}
	var flatten func(sets []authorization.Set) []flat
	flatten = func(sets []authorization.Set) []flat {
		var result []flat
		for _, s := range sets {
			f := flat{Name: s.AuthorizerName, Mode: string(s.FailureMode), Kind: kindOf(s.Decision)}
			for _, c := range s.Decision.Conditions() {
				f.Conditions = append(f.Conditions, string(c.Effect)+" "+c.ID+" "+c.Text)
			}
			result = append(append(result, f), flatten(s.Decision.Chain())...)
		}
		return result
	}
	if diff := cmp.Diff(flatten(want), flatten(got)); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
}

var (
	upstreamCases = flag.Int("upstream-cases", 20_000, "the number of random decisions of TestLawOfUpstream")
	upstreamSeed  = flag.Uint64("upstream-seed", 5, "the seed of TestLawOfUpstream")
)

// TestLawOfUpstream translates random decisions to the types of k8s.io/apiserver and back: they mean the same, also nested chains whose
// conditions have unknown types.
func TestLawOfUpstream(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(*upstreamSeed, 6)) //nolint:gosec // a test
	unsupported, failed := 0, 0
	tried := cases.Of(*upstreamCases)
	for tried.Next() {
		d := authorization.Chained(randomSets(r, 2, complete)...)
		upstream := authorization.ToUpstream(d)
		want := d.Evaluate(t.Context(), literal{})
		got := authorization.FromUpstream("lone", upstream).Evaluate(t.Context(), literal{})
		if kindOf(got) != kindOf(want) {
			t.Fatalf("%s\nmeans %s but comes back from upstream as %s", upstream, kindOf(want), kindOf(got))
		}
		if containsText(d, isUnsupported) {
			unsupported++
			if want.IsDeny() {
				failed++
			}
		}
	}
	if atLeast := tried.Tried() / 20; unsupported < atLeast || failed < atLeast {
		t.Errorf("only %d decisions had conditions that nobody can evaluate, and %d of them deny", unsupported, failed)
	}
}

func containsText(d authorization.Decision, text string) bool {
	for _, c := range d.Conditions() {
		if c.Text == text {
			return true
		}
	}
	for _, s := range d.Chain() {
		if containsText(s.Decision, text) {
			return true
		}
	}
	return false
}

// TestUpstreamEvaluatesOurConditions evaluates with upstream's own algebra. It agrees
// with ours wherever it can express ours: failure mode Deny.
func TestUpstreamEvaluatesOurConditions(t *testing.T) {
	t.Parallel()
	evaluate := func(c authorization.Condition) authorization.Condition {
		c.EvaluateFunc = func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
			return literal{}.EvaluateCondition(ctx, c)
		}
		return c
	}
	eachSet([]string{isTrue, isFalse, isError}, func(conditions []authorization.Condition) {
		var closures []authorization.Condition
		for _, c := range conditions {
			closures = append(closures, evaluate(c))
		}
		upstream := authorization.ToUpstream(authorization.Chained(setOf(closures, authorization.FailureModeDeny)))
		got := authorizer.PartiallyEvaluateConditionsAwareDecision(t.Context(), upstream, nil, nil)
		want := wantOfSet(conditions, authorization.FailureModeDeny)
		if kindOf(authorization.FromUpstream("", got)) != want {
			t.Errorf("conditions %v: upstream says %s, want %s", conditions, got, want)
		}
	})
}

func TestFromUpstreamOfSomebodyElse(t *testing.T) {
	t.Parallel()
	theirs := authorizer.ConditionsAwareDecisionConditionsMap(
		[]authorizer.Condition{authorizer.GenericCondition{ID: "example.com/deny", Type: "example.com/t", EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			return authorizer.ConditionEvaluationResultError(errCondition)
		}}}, nil,
		[]authorizer.Condition{authorizer.GenericCondition{ID: "example.com/allow", Type: "example.com/t", Condition: "opaque"}})
	d := authorization.FromUpstream("their-authorizer", theirs)
	sets := d.Chain()
	if len(sets) != 1 || sets[0].AuthorizerName != "their-authorizer" {
		t.Fatalf("got %+v, want one set named after the authorizer", sets)
	}
	got := d.Evaluate(t.Context(), authorization.EvaluatorFor(nil, nil))
	if !got.IsDeny() || !errors.Is(got.Err(), errCondition) {
		t.Errorf("an erring Deny condition of somebody else: got %s, %v, want Deny with its error", kindOf(got), got.Err())
	}
}

// TestFromUpstreamGoesByThePlaceOfACondition: a wrapper may put our conditions elsewhere.
func TestFromUpstreamGoesByThePlaceOfACondition(t *testing.T) {
	t.Parallel()
	ours := authorization.ToUpstream(authorization.Chained(authorization.Set{
		AuthorizerName: "ours", FailureMode: authorization.FailureModeNoOpinion,
		Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isTrue)),
	}))
	var moved []authorizer.Condition
	for _, member := range ours.UnionedDecisions() {
		for c := range member.ConditionsMap().AllowConditions() {
			moved = append(moved, c)
		}
	}
	got := authorization.FromUpstream("wrapper", authorizer.ConditionsAwareDecisionConditionsMap(moved, nil, nil)).Evaluate(t.Context(), literal{})
	if len(moved) != 1 || !got.IsDeny() {
		t.Errorf("an Allow condition among the Deny conditions: got %s, want Deny", kindOf(got))
	}
	failing := authorizer.GenericCondition{ID: "example.com/theirs", Type: "example.com/t", EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
		return authorizer.ConditionEvaluationResultError(errCondition)
	}}
	mixed := authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{failing}, nil, moved)
	got = authorization.FromUpstream("wrapper", mixed).Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{}))
	if !got.IsDeny() {
		t.Errorf("a failing Deny condition of somebody else beside ours with failure mode NoOpinion: got %s, want Deny", kindOf(got))
	}
	unfolded := authorization.ToUpstream(authorization.Chained(
		authorization.Set{AuthorizerName: "a", Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isFalse))},
		authorization.Set{AuthorizerName: "b", Decision: authorization.Allow("", nil)},
	))
	for _, member := range unfolded.UnionedDecisions() {
		moved = slices.Collect(member.ConditionsMap().AllowConditions())
	}
	got = authorization.FromUpstream("wrapper", authorizer.ConditionsAwareDecisionConditionsMap(moved, nil, nil)).Evaluate(t.Context(), literal{})
	if len(moved) != 1 || !got.IsDeny() {
		t.Errorf("an Allow that was not folded among the Deny conditions: got %s, want Deny", kindOf(got))
	}
}

func TestFromUpstreamUnionOfSomebodyElse(t *testing.T) {
	t.Parallel()
	theirs := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil,
		[]authorizer.Condition{authorizer.GenericCondition{ID: "example.com/allow", Type: "example.com/t"}})
	union := authorizer.ConditionsAwareDecisionUnion{}
	union.Add("first", theirs)
	union.Add("second", theirs)
	var names []string
	for _, set := range authorization.FromUpstream("ignored", union.ToDecision()).Chain() {
		names = append(names, set.AuthorizerName)
	}
	if diff := cmp.Diff([]string{"first", "second"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestFromUpstreamUnconditional(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		upstream authorizer.ConditionsAwareDecision
		want     string
	}{
		{authorizer.ConditionsAwareDecisionAllow("why", errCondition), "Allow"},
		{authorizer.ConditionsAwareDecisionDeny("why", errCondition), "Deny"},
		{authorizer.ConditionsAwareDecisionNoOpinion("why", errCondition), "NoOpinion"},
		{authorizer.ConditionsAwareDecision{}, "Deny"},
	} {
		got := authorization.FromUpstream("a", tc.upstream)
		if kindOf(got) != tc.want || got.Reason() != tc.upstream.Reason() || !errors.Is(got.Err(), tc.upstream.Error()) {
			t.Errorf("%s became %s with %q, %v", tc.upstream, kindOf(got), got.Reason(), got.Err())
		}
	}
}

// allowingAuthor allows whatever conditions it is asked about.
type allowingAuthor struct{ authorizer.Authorizer }

// EvaluateConditions allows.
func (allowingAuthor) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// TestAuthorAllowsOnlyWhatItsSetCan asks that an Allow of an author whose set has no Allow condition
// is a failure of the set. Without it, later sets would not be asked.
func TestAuthorAllowsOnlyWhatItsSetCan(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		effect authorization.Effect
		mode   authorization.FailureMode
		want   string
	}{
		{name: "a Deny condition", effect: authorization.EffectDeny, want: "Deny"},
		{name: "a Deny condition that fails to NoOpinion", effect: authorization.EffectDeny, mode: authorization.FailureModeNoOpinion, want: "NoOpinion"},
		{name: "an Allow condition", effect: authorization.EffectAllow, want: "Allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := authorization.Set{
				AuthorizerName: "a", FailureMode: tc.mode, Author: allowingAuthor{},
				Decision: authorization.Conditions(condition(0, tc.effect, isUnsupported)),
			}
			if got := authorization.Chained(set).Evaluate(t.Context(), authorization.EvaluatorFor(nil, nil)); kindOf(got) != tc.want {
				t.Errorf("got %s (%s), want %s", kindOf(got), got.Reason(), tc.want)
			}
		})
	}
}

// TestUpstreamOutcomes evaluates our conditions by the interface of Kubernetes. What that cannot express is unevaluatable, and never true.
func TestUpstreamOutcomes(t *testing.T) {
	t.Parallel()
	failure := errors.New("a failure")
	for _, tc := range []struct {
		name    string
		outcome *authorization.Outcome // nil if the condition cannot be evaluated in process
		want    string
	}{
		{name: "true", outcome: ptr.To(authorization.True()), want: "true"},
		{name: "false", outcome: ptr.To(authorization.False()), want: "false"},
		{name: "an error", outcome: ptr.To(authorization.Failed(failure)), want: "error: a failure"},
		{name: "too costly", outcome: ptr.To(authorization.Exhausted(failure)), want: "error: a failure"},
		{name: "a residual", outcome: ptr.To(authorization.Residual(authorization.Condition{ID: "example.com/r"})), want: "unevaluatable"},
		{name: "not supported", outcome: ptr.To(authorization.Unsupported(failure)), want: "unevaluatable"},
		{name: "the zero value", outcome: &authorization.Outcome{}, want: "unevaluatable"},
		{name: "no function", want: "unevaluatable"},
	} {
		c := authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: "example.com/t", Text: "text", Description: "about"}
		if tc.outcome != nil {
			c.EvaluateFunc = func(context.Context, authorizer.ConditionsData) authorization.Outcome { return *tc.outcome }
		}
		seen := 0
		for upstream := range authorization.ToUpstream(authorization.Conditions(c)).ConditionsMap().AllowConditions() {
			seen++
			result, got := upstream.Evaluate(t.Context(), nil), "unevaluatable"
			switch {
			case result.IsTrue():
				got = "true"
			case result.IsFalse():
				got = "false"
			case result.IsError():
				got = "error: " + result.Error().Error()
			}
			if got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
			}
			if texts := []string{upstream.GetID(), upstream.GetType(), upstream.GetCondition(), upstream.GetDescription()}; !slices.Equal(texts, []string{"example.com/c", "example.com/t", "text", "about"}) {
				t.Errorf("%s: got %q", tc.name, texts)
			}
		}
		if seen != 1 {
			t.Errorf("%s: got %d conditions, want 1", tc.name, seen)
		}
	}
}
