/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// Namespaced evaluates the conditions of the policies of a namespace on one request before the request is
// decided. A server can so bound the time of the evaluations of each namespace, because authors in a namespace
// choose what their policies cost. It must not be used concurrently.
type Namespaced struct {
	source  *Source
	request *request
	// restricting and granting are the policies in each place, in the order in which a decision evaluates them.
	restricting, granting []*Policy
	outcomes              map[*Policy]outcome
}

// Namespaced returns the evaluation of the policies of the namespace that match a request. It returns nil if
// no condition of such a policy is to be evaluated.
func (s *Source) Namespaced(ctx context.Context, attributes authorizer.Attributes) *Namespaced {
	decidedIn := s.StateOf(ctx)
	if decidedIn.Value == nil || attributes.GetNamespace() == "" || authorization.HasWildcards(attributes) {
		return nil
	}
	var buffer [8]matching
	denying := decidedIn.Value.restricting.find(attributes, buffer[:0])
	if slices.ContainsFunc(denying, func(m matching) bool { return !m.isConditional() }) {
		return nil // denied, whatever the conditions are
	}
	n := &Namespaced{source: s, restricting: conditionalOfNamespace(denying, authorization.EffectDeny)}
	granting := decidedIn.Value.granting.find(attributes, buffer[:0])
	n.granting = append(conditionalOfNamespace(granting, authorization.EffectNoOpinion), conditionalOfNamespace(granting, authorization.EffectAllow)...)
	if len(n.restricting)+len(n.granting) == 0 {
		return nil
	}
	n.request = newRequest(nil, decidedIn, attributes)
	n.outcomes = make(map[*Policy]outcome, len(n.restricting)+len(n.granting))
	return n
}

// conditionalOfNamespace returns the policies of a namespace that have an effect and whose condition decides.
func conditionalOfNamespace(found []matching, effect authorization.Effect) []*Policy {
	var policies []*Policy
	for _, m := range found {
		if m.policy.key.Namespace != "" && m.policy.conditionEffect() == effect && m.isConditional() {
			policies = append(policies, m.policy)
		}
	}
	return policies
}

// Evaluate evaluates the conditions within the budgets of a decision, until ctx ends, and keeps their outcomes for In.
func (n *Namespaced) Evaluate(ctx context.Context) {
	for _, policies := range [][]*Policy{n.restricting, n.granting} {
		// Only the front door evaluates the policies of a namespace apart from all others.
		e := &evaluation{stage: authorization.StageFrontDoor, ctx: ctx, request: n.request, budgets: authorization.PolicyBudgetsOf(ctx)}
		for _, p := range policies {
			if ctx.Err() != nil {
				break
			}
			n.outcomes[p] = e.evaluate(p)
		}
		e.observe()
	}
}

type namespacedKey struct{ source *Source }

// In returns a context in which the request is decided by the same snapshot, and with the outcomes of Evaluate. A condition
// that was not evaluated, or not to its end, fails as if it were over its budget: a Deny policy denies, a NoOpinion
// policy holds back, and an Allow policy grants nothing. The context is for decisions about the same request
// only.
func (n *Namespaced) In(ctx context.Context) context.Context {
	return context.WithValue(n.source.PinTo(ctx, n.request.state), namespacedKey{n.source}, n)
}

// namespacedOf returns the outcomes that a context has, or nil.
func (s *Source) namespacedOf(ctx context.Context) *Namespaced {
	n, _ := ctx.Value(namespacedKey{s}).(*Namespaced)
	return n
}

// ErrNotEvaluated is the error of a condition that was not evaluated before the context of Namespaced.Evaluate ended, as when
// evaluations for other requests to the same namespace take too long.
var ErrNotEvaluated = errors.New("the policies of the namespace were not evaluated in time")

// outcomeOf returns the outcome of the condition of a policy.
func (n *Namespaced) outcomeOf(p *Policy) outcome {
	if o, ok := n.outcomes[p]; ok {
		return o
	}
	return outcome{Result: partial.Failed(ErrNotEvaluated)}
}
