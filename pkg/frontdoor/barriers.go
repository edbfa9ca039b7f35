/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Barriers says which Deny conditions kube-apiserver enforces at admission, so that the front door does not fold them. A barrier is a
// ValidatingAdmissionPolicy that refuses what a Deny policy denies. All functions are required, and must be safe for concurrent
// use.
type Barriers struct {
	// Covers reports whether every kube-apiserver is known to have a barrier that refuses a request if a policy denies it. The policy is the
	// one from which the condition with an ID comes. It must return false for requests that components authorize without sending them.
	Covers func(conditionID string, a authorizer.Attributes) bool
	// Audits reports whether kube-apiserver evaluates a policy in Audit for a request at admission, with the barrier of the policy.
	Audits func(conditionID string, a authorizer.Attributes) bool
	// LeavesOut reports whether barriers refuse no requests of a user.
	LeavesOut func(user.Info) bool
	// IsLocal reports whether kube-apiserver is known to serve a version itself. Barriers see no requests that it passes on.
	IsLocal func(schema.GroupVersion) bool
	// Known reports whether the kube-apiserver that has a certificate is known to enforce barriers. Covers knows nothing of any other.
	Known func(Client) bool
	// IsCanary reports whether a request is one with which Proviso finds out which certificate a kube-apiserver has. Such a request is allowed, and
	// refused at admission.
	IsCanary func(Client, authorizer.Attributes) bool
}

func (b *Barriers) isComplete() bool {
	return b.Covers != nil && b.Audits != nil && b.LeavesOut != nil && b.IsLocal != nil && b.Known != nil && b.IsCanary != nil
}

// WithoutDeny returns a decision without the Deny conditions that barriers enforce on the request, and these conditions. It leaves out
// none for nil.
func (b *Barriers) WithoutDeny(decision authorization.Decision, a authorizer.Attributes) (rest authorization.Decision, enforced []authorization.Condition) {
	if b == nil || decision.IsUnconditional() || !b.see(a) {
		return decision, nil
	}
	return decision.WithoutDeny(engine.RestrictingName, func(c authorization.Condition) bool { return b.Covers(c.ID, a) })
}

// see reports whether barriers may see a request.
//
//guard:frontdoor-barriers-users-who-left-out
func (b *Barriers) see(a authorizer.Attributes) bool {
	//guard:frontdoor-barriers-other-servers
	return a.IsResourceRequest() && !authorization.HasWildcards(a) && a.GetUser() != nil && !b.LeavesOut(a.GetUser()) &&
		b.IsLocal(schema.GroupVersion{Group: a.GetAPIGroup(), Version: a.GetAPIVersion()})
}

// leaveToBarriers says of the policies in Audit that barriers evaluate: their results are not known here, because kube-apiserver alone counts
// them.
func (d *Decider) leaveToBarriers(a authorizer.Attributes, audit *authorization.Audit) {
	if barriers := d.config.Barriers; barriers != nil && barriers.see(a) {
		audit.SetUndetermined(func(id string) bool { return barriers.Audits(id, a) })
	}
}

// withoutBarriers is Barriers.WithoutDeny. It leaves out no conditions if Proviso or another server behind kube-apiserver decides about the
// request, if Proviso asks, or if the kube-apiserver that asks is not known.
func (d *Decider) withoutBarriers(ctx context.Context, decision authorization.Decision, a authorizer.Attributes) (rest authorization.Decision, enforced []authorization.Condition) {
	if d.config.Barriers == nil || isMarked(a.GetUser()) || d.config.Enforces(a) || d.isEnforcedElsewhere(a) {
		return decision, nil
	}
	rest, enforced = d.config.Barriers.WithoutDeny(decision, a)
	//guard:front-door-barriers-kube-apiserver-not-known
	if len(enforced) > 0 && !d.config.Barriers.Known(ClientOf(ctx)) {
		return decision, nil
	}
	return rest, enforced
}

// reasonBarriers is followed by the policies.
const reasonBarriers = "kube-apiserver refuses it at admission if a condition denies it: "

// withBarriers returns a decision whose reason names the conditions that barriers enforce. A NoOpinion stays as it is, because policies
// have nothing to do with a refusal that follows.
func withBarriers(decision authorization.Decision, enforced []authorization.Condition) authorization.Decision {
	if len(enforced) == 0 || !decision.IsAllow() {
		return decision
	}
	reason := reasonBarriers + strings.Join(authorization.Conditions(enforced...).Labels(), "; ")
	if before := decision.Reason(); before != "" {
		reason = before + "; " + reason
	}
	return authorization.Allow(reason, decision.Err())
}
