/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// TestLazyAsksAsLittleAsItCan counts who is asked before a request is let past
// authorization, and who once its data is there.
func TestLazyAsksAsLittleAsItCan(t *testing.T) {
	t.Parallel()
	allow, deny, noOpinion := authorization.Allow("", nil), authorization.Deny("", nil), authorization.NoOpinion("", nil)
	unless := authorization.Conditions(condition(0, authorization.EffectDeny, isFalse))
	allowNot := authorization.Conditions(condition(0, authorization.EffectAllow, isFalse))
	for _, tc := range []struct {
		name                   string
		decisions              []authorization.Decision
		wantAllowable          bool
		wantBefore, wantBehind int
		want                   string
	}{
		{"nobody", nil, false, 0, 0, "NoOpinion"},
		{"the rest after an Allow is never asked", []authorization.Decision{allow, deny}, true, 1, 1, "Allow"},
		{"a condition that holds ends it", []authorization.Decision{allowIf, deny}, true, 1, 1, "Allow"},
		{"a condition that does not hold leaves it to the next", []authorization.Decision{allowNot, allow, deny}, true, 1, 2, "Allow"},
		{"and to the one after", []authorization.Decision{allowNot, noOpinion, allowIf}, true, 1, 3, "Allow"},
		{"up to a Deny", []authorization.Decision{allowNot, deny, allow}, true, 1, 2, "Deny"},
		{"a restriction does not allow", []authorization.Decision{unless, allow}, true, 2, 2, "Allow"},
		{"a restriction that holds", []authorization.Decision{denyIf, allow}, true, 2, 2, "Deny"},
		{"only a restriction", []authorization.Decision{unless, noOpinion}, false, 2, 2, "NoOpinion"},
		{"a Deny before anybody could allow", []authorization.Decision{noOpinion, deny, allow}, false, 2, 2, "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var authorizers []*fixed
			for _, d := range tc.decisions {
				authorizers = append(authorizers, &fixed{decision: d})
			}
			asked := func() (n int) {
				for _, a := range authorizers {
					n += a.asked
				}
				return n
			}
			lazy := chainOf(t, authorizers...).Begin(t.Context(), authorizer.AttributesRecord{})
			if got := lazy.Decision().CanBecomeAllowed(); got != tc.wantAllowable || asked() != tc.wantBefore {
				t.Errorf("before: can become allowed %v after asking %d, want %v after %d", got, asked(), tc.wantAllowable, tc.wantBefore)
			}
			if got := kindOf(lazy.Evaluate(t.Context(), literal{})); got != tc.want || asked() != tc.wantBehind {
				t.Errorf("behind: got %s after asking %d, want %s after %d", got, asked(), tc.want, tc.wantBehind)
			}
		})
	}
}

// TestLazyAgreesWithEager compares with the chain that asks everybody, over random
// answers. Where no evaluation fails they are equal; where one does, lazy is not more open.
func TestLazyAgreesWithEager(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	for c := cases.Of(20_000); c.Next(); {
		values := []string{isTrue, isFalse}
		fails := r.IntN(2) == 0
		if fails {
			values = complete
		}
		var authorizers []*fixed
		for range r.IntN(4) {
			authorizers = append(authorizers, &fixed{decision: randomDecision(r, 1, values)})
		}
		chain := chainOf(t, authorizers...)
		eager := chain.Decide(t.Context(), authorizer.AttributesRecord{})
		want := kindOf(eager.Evaluate(t.Context(), literal{}))
		lazy := chain.Begin(t.Context(), authorizer.AttributesRecord{})
		got := kindOf(lazy.Evaluate(t.Context(), literal{}))
		if got != want && (!fails || got == "Allow") {
			t.Fatalf("lazy gives %s, eager %s, for %v", got, want, eager)
		}
		if got == "Allow" && !lazy.Decision().CanBecomeAllowed() {
			t.Fatal("a request that was allowed in the end could not become allowed")
		}
	}
}

// TestLazyIsSafeForConcurrentUse is for the race detector: deletecollection evaluates the
// decision about one request for several objects at a time.
func TestLazyIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	last := &fixed{decision: authorization.Allow("", nil)}
	lazy := chainOf(t, &fixed{decision: authorization.Conditions(condition(0, authorization.EffectAllow, isFalse))}, last).
		Begin(t.Context(), authorizer.AttributesRecord{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got := kindOf(lazy.Evaluate(t.Context(), literal{})); got != "Allow" {
				t.Errorf("got %s, want Allow", got)
			}
		})
	}
	group.Wait()
	if last.asked != 1 {
		t.Errorf("the last member was asked %d times, want once", last.asked)
	}
}

// moving is an authorizer that decides from something that changes.
type moving struct {
	authorizer.Authorizer
	now authorization.Decision
}

type movingKey struct{}

func (m *moving) Pin(ctx context.Context) context.Context {
	if ctx.Value(movingKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, movingKey{}, m.now)
}

func (m *moving) ConditionsAwareAuthorize(ctx context.Context, _ authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorization.ToUpstream(ctx.Value(movingKey{}).(authorization.Decision))
}

func TestLazyDecidesFromWhatWasPinned(t *testing.T) {
	t.Parallel()
	behind := &moving{now: authorization.Deny("", nil)}
	chain, err := authorization.NewChain(
		authorization.Member{Name: "first", Decider: authorization.DeciderOf(&fixed{decision: authorization.Conditions(condition(0, authorization.EffectAllow, isFalse))})},
		authorization.Member{Name: "behind", Decider: authorization.DeciderOf(behind)},
	)
	if err != nil {
		t.Fatal(err)
	}
	lazy := chain.Begin(t.Context(), authorizer.AttributesRecord{})
	behind.now = authorization.Allow("", nil)
	if got := kindOf(lazy.Evaluate(t.Context(), literal{})); got != "Deny" {
		t.Errorf("asked after a change: got %s, want Deny as it was pinned", got)
	}
	if got := kindOf(lazy.ForAttributes(t.Context(), authorizer.AttributesRecord{}).Evaluate(t.Context(), literal{})); got != "Deny" {
		t.Errorf("another request of the same: got %s, want Deny as it was pinned", got)
	}
}

// author evaluates the sets that it is asked about in a fixed way.
type author struct {
	fixed
	result authorizer.Decision
	err    error
	sets   int
}

func (a *author) EvaluateConditions(_ context.Context, decision authorizer.ConditionsAwareDecision, _ authorizer.ConditionsData) (authorizer.Decision, string, error) {
	a.sets += len(authorization.FromUpstream("", decision).Chain())
	return a.result, "", a.err
}

// TestAuthorsEvaluateWhatNobodyElseCan follows KEP-5681, "Authorizer requirements": an
// authorizer can evaluate every condition that it made.
func TestAuthorsEvaluateWhatNobodyElseCan(t *testing.T) {
	t.Parallel()
	conditions := func(texts ...string) authorization.Decision {
		var all []authorization.Condition
		for i, text := range texts {
			all = append(all, condition(i, authorization.EffectAllow, text))
		}
		return authorization.Conditions(all...)
	}
	for _, tc := range []struct {
		name      string
		decision  authorization.Decision
		mode      authorization.FailureMode
		result    authorizer.Decision
		err       error
		want      string
		wantAsked int
	}{
		{"what can be evaluated here is", conditions(isTrue), "", authorizer.DecisionDeny, nil, "Allow", 0},
		{"what does not matter is not asked for", conditions(isUnsupported, isTrue), "", authorizer.DecisionDeny, nil, "Allow", 0},
		{"the author allows", conditions(isUnsupported), "", authorizer.DecisionAllow, nil, "Allow", 1},
		{"the author denies", conditions(isUnsupported, isFalse), "", authorizer.DecisionDeny, nil, "Deny", 1},
		{"the author has no opinion", conditions(isUnsupported), "", authorizer.DecisionNoOpinion, nil, "NoOpinion", 1},
		{"the author fails", conditions(isUnsupported), "", authorizer.DecisionDeny, errCondition, "Deny", 1},
		{"the author fails, which counts as NoOpinion", conditions(isUnsupported), authorization.FailureModeNoOpinion, authorizer.DecisionDeny, errCondition, "NoOpinion", 1},
		{"an answer that does not exist", conditions(isUnsupported), "", authorizer.Decision(7), nil, "Deny", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &author{result: tc.result, err: tc.err}
			a.decision = authorization.Chained(authorization.Set{AuthorizerName: "a", FailureMode: tc.mode, Decision: tc.decision})
			chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: authorization.DeciderOf(a)})
			if err != nil {
				t.Fatal(err)
			}
			for route, evaluate := range map[string]func(authorization.ConditionEvaluator) authorization.Decision{
				"lazy": func(e authorization.ConditionEvaluator) authorization.Decision {
					return chain.Begin(t.Context(), authorizer.AttributesRecord{}).Evaluate(t.Context(), e)
				},
				"eager": func(e authorization.ConditionEvaluator) authorization.Decision {
					return chain.Decide(t.Context(), authorizer.AttributesRecord{}).Evaluate(t.Context(), e)
				},
				"over the wire": func(e authorization.ConditionEvaluator) authorization.Decision {
					wire, err := authorization.SetsToWire(chain.Decide(t.Context(), authorizer.AttributesRecord{}).Chain())
					if err != nil {
						t.Fatal(err)
					}
					sets, err := authorization.SetsFromWire(wire)
					if err != nil {
						t.Fatal(err)
					}
					return authorization.Chained(chain.WithAuthors(sets...)...).Evaluate(t.Context(), e)
				},
			} {
				a.sets = 0
				got := kindOf(evaluate(authorization.EvaluatorFor(nil, literal{})))
				if got != tc.want || a.sets != tc.wantAsked {
					t.Errorf("%s: got %s after asking about %d sets, want %s after %d", route, got, a.sets, tc.want, tc.wantAsked)
				}
			}
		})
	}
}

// TestAuthorsAreNotAskedForEverybody evaluates on behalf of somebody who may not have authors
// asked.
func TestAuthorsAreNotAskedForEverybody(t *testing.T) {
	t.Parallel()
	for mode, want := range map[authorization.FailureMode]string{"": "Deny", authorization.FailureModeNoOpinion: "NoOpinion"} {
		a := &author{result: authorizer.DecisionAllow}
		set := authorization.Set{AuthorizerName: "a", FailureMode: mode, Author: a, Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))}
		for refusal, want := range map[error]string{nil: "Allow", errCondition: want} {
			a.sets = 0
			evaluator := authorization.EvaluatorForCaller(nil, literal{}, func(context.Context) error { return refusal })
			got := authorization.Chained(set).Evaluate(t.Context(), evaluator)
			if kindOf(got) != want || (a.sets > 0) != (refusal == nil) || !errors.Is(got.Err(), refusal) {
				t.Errorf("mode %q, refusal %v: got %s, %v after asking about %d sets, want %s", mode, refusal, kindOf(got), got.Err(), a.sets, want)
			}
		}
	}
}

// TestAuthorsAreNotAskedTooLate ends the context before the evaluation: a late Allow must
// not count.
func TestAuthorsAreNotAskedTooLate(t *testing.T) {
	t.Parallel()
	a := &author{result: authorizer.DecisionAllow}
	a.decision = authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))
	chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: authorization.DeciderOf(a)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lazy := chain.Begin(ctx, authorizer.AttributesRecord{})
	cancel()
	got := lazy.Evaluate(ctx, authorization.EvaluatorFor(nil, literal{}))
	if !got.IsDeny() || !errors.Is(got.Err(), context.Canceled) || a.sets != 0 {
		t.Errorf("got %s, %v after asking about %d sets, want Deny without asking", kindOf(got), got.Err(), a.sets)
	}
}

// TestLazyEvaluatesInWhatWasPinned looks at the context in which a condition is evaluated,
// from which its checks are answered.
func TestLazyEvaluatesInWhatWasPinned(t *testing.T) {
	t.Parallel()
	var seen any
	c := condition(0, authorization.EffectAllow, "")
	c.EvaluateFunc = func(ctx context.Context, _ authorizer.ConditionsData) authorization.Outcome {
		seen = ctx.Value(movingKey{})
		return authorization.True()
	}
	source := &moving{now: authorization.Conditions(c)}
	chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: authorization.DeciderOf(source)})
	if err != nil {
		t.Fatal(err)
	}
	lazy := chain.Begin(t.Context(), authorizer.AttributesRecord{})
	source.now = authorization.Deny("", nil)
	lazy.Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{}))
	if pinned, ok := seen.(authorization.Decision); !ok || len(pinned.Conditions()) != 1 {
		t.Errorf("got %v, want what the request was decided from", seen)
	}
}

// TestDecidedBy names the condition that decided by being true.
func TestDecidedBy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     string
	}{
		{"allowed", authorization.Conditions(condition(0, authorization.EffectAllow, isFalse), condition(1, authorization.EffectAllow, isTrue)), "example.com/c1"},
		{"denied", authorization.Conditions(condition(0, authorization.EffectAllow, isTrue), condition(1, authorization.EffectDeny, isTrue)), "example.com/c1"},
		{"nothing allows", authorization.Conditions(condition(0, authorization.EffectAllow, isFalse)), ""},
		{"a failure", authorization.Conditions(condition(0, authorization.EffectDeny, isError)), ""},
		{"no condition", authorization.Allow("", nil), ""},
		{"in a chain", authorization.Chained(
			authorization.Set{AuthorizerName: "a", Decision: authorization.Conditions(condition(0, authorization.EffectAllow, isFalse))},
			authorization.Set{AuthorizerName: "b", Decision: authorization.Conditions(condition(1, authorization.EffectAllow, isTrue))}), "example.com/c1"},
	} {
		if got := tc.decision.Evaluate(t.Context(), literal{}).DecidedBy(); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
		lazy := chainOf(t, &fixed{decision: tc.decision}).Begin(t.Context(), authorizer.AttributesRecord{})
		if got := lazy.Evaluate(t.Context(), literal{}).DecidedBy(); got != tc.want {
			t.Errorf("%s, lazily: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// standin stands for other members, which change.
type standin struct {
	authorizer.Authorizer
	now []authorization.Member
}

type standinKey struct{}

func (s *standin) Pin(ctx context.Context) context.Context {
	if ctx.Value(standinKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, standinKey{}, s.now)
}

func (s *standin) Members(ctx context.Context) []authorization.Member {
	return ctx.Value(standinKey{}).([]authorization.Member)
}

// TestLazyAsksTheMembersOfAStandin counts as TestLazyAsksAsLittleAsItCan does: those whom
// one member stands for are asked one by one too, and are who they were when the request
// was decided, whatever becomes of them.
func TestLazyAsksTheMembersOfAStandin(t *testing.T) {
	t.Parallel()
	first := &author{result: authorizer.DecisionNoOpinion}
	first.decision = authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))
	second, last := &fixed{decision: authorization.NoOpinion("", nil)}, &fixed{decision: authorization.Allow("", nil)}
	stand := &standin{now: []authorization.Member{{Name: "first", Decider: authorization.DeciderOf(first)}, {Name: "second", Decider: authorization.DeciderOf(second)}}}
	chain, err := authorization.NewChain(
		authorization.Member{Name: "stand", Decider: authorization.DeciderOf(stand)},
		authorization.Member{Name: "last", Decider: authorization.DeciderOf(last)},
	)
	if err != nil {
		t.Fatal(err)
	}
	lazy := chain.Begin(t.Context(), authorizer.AttributesRecord{})
	if asked := first.asked + second.asked + last.asked; asked != 1 {
		t.Errorf("asked %d members before, want 1", asked)
	}
	replacement := &fixed{decision: authorization.Deny("", nil)}
	stand.now = []authorization.Member{{Name: "first", Decider: authorization.DeciderOf(replacement)}}
	if got := kindOf(lazy.Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{}))); got != "Allow" {
		t.Errorf("got %s, want Allow", got)
	}
	if first.sets != 1 || second.asked != 1 || last.asked != 1 || replacement.asked != 0 {
		t.Errorf("evaluated %d sets and asked %d, %d, and %d of those who came later, want 1, 1, 1 and 0",
			first.sets, second.asked, last.asked, replacement.asked)
	}
	if got := kindOf(chain.Decide(t.Context(), authorizer.AttributesRecord{})); got != "Deny" {
		t.Errorf("afterwards: got %s, want the Deny of who is there now", got)
	}
	evaluated := authorization.Chained(chain.WithAuthors(authorization.Set{AuthorizerName: "second", Decision: first.decision})...).
		Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{}))
	if got := kindOf(evaluated); got != "Deny" {
		t.Errorf("a set of a member that is gone: got %s, want Deny", got)
	}
}

// nested remembers in which nests it was asked about conditions.
type nested struct {
	fixed
	asked []string
}

func (n *nested) EvaluateConditions(_ context.Context, decision authorizer.ConditionsAwareDecision, _ authorizer.ConditionsData) (authorizer.Decision, string, error) {
	path := ""
	for sets := authorization.FromUpstream("", decision).Chain(); len(sets) == 1; sets = sets[0].Decision.Chain() {
		path += "/" + sets[0].AuthorizerName
	}
	n.asked = append(n.asked, path)
	return authorizer.DecisionNoOpinion, "", nil
}

// TestAuthorsGetTheirNestsBack makes sure that a server which is asked about conditions can
// find out, by the names on its own level, which of its members made them.
func TestAuthorsGetTheirNestsBack(t *testing.T) {
	t.Parallel()
	opaque := authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))
	set := func(name string, d authorization.Decision) authorization.Set {
		return authorization.Set{AuthorizerName: name, Decision: d}
	}
	for _, tc := range []struct {
		name   string
		answer authorization.Decision
		want   []string
	}{
		{"a set without a name", opaque, []string{"/w"}},
		{"a set of its own name", authorization.Chained(set("w", opaque)), []string{"/w"}},
		{"a set of another name", authorization.Chained(set("a", opaque)), []string{"/a"}},
		{"several", authorization.Chained(set("a", opaque), set("b", opaque)), []string{"/a", "/b"}},
		{"a chain of its own name", authorization.Chained(set("w", authorization.Chained(set("a", opaque)))), []string{"/w/a"}},
		{"a chain in a chain", authorization.Chained(set("a", opaque), set("b", authorization.Chained(set("c", opaque), set("d", authorization.Chained(set("e", opaque)))))),
			[]string{"/a", "/b/c", "/b/d/e"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := &nested{fixed: fixed{decision: tc.answer}}
			chain, err := authorization.NewChain(authorization.Member{Name: "w", Decider: authorization.DeciderOf(w)})
			if err != nil {
				t.Fatal(err)
			}
			evaluate := func(d authorization.Decision) {
				if got := kindOf(d.Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{}))); got != "NoOpinion" {
					t.Errorf("got %s, want NoOpinion", got)
				}
			}
			evaluate(chain.Decide(t.Context(), authorizer.AttributesRecord{}))
			if diff := cmp.Diff(tc.want, w.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			w.asked = nil
			wire, err := authorization.SetsToWire(chain.Decide(t.Context(), authorizer.AttributesRecord{}).Chain())
			if err != nil {
				t.Fatal(err)
			}
			sets, err := authorization.SetsFromWire(wire)
			if err != nil {
				t.Fatal(err)
			}
			evaluate(authorization.Chained(chain.WithAuthors(sets...)...))
			if diff := cmp.Diff(tc.want, w.asked); diff != "" {
				t.Errorf("asked about what went over the wire (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChainsInChainsFindTheAuthor evaluates what went over the wire in a chain that is itself
// a member: only the inner one knows who made it.
func TestChainsInChainsFindTheAuthor(t *testing.T) {
	t.Parallel()
	opaque := authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))
	a := &author{result: authorizer.DecisionAllow}
	a.decision = authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: opaque})
	inner, err := authorization.NewChain(authorization.Member{Name: "a", Decider: authorization.DeciderOf(a)})
	if err != nil {
		t.Fatal(err)
	}
	outer, err := authorization.NewChain(authorization.Member{Name: "inner", Decider: inner})
	if err != nil {
		t.Fatal(err)
	}
	wire, err := authorization.SetsToWire(outer.Decide(t.Context(), authorizer.AttributesRecord{}).Chain())
	if err != nil {
		t.Fatal(err)
	}
	sets, err := authorization.SetsFromWire(wire)
	if err != nil {
		t.Fatal(err)
	}
	decision := authorization.ToUpstream(authorization.Chained(sets...))
	if got, _, err := outer.EvaluateConditions(t.Context(), decision, nil); got != authorizer.DecisionAllow || a.sets != 1 {
		t.Errorf("got %v, %v after asking about %d sets, want Allow after 1", got, err, a.sets)
	}
}

// TestAuthorsAreNotReplaced asks that a set which has an author keeps it in a chain whose member
// passes it on: only the author knows its language. Nested sets keep theirs, too.
func TestAuthorsAreNotReplaced(t *testing.T) {
	t.Parallel()
	opaque := authorization.Conditions(condition(0, authorization.EffectAllow, isUnsupported))
	for _, tc := range []struct {
		name string
		nest func(authorization.Set) authorization.Decision
	}{
		{"a set of its own name", func(s authorization.Set) authorization.Decision { return authorization.Chained(s) }},
		{"one of several", func(s authorization.Set) authorization.Decision {
			return authorization.Chained(s, authorization.Set{AuthorizerName: "other", Decision: opaque})
		}},
		{"a nested set", func(s authorization.Set) authorization.Decision {
			return authorization.Chained(authorization.Set{AuthorizerName: "nest", Decision: authorization.Chained(s)})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			original := &author{result: authorizer.DecisionAllow}
			passing := &author{result: authorizer.DecisionDeny}
			passing.decision = tc.nest(authorization.Set{AuthorizerName: "m", Decision: opaque, Author: original})
			chain, err := authorization.NewChain(authorization.Member{Name: "m", Decider: authorization.DeciderOf(passing)})
			if err != nil {
				t.Fatal(err)
			}
			got := chain.Decide(t.Context(), authorizer.AttributesRecord{}).Evaluate(t.Context(), authorization.EvaluatorFor(nil, literal{}))
			if !got.IsAllow() || original.sets != 1 || passing.sets != 0 {
				t.Errorf("got %s after asking the author about %d sets and the member about %d, want Allow after 1 and 0", kindOf(got), original.sets, passing.sets)
			}
		})
	}
}

// TestLazyDeniesResiduals: an evaluator that leaves a residual, though all data is known, allows
// nothing.
func TestLazyDeniesResiduals(t *testing.T) {
	t.Parallel()
	later := authorization.Conditions(condition(0, authorization.EffectAllow, isLater))
	lazy := chainOf(t, &fixed{decision: later}).Begin(t.Context(), authorizer.AttributesRecord{})
	if got := lazy.Evaluate(t.Context(), literal{}); !got.IsDeny() {
		t.Errorf("got %s, want Deny", kindOf(got))
	}
}
