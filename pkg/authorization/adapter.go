/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// DeciderOf returns a Decider for an authorizer. It returns the authorizer itself if that is a Decider,
// and nil for nil. The Decider evaluates its conditions as the authorizer does, and is pinned and
// expanded if the authorizer is a Pinner or an Expander.
func DeciderOf(a authorizer.Authorizer) Decider {
	switch a := a.(type) {
	case nil:
		return nil
	case adapter: // it has the method Decide, and hides what else its Decider is
		return a.Decider
	case Decider:
		return a
	default:
		return upstreamDecider{a}
	}
}

// upstreamDecider is an authorizer that does not know this package.
type upstreamDecider struct{ authorizer.Authorizer }

func (u upstreamDecider) Decide(ctx context.Context, attributes authorizer.Attributes) Decision {
	return FromUpstream("", u.ConditionsAwareAuthorize(ctx, attributes))
}

// as returns a Decider as a T, or the authorizer that it wraps.
func as[T any](d Decider) (T, bool) {
	if upstream, ok := d.(upstreamDecider); ok {
		t, ok := upstream.Authorizer.(T)
		return t, ok
	}
	t, ok := d.(T)
	return t, ok
}

// AuthorizerOf returns an authorizer for a Decider, for callers that do not know this package. The
// authorizer evaluates conditions in process, or calls the Decider if it is a ConditionsAuthor.
func AuthorizerOf(d Decider) authorizer.Authorizer { return adapter{d} }

type adapter struct{ Decider }

var _ authorizer.Authorizer = adapter{}

// Authorize decides for callers that do not support conditions: a conditional decision is folded, and
// never becomes Allow.
func (a adapter) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.Decide(ctx, attributes).Fold().Concrete()
}

// ConditionsAwareAuthorize decides, conditions included.
func (a adapter) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return ToUpstream(a.Decide(ctx, attributes))
}

// EvaluateConditions evaluates a decision that ConditionsAwareAuthorize returned.
func (a adapter) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	if author, ok := as[ConditionsAuthor](a.Decider); ok {
		return author.EvaluateConditions(ctx, decision, data)
	}
	return FromUpstream("", decision).Evaluate(ctx, EvaluatorFor(data, nil)).Concrete()
}
