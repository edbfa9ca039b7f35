/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package place

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// InnerDoor is the inner door: kube-apiserver calls it at admission. All functions are required.
type InnerDoor struct {
	described

	// Listed reports whether the manifest of the inner door has a resource.
	Listed func(innerdoor.Resource) bool
	// LeavesOut reports whether the manifest leaves out a user, so that the inner door does not decide the user's writes.
	LeavesOut func(user.Info) bool
	// IsLocal reports whether kube-apiserver is known to serve a version itself. Other servers do not call the inner door.
	IsLocal func(schema.GroupVersion) bool
	// Known reports whether the kube-apiserver of a client is known to call the inner door, or each one if the client is nil.
	Known func(*Client) bool
	// MissesWebhooks says that the manifest leaves out writes that other authorizers of kube-apiserver allow, and that there are webhooks. Writes then do not
	// pass on conditions. A POST that a policy allows on a condition counts as allowed at admission if RBAC allows the PUT that creates the same object.
	// A webhook may deny that PUT, but the front door cannot ask it: a POST does not tell the name of its object.
	MissesWebhooks bool
	// Canary reports whether a request of a client is one with which Proviso finds out whether kube-apiserver calls the inner door.
	Canary func(*Client, authorizer.Attributes) bool
}

func (i *InnerDoor) isComplete() bool {
	return i.Listed != nil && i.LeavesOut != nil && i.IsLocal != nil && i.Known != nil && i.Canary != nil
}

// IsCanary reports whether a request is a canary, which the front door allows, and the inner door refuses.
func (i *InnerDoor) IsCanary(r *Request) bool { return i.Canary(r.Client, r.Attributes) }

// Terms implements Place. The inner door does not see a Deny, because kube-apiserver does not call it for what another authorizer allows.
func (*InnerDoor) Terms() Terms {
	return Terms{
		At: policyv1alpha1.EnforcedAtInnerDoor, Evaluates: Grants, DecidesAgain: true, Unseen: true, HasObstacles: true,
		Reason: "allowed if the conditions hold, which Proviso evaluates at admission: ",
	}
}

// Takes implements Place.
//
//guard:frontdoor-inner-door-resources-not-listed
func (i *InnerDoor) Takes(r *Request) bool { return isWrite(r) && i.Listed(resourceOf(r)) }

// isWrite reports whether admission sees a request and its object.
//
//guard:frontdoor-inner-door-requests-without-operation
func isWrite(r *Request) bool { return len(innerdoor.Alternatives(resourceOf(r), checkOf(r))) > 0 }

func resourceOf(r *Request) innerdoor.Resource {
	return innerdoor.Resource{Group: r.Attributes.GetAPIGroup(), Resource: r.Attributes.GetResource(), Subresource: r.Attributes.GetSubresource()}
}

func checkOf(r *Request) innerdoor.Check {
	return innerdoor.Check{Verb: r.Attributes.GetVerb(), Named: r.Attributes.GetName() != ""}
}

// Audit implements Place.
func (*InnerDoor) Audit(decision authorization.Decision) Audit {
	if decision.IsAllow() {
		return Audit{Remainder: authorization.RemainderNone} // the inner door evaluates the conditions
	}
	return Audit{Remainder: authorization.RemainderListed}
}

// The obstacles to conditions.
var (
	leftOut    = &Obstacle{"left_out", "the inner door does not decide for this user"}
	notLocal   = &Obstacle{"not_local", "kube-apiserver is not known to serve this version itself"}
	restricted = &Obstacle{"restricted", "a policy denies, or could deny, another request that looks the same at admission"}
	unreadable = &Obstacle{"unreadable", "the answer may show objects, which the user may not read"}
	notKnown   = &Obstacle{"not_known", "this kube-apiserver is not known to call the inner door"}
	unknown    = &Obstacle{"not_known", "not every kube-apiserver is known to call the inner door, so that such a request may be refused"}
	unasked    = &Obstacle{"webhooks", "a webhook could deny it, and with askOtherAuthorizers the inner door is not called for what others allow"}
)

// Obstacle implements Place. A question that takes a check by kube-apiserver comes last.
func (i *InnerDoor) Obstacle(ctx context.Context, r *Request, ask Asker) *Obstacle {
	switch {
	//guard:frontdoor-inner-door-users-who-left-out
	case r.Attributes.GetUser() == nil || i.LeavesOut(r.Attributes.GetUser()):
		return leftOut
	//guard:frontdoor-inner-door-other-servers
	case !i.IsLocal(r.version()):
		return notLocal
	//guard:frontdoor-inner-door-not-known
	case !i.Known(r.Client):
		if r.Client == nil {
			return unknown
		}
		return notKnown
	case i.MissesWebhooks:
		return unasked
	case ask == nil:
		return nil
	//guard:frontdoor-inner-door-other-ways
	case isRestrictedOtherwise(ctx, r, ask):
		return restricted
	//guard:frontdoor-inner-door-answers-show
	case !mayReadAnswer(ctx, r, ask):
		return unreadable
	}
	return nil
}

// isRestrictedOtherwise reports whether policies deny, or could deny, another request that looks the same at admission. kube-apiserver
// does not call the inner door if another authorizer allows that request, so the user must not be able to pass as if it had been
// sent. A barrier decides about what it sees at admission, which is the same however the request was sent.
func isRestrictedOtherwise(ctx context.Context, r *Request, ask Asker) bool {
	mayDeny := func(check innerdoor.Check) bool {
		decision, err := ask.ByPolicies(ctx, withCheck(r, check))
		//guard:frontdoor-inner-door-other-ways-could-denied
		return err != nil || decision.CanBecomeDenied()
	}
	isDenied := func(check innerdoor.Check) bool {
		decision, err := ask.ByPolicies(ctx, withCheck(r, check))
		//guard:frontdoor-inner-door-ways-could-denied
		return err == nil && decision.IsDeny()
	}
	for _, alternative := range innerdoor.Alternatives(resourceOf(r), checkOf(r)) {
		//guard:frontdoor-inner-door-ways-denied
		if slices.ContainsFunc(alternative.Rest, isDenied) {
			continue // the request cannot turn into such a write
		}
		if slices.ContainsFunc(alternative.Others, mayDeny) {
			return true
		}
	}
	return false
}

// withCheck returns a request with another check. A request without a name is a POST: the name of its object is not known.
func withCheck(r *Request, check innerdoor.Check) *Request {
	other := authorization.WithVerb(r.Attributes, check.Verb)
	switch {
	case !check.Named:
		other.Name = ""
		if r.Attributes.GetAPIGroup() == "" && r.Attributes.GetResource() == "namespaces" {
			//guard:frontdoor-inner-door-namespace-post
			other.Namespace = "" // only a namespace that exists is in itself
		}
	case r.Attributes.GetName() == "":
		//guard:frontdoor-inner-door-names-not-known
		return r.with(engine.ForAnyName(other))
	}
	return r.with(other)
}

// mayReadAnswer reports whether a user may read what the answer to a write shows, without conditions: the object of an update, patch
// or delete, and the objects of a deletecollection.
func mayReadAnswer(ctx context.Context, r *Request, ask Asker) bool {
	check := authorization.WithVerb(r.Attributes, "get")
	//guard:frontdoor-inner-door-reading-object-not-subresource
	check.Subresource = ""
	switch r.Attributes.GetVerb() {
	case "create":
		return true
	case "deletecollection":
		//guard:frontdoor-inner-door-list-deletecollection
		check.Verb = "list"
	}
	return ask.IsAllowed(ctx, r.with(check))
}
