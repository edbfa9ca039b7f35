/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

var (
	lawCases = flag.Int("upstream-form-cases", 20_000, "the number of random decisions of TestUpstreamFormLaw")
	lawSeed  = flag.Uint64("upstream-form-seed", 1, "the seed of TestUpstreamFormLaw")
)

const typeOpaque = "example.com/opaque"

// The outcomes that the texts of conditions stand for.
var outcomes = map[string]authorization.Outcome{
	"true": authorization.True(), "false": authorization.False(), "error": authorization.Failed(errors.New("no such key")), "unsupported": authorization.Unsupported(nil),
}

var byText = authorization.ConditionEvaluatorFunc(func(_ context.Context, c authorization.Condition) authorization.Outcome {
	return outcomes[c.Text]
})

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomConditions(r *rand.Rand) authorization.Decision {
	var conditions []authorization.Condition
	for i := range 1 + r.IntN(4) {
		conditions = append(conditions, authorization.Condition{
			ID: fmt.Sprintf("example.com/c%d", i), Description: pick(r, "", "a rule"),
			Effect: pick(r, authorization.EffectAllow, authorization.EffectAllow, authorization.EffectDeny, authorization.EffectNoOpinion),
			Type:   pick(r, authorization.ConditionTypeCEL, authorization.ConditionTypeCELBound, typeOpaque),
			Text:   pick(r, "true", "true", "false", "false", "error", "unsupported"),
		})
	}
	return authorization.Conditions(conditions...)
}

func randomDecision(r *rand.Rand, depth int) authorization.Decision {
	switch n := r.IntN(10); {
	case n == 0:
		return authorization.Allow("because", nil)
	case n == 1:
		return authorization.Deny("because", nil)
	case n == 2:
		return authorization.NoOpinion("because", nil)
	case n < 5 && depth > 0:
		return randomChain(r, depth-1)
	}
	return randomConditions(r)
}

func randomChain(r *rand.Rand, depth int) authorization.Decision {
	var sets []authorization.Set
	for i := range 1 + r.IntN(3) {
		sets = append(sets, authorization.Set{
			AuthorizerName: fmt.Sprintf("a%d", i), Decision: randomDecision(r, depth),
			FailureMode: pick(r, "", authorization.FailureModeDeny, authorization.FailureModeNoOpinion),
		})
	}
	return authorization.Chained(sets...)
}

// withoutModes returns a decision whose sets have no failure modes.
func withoutModes(d authorization.Decision) authorization.Decision {
	sets := d.Chain()
	if sets == nil {
		return d
	}
	for i := range sets {
		sets[i].FailureMode, sets[i].Decision = "", withoutModes(sets[i].Decision)
	}
	return authorization.Chained(sets...)
}

// openness orders unconditional decisions.
func openness(d authorization.Decision) int {
	switch {
	case d.IsAllow():
		return 2
	case d.IsNoOpinion():
		return 1
	default:
		return 0
	}
}

// mayFail reports whether a decision has a condition that a client may not be able to evaluate.
func mayFail(d authorization.Decision) bool {
	opaque := func(c authorization.Condition) bool { return c.Type == typeOpaque }
	nested := func(s authorization.Set) bool { return mayFail(s.Decision) }
	return slices.ContainsFunc(d.Conditions(), opaque) || slices.ContainsFunc(d.Chain(), nested)
}

// lawOutcome says what became of one decision.
type lawOutcome struct{ conditional, closed bool }

// law encodes a decision, sends it through JSON, and decodes it. Without opaque conditions it evaluates to what it evaluated to before
// without failure modes, which is never more open than with them. It evaluates to the same as with failure modes where a chain is simplified
// before it is translated: a set that cannot deny and has the failure mode NoOpinion does not matter before an Allow. With opaque conditions
// it may be more closed.
func law(t *testing.T, d authorization.Decision) (o lawOutcome) {
	t.Helper()
	before, strict := d.Evaluate(t.Context(), byText), withoutModes(d).Evaluate(t.Context(), byText)
	if openness(strict) > openness(before) {
		t.Fatalf("without failure modes %+v becomes %+v", before, strict)
	}
	after, isConditional := throughJSON(t, d)
	if isConditional {
		o.conditional = true
		after = after.Evaluate(t.Context(), byText)
		if openness(after) > openness(strict) && openness(after) != openness(before) || openness(after) < openness(strict) && !mayFail(d) {
			t.Fatalf("%+v\nevaluates to %+v, and to %+v after the translation", d, strict, after)
		}
	}
	if openness(after) > openness(before) {
		t.Fatalf("%+v\nevaluates to %+v, and to the more open %+v after the translation", d, before, after)
	}
	o.closed = openness(after) < openness(before)
	return o
}

// TestUpstreamFormLaw checks the law for random decisions.
func TestUpstreamFormLaw(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(*lawSeed, 5681)) //nolint:gosec // not for secrets
	conditional, closed := 0, 0
	tried := cases.Of(*lawCases)
	for tried.Next() {
		o := law(t, randomChain(r, 2))
		if o.conditional {
			conditional++
		}
		if o.closed {
			closed++
		}
	}
	t.Logf("%d decisions, %d of them conditional, %d more closed after the translation", tried.Tried(), conditional, closed)
	if conditional < tried.Tried()/4 {
		t.Errorf("only %d of %d decisions are conditional", conditional, tried.Tried())
	}
}

// TestLawOfSimplifiedChains checks the law for a chain that is Allow because of a failure mode, before it is translated.
func TestLawOfSimplifiedChains(t *testing.T) {
	t.Parallel()
	conditions := func(effect authorization.Effect, text string) authorization.Decision {
		return authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: effect, Type: typeOpaque, Text: text})
	}
	allowed := authorization.Chained(
		authorization.Set{AuthorizerName: "a0", FailureMode: authorization.FailureModeNoOpinion, Decision: conditions(authorization.EffectAllow, "unsupported")},
		authorization.Set{AuthorizerName: "a1", Decision: authorization.Allow("", nil)},
	)
	d := authorization.Chained(
		authorization.Set{AuthorizerName: "a0", Decision: conditions(authorization.EffectDeny, "false")}, authorization.Set{AuthorizerName: "a1", Decision: allowed},
	)
	if o := law(t, d); !o.conditional || o.closed {
		t.Errorf("got %+v, want a conditional decision that is no more closed", o)
	}
}

// FuzzEncode checks the law for decisions that the bytes of the input choose.
func FuzzEncode(f *testing.F) {
	for _, seed := range []string{"", "a few bytes", "\x05\x02\x07\x00\x03\xff\x01\x04"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, choices []byte) { law(t, randomChain(rand.New(&bytesSource{choices}), 2)) }) //nolint:gosec // not for secrets
}

// bytesSource is a source of random numbers whose choices are bytes. After the last byte, all choices are the first.
type bytesSource struct{ left []byte }

// Uint64 implements rand.Source. The generator takes the lowest bits for a power of two, and the highest bits for other numbers. It draws
// again if the bits after these are zero, so that one is set.
func (s *bytesSource) Uint64() uint64 {
	var next uint64
	if len(s.left) > 0 {
		next, s.left = uint64(s.left[0]), s.left[1:]
	}
	return next<<56 | 1<<55 | next
}

// throughJSON returns a decision as a client reads it, and whether it is conditional.
func throughJSON(t *testing.T, d authorization.Decision) (authorization.Decision, bool) {
	t.Helper()
	form, folded := upstreamform.Encode(d)
	if form == nil {
		return folded, false
	}
	text, err := json.Marshal(form)
	if err != nil {
		t.Fatal(err)
	}
	read := &upstreamform.Decision{}
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	decoded, err := upstreamform.Decode("webhook", read)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return decoded, true
}

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
