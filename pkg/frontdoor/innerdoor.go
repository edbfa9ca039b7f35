/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// InnerDoor says for which requests kube-apiserver calls the inner door at admission, so that the front door may let them pass on
// conditions. All functions are required, and must be safe for concurrent use.
type InnerDoor struct {
	// Listed reports whether the manifest of the inner door has a resource.
	Listed func(innerdoor.Resource) bool
	// LeavesOut reports whether the manifest leaves out a user, so that the inner door does not decide the user's writes.
	LeavesOut func(user.Info) bool
	// IsLocal reports whether kube-apiserver is known to serve a version itself. Other servers do not call the inner door.
	IsLocal func(schema.GroupVersion) bool
	// Known reports whether the kube-apiserver that has a certificate is known to call the inner door.
	Known func(Client) bool
	// IsCanary reports whether a request is one with which Proviso finds out whether kube-apiserver calls the inner door. Such a
	// request is allowed, and refused at admission.
	IsCanary func(Client, authorizer.Attributes) bool
	// MissesWebhooks says that the manifest leaves out writes that other authorizers of kube-apiserver allow, and that there are webhooks. Writes then do not
	// pass on conditions. A POST that a policy allows on a condition counts as allowed at admission if RBAC allows the PUT that creates the same object.
	// A webhook may deny that PUT, but the front door cannot ask it: a POST does not tell the name of its object.
	MissesWebhooks bool
	// KubeAPIServer answers whether a user may read what an answer to a write shows. It must send the delegation marker, and must
	// not retry.
	KubeAPIServer authorizer.UnconditionalAuthorizer
}

func (i *InnerDoor) isComplete() bool {
	return i.Listed != nil && i.LeavesOut != nil && i.IsLocal != nil && i.Known != nil && i.IsCanary != nil && i.KubeAPIServer != nil
}

// isCanary reports whether a request is a canary of the inner door, or of barriers.
func (d *Decider) isCanary(ctx context.Context, a authorizer.Attributes) bool {
	//guard:frontdoor-canary-marked
	if isMarked(a.GetUser()) || !a.IsResourceRequest() {
		return false
	}
	client := ClientOf(ctx)
	return d.config.InnerDoor != nil && d.config.InnerDoor.IsCanary(client, a) || d.config.Barriers != nil && d.config.Barriers.IsCanary(client, a)
}

// isListed reports whether the inner door decides a request, if kube-apiserver calls it.
func (d *Decider) isListed(a authorizer.Attributes) bool {
	//guard:frontdoor-inner-door-resources-not-listed
	return d.config.InnerDoor != nil && d.isWrite(a) && d.config.InnerDoor.Listed(resourceOf(a))
}

// lacksName reports whether the inner door would decide a request if it had a name. A request of such a verb always has one, so that a review without it is
// about no request.
func (d *Decider) lacksName(a authorizer.Attributes) bool {
	return a.GetName() == "" && !d.isListed(a) && d.isListed(variant{Attributes: a, verb: a.GetVerb(), subresource: a.GetSubresource(), namespace: a.GetNamespace(), name: "any"})
}

func resourceOf(a authorizer.Attributes) innerdoor.Resource {
	return innerdoor.Resource{Group: a.GetAPIGroup(), Resource: a.GetResource(), Subresource: a.GetSubresource()}
}

func checkOf(a authorizer.Attributes) innerdoor.Check {
	return innerdoor.Check{Verb: a.GetVerb(), Named: a.GetName() != ""}
}

// obstacle is why a request does not pass on conditions that the inner door would evaluate.
type obstacle struct {
	// answer is the value of the label answer of the metric.
	answer string
	// reason is a part of the reason of the decision.
	reason string
}

// The obstacles.
var (
	leftOut    = &obstacle{"left_out", "the inner door does not decide for this user"}
	notLocal   = &obstacle{"not_local", "kube-apiserver is not known to serve this version itself"}
	restricted = &obstacle{"restricted", "a policy denies, or could deny, another request that looks the same at admission"}
	unreadable = &obstacle{"unreadable", "the answer may show objects, which the user may not read"}
	notKnown   = &obstacle{"not_known", "this kube-apiserver is not known to call the inner door"}
	unasked    = &obstacle{"webhooks", "a webhook could deny it, and with askOtherAuthorizers the inner door is not called for what others allow"}
)

// decideListed decides a request that the inner door decides again. There its path and its selectors are not seen, so that policies
// that read them grant nothing on their own.
func (d *Decider) decideListed(ctx context.Context, attributes authorizer.Attributes, audit *authorization.Audit, within limit) (authorization.Decision, error) {
	//guard:frontdoor-inner-door-selectors
	unseenCtx, unseen := authorization.WithUnseen(ctx)
	decision, err := d.byPolicies(unseenCtx, authorization.Audited(attributes, audit), within)
	if err != nil {
		return authorization.Decision{}, err
	}
	left, atBarriers := d.withoutBarriers(ctx, decision, attributes)
	onConditions := left.CanBecomeAllowed() && !left.IsAllow()
	if !decision.IsUnconditional() {
		decision = d.passesOnConditions(ctx, left, attributes, within)
		observeConditional(decision, false, left)
	}
	decision = withBarriers(d.afterPolicies(ctx, decision, attributes, within), atBarriers)
	//guard:frontdoor-fields-listed-resources-obstacles-conditions
	if decision.IsNoOpinion() && !onConditions {
		// An obstacle to conditions would be one to fields, too.
		decision = d.passesOnFields(ctx, decision, attributes, within)
	}
	if reason := unseen.Reason(); reason != "" && decision.IsNoOpinion() {
		innerDoorAnswers.WithLabelValues(answerUnseen).Inc()
		return authorization.NoOpinion(strings.TrimPrefix(decision.Reason()+"; "+reason, "; "), decision.Err()), nil
	}
	return decision, nil
}

// passesOnConditions returns the decision about a request on a listed resource whose decision is conditional. It is Allow only if
// the inner door decides the request again. Otherwise the decision is folded.
//
// Of a decision that can become Deny only the Deny is left, because kube-apiserver does not call the inner door for what another
// authorizer allows. Conditions that barriers enforce have been left out of the decision.
func (d *Decider) passesOnConditions(ctx context.Context, decision authorization.Decision, attributes authorizer.Attributes, within limit) authorization.Decision {
	folded := decision.Fold()
	//guard:frontdoor-inner-door-can-become-deny
	if !folded.IsNoOpinion() || !decision.CanBecomeAllowed() {
		return folded
	}
	if found := d.obstacle(ctx, attributes, within); found != nil {
		innerDoorAnswers.WithLabelValues(found.answer).Inc()
		return decision.FoldBecause(found.reason)
	}
	innerDoorAnswers.WithLabelValues(answerPassed).Inc()
	return authorization.Allow(reasonOnConditions+strings.Join(decision.Labels(), "; "), nil)
}

// passesOnFields returns the decision about a request on a listed resource on which policies have no opinion. It is Allow if the user
// may change some fields of the object, and if the request would also pass on conditions: the inner door checks the fields that
// change. Otherwise it is NoOpinion.
func (d *Decider) passesOnFields(ctx context.Context, decision authorization.Decision, attributes authorizer.Attributes, within limit) authorization.Decision {
	check, ok := d.fieldsCheck(attributes)
	// Another authorizer may allow the request, so that its checks together must not take longer than one.
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	//guard:frontdoor-fields-listed-resources-who-asked-nothing
	if !ok || d.undecided(ctx, attributes) != nil || !d.isAllowed(ctx, check, within, d.config.Fields.KubeAPIServer, observeCheck) {
		return decision
	}
	//guard:frontdoor-fields-listed-resources-reading
	if found := d.obstacle(ctx, attributes, within); found != nil {
		innerDoorAnswers.WithLabelValues(found.answer).Inc()
		return authorization.NoOpinion(strings.TrimPrefix(decision.Reason()+"; "+reasonNotOnFields+found.reason, "; "), decision.Err())
	}
	innerDoorAnswers.WithLabelValues(answerPassed).Inc()
	conditionalAnswers.WithLabelValues(answerAllowedOnFields).Inc()
	return authorization.Allow(reasonFields, nil)
}

// obstacle returns the first obstacle, or nil. What takes a check by kube-apiserver comes last.
func (d *Decider) obstacle(ctx context.Context, attributes authorizer.Attributes, within limit) *obstacle {
	found := d.undecided(ctx, attributes)
	switch {
	case found != nil:
		return found
	//guard:frontdoor-inner-door-other-ways
	case d.isRestrictedOtherwise(ctx, attributes, within):
		return restricted
	//guard:frontdoor-inner-door-answers-show
	case !d.mayReadAnswer(ctx, attributes, within, d.config.InnerDoor.KubeAPIServer):
		return unreadable
	}
	return nil
}

// undecided returns the first reason why the inner door may not decide the request, or nil. It asks no other authorizer.
func (d *Decider) undecided(ctx context.Context, attributes authorizer.Attributes) *obstacle {
	door := d.config.InnerDoor
	switch {
	//guard:frontdoor-inner-door-users-who-left-out
	case attributes.GetUser() == nil || door.LeavesOut(attributes.GetUser()):
		return leftOut
	//guard:frontdoor-inner-door-other-servers
	case !door.IsLocal(schema.GroupVersion{Group: attributes.GetAPIGroup(), Version: attributes.GetAPIVersion()}):
		return notLocal
	//guard:frontdoor-inner-door-not-known
	case !door.Known(ClientOf(ctx)):
		return notKnown
	case door.MissesWebhooks:
		return unasked
	}
	return nil
}

// isRestrictedOtherwise reports whether policies deny, or could deny, another request that looks the same at admission. kube-apiserver
// does not call the inner door if another authorizer allows that request, so the user must not be able to pass as if it had been
// sent.
func (d *Decider) isRestrictedOtherwise(ctx context.Context, attributes authorizer.Attributes, within limit) bool {
	mayDeny := func(check innerdoor.Check) bool {
		other := withCheck(attributes, check)
		decision, err := d.byPolicies(ctx, other, within)
		if err != nil {
			return true
		}
		// A barrier decides about what it sees at admission, which is the same however the request was sent.
		//guard:frontdoor-barriers-other-ways
		left, _ := d.withoutBarriers(ctx, decision, other)
		//guard:frontdoor-inner-door-other-ways-could-denied
		return left.CanBecomeDenied()
	}
	isDenied := func(check innerdoor.Check) bool {
		decision, err := d.byPolicies(ctx, withCheck(attributes, check), within)
		//guard:frontdoor-inner-door-ways-could-denied
		return err == nil && decision.IsDeny()
	}
	for _, alternative := range innerdoor.Alternatives(resourceOf(attributes), checkOf(attributes)) {
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

// withCheck returns attributes with another check. A request without a name is a POST: the name of its object is not known.
func withCheck(attributes authorizer.Attributes, check innerdoor.Check) authorizer.Attributes {
	other := variant{Attributes: attributes, verb: check.Verb, subresource: attributes.GetSubresource(), namespace: attributes.GetNamespace()}
	switch {
	case !check.Named:
		if attributes.GetAPIGroup() == "" && attributes.GetResource() == "namespaces" {
			//guard:frontdoor-inner-door-namespace-post
			other.namespace = "" // only a namespace that exists is in itself
		}
		return other
	case attributes.GetName() == "":
		//guard:frontdoor-inner-door-names-not-known
		return engine.ForAnyName(other)
	}
	other.name = attributes.GetName()
	return other
}

// variant is another request of the same user about the same resource.
type variant struct {
	authorizer.Attributes

	verb, subresource, namespace, name string
}

func (v variant) GetVerb() string        { return v.verb }
func (v variant) GetSubresource() string { return v.subresource }
func (v variant) GetNamespace() string   { return v.namespace }
func (v variant) GetName() string        { return v.name }

// IsReadOnly implements authorizer.Attributes.
func (v variant) IsReadOnly() bool { return v.verb == "get" || v.verb == "list" }

// mayReadAnswer reports whether a user may read what the answer to a write shows, without conditions: the object of an update, patch
// or delete, and the objects of a deletecollection. By policies or, if they have no opinion, by one check of
// kube-apiserver. An error counts as no.
func (d *Decider) mayReadAnswer(ctx context.Context, attributes authorizer.Attributes, within limit, kubeAPIServer authorizer.UnconditionalAuthorizer) bool {
	//guard:frontdoor-inner-door-reading-object-not-subresource
	check := variant{Attributes: attributes, verb: "get", namespace: attributes.GetNamespace(), name: attributes.GetName()}
	switch attributes.GetVerb() {
	case "create":
		return true
	case "deletecollection":
		//guard:frontdoor-inner-door-list-deletecollection
		check.verb = "list"
	}
	return d.isAllowed(ctx, check, within, kubeAPIServer, observeRead)
}
