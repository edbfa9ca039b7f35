/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// ImpersonationAuthor is a ConditionsAuthor that also evaluates its conditions when a user is impersonated, before there is an object. Other
// authors are not asked then: they could take the missing object for data.
type ImpersonationAuthor interface {
	ConditionsAuthor
	// EvaluateImpersonation returns the decision for a requester who makes a request as another user. The error is
	// authorizer.ErrorConditionEvaluationNotSupported if the author cannot evaluate these conditions. Other errors are as in
	// ConditionsAuthor.
	EvaluateImpersonation(ctx context.Context, decision authorizer.ConditionsAwareDecision, requester user.Info, data *authorization.ImpersonationData) (authorizer.Decision, string, error)
}

// WithAuthorsOf returns the decision with the authors of another one. Serializable drops them.
func (d Decision) WithAuthorsOf(other Decision) Decision {
	if d.kind != kindChain {
		return d
	}
	sets := d.Chain()
	for i, s := range sets {
		for _, o := range other.chain {
			if o.AuthorizerName == s.AuthorizerName {
				sets[i].Author, sets[i].Decision = o.Author, s.Decision.WithAuthorsOf(o.Decision)
			}
		}
	}
	d.chain = sets
	return d
}

// DecidedByAuthors returns the decision in which each set whose conditions have types that only its author knows is replaced by the answer of that
// author, if the author evaluates impersonation. A set that also has conditions in CEL is left as it is: they may depend on the object, which the author
// does not have, so that its Allow could hide a Deny. Sets after one that decides are left as they are, too.
func (d Decision) DecidedByAuthors(ctx context.Context, requester user.Info, data *authorization.ImpersonationData) Decision {
	if d.kind != kindChain {
		return d
	}
	sets := d.Chain()
	for i, s := range sets {
		if s.Decision.kind == kindChain {
			s.Decision = s.Decision.DecidedByAuthors(ctx, requester, data)
		} else {
			s = s.decidedByAuthor(ctx, requester, data)
		}
		sets[i] = s
		if s.Decision.possible()&canNoOpinion == 0 {
			break
		}
	}
	d.chain = sets
	return d
}

func (s Set) decidedByAuthor(ctx context.Context, requester user.Info, data *authorization.ImpersonationData) Set {
	author, ok := s.Author.(ImpersonationAuthor)
	isKnown := func(c Condition) bool { return !c.isForeign() }
	if !ok || s.Decision.kind != kindConditions || slices.ContainsFunc(s.Decision.conditions, isKnown) {
		return s
	}
	sent := s
	sent.Author = nil // the author is not to ask itself
	decision, reason, err := author.EvaluateImpersonation(ctx, ToUpstream(Chained(sent)), requester, data)
	if errors.Is(err, authorizer.ErrorConditionEvaluationNotSupported) {
		return s
	}
	s.Decision, s.Author = s.answered(decision, reason, err), nil
	return s
}

// answered returns the answer of the author of a set. The set fails, and its failure mode decides, if the author returns Deny with an error, or
// Allow although the set cannot become Allow.
func (s Set) answered(decision authorizer.Decision, reason string, err error) Decision {
	switch {
	case decision == authorizer.DecisionAllow && !s.Decision.CanBecomeAllowed():
		return s.fails(errAuthorAllows)
	case decision == authorizer.DecisionAllow:
		return Allow(reason, err)
	case decision == authorizer.DecisionNoOpinion:
		return NoOpinion(reason, err)
	case decision == authorizer.DecisionDeny && err == nil:
		return Deny(reason, nil)
	default:
		return s.fails(err)
	}
}

// EvaluateImpersonation implements ImpersonationAuthor if the author of the nested chain does.
func (n *nestedAuthor) EvaluateImpersonation(ctx context.Context, decision authorizer.ConditionsAwareDecision, requester user.Info, data *authorization.ImpersonationData) (authorizer.Decision, string, error) {
	author, ok := n.author.(ImpersonationAuthor)
	if !ok {
		return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
	}
	nested := Chained(Set{AuthorizerName: n.name, Decision: FromUpstream("", decision)})
	return author.EvaluateImpersonation(ctx, ToUpstream(nested), requester, data)
}
