/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/place"
)

// afterPoliciesTimeout bounds the time from the beginning of a review to the end of the last call of a webhook, however many there are. It leaves a
// third of kube-apiserver's three seconds to transport: if the answer is late, kube-apiserver applies its failure policy, and a Deny of a webhook
// would not count.
const afterPoliciesTimeout = 2 * time.Second

// patience is how long a webhook may take until the next one is asked, too, so that a webhook that hangs takes no time of the others. Most answer sooner, so that
// the webhooks after one that decides are not called.
const patience = 250 * time.Millisecond

// leastTime is the time that must be left to ask webhooks. A webhook that is asked with less of it could fail only because another one, or the policies, took the time,
// and its Deny would be lost if its failure policy is NoOpinion.
const leastTime = patience

// another is a limit for a question that follows the one about the request. Both share the time. If it ends during the second one, the decision is Deny: a webhook
// that fails open could otherwise lose its Deny because the first question took long.
type another struct{ limit }

func (a another) afterPolicies(ctx context.Context, decide func(context.Context) authorization.Decision) authorization.Decision {
	return a.limit.afterPolicies(ctx, func(ctx context.Context) authorization.Decision {
		decision := decide(ctx)
		//guard:front-door-webhooks-time-ends-second-question
		if ctx.Err() != nil {
			return authorization.Deny(reasonNoTime, nil)
		}
		return decision
	})
}

const reasonNoTime = "too little time was left to ask the authorization webhooks"

// isHealth reports whether a request is for the health of kube-apiserver. A webhook that is down must not be able to deny it: kubelet would restart
// kube-apiserver again and again, and no administrator could repair the webhook.
func isHealth(a authorizer.Attributes) bool {
	//guard:front-door-webhooks-resources-have-no-path
	if a.IsResourceRequest() {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(a.GetPath(), "/"), "/")
	//guard:front-door-webhooks-paths-look-like-health
	return strings.HasPrefix(a.GetPath(), "/") && (first == "livez" || first == "readyz" || first == "healthz")
}

// pin returns a context in which neither policies nor the configuration of webhooks change, and conditions may read namespaces.
func (d *Decider) pin(ctx context.Context) context.Context {
	ctx = authorization.WithNamespaces(d.config.Policies.Chain.Pin(ctx), d.config.Policies.Namespaces)
	if d.config.AfterPolicies != nil {
		ctx = d.config.AfterPolicies.Pin(ctx)
	}
	return ctx
}

// askAfterPolicies returns the decision of the authorizers after the policies, which may be conditional. Conditions are requested only if
// wantsConditions is true. Errors are left out, because they name other servers, and reviews would show them. If too little time is left for the question, the decision is
// Deny. Nobody is asked about the health of kube-apiserver.
func (d *Decider) askAfterPolicies(ctx context.Context, attributes authorizer.Attributes, wantsConditions bool, within limit) authorization.Decision {
	if isHealth(attributes) {
		return authorization.NoOpinion("", nil)
	}
	if wantsConditions {
		attributes = authorization.Request{Attributes: attributes, Mode: authorization.EvaluatesConditions}
	}
	decision := within.afterPolicies(ctx, func(ctx context.Context) authorization.Decision {
		//guard:front-door-webhooks-too-little-time
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < leastTime {
			return authorization.Deny(reasonNoTime, nil)
		}
		//guard:webhooks-slow-one-after-other
		return d.config.AfterPolicies.DecideAhead(ctx, attributes, patience)
	})
	switch {
	case decision.IsAllow():
		return authorization.Allow(decision.Reason(), nil)
	case decision.IsDeny():
		return authorization.Deny(decision.Reason(), nil)
	case decision.IsNoOpinion():
		return authorization.NoOpinion(decision.Reason(), nil)
	}
	return decision
}

// afterPolicies returns the decision about a request on which policies have decided before, unconditionally. A Deny of policies is final. Otherwise the
// authorizers after the policies are asked, in their order: if one denies, or could deny, the request is denied, also if policies allow it. What policies allow needs no
// other Allow. If policies have no opinion, the authorizers after them decide.
//
// Nothing opens by their conditions. A conditional decision that could become Deny is Deny, because a server that decides again may let another
// authorizer allow the request first. One that could only become Allow is Allow if this server, or the inner door on its terms, decides the request again
// with the same authorizers. It is NoOpinion otherwise, also where another server enforces conditions.
func (d *Decider) afterPolicies(ctx context.Context, p place.Place, before authorization.Decision, r *place.Request, within limit) authorization.Decision {
	//guard:after-policies-deny-policies
	if d.config.AfterPolicies == nil || before.IsDeny() {
		return before
	}
	if before.IsAllow() {
		after := d.unconditionalAfterPolicies(ctx, r.Attributes, within)
		observeAfterPolicies(after)
		//guard:after-policies-deny-webhook
		if after.IsDeny() {
			return after
		}
		return before
	}
	terms := p.Terms()
	decision := d.askAfterPolicies(ctx, r.Attributes, terms.DecidesAgain && p.Obstacle(ctx, r, nil) == nil, within)
	if decision.IsUnconditional() {
		observeAfterPolicies(decision)
		return following(before, decision)
	}
	folded := closed(decision, "")
	//guard:after-policies-deny-conditions
	if !decision.CanBecomeDenied() && decision.CanBecomeAllowed() && terms.DecidesAgain {
		if found := d.obstacle(ctx, p, r, within); found != nil {
			folded = closed(decision, found.Reason)
		} else {
			folded = authorization.Allow(terms.Reason+strings.Join(decision.Labels(), "; "), nil)
		}
	}
	observeAfterPolicies(folded)
	observeConditional(folded, false, decision)
	return following(before, folded)
}

// unconditionalAfterPolicies returns the decision of the authorizers after the policies without conditions. It is Deny if one could deny.
func (d *Decider) unconditionalAfterPolicies(ctx context.Context, attributes authorizer.Attributes, within limit) authorization.Decision {
	after := d.askAfterPolicies(ctx, attributes, false, within)
	if !after.IsUnconditional() {
		return closed(after, "")
	}
	return after
}

// closed folds a conditional decision, never to Allow. why says why no server evaluates the conditions; if it is empty, Fold says it.
func closed(decision authorization.Decision, why string) authorization.Decision {
	folded := decision.Fold()
	if why != "" {
		folded = decision.FoldBecause(why)
	}
	//guard:after-policies-fold-allows
	if folded.IsAllow() {
		return authorization.NoOpinion(folded.Reason(), nil)
	}
	return folded
}

// following returns the decision of a chain in which after follows before, which is NoOpinion. A NoOpinion has the reasons of both.
func following(before, after authorization.Decision) authorization.Decision {
	switch {
	case !after.IsNoOpinion():
		return after
	case after.Reason() == "":
		return before
	}
	return authorization.NoOpinion(strings.TrimPrefix(before.Reason()+"; "+after.Reason(), "; "), before.Err())
}
