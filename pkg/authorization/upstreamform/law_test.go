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
