/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// Decider decides requests for kube-apiserver. It is safe for concurrent use.
type Decider struct {
	config Config
}

// Config configures a Decider.
type Config struct {
	// Chain decides. Its members must decide from Policies, and must not evaluate conditions,
	// because their secondary checks would ask kube-apiserver.
	Chain *authorization.Chain
	// AfterPolicies has the webhooks, and other authorizers that may call other servers. It is called after Chain, unless that denies, and never for a request with
	// the delegation marker. Its Deny beats an Allow of Chain. If nil, there are none.
	AfterPolicies *authorization.Chain
	// Policies reports whether policies are loaded and up to date.
	Policies *engine.Source
	// Enforces reports whether this server, and no other, serves the request and evaluates
	// conditions on it at admission. It must return false for attributes that stand for more than
	// one kind of request.
	Enforces func(authorizer.Attributes) bool
	// Serves reports whether this server, and no other, serves the request, so that it authorizes it again. If nil, it does so for what
	// it enforces.
	Serves func(authorizer.Attributes) bool
	// EnforcedElsewhere reports whether another server behind kube-apiserver serves the request and evaluates conditions on it at
	// admission. It is not called for attributes that stand for more than one kind of request. If nil, no other server does.
	EnforcedElsewhere func(authorizer.Attributes) bool
	// Namespaces is for conditions that read namespaceObject. If nil, they are folded.
	Namespaces engine.Namespaces
	// NeedsCreate reports whether a request of this server needs the verb create in addition to its own, and is allowed only if
	// this server decides that both are. For attributes about all versions it reports about any version. If nil, no request
	// does.
	NeedsCreate func(authorizer.Attributes) bool
	// ReviewsShowConditions says that reviews with a mode show conditions, so that reasons refer to them; it is the feature gate
	// ConditionalAuthorization.
	ReviewsShowConditions bool
	// Fields allows writes by users who have permission on some fields only. If nil, such writes
	// are not allowed.
	Fields *Fields
	// InnerDoor lets writes pass on conditions that kube-apiserver has Proviso evaluate at admission. If nil, conditions on what this
	// server does not enforce are folded.
	InnerDoor *InnerDoor
	// ConditionsHandler leaves conditions to kube-apiservers that handle them. If nil, no kube-apiserver gets conditions.
	ConditionsHandler *ConditionsHandler
	// Barriers says which Deny conditions kube-apiserver enforces itself. If nil, it enforces none.
	Barriers *Barriers
}

// New returns a Decider. It returns an error if config is incomplete.
func New(config Config) (*Decider, error) {
	switch fields := config.Fields; {
	case config.Chain == nil || config.Policies == nil || config.Enforces == nil:
		return nil, errors.New("a front door needs Chain, Policies and Enforces")
	case fields != nil && (fields.Check == nil || fields.KubeAPIServer == nil):
		return nil, errors.New("the fields of a front door need Check and KubeAPIServer")
	case config.InnerDoor != nil && !config.InnerDoor.isComplete():
		return nil, errors.New("the inner door of a front door needs all its functions")
	case config.ConditionsHandler != nil && !config.ConditionsHandler.isComplete():
		return nil, errors.New("the conditions handler of a front door needs all its fields")
	case config.Barriers != nil && !config.Barriers.isComplete():
		return nil, errors.New("the barriers of a front door need all their functions")
	}
	return &Decider{config: config}, nil
}

// The errors of Ready and decide.
var (
	errNotLoaded = errors.New("the policies have not been loaded yet")
	errStale     = errors.New("the policies may be out of date")
)

// Ready returns an error that says why the front door is not ready, or nil.
func (d *Decider) Ready() error {
	if d.config.Policies.Snapshot() == nil {
		return errNotLoaded
	}
	if reason := d.config.Policies.Stale(); reason != "" {
		return fmt.Errorf("%w: %s", errStale, reason)
	}
	return nil
}

// decide decides a request by policies. The decision is Allow, Deny or NoOpinion, unless the client handles conditions. It returns an
// error if policies have not been loaded yet.
//
// A conditional decision is converted (KEP-5681, "Authorizer requirements"):
//
//   - where this server, or another one behind kube-apiserver, enforces conditions: to Allow if the decision can become Allow, else to
//     NoOpinion, because Deny conditions are evaluated even if another authorizer allows;
//   - where kube-apiserver handles conditions itself: it stays as it is, on the terms of ConditionsHandler;
//   - where the inner door is called: to Allow, on the terms of InnerDoor;
//   - elsewhere: to Deny if the decision can become Deny, else to NoOpinion. A review without one version, as kubectl auth
//     can-i sends it, is about no single request, so that no server enforces it; its reason names the conditions and says
//     how to see them.
//
// Deny conditions that kube-apiserver itself enforces, as Barriers says, are left out before that.
//
// A request with the delegation marker comes from Proviso, which decides from the same policies
// itself, at admission or in the inner door, and needs the answer of the other authorizers. Allow and conditional decisions become
// NoOpinion without a reason; Deny stays. A client that had the marker would avoid conditions that deny, so that impersonating it is
// denied, even before policies are loaded.
//
// If the result is not Deny, the authorizers after the policies are asked, as afterPolicies says.
//
// If the result is still NoOpinion, a write is allowed nevertheless if the user may change some fields
// of the object. This server, or the inner door, then checks at admission which fields change. See Fields.
func (d *Decider) decide(ctx context.Context, attributes authorizer.Attributes, within limit) (authorization.Decision, error) {
	audit := &authorization.Audit{}
	decision, err := d.decideAudited(ctx, attributes, audit, within)
	if err == nil {
		d.audit(ctx, attributes, audit, decision)
	}
	return decision, err
}

// limit bounds the evaluations for a request. Other steps of its decision, such as the check by
// kube-apiserver, are not limited.
type limit interface {
	// namespaced has the policies of the namespace evaluated, in a context that may end before its parent. It does nothing
	// if it is not their turn in time.
	namespaced(ctx context.Context, evaluate func(context.Context))
	// decision has the request decided, in a context that may end before its parent, or returns an error.
	decision(ctx context.Context, evaluate func(context.Context) authorization.Decision) (authorization.Decision, error)
	// afterPolicies has the authorizers after the policies decide, in a context that ends when their time is over. It also bounds their calls of
	// other servers at a time.
	afterPolicies(ctx context.Context, decide func(context.Context) authorization.Decision) authorization.Decision
}

// byPolicies decides a request by policies. The policies of its namespace are evaluated before all others and apart
// from them, because their authors choose what they cost: those that are not evaluated in time count as over their
// budget. A slow policy therefore closes its own namespace only.
func (d *Decider) byPolicies(ctx context.Context, attributes authorizer.Attributes, within limit) (authorization.Decision, error) {
	if namespaced := d.config.Policies.Namespaced(ctx, attributes); namespaced != nil {
		within.namespaced(ctx, namespaced.Evaluate)
		ctx = namespaced.In(ctx)
	}
	return within.decision(ctx, func(ctx context.Context) authorization.Decision { return d.config.Chain.Decide(ctx, attributes) })
}

// decideAudited decides a request. It adds the policies with the enforcement Audit that match the request to audit, and evaluates none of
// them.
func (d *Decider) decideAudited(ctx context.Context, attributes authorizer.Attributes, audit *authorization.Audit, within limit) (authorization.Decision, error) {
	if d.isCanary(ctx, attributes) {
		return authorization.Allow(reasonCanary, nil), nil
	}
	if decision, ok := d.conditionsCanary(ctx, attributes); ok {
		return decision, nil
	}
	// This needs no policies. The request of a user with the marker of Proviso is not asked about, so that a failure here would count for it.
	if key := impersonatedReserved(attributes); key != "" {
		return denyReserved(key), nil
	}
	//guard:frontdoor-policies-not-loaded
	if d.config.Policies.Snapshot() == nil {
		return authorization.Decision{}, errNotLoaded
	}
	ctx = engine.WithNamespaces(d.pin(ctx), d.config.Namespaces)
	marked := isMarked(attributes.GetUser())
	//guard:conditions-left-checks-proviso
	leaves := !marked && d.leavesConditions(ctx, attributes)
	//guard:frontdoor-inner-door-marked
	if !marked && !leaves && d.isListed(attributes) {
		return d.decideListed(ctx, attributes, audit, within)
	}
	//guard:front-door-checks-proviso-audit
	if marked {
		audit = nil // it is no request
	}
	decision, err := d.byPolicies(ctx, authorization.Audited(attributes, audit), within)
	if err != nil {
		return authorization.Decision{}, err
	}
	if leaves {
		return d.leftConditions(ctx, decision, attributes, within), nil
	}
	var atBarriers []authorization.Condition
	if !decision.IsUnconditional() {
		//guard:front-door-other-servers-several-versions
		enforced := !authorization.HasWildcards(attributes) && (d.config.Enforces(attributes) || d.isEnforcedElsewhere(attributes))
		var left authorization.Decision
		left, atBarriers = d.withoutBarriers(ctx, decision, attributes)
		decision = d.unconditional(left, attributes, enforced, marked)
		if !marked {
			observeConditional(decision, enforced, left)
		}
	}
	//guard:frontdoor-marker
	if marked && !decision.IsDeny() {
		// The reason would become part of the refusal of Proviso, which gives the reasons of its policies itself.
		return authorization.NoOpinion("", decision.Err()), nil
	}
	decision = withBarriers(d.afterPolicies(ctx, decision, attributes, within), atBarriers)
	if decision.IsAllow() && d.config.NeedsCreate != nil && d.config.NeedsCreate(attributes) {
		return authorization.Allow(decision.Reason()+"; "+reasonConnection, decision.Err()), nil
	}
	if decision.IsNoOpinion() && !marked && d.mayChangeFields(ctx, attributes, within) {
		conditionalAnswers.WithLabelValues(answerAllowedOnFields).Inc()
		return authorization.Allow(reasonFields, nil), nil
	}
	return decision, nil
}

const (
	reasonReserved     = " is reserved for Proviso and cannot be impersonated"
	reasonOnConditions = "allowed if the conditions hold, which Proviso evaluates at admission: "
	reasonElsewhere    = "allowed if the conditions hold, which the server of the resource evaluates at admission: "
	reasonCanary       = "a canary, which is refused at admission"
	// reasonConnection is part of an Allow that is not enough for the request.
	reasonConnection = "a connection also needs the verb create, which Proviso checks"
	reasonFields     = "allowed if the user has permission on every field that changes, which Proviso checks at admission"
	// reasonNameless is for a review that is no request.
	reasonNameless = "the review has no name, and only a request about one object passes on conditions"
	// reasonNotOnFields is followed by the obstacle.
	reasonNotOnFields = "the permission of the user on fields does not apply to this request: "
)

// unconditional converts a conditional decision as decide describes.
func (d *Decider) unconditional(decision authorization.Decision, attributes authorizer.Attributes, enforced, marked bool) authorization.Decision {
	switch {
	case decision.IsUnconditional(): // barriers enforce all conditions
		return decision
	//guard:frontdoor-conditions-not-enforced
	case enforced && decision.CanBecomeAllowed():
		if !d.config.Enforces(attributes) {
			return authorization.Allow(reasonElsewhere+strings.Join(decision.Labels(), "; "), nil)
		}
		return authorization.Allow(reasonOnConditions+strings.Join(decision.Labels(), "; "), nil)
	case enforced || marked:
		// Policies have nothing to do with a refusal that follows: Proviso evaluates the conditions if RBAC allows the request.
		return authorization.NoOpinion("", nil)
	case authorization.HasWildcards(attributes):
		return d.folded(decision)
	case d.lacksName(attributes):
		return decision.FoldBecause(reasonNameless)
	default:
		return decision.Fold()
	}
}

// folded converts a conditional decision about more than one kind of request.
func (d *Decider) folded(decision authorization.Decision) authorization.Decision {
	reason := "the answer depends on conditions, and the review does not name one verb, group, version and resource: " + decision.DependsOn()
	if d.config.ReviewsShowConditions {
		reason += "; " + authorization.HowToSeeConditions
	}
	//guard:frontdoor-conditions-deny-review-without-version
	if decision.CanBecomeDenied() {
		return authorization.Deny(reason, nil)
	}
	return authorization.NoOpinion(reason, nil)
}

// isEnforcedElsewhere reports whether another server enforces conditions on a request.
func (d *Decider) isEnforcedElsewhere(attributes authorizer.Attributes) bool {
	return d.config.EnforcedElsewhere != nil && d.config.EnforcedElsewhere(attributes)
}

// isMarked reports whether a user has the delegation marker. The comparison ignores case, because
// keys from headers are lower-cased and others are not. Only Proviso may have the marker.
func isMarked(u user.Info) bool {
	if u == nil {
		return false
	}
	for key := range u.GetExtra() {
		if strings.EqualFold(key, webhook.DelegationMarker) {
			return true
		}
	}
	return false
}

// ReservedExtras denies to impersonate the extras that are reserved for Proviso, and has no opinion on other requests. The front door
// denies it, too.
type ReservedExtras struct{}

// Decide returns Deny or NoOpinion.
func (ReservedExtras) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	//guard:frontdoor-reserved-extras-proviso
	if key := impersonatedReserved(a); key != "" {
		return denyReserved(key)
	}
	return authorization.NoOpinion("", nil)
}

func denyReserved(key string) authorization.Decision {
	return authorization.Deny("the user extra "+key+reasonReserved, nil)
}

// verbConstrained is followed by the mode in the checks of the constrained modes of impersonation about the user (KEP-5284).
const verbConstrained = "impersonate:"

// impersonatedReserved returns the key if the request is a check for impersonating an extra that is reserved for Proviso. A client
// that had the delegation marker could make the front door skip Deny conditions that no server behind it enforces. A client
// that had the extra of the canary could write to the namespace of Proviso where the inner door is not called.
func impersonatedReserved(a authorizer.Attributes) string {
	if !a.IsResourceRequest() || a.GetAPIGroup() != authenticationv1.GroupName || a.GetResource() != "userextras" {
		return ""
	}
	//guard:frontdoor-canary-impersonation
	for _, key := range []string{webhook.DelegationMarker, innerdoor.CanaryExtra} {
		// The constrained modes ask about "*" instead of each value of a user with four or more. An Allow would be final. After a Deny
		// they ask about each value.
		isAll := a.GetSubresource() == "*" && strings.HasPrefix(a.GetVerb(), verbConstrained)
		//guard:frontdoor-all-extras-once
		if isAll || strings.EqualFold(a.GetSubresource(), key) {
			return key
		}
	}
	return ""
}
