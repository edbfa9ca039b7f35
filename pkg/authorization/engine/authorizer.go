/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// Part is one of the places that policies have in the chain of authorizers.
type Part uint8

const (
	// Restricting is the place before all authorizers that can grant. Only the authorizers of privileged
	// groups, and of paths that need no permission, come before it. Its decisions are Deny, deny-only
	// conditions or NoOpinion: an authorizer that can grant nothing is safe there.
	Restricting Part = iota
	// Granting is a single place for all Allow and NoOpinion policies.
	Granting
	// GrantingCluster is the place of cluster-scoped Allow policies. NoOpinion policies of either
	// scope hold back both kinds of Allow policies, so they are in both places.
	GrantingCluster
	// GrantingNamespaced is the place of the Allow policies of namespaces, after GrantingCluster.
	// Together the two decide as Granting does.
	GrantingNamespaced
)

// Authorizer decides requests from the policies of a Source. It is safe for concurrent
// use.
type Authorizer struct {
	// Source has the policies. All Authorizers of a chain must have the same Source.
	Source *Source
	// Part says which of the policies decide.
	Part Part
	// Stage says for what the policies decide. It is a label of metrics.
	Stage authorization.Stage
	// Checks answers the checks that conditions make with authorizer, when they are
	// evaluated in process. It must be a chain that folds. If nil, they fail.
	Checks authorizer.UnconditionalAuthorizer
	// MayRead reports whether a caller of reviews may read a policy, and so see all of it in
	// a condition. If nil, no caller may.
	MayRead MayRead
}

// MayRead reports whether the caller of a review with these attributes may read a policy.
type MayRead func(ctx context.Context, attributes authorizer.Attributes, policy Key) bool

var (
	_ authorization.Decider = &Authorizer{}
	_ authorization.Pinner  = &Authorizer{}

	_ authorization.Revisioner = &Authorizer{}
)

// Pin makes a context in which the policies do not change.
func (a *Authorizer) Pin(ctx context.Context) context.Context { return a.Source.Pin(ctx) }

// Revision returns the revision of the snapshot that a context is pinned to.
func (a *Authorizer) Revision(ctx context.Context) string {
	if snapshot := a.Source.StateOf(ctx).Value; snapshot != nil {
		return strconv.FormatUint(snapshot.Revision(), 10)
	}
	return ""
}

const reasonNotLoaded = "the policies have not been loaded yet"

// Decide returns the decision of the policies in the place Part, from the data that is known
// at authorization (KEP-5681, "Computing a concrete decision from a ConditionSet", ahead of
// time). Conditions are returned only if no policy decides unconditionally with the same or a
// stronger effect: Deny is stronger than NoOpinion, and NoOpinion than Allow. It returns
// NoOpinion if no policy matches, and Deny if there is no snapshot yet. The attributes must not
// change as long as the decision is used.
//
// Policies with the enforcement Audit do not decide. They are added to the Audit of the attributes, if there is one.
func (a *Authorizer) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	s := a.Source.StateOf(ctx)
	if s.Value == nil {
		return authorization.Deny(reasonNotLoaded, nil)
	}
	decision, heldBack := a.decide(ctx, s, attributes)
	a.audit(ctx, attributes, s, heldBack || s.Stale != "")
	return decision
}

// decide returns the decision of the policies that are enforced. heldBack says that they keep all Allow policies from granting.
func (a *Authorizer) decide(ctx context.Context, s state, attributes authorizer.Attributes) (decision authorization.Decision, heldBack bool) {
	x := &s.Value.granting
	if a.Part == Restricting {
		x = &s.Value.restricting
	}
	var buffer [8]matching
	found := x.find(attributes, buffer[:0])
	if len(found) == 0 {
		return authorization.NoOpinion("", nil), false
	}
	heldBack = slices.ContainsFunc(found, matching.holdsBackAlways)
	e := a.evaluationOf(ctx, s, attributes)
	defer e.observe()
	switch a.Part {
	case Granting:
		decision = e.grant(found, s.Stale)
	case GrantingCluster:
		decision = e.grantCluster(found, s.Stale)
	case GrantingNamespaced:
		decision = e.grantNamespaced(found, s.Stale)
	default:
		decision = e.restrict(found)
	}
	return decision, heldBack || e.heldBack
}

func (a *Authorizer) evaluationOf(ctx context.Context, s state, attributes authorizer.Attributes) *evaluation {
	return &evaluation{stage: a.Stage, ctx: ctx, request: newRequest(a, s, attributes), wildcards: authorization.HasWildcards(attributes), budgets: authorization.PolicyBudgetsOf(ctx), namespaced: a.Source.namespacedOf(ctx), unseen: authorization.UnseenOf(ctx)}
}

// evaluation decides one request.
type evaluation struct {
	//nolint:containedctx // lives for one call of Decide
	ctx     context.Context
	request *request
	// wildcards says that the review is about more than one request. Its conditions are folded, and
	// only their names and effects count.
	wildcards bool
	// budgets bound what evaluations may still cost.
	budgets *authorization.PolicyBudgets
	// namespaced has the outcomes of the policies of the namespace, if they were evaluated before.
	namespaced *Namespaced
	// conditions counts the conditions that were made.
	conditions int
	// hints counts the policies for which a selector was looked for.
	hints int
	// stage and began are for metrics: began is when the first condition was evaluated, zero if none was.
	stage authorization.Stage
	began time.Time
	// unseen is not nil if the request is decided again where its path and its selectors are not seen.
	unseen *authorization.Unseen
	// heldBack says that NoOpinion policies, or policies that are out of date, keep all Allow
	// policies from granting.
	heldBack bool
}

// restrict decides by Deny policies, and by NoOpinion policies that do not compile. Such a policy, and a Deny policy
// whose evaluation fails, denies.
func (e *evaluation) restrict(found []matching) authorization.Decision {
	var conditions []authorization.Condition
	for _, m := range found {
		if !m.isConditional() {
			m.policy.countUnconditional()
			return authorization.Deny(m.policy.reason, nil)
		}
	}
	//guard:engine-deny-policy-condition-fails
	for _, m := range found {
		switch outcome := e.outcomeOf(m.policy); {
		case outcome.IsTrue():
			return authorization.Deny(m.policy.reason, nil)
		case outcome.IsFalse():
		case outcome.IsResidual():
			conditions = append(conditions, e.condition(m.policy, outcome))
		default:
			return authorization.Deny(m.policy.explainError(outcome.Err()), outcome.Err())
		}
	}
	if len(conditions) == 0 {
		return authorization.NoOpinion("", nil)
	}
	return authorization.Conditions(conditions...)
}

// holdsBackAlways reports whether a NoOpinion policy applies whatever the object is.
func (m matching) holdsBackAlways() bool {
	return m.policy.conditionEffect() == authorization.EffectNoOpinion && !m.isConditional()
}

// isConditional reports whether the condition of a policy decides whether it applies. An Allow policy for some versions
// only is conditional in a review about all versions, even without a condition.
func (m matching) isConditional() bool {
	switch {
	case m.policy.failure != nil || m.match == matchOutsideVersions:
		return false
	//guard:engine-allow-policy-some-versions
	case m.match == matchSomeVersions && m.policy.conditionEffect() == authorization.EffectAllow:
		return true
	}
	return m.policy.condition != nil
}

// grant decides by NoOpinion and Allow policies. It returns NoOpinion if a NoOpinion policy applies, and if stale,
// the reason why policies may be out of date, is not empty.
func (e *evaluation) grant(found []matching, stale string) authorization.Decision {
	holding, decided := e.holdBack(found)
	if e.heldBack = decided != nil || stale != ""; decided != nil {
		return *decided
	}
	if stale != "" {
		return authorization.NoOpinion("Allow policies grant nothing while policies may be out of date: "+stale, nil)
	}
	allowing, allowed := e.allow(found)
	switch {
	case allowed == nil && len(allowing) == 0:
		return e.nothingAllowed(found)
	case allowed != nil && len(holding) == 0:
		return authorization.Allow(allowed.reason, nil)
	case allowed != nil:
		allowing = []authorization.Condition{e.always(allowed)}
	}
	if len(holding) > 0 {
		allowing = append(holding, allowing...)
	}
	return authorization.Conditions(allowing...)
}

// holdBack returns the conditions of NoOpinion policies. If a NoOpinion policy applies, or its condition cannot be
// evaluated, it returns the decision NoOpinion instead.
func (e *evaluation) holdBack(found []matching) (conditions []authorization.Condition, decided *authorization.Decision) {
	decide := func(p *Policy, err error) *authorization.Decision {
		d := authorization.NoOpinion(p.reason, nil)
		if err != nil {
			d = authorization.NoOpinion(p.explainError(err), err)
		}
		return &d
	}
	for _, m := range found {
		if m.holdsBackAlways() {
			m.policy.countUnconditional()
			return nil, decide(m.policy, nil)
		}
	}
	for _, m := range found {
		if m.policy.conditionEffect() != authorization.EffectNoOpinion {
			continue
		}
		switch outcome := e.outcomeOf(m.policy); {
		case outcome.IsFalse():
		//guard:engine-noopinion-not-seen-admission
		case outcome.IsResidual() && e.isUnseen(m.policy):
			return nil, decide(m.policy, nil)
		case outcome.IsResidual():
			conditions = append(conditions, e.condition(m.policy, outcome))
		default:
			return nil, decide(m.policy, outcome.Err())
		}
	}
	return conditions, nil
}

// allow returns the conditions of Allow policies, or the first policy that allows
// unconditionally. It leaves out policies whose condition is false or cannot be evaluated.
func (e *evaluation) allow(found []matching) (conditions []authorization.Condition, allowed *Policy) {
	for _, m := range found {
		if m.policy.conditionEffect() == authorization.EffectAllow && !m.isConditional() {
			m.policy.countUnconditional()
			return nil, m.policy
		}
	}
	for i, m := range found {
		if m.policy.conditionEffect() != authorization.EffectAllow {
			continue
		}
		//guard:engine-grants-not-seen-admission
		if e.isUnseen(m.policy) {
			e.unseen.Add(m.policy.id, m.policy.description)
			continue
		}
		switch outcome := e.outcomeOf(m.policy); {
		case outcome.IsTrue():
			return nil, m.policy
		case outcome.IsResidual() && !neverTrue(outcome):
			if conditions == nil {
				conditions = make([]authorization.Condition, 0, len(found)-i)
			}
			conditions = append(conditions, e.condition(m.policy, outcome))
		}
	}
	return conditions, nil
}

// isUnseen reports whether the condition of a policy reads what is not seen where the request is decided again.
func (e *evaluation) isUnseen(p *Policy) bool {
	return e.unseen != nil && p.condition != nil && p.condition.readsUnseen
}

// outcome is the result of a condition with the known data.
type outcome struct {
	partial.Result
	// wildcards says that the condition was not evaluated, because the review is about more than one request.
	wildcards bool
}

func (o outcome) IsResidual() bool { return o.wildcards || o.Residual() != nil }

func neverTrue(o outcome) bool { return !o.wildcards && o.Residual().NeverTrue() }
