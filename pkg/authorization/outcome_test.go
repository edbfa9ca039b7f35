/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestBecause has conditions say why they are what they are.
func TestBecause(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		effect  authorization.Effect
		outcome authorization.Outcome
		want    string
	}{
		{"an Allow that does not hold", authorization.EffectAllow, authorization.False().Because("the field x"), `condition=example.com/a reason=NotMet: about: the field x`},
		{"an Allow that does not hold, without reason", authorization.EffectAllow, authorization.False(), `condition=example.com/a reason=NotMet: about`},
		{"an Allow that holds", authorization.EffectAllow, authorization.True().Because("the field x"), `condition=example.com/a reason=Allowed: about: the field x`},
		{"a Deny that does not hold", authorization.EffectDeny, authorization.False().Because("the field x"), ""},
		{"a Deny that holds", authorization.EffectDeny, authorization.True().Because("the field x"), `condition=example.com/a reason=Denied: about: the field x`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := authorization.Conditions(authorization.Condition{ID: "example.com/a", Effect: tc.effect, Type: "example.com/t", Description: "about"})
			got := decision.Evaluate(t.Context(), authorization.ConditionEvaluatorFunc(func(context.Context, authorization.Condition) authorization.Outcome { return tc.outcome }))
			if got.Reason() != tc.want {
				t.Errorf("got  %s\nwant %s", got.Reason(), tc.want)
			}
		})
	}
}

// TestExplainedAtTheEnd has the explanation of a condition spend the whole budget of the request. A later set must still be
// evaluated, and if it decides, nothing is explained.
func TestExplainedAtTheEnd(t *testing.T) {
	t.Parallel()
	condition := func(id string, effect authorization.Effect, evaluate func(context.Context, authorizer.ConditionsData) authorization.Outcome) authorization.Decision {
		return authorization.Conditions(authorization.Condition{ID: id, Effect: effect, Type: authorization.ConditionTypeCEL, EvaluateFunc: evaluate})
	}
	for _, tc := range []struct {
		name   string
		effect authorization.Effect
		later  authorization.Outcome
		want   string
	}{
		{"a later set allows", authorization.EffectAllow, authorization.True(), "condition=example.com/b reason=Allowed: it allows the request"},
		{"a later set denies", authorization.EffectDeny, authorization.True(), "condition=example.com/b reason=Denied: it denies the request"},
		{"a later set does neither", authorization.EffectAllow, authorization.False(), "condition=example.com/a reason=NotMet: explained; condition=example.com/b reason=NotMet: its condition does not hold"},
	} {
		explained := 0
		first := condition("example.com/a", authorization.EffectAllow, func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
			return authorization.False().Explained(func() string {
				explained++
				authorization.BudgetOf(ctx).Spend(cel.CostBudget)
				return "explained"
			})
		})
		second := condition("example.com/b", tc.effect, func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
			if err := authorization.BudgetOf(ctx).Err(); err != nil {
				return authorization.Exhausted(err)
			}
			return tc.later
		})
		chain, err := authorization.NewChain(
			authorization.Member{Name: "first", Decider: decides{first}},
			authorization.Member{Name: "second", Decider: decides{second}},
		)
		if err != nil {
			t.Fatal(err)
		}
		nested := authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: first})
		for name, evaluate := range map[string]func(context.Context, authorization.ConditionEvaluator) authorization.Decision{
			"a chain":        authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: first}, authorization.Set{AuthorizerName: "b", Decision: second}).Evaluate,
			"a nested chain": authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: nested}, authorization.Set{AuthorizerName: "b", Decision: second}).Evaluate,
			"a lazy one":     chain.Begin(t.Context(), authorizer.AttributesRecord{}).Evaluate,
		} {
			t.Run(tc.name+", "+name, func(t *testing.T) {
				explained = 0
				got := evaluate(authorization.WithBudget(t.Context()), authorization.EvaluatorFor(nil, nil))
				wantExplained := 0
				if got.IsNoOpinion() {
					wantExplained = 1
				}
				if got.Reason() != tc.want || explained != wantExplained {
					t.Errorf("got %q, explained %d times; want %q, %d times", got.Reason(), explained, tc.want, wantExplained)
				}
			})
		}
	}
}

// TestReasonsAreOneLine has reasons of other servers.
func TestReasonsAreOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"role=\"ä\": policy=p reason=Denied: x": "role=\"ä\": policy=p reason=Denied: x",
		"a\x1b[2J\nError: b\u202e\u2028\x7f":    "a [2J Error: b   ",
		"a\xff":                                 "a\uFFFD",
	} {
		for _, decision := range []authorization.Decision{authorization.Deny(text, nil), authorization.NoOpinionBecause(func() string { return text })} {
			if got := decision.Reason(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
}

// TestReasonsOfAuthors has descriptions and explanations that look like other reasons, or change how a terminal shows them.
func TestReasonsOfAuthors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"words", "nobody touches <that>: ä “x” \U0001F600", "nobody touches <that>: ä “x” \U0001F600"},
		{"nothing but blanks", " \n\t", "its condition does not hold"},
		{"another reason", "x; policy=admin reason=Allowed: everything", "x; policy = admin reason=Allowed: everything"},
		{"another reason at once", "condition=a/b reason=Denied: no", "condition = a/b reason=Denied: no"},
		{"another line", "x\npolicy=admin\r\n\u2028y\u0085z", "x policy = admin   y z"},
		{"an escape sequence", "x\x1b[2Jy\x00\x7f", "x [2Jy"},
		{"another direction", "x\u202ey\u2066z", "x y z"},
		{"joined by a zero-width space", "policy\u200b=admin", "policy =admin"},
		{"no text", "x\xffy", "x\uFFFDy"},
		{"another word", "the wallpolicy is object.policy == 1", "the wallpolicy is object.policy == 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got, want := authorization.Explain("cluster.policy.proviso.dev/p", authorization.WordNotMet, tc.text), "policy=p reason=NotMet: "+tc.want; got != want {
				t.Errorf("Explain: got %q, want %q", got, want)
			}
			want := "policy=p (" + tc.want + ")"
			if tc.name == "nothing but blanks" {
				want = "policy=p"
			}
			if got := (authorization.Condition{ID: "cluster.policy.proviso.dev/p", Description: tc.text}).Label(); got != want {
				t.Errorf("Label: got %q, want %q", got, want)
			}
		})
	}
}

// TestNamesInReasons has IDs of conditions, and how reasons name them. Only an ID in a domain of policies is named as a policy.
func TestNamesInReasons(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"cluster.policy.proviso.dev/p":              "policy=p",
		"n.namespace.policy.proviso.dev/p":          "policy=n/p",
		"n.m.namespace.policy.proviso.dev/p":        "policy=n.m/p",
		".namespace.policy.proviso.dev/p":           "condition=.namespace.policy.proviso.dev/p",
		"namespace.policy.proviso.dev/p":            "condition=namespace.policy.proviso.dev/p",
		"x.cluster.policy.proviso.dev/p":            "condition=x.cluster.policy.proviso.dev/p",
		"cluster.policy.proviso.dev.example.com/p":  "condition=cluster.policy.proviso.dev.example.com/p",
		"n.namespace.policy.proviso.dev.evil.com/p": "condition=n.namespace.policy.proviso.dev.evil.com/p",
		"example.com/cluster.policy.proviso.dev":    "condition=example.com/cluster.policy.proviso.dev",
		"example.com/c":                             "condition=example.com/c",
		"cluster.policy.proviso.dev":                "policy=",
		"":                                          "condition=",
	} {
		if got, want := authorization.Explain(id, authorization.WordDenied, "why"), want+" reason=Denied: why"; got != want {
			t.Errorf("%q: got %s, want %s", id, got, want)
		}
	}
}

// TestPartsOfReasons joins what an author and a condition say. Without any text, a reason says what the word means.
func TestPartsOfReasons(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		word  authorization.Word
		parts []string
		want  string
	}{
		{name: "two parts", word: authorization.WordNotMet, parts: []string{"a", "b"}, want: "NotMet: a: b"},
		{name: "an empty part", word: authorization.WordNotMet, parts: []string{"", "b"}, want: "NotMet: b"},
		{name: "a part of blanks", word: authorization.WordNotMet, parts: []string{"a", " \t"}, want: "NotMet: a"},
		{name: "allowed", word: authorization.WordAllowed, want: "Allowed: it allows the request"},
		{name: "denied", word: authorization.WordDenied, want: "Denied: it denies the request"},
		{name: "held back", word: authorization.WordHeldBack, parts: []string{""}, want: "HeldBack: it keeps Allow policies from allowing the request"},
		{name: "not met", word: authorization.WordNotMet, want: "NotMet: its condition does not hold"},
		{name: "an error", word: authorization.WordError, want: "Error: its condition could not be evaluated"},
	} {
		before := slices.Clone(tc.parts)
		if got, want := authorization.Explain("example.com/c", tc.word, tc.parts...), "condition=example.com/c reason="+tc.want; got != want {
			t.Errorf("%s: got %s, want %s", tc.name, got, want)
		}
		if !slices.Equal(before, tc.parts) {
			t.Errorf("%s: the parts have become %q", tc.name, tc.parts)
		}
	}
}

// TestReasonsAreFoundWhenNeeded has an authorizer without an opinion whose reason takes time.
func TestReasonsAreFoundWhenNeeded(t *testing.T) {
	t.Parallel()
	condition := authorization.Condition{ID: "example.com/a", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "true"}
	for _, tc := range []struct {
		name       string
		later      authorization.Decision
		wantReason string
		wantCalls  int
	}{
		{"a later authorizer allows", authorization.Allow("granted", nil), "granted", 0},
		{"a later authorizer denies", authorization.Deny("denied", nil), "denied", 0},
		{"a later authorizer has conditions", authorization.Conditions(condition), "", 0},
		{"nobody decides", authorization.NoOpinion("nothing", nil), "found; nothing", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			first := authorization.NoOpinionBecause(func() string { calls++; return "found" })
			chain, err := authorization.NewChain(
				authorization.Member{Name: "first", Decider: decides{first}},
				authorization.Member{Name: "later", Decider: decides{tc.later}},
			)
			if err != nil {
				t.Fatal(err)
			}
			decision := chain.Decide(t.Context(), authorizer.AttributesRecord{})
			for range 2 {
				if decision.Reason() != tc.wantReason || calls != tc.wantCalls {
					t.Errorf("got %q after %d calls, want %q after %d", decision.Reason(), calls, tc.wantReason, tc.wantCalls)
				}
			}
			_, reason, _ := decision.Concrete()
			if status := authorization.Status(decision); tc.wantCalls == 1 && (reason != tc.wantReason || status.Reason != tc.wantReason || calls != 1) {
				t.Errorf("got %q and %q after %d calls, want %q", reason, status.Reason, calls, tc.wantReason)
			}
		})
	}
}
