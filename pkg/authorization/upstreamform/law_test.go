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

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
)

var (
	lawCases = flag.Int("upstream-form-cases", 20_000, "the number of random decisions of TestLaw")
	lawSeed  = flag.Uint64("upstream-form-seed", 1, "the seed of TestLaw")
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

// TestLaw encodes random decisions, sends them through JSON, and decodes them. Without opaque conditions they evaluate to what they
// evaluated to before without failure modes, which is never more open than with them. With opaque conditions they may be more closed.
func TestLaw(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(*lawSeed, 5681)) //nolint:gosec // not for secrets
	conditional, closed := 0, 0
	for i := range *lawCases {
		d := randomChain(r, 2)
		before, strict := d.Evaluate(t.Context(), byText), withoutModes(d).Evaluate(t.Context(), byText)
		if openness(strict) > openness(before) {
			t.Fatalf("case %d: without failure modes %+v becomes %+v", i, before, strict)
		}
		after, isConditional := throughJSON(t, d)
		if isConditional {
			conditional++
			after = after.Evaluate(t.Context(), byText)
			if openness(after) > openness(strict) || openness(after) < openness(strict) && !mayFail(d) {
				t.Fatalf("case %d: %+v\nevaluates to %+v, and to %+v after the translation", i, d, strict, after)
			}
		}
		if openness(after) > openness(before) {
			t.Fatalf("case %d: %+v\nevaluates to %+v, and to the more open %+v after the translation", i, d, before, after)
		}
		if openness(after) < openness(before) {
			closed++
		}
	}
	t.Logf("%d decisions, %d of them conditional, %d more closed after the translation", *lawCases, conditional, closed)
	if conditional < *lawCases/4 {
		t.Errorf("only %d of %d decisions are conditional", conditional, *lawCases)
	}
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
