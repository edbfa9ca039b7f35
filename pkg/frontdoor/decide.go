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
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

// Decider decides requests for kube-apiserver. It is safe for concurrent use.
type Decider struct {
	config Config
}

// Config configures a Decider.
type Config struct {
	// Policies decide first.
	Policies Policies
	// AfterPolicies has the webhooks, and other authorizers that may call other servers. It is called after the policies, unless they deny, and never for a request with
	// the delegation marker. Its Deny beats an Allow of policies. If nil, there are none.
	AfterPolicies *authorization.Chain
	// Places says where conditions are evaluated.
	Places *place.Table
	// KubeAPIServer answers whether a user may read what an answer to a write shows. It must send the delegation marker, and must
	// not retry. It is required if there are places with obstacles.
	KubeAPIServer authorizer.UnconditionalAuthorizer
	// ReviewsShowConditions says that reviews with a mode show conditions, so that reasons refer to them; it is the feature gate
	// ConditionalAuthorization.
	ReviewsShowConditions bool
	// Fields allows writes by users who have permission on some fields only. If nil, such writes
	// are not allowed.
	Fields *Fields
}

// Policies are the authorizers that decide from policies.
type Policies struct {
	// Chain has the authorizers. They must decide from Source, and must not evaluate conditions, because their secondary checks would ask kube-apiserver.
	Chain *authorization.Chain
	// Source reports whether policies are loaded and up to date.
	Source *engine.Source
	// Namespaces is for conditions that read namespaceObject. If nil, they are folded.
	Namespaces authorization.Namespaces
}

// New returns a Decider. It returns an error if config is incomplete.
func New(config Config) (*Decider, error) {
	switch fields := config.Fields; {
	case config.Policies.Chain == nil || config.Policies.Source == nil || config.Places == nil:
		return nil, errors.New("a front door needs Chain and Source of Policies, and Places")
	case fields != nil && (fields.Check == nil || fields.KubeAPIServer == nil):
		return nil, errors.New("the fields of a front door need Check and KubeAPIServer")
	case config.KubeAPIServer == nil && config.Places.Asks():
		return nil, errors.New("a front door needs KubeAPIServer for a place that asks what a user may read")
	}
	return &Decider{config: config}, nil
}

// The errors of Ready and decideAudited.
var (
	errNotLoaded = errors.New("the policies have not been loaded yet")
	errStale     = errors.New("the policies may be out of date")
)

// Ready returns an error that says why the front door is not ready, or nil.
func (d *Decider) Ready() error {
	if d.config.Policies.Source.Snapshot() == nil {
		return errNotLoaded
	}
	if reason := d.config.Policies.Source.Stale(); reason != "" {
		return fmt.Errorf("%w: %s", errStale, reason)
	}
	return nil
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
	if namespaced := d.config.Policies.Source.Namespaced(ctx, attributes); namespaced != nil {
		within.namespaced(ctx, namespaced.Evaluate)
		ctx = namespaced.In(ctx)
	}
	return within.decision(ctx, func(ctx context.Context) authorization.Decision {
		return d.config.Policies.Chain.Decide(ctx, attributes)
	})
}

// decideAudited decides a request by policies. The decision is Allow, Deny or NoOpinion, unless the client handles conditions. It returns an
// error if policies have not been loaded yet.
//
// A conditional decision is converted (KEP-5681, "Authorizer requirements"):
//
//   - at a place that evaluates all conditions: to Allow if the decision can become Allow, else to
//     NoOpinion, because Deny conditions are evaluated even if another authorizer allows. The decision stays as it is where the client gets the conditions;
//   - at a place that evaluates what grants: to Allow if the decision can become Allow and cannot become Deny. Of a decision that can become Deny only
//     the Deny is left, because kube-apiserver does not call the inner door for what another authorizer allows;
//   - elsewhere, and where the place has an obstacle: to Deny if the decision can become Deny, else to NoOpinion, but for one that every value
//     of its conditions allows. A review without one version, as kubectl auth
//     can-i sends it, is about no single request, so that no server enforces it; its reason names the conditions and says
//     how to see them.
//
// Deny conditions that kube-apiserver itself enforces, as place.Barriers says, are left out before that.
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
//
// It adds the policies with the enforcement Audit that match the request to audit, and evaluates none of them.
func (d *Decider) decideAudited(ctx context.Context, r *place.Request, audit *authorization.Audit, within limit) (authorization.Decision, error) {
	if decision, ok := d.canary(r); ok {
		return decision, nil
	}
	// This needs no policies. The request of a user with the marker of Proviso is not asked about, so that a failure here would count for it.
	if key := impersonatedReserved(r.Attributes); key != "" {
		return denyReserved(key), nil
	}
	//guard:frontdoor-policies-not-loaded
	if d.config.Policies.Source.Snapshot() == nil {
		return authorization.Decision{}, errNotLoaded
	}
	ctx = d.pin(ctx)
	//guard:frontdoor-marker
	if isMarked(r.Attributes.GetUser()) {
		return d.decideForProviso(ctx, r, within)
	}
	p := d.config.Places.Of(r)
	terms := p.Terms()
	seen, unseen := ctx, (*authorization.Unseen)(nil)
	//guard:frontdoor-inner-door-selectors
	if terms.Unseen {
		seen, unseen = authorization.WithUnseen(ctx)
	}
	decision, err := d.byPolicies(seen, authorization.Request{Attributes: r.Attributes, Audit: audit}, within)
	switch {
	case err != nil:
		return authorization.Decision{}, err
	case terms.GetsConditions:
		return d.leftConditions(ctx, p, decision, r, within), nil
	}
	left, atBarriers := d.config.Places.Barriers().WithoutDeny(decision, r, p)
	onConditions := left.CanBecomeAllowed() && !left.IsAllow()
	if !decision.IsUnconditional() {
		var isLeft bool
		decision, isLeft = d.onConditions(ctx, p, left, r, within)
		observeConditional(decision, isLeft, left)
	}
	decision = withBarriers(d.afterPolicies(ctx, p, decision, r, within), atBarriers)
	if decision.IsAllow() && d.config.Places.NeedsCreate(r) {
		return authorization.Allow(decision.Reason()+"; "+reasonConnection, decision.Err()), nil
	}
	//guard:frontdoor-fields-listed-resources-obstacles-conditions
	if decision.IsNoOpinion() && !onConditions {
		// An obstacle to conditions would be one to fields, too.
		decision = d.onFields(ctx, p, decision, r, within)
	}
	if unseen != nil && unseen.Reason() != "" && decision.IsNoOpinion() {
		innerDoorAnswers.WithLabelValues(answerUnseen).Inc()
		return authorization.NoOpinion(strings.TrimPrefix(decision.Reason()+"; "+unseen.Reason(), "; "), decision.Err()), nil
	}
	return decision, nil
}

// decideForProviso decides a request with the delegation marker. It counts for no policy in Audit, because it is no request.
func (d *Decider) decideForProviso(ctx context.Context, r *place.Request, within limit) (authorization.Decision, error) {
	decision, err := d.byPolicies(ctx, r.Attributes, within)
	switch {
	case err != nil:
		return authorization.Decision{}, err
	case decision.IsDeny():
		return decision, nil
	case !decision.IsUnconditional():
		return authorization.NoOpinion("", nil), nil
	}
	// The reason would become part of the refusal of Proviso, which gives the reasons of its policies itself.
	return authorization.NoOpinion("", decision.Err()), nil
}

// canary returns the answer to a canary: Allow for those that admission refuses, by Table.IsCanary, and Deny for canaries of package cluster. It returns false for
// all other requests.
func (d *Decider) canary(r *place.Request) (authorization.Decision, bool) {
	//guard:frontdoor-canary-marked
	if isMarked(r.Attributes.GetUser()) || !r.Attributes.IsResourceRequest() {
		return authorization.Decision{}, false
	}
	if d.config.Places.IsCanary(r) {
		return authorization.Allow(reasonCanary, nil), true
	}
	if nonce, ok := innerdoor.ConditionsCanaryOf(r.Attributes); ok && d.config.Places.LeavesConditions() {
		//guard:conditions-left-canaries-clients-without-options
		return authorization.Deny(innerdoor.ConditionsCanaryReason(nonce, r.HandlesConditions), nil), true
	}
	return authorization.Decision{}, false
}

const (
	reasonReserved = " is reserved for Proviso and cannot be impersonated"
	reasonCanary   = "a canary, which is refused at admission"
	// reasonConnection is part of an Allow that is not enough for the request.
	reasonConnection = "a connection also needs the verb create, which Proviso checks"
	reasonFields     = "allowed if the user has permission on every field that changes, which Proviso checks at admission"
	// reasonNameless is for a review that is no request.
	reasonNameless = "the review has no name, and only a request about one object passes on conditions"
	// reasonNotOnFields is followed by the obstacle.
	reasonNotOnFields = "the permission of the user on fields does not apply to this request: "
)

// onConditions converts a decision that was conditional as decideAudited describes. Conditions that barriers enforce have been left out of it. isLeft says that the
// front door has no opinion, and that the place evaluates the conditions if another authorizer allows the request.
func (d *Decider) onConditions(ctx context.Context, p place.Place, decision authorization.Decision, r *place.Request, within limit) (converted authorization.Decision, isLeft bool) {
	terms := p.Terms()
	switch {
	case decision.IsUnconditional(): // barriers enforce all conditions
		return decision, false
	case terms.Evaluates == place.NoEffects:
		return d.folded(decision, r), false
	//guard:frontdoor-inner-door-can-become-deny
	case terms.Evaluates == place.Grants && (!decision.Fold().IsNoOpinion() || !decision.CanBecomeAllowed()):
		return decision.Fold(), false
	//guard:frontdoor-conditions-not-enforced
	case !decision.CanBecomeAllowed():
		// Policies have nothing to do with a refusal that follows: the place evaluates the conditions if RBAC allows the request.
		return authorization.NoOpinion("", nil), true
	}
	if found := d.obstacle(ctx, p, r, within); found != nil {
		return decision.FoldBecause(found.Reason), false
	}
	return authorization.Allow(terms.Reason+strings.Join(decision.Labels(), "; "), nil), false
}

// obstacle returns the first obstacle to conditions at a place, or nil, and counts it.
func (d *Decider) obstacle(ctx context.Context, p place.Place, r *place.Request, within limit) *place.Obstacle {
	found := p.Obstacle(ctx, r, asker{d, within, d.config.KubeAPIServer, observeRead})
	switch {
	case !p.Terms().HasObstacles:
	case found == nil:
		innerDoorAnswers.WithLabelValues(answerPassed).Inc()
	default:
		innerDoorAnswers.WithLabelValues(found.Answer).Inc()
	}
	return found
}

// Evaluated is place.Table.Evaluated for the answer to a review. It asks what the front door would ask about the request. kubeAPIServer is asked instead of
// Config.KubeAPIServer: everybody may create reviews, which must not take the places of requests. All questions of a review share their budgets.
func (d *Decider) Evaluated(ctx context.Context, r *place.Request, decision authorization.Decision, kubeAPIServer authorizer.UnconditionalAuthorizer) (isEvaluated bool, problem string) {
	if d.config.Policies.Source.Snapshot() == nil {
		return false, errNotLoaded.Error()
	}
	ctx = authorization.WithPolicyBudgets(d.pin(ctx))
	return d.config.Places.Evaluated(ctx, r, decision, asker{d, unlimited{}, kubeAPIServer, func(authorizer.Decision, error) {}})
}

// unlimited evaluates everything at once. It is for reviews of Proviso, which the server bounds.
type unlimited struct{}

func (unlimited) namespaced(ctx context.Context, evaluate func(context.Context)) { evaluate(ctx) }

func (unlimited) decision(ctx context.Context, evaluate func(context.Context) authorization.Decision) (authorization.Decision, error) {
	return evaluate(ctx), nil
}

func (unlimited) afterPolicies(ctx context.Context, decide func(context.Context) authorization.Decision) authorization.Decision {
	ctx, cancel := context.WithTimeout(ctx, afterPoliciesTimeout)
	defer cancel()
	return decide(ctx)
}

// asker answers the questions of places.
type asker struct {
	d             *Decider
	within        limit
	kubeAPIServer authorizer.UnconditionalAuthorizer
	// observe counts the answers of kubeAPIServer.
	observe func(authorizer.Decision, error)
}

// ByPolicies implements place.Asker.
func (a asker) ByPolicies(ctx context.Context, r *place.Request) (authorization.Decision, error) {
	decision, err := a.d.byPolicies(ctx, r.Attributes, a.within)
	//guard:frontdoor-barriers-other-ways
	if err == nil {
		decision, _ = a.d.config.Places.Barriers().WithoutDeny(decision, r, a.d.config.Places.Of(r))
	}
	return decision, err
}

// IsAllowed implements place.Asker.
func (a asker) IsAllowed(ctx context.Context, r *place.Request) bool {
	return a.d.isAllowed(ctx, r.Attributes, a.within, a.kubeAPIServer, a.observe)
}

// folded folds a conditional decision on a request whose conditions no component evaluates.
func (d *Decider) folded(decision authorization.Decision, r *place.Request) authorization.Decision {
	switch {
	case authorization.HasWildcards(r.Attributes):
		return d.foldedForMany(decision)
	case r.Attributes.GetName() == "" && d.config.Places.OfNamed(r).Terms().Evaluates != place.NoEffects:
		return decision.FoldBecause(reasonNameless)
	}
	return decision.Fold()
}

// foldedForMany folds a conditional decision about more than one kind of request.
func (d *Decider) foldedForMany(decision authorization.Decision) authorization.Decision {
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

// isMarked reports whether a user has the delegation marker. The comparison ignores case, because
// keys from headers are lower-cased and others are not. Only Proviso may have the marker.
func isMarked(u user.Info) bool {
	if u == nil {
		return false
	}
	for key := range u.GetExtra() {
		if strings.EqualFold(key, authorization.DelegationMarker) {
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
	for _, key := range []string{authorization.DelegationMarker, innerdoor.CanaryExtra} {
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
