/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// ConditionsHandler says for which requests a kube-apiserver that handles conditional decisions gets them, instead of a converted
// decision. It enforces the conditions itself: at admission it sends them back, with the object. All fields are required, and the
// function must be safe for concurrent use.
type ConditionsHandler struct {
	// IsLocal reports whether kube-apiserver is known to serve a version itself. It has no admission for requests that it passes on.
	IsLocal func(schema.GroupVersion) bool
	// Excludes reports whether fields of a resource are excluded from the permission to write it. The conditions do not say so, and the inner door
	// checks it, so that kube-apiserver does not get conditions about such a resource.
	Excludes func(schema.GroupVersionResource) bool
	// KubeAPIServer answers whether a user may read what an answer to a write shows. It must send the delegation marker, and must
	// not retry.
	KubeAPIServer authorizer.UnconditionalAuthorizer
}

func (c *ConditionsHandler) isComplete() bool {
	return c.IsLocal != nil && c.Excludes != nil && c.KubeAPIServer != nil
}

// withHandled returns a context of a review whose client handles conditional decisions.
func withHandled(ctx context.Context) context.Context {
	return context.WithValue(ctx, handledKey{}, true)
}

type handledKey struct{}

// leavesConditions reports whether the client of a review gets the conditions of a decision about a request, and enforces them at
// admission. It does for writes that the inner door could decide, of resources that kube-apiserver serves itself.
func (d *Decider) leavesConditions(ctx context.Context, a authorizer.Attributes) bool {
	handler := d.config.ConditionsHandler
	//guard:conditions-left-reads
	if handler == nil || ctx.Value(handledKey{}) == nil || !d.isWrite(a) {
		return false
	}
	//guard:conditions-left-inner-door-could-not-decide
	if !resourceOf(a).IsListable() {
		return false
	}
	version := schema.GroupVersion{Group: a.GetAPIGroup(), Version: a.GetAPIVersion()}
	//guard:conditions-left-other-servers-serve
	return handler.IsLocal(version) && !handler.Excludes(version.WithResource(a.GetResource()))
}

// conditionsCanary returns the answer to a canary of conditions. It returns false for all other requests.
func (d *Decider) conditionsCanary(ctx context.Context, a authorizer.Attributes) (authorization.Decision, bool) {
	if d.config.ConditionsHandler == nil || isMarked(a.GetUser()) {
		return authorization.Decision{}, false
	}
	nonce, ok := innerdoor.ConditionsCanaryOf(a)
	if !ok {
		return authorization.Decision{}, false
	}
	//guard:conditions-left-canaries-clients-without-options
	return authorization.Deny(innerdoor.ConditionsCanaryReason(nonce, ctx.Value(handledKey{}) != nil), nil), true
}

// isWrite reports whether a request is a write of a resource that another server than this one serves, whose objects admission sees.
func (d *Decider) isWrite(a authorizer.Attributes) bool {
	//guard:conditions-left-server-enforces
	if !a.IsResourceRequest() || authorization.HasWildcards(a) || d.config.Enforces(a) || d.isEnforcedElsewhere(a) {
		return false
	}
	//guard:frontdoor-inner-door-requests-without-operation
	return len(innerdoor.Alternatives(resourceOf(a), checkOf(a))) > 0
}

// leftConditions returns the decision about a request as a client that handles conditions gets it. The authorizers after the policies are asked, too: their
// Deny is final, and their Allow follows the conditions of policies. The stored object may show in an answer before admission refuses the request, so that conditions
// allow nothing to a user who may not read it: the decision is folded then. If no authorizer has an opinion on a write that the
// inner door decides, the user may have permission on fields.
func (d *Decider) leftConditions(ctx context.Context, decision authorization.Decision, attributes authorizer.Attributes, within limit) authorization.Decision {
	isListed := decision.IsNoOpinion() && d.isListed(attributes)
	decision = d.withAfterPolicies(ctx, decision, attributes, within)
	if decision.CanBecomeAllowed() && !decision.IsUnconditional() {
		decision = d.ifReadable(ctx, decision, attributes, within)
	}
	switch {
	case decision.IsNoOpinion() && isListed:
		return d.passesOnFields(ctx, decision, attributes, within)
	case !decision.IsUnconditional():
		conditionalAnswers.WithLabelValues(answerConditions).Inc()
	}
	return decision
}

// ifReadable folds a conditional decision if the user may not read what the answer shows.
func (d *Decider) ifReadable(ctx context.Context, decision authorization.Decision, attributes authorizer.Attributes, within limit) authorization.Decision {
	//guard:conditions-left-users-who-may-not-read
	if d.mayReadAnswer(ctx, attributes, within, d.config.ConditionsHandler.KubeAPIServer) {
		return decision
	}
	folded := decision.FoldBecause(unreadable.reason)
	observeConditional(folded, false, decision)
	return folded
}

// afterPoliciesName is the name of the authorizers after the policies in a decision that is left to kube-apiserver.
const afterPoliciesName = "webhooks.proviso.dev"

// withAfterPolicies returns a decision with that of the authorizers after the policies, which is unconditional. They are asked now, because kube-apiserver does
// not ask the front door again at admission. Their Deny needs no conditions of policies, and their Allow comes after the Deny conditions of policies.
func (d *Decider) withAfterPolicies(ctx context.Context, decision authorization.Decision, attributes authorizer.Attributes, within limit) authorization.Decision {
	if d.config.AfterPolicies == nil || decision.IsDeny() {
		return decision
	}
	after := d.unconditionalAfterPolicies(ctx, attributes, within)
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
