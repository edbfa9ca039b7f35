/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/place"
)

// leftConditions returns the decision about a request as a client that handles conditions gets it. The authorizers after the policies are asked, too: their
// Deny is final, and their Allow follows the conditions of policies. The stored object may show in an answer before admission refuses the request, so that conditions
// allow nothing to a user who may not read it: the decision is folded then. If no authorizer has an opinion on a write that the
// inner door decides, the user may have permission on fields.
func (d *Decider) leftConditions(ctx context.Context, p place.Place, decision authorization.Decision, r *place.Request, within limit) authorization.Decision {
	mayBeOnFields := decision.IsNoOpinion()
	decision = d.withAfterPolicies(ctx, decision, r, within)
	if decision.CanBecomeAllowed() && !decision.IsUnconditional() {
		decision = d.unlessObstacle(ctx, p, decision, r, within)
	}
	switch {
	case decision.IsNoOpinion() && mayBeOnFields:
		without := &place.Request{Attributes: r.Attributes, Client: r.Client}
		return d.onFields(ctx, d.config.Places.Of(without), decision, without, within)
	case !decision.IsUnconditional():
		conditionalAnswers.WithLabelValues(answerConditions).Inc()
	}
	return decision
}

// unlessObstacle folds a conditional decision if there is an obstacle.
func (d *Decider) unlessObstacle(ctx context.Context, p place.Place, decision authorization.Decision, r *place.Request, within limit) authorization.Decision {
	found := d.obstacle(ctx, p, r, within)
	if found == nil {
		return decision
	}
	folded := decision.FoldBecause(found.Reason)
	observeConditional(folded, false, decision)
	return folded
}

// afterPoliciesName is the name of the authorizers after the policies in a decision that is left to kube-apiserver.
const afterPoliciesName = "webhooks.proviso.dev"

// withAfterPolicies returns a decision with that of the authorizers after the policies, which is unconditional. They are asked now, because kube-apiserver does
// not ask the front door again at admission. Their Deny needs no conditions of policies, and their Allow comes after the Deny conditions of policies.
func (d *Decider) withAfterPolicies(ctx context.Context, decision authorization.Decision, r *place.Request, within limit) authorization.Decision {
	if d.config.AfterPolicies == nil || decision.IsDeny() {
		return decision
	}
	after := d.unconditionalAfterPolicies(ctx, r.Attributes, within)
	observeAfterPolicies(after)
	switch {
	//guard:after-policies-clients-handle-conditions
	case after.IsDeny():
		return after
	case decision.IsNoOpinion():
		return following(decision, after)
	case after.IsNoOpinion() || decision.IsUnconditional():
		return decision
	}
	return authorization.Chained(append(decision.Chain(), authorization.Set{AuthorizerName: afterPoliciesName, Decision: after})...)
}
