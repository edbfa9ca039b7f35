/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package place

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Barriers says which Deny conditions kube-apiserver enforces at admission, so that the front door does not fold them. A barrier is a
// ValidatingAdmissionPolicy that refuses what a Deny policy denies. It is no Place: it takes single conditions of a decision, whatever the place of the request is.
// All functions are required, and may be called concurrently.
type Barriers struct {
	// Covers reports whether every kube-apiserver is known to have a barrier that refuses a request if a policy denies it. The policy is known by the ID of its
	// condition. Covers must return false for checks that components make without a request that follows.
	Covers func(conditionID string, a authorizer.Attributes) bool
	// Audits reports whether kube-apiserver evaluates a policy in Audit for a request at admission, with the barrier of the policy.
	Audits func(conditionID string, a authorizer.Attributes) bool
	// LeavesOut reports whether barriers refuse no requests of a user.
	LeavesOut func(user.Info) bool
	// IsLocal reports whether kube-apiserver is known to serve a version itself. Barriers see no requests that it passes on.
	IsLocal func(schema.GroupVersion) bool
	// Known reports whether the kube-apiserver of a client is known to enforce barriers, or each one if the client is nil. Covers knows nothing of any other.
	Known func(*Client) bool
	// Canary reports whether a request of a client is one with which Proviso finds out which barriers kube-apiserver has loaded. The front door allows it, and
	// a barrier refuses it.
	Canary func(*Client, authorizer.Attributes) bool
}

func (b *Barriers) isComplete() bool {
	return b.Covers != nil && b.Audits != nil && b.LeavesOut != nil && b.IsLocal != nil && b.Known != nil && b.Canary != nil
}

// WithoutDeny splits a decision into the Deny conditions that barriers enforce, and the rest. If b is nil, or if the place evaluates Deny conditions itself, all
// conditions are in the rest.
func (b *Barriers) WithoutDeny(decision authorization.Decision, r *Request, p Place) (rest authorization.Decision, enforced []authorization.Condition) {
	if b == nil || decision.IsUnconditional() || p.Terms().Evaluates == AllEffects || !b.see(r) {
		return decision, nil
	}
	rest, enforced = decision.WithoutDeny(engine.RestrictingName, func(c authorization.Condition) bool { return b.Covers(c.ID, r.Attributes) })
	//guard:front-door-barriers-kube-apiserver-not-known
	if len(enforced) > 0 && !b.Known(r.Client) {
		return decision, nil
	}
	return rest, enforced
}

// reasonUncertified says why the front door denies what barriers would refuse.
const reasonUncertified = "the client certificate of a kube-apiserver is not known, so that the front door denies what it would leave to a ValidatingAdmissionPolicy"

// problem says why conditions that barriers cover are not left to them. It is empty for other conditions.
func (b *Barriers) problem(decision authorization.Decision, r *Request, p Place) string {
	if b == nil || b.Known(r.Client) {
		return ""
	}
	ifKnown := *b
	ifKnown.Known = func(*Client) bool { return true }
	if _, enforced := ifKnown.WithoutDeny(decision, r, p); len(enforced) == 0 {
		return ""
	}
	return reasonUncertified
}

// see reports whether barriers may see a request at all.
//
//guard:frontdoor-barriers-users-who-left-out
func (b *Barriers) see(r *Request) bool {
	//guard:frontdoor-barriers-other-servers
	return r.Attributes.IsResourceRequest() && !authorization.HasWildcards(r.Attributes) && r.Attributes.GetUser() != nil && !b.LeavesOut(r.Attributes.GetUser()) && b.IsLocal(r.version())
}

// Leave marks the policies in Audit that barriers evaluate as undetermined: kube-apiserver alone counts their results.
func (b *Barriers) Leave(r *Request, audit *authorization.Audit) {
	if b != nil && b.see(r) {
		audit.SetUndetermined(func(id string) bool { return b.Audits(id, r.Attributes) })
	}
}
