/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Lazy is what a chain decides about one request (KEP-5681, "Computing a concrete decision
// from a conditional authorization chain"). At authorization, the members are asked in order, up to the
// first that could allow the request or that certainly denies it. When the decision is evaluated, each
// further member is asked only if all members before it evaluate to NoOpinion. All members use the sources
// to which they were pinned at authorization. It is safe for concurrent use.
type Lazy struct {
	chain      *Chain
	members    []Member
	attributes authorizer.Attributes
	// pins holds what the members are pinned to, and nothing else.
	//nolint:containedctx // a context is how members are pinned
	pins context.Context

	mu   sync.Mutex
	sets []Set // the answers of the members called so far; all but the last can become NoOpinion
	done bool  // no further member is to be called
}

// Begin asks the members about a request in order, up to the first that could allow it or that certainly denies
// it. It pins the members to the current state of their sources.
func (c *Chain) Begin(ctx context.Context, attributes authorizer.Attributes) *Lazy {
	return c.begin(ctx, c.Pin(context.Background()), attributes)
}

func (c *Chain) begin(ctx, pins context.Context, attributes authorizer.Attributes) *Lazy {
	l := &Lazy{chain: c, members: c.pinned(pins), attributes: attributes, pins: pins}
	for !l.done {
		l.ask(ctx)
		if n := len(l.sets); n > 0 && l.sets[n-1].Decision.CanBecomeAllowed() {
			break
		}
	}
	return l
}

// ForAttributes begins the decision of the same chain about other attributes, from the same state of the sources
// of the members.
func (l *Lazy) ForAttributes(ctx context.Context, attributes authorizer.Attributes) *Lazy {
	return l.chain.begin(ctx, l.pins, attributes)
}

// Pin returns a context in which the members of the chain are pinned as they are for l.
func (l *Lazy) Pin(ctx context.Context) context.Context {
	return pinnedContext{Context: ctx, pins: l.pins}
}

// Revision returns the revision to which the first member that has one is pinned, or "" if no member has a
// revision.
func (l *Lazy) Revision() string { return l.chain.revision(l.pins) }

// Decision returns the decision so far. If it cannot become allowed, no other member could allow the
// request.
func (l *Lazy) Decision() Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Chained(l.sets...).simplify()
}

// Evaluate makes the decision unconditional. Members that were not asked yet are asked as far
// as the result depends on them. It must be given an evaluator that leaves no residuals.
//
// A set that fails with the failure mode Deny denies the request, even if a later member would
// allow the request for every value of the conditions before it. A review knows the answers of
// all members, and does not evaluate such a set. So if an evaluation fails, a request may be
// denied that its review allows, but never the reverse.
func (l *Lazy) Evaluate(ctx context.Context, evaluator ConditionEvaluator) Decision {
	ctx, span := startSpan(ctx, evaluationSpan)
	decision := l.evaluate(ctx, evaluator)
	span.end(decision, l.Decision)
	return decision
}

func (l *Lazy) evaluate(ctx context.Context, evaluator ConditionEvaluator) Decision {
	ctx = l.Pin(ctx) // checks that conditions make are answered by what decided the request
	var trail diagnostics
	for i := 0; ; i++ {
		set, ok := l.answer(ctx, i)
		if !ok {
			return trail.noOpinion()
		}
		set.Decision = set.Decision.simplify()
		set.Decision = set.evaluate(ctx, evaluator)
		switch d := set.Decision; {
		case d.IsNoOpinion():
			trail.add(set)
		case d.IsUnconditional():
			return d.after(trail)
		default:
			//guard:lazy-not-concrete-denies
			return Deny("failed closed", errNotConcrete)
		}
	}
}

// answer returns the answer of the member at index i, which it calls if necessary. It returns false if the
// members before i have decided, or if there is no such member.
func (l *Lazy) answer(ctx context.Context, i int) (Set, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i == len(l.sets) && !l.done {
		l.ask(ctx)
	}
	if i >= len(l.sets) {
		return Set{}, false
	}
	return l.sets[i], true
}

// ask asks the next member. The caller holds the lock, or is the only one who knows l.
func (l *Lazy) ask(ctx context.Context) {
	if len(l.sets) == len(l.members) {
		l.done = true
		return
	}
	set := l.members[len(l.sets)].decide(l.Pin(ctx), l.attributes)
	l.sets = append(l.sets, set)
	l.done = len(l.sets) == len(l.members) || set.Decision.possible()&canNoOpinion == 0
}

// pinnedContext is a context whose values are first looked for among pins.
type pinnedContext struct {
	//nolint:containedctx // it is a context
	context.Context
	//nolint:containedctx // a context is how members are pinned
	pins context.Context
}

func (c pinnedContext) Value(key any) any {
	if value := c.pins.Value(key); value != nil {
		return value
	}
	return c.Context.Value(key)
}
