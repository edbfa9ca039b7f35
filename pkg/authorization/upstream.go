/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// ToUpstream renders a decision in the types of k8s.io/apiserver, so that callers
// written against them can use our authorizers. Those types have no place for failure
// modes and, on a lone set, for the authorizer's name; each condition carries them
// along, so that FromUpstream finds them again. Upstream folds chains that can end in
// one way only. To upstream a set without Deny conditions cannot deny, so an Allow after a
// set that can fail to Deny becomes a condition, which keeps the chain from being folded to Allow.
// Only FromUpstream makes it an Allow again: to an evaluator that does not know Proviso it never holds.
func ToUpstream(d Decision) authorizer.ConditionsAwareDecision {
	switch d.kind {
	case kindAllow:
		return authorizer.ConditionsAwareDecisionAllow(d.reason, d.err)
	case kindNoOpinion:
		return authorizer.ConditionsAwareDecisionNoOpinion(d.Reason(), d.err)
	case kindConditions:
		return conditionsToUpstream(d.conditions, Set{})
	case kindChain:
		union, canFail := authorizer.ConditionsAwareDecisionUnion{}, false
		for _, s := range d.chain {
			member := s.toUpstream()
			//guard:upstream-allow-after-set-can-fail
			if canFail && member.IsAllow() {
				member = unfoldedAllow(member)
			}
			union.Add(s.AuthorizerName, member)
			canFail = canFail || s.canFail()
		}
		return union.ToDecision()
	default:
		return authorizer.ConditionsAwareDecisionDeny(d.reason, d.err)
	}
}

func (s Set) toUpstream() authorizer.ConditionsAwareDecision {
	if s.Decision.kind == kindConditions {
		return conditionsToUpstream(s.Decision.conditions, s)
	}
	return ToUpstream(s.Decision)
}

func conditionsToUpstream(conditions []Condition, of Set) authorizer.ConditionsAwareDecision {
	owner := &Set{AuthorizerName: of.AuthorizerName, FailureMode: of.FailureMode, Author: of.Author}
	byEffect := map[Effect][]authorizer.Condition{}
	for _, c := range conditions {
		byEffect[c.Effect] = append(byEffect[c.Effect], upstreamCondition{Condition: c, set: owner})
	}
	return authorizer.ConditionsAwareDecisionConditionsMap(byEffect[EffectDeny], byEffect[EffectNoOpinion], byEffect[EffectAllow])
}

// unfoldedAllow returns an Allow as a condition set, which setFromUpstream reads as the Allow. No evaluator has its type.
func unfoldedAllow(d authorizer.ConditionsAwareDecision) authorizer.ConditionsAwareDecision {
	c := Condition{ID: "authorization.proviso.dev/allow", Type: "authorization.proviso.dev/unfolded", Effect: EffectAllow}
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{
		upstreamCondition{Condition: c, set: &Set{Decision: Allow(d.Reason(), d.Error())}},
	})
}

// upstreamCondition is a Condition as an authorizer.Condition of k8s.io/apiserver. It carries the
// name, the failure mode and the author of its set, which upstream's sets cannot hold.
type upstreamCondition struct {
	Condition
	set *Set // shared by its conditions, and without a decision other than the Allow of unfoldedAllow
}

var _ authorizer.Condition = upstreamCondition{}

func (c upstreamCondition) GetID() string          { return c.ID }
func (c upstreamCondition) GetType() string        { return c.Type }
func (c upstreamCondition) GetCondition() string   { return c.Text }
func (c upstreamCondition) GetDescription() string { return c.Description }

// Evaluate calls EvaluateFunc, if the condition has one. Every outcome but true, false and
// an error is unevaluatable, which upstream treats as an error unless another evaluator has
// a value.
func (c upstreamCondition) Evaluate(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	if c.EvaluateFunc == nil {
		return authorizer.ConditionsEvaluationResultUnevaluatable()
	}
	switch o := c.EvaluateFunc(ctx, data); o.kind {
	case outcomeTrue:
		return authorizer.ConditionEvaluationResultBoolean(true)
	case outcomeFalse:
		return authorizer.ConditionEvaluationResultBoolean(false)
	case outcomeError:
		return authorizer.ConditionEvaluationResultError(o.err)
	default:
		return authorizer.ConditionsEvaluationResultUnevaluatable()
	}
}

var errUnknownUpstreamDecision = errors.New("unknown kind of decision")

// FromUpstream reads a decision in the types of k8s.io/apiserver. It restores the names,
// failure modes and authors that ToUpstream put into the conditions. Conditions from
// other sources have the failure mode Deny. If such conditions are a lone set, name names
// its authorizer; without a name the decision is a set without authorizer. A decision of
// an unknown kind is Deny.
func FromUpstream(name string, d authorizer.ConditionsAwareDecision) Decision {
	switch {
	case d.IsAllow():
		return Allow(d.Reason(), d.Error())
	case d.IsNoOpinion():
		return NoOpinion(d.Reason(), d.Error())
	case d.IsConditionsMap():
		set := setFromUpstream(d.ConditionsMap())
		if set.AuthorizerName == "" && set.FailureMode == "" {
			if name == "" {
				return set.Decision
			}
			set.AuthorizerName = name
		}
		return Chained(set)
	case d.IsUnion():
		var sets []Set
		for memberName, member := range d.UnionedDecisions() {
			set := Set{AuthorizerName: memberName}
			if member.IsConditionsMap() {
				set = setFromUpstream(member.ConditionsMap())
				set.AuthorizerName = memberName
			} else {
				set.Decision = FromUpstream("", member)
			}
			sets = append(sets, set)
		}
		return Chained(sets...)
	case d.IsDeny():
		return Deny(d.Reason(), d.Error())
	default:
		return Deny("failed closed", errUnknownUpstreamDecision)
	}
}

func setFromUpstream(conditions authorizer.ConditionsMap) Set {
	var (
		all    []Condition
		owners = map[*Set]bool{}
	)
	add := func(effect Effect, c authorizer.Condition) {
		condition := Condition{
			ID: c.GetID(), Type: c.GetType(), Text: c.GetCondition(), Description: c.GetDescription(),
			EvaluateFunc: evaluateUpstream(c),
		}
		var owner *Set
		if ours, ok := c.(upstreamCondition); ok {
			condition, owner = ours.Condition, ours.set
		}
		// The list that has the condition decides its effect, and not the effect that it was made with.
		condition.Effect = effect
		all = append(all, condition)
		owners[owner] = true
	}
	for c := range conditions.DenyConditions() {
		add(EffectDeny, c)
	}
	for c := range conditions.NoOpinionConditions() {
		add(EffectNoOpinion, c)
	}
	for c := range conditions.AllowConditions() {
		add(EffectAllow, c)
	}
	// Upstream validated the conditions when it built the map, by rules less strict than
	// ours. A set that only breaks ours is still decided in process; it fails where it
	// would be serialised.
	set := Set{Decision: Decision{kind: kindConditions, conditions: all}}
	if len(owners) == 1 { // the set is as one of our authorizers made it
		for owner := range owners {
			//guard:upstream-place-allow-not-folded
			if owner != nil && owner.Decision.IsAllow() && all[0].Effect == EffectAllow {
				return *owner
			}
			if owner != nil {
				set.AuthorizerName, set.FailureMode, set.Author = owner.AuthorizerName, owner.FailureMode, owner.Author
			}
		}
	}
	return set
}

func evaluateUpstream(c authorizer.Condition) func(context.Context, authorizer.ConditionsData) Outcome {
	return func(ctx context.Context, data authorizer.ConditionsData) Outcome {
		switch result := c.Evaluate(ctx, data); {
		case result.IsTrue():
			return True()
		case result.IsFalse():
			return False()
		case result.IsError():
			return Failed(result.Error())
		default:
			return Unsupported(errUnsupported)
		}
	}
}

// EvaluatorFor returns an evaluator that calls the EvaluateFunc of a condition. If the condition has none or
// cannot be evaluated by it, next evaluates the condition; next may be nil. If the result of a set depends on a
// condition that neither can evaluate, the author of the set evaluates the whole set. All of them spend the
// budget of the context (WithBudget), or a budget of the evaluator if the context has none.
func EvaluatorFor(data authorizer.ConditionsData, next ConditionEvaluator) ConditionEvaluator {
	RegisterMetrics()
	return &dataEvaluator{stage: StageAdmission, data: data, next: next}
}

// EvaluatorForCaller returns an evaluator like EvaluatorFor for conditions that a caller of AuthorizationConditionsReview has
// sent. The author of a set is an authorizer, and may make secondary checks when it evaluates the set. The evaluator
// therefore calls permit before it asks an author. If permit returns an error, the author is not asked, and its set fails.
func EvaluatorForCaller(data authorizer.ConditionsData, next ConditionEvaluator, permit func(context.Context) error) ConditionEvaluator {
	RegisterMetrics()
	return &dataEvaluator{stage: StageConditionsReview, data: data, next: next, permit: permit}
}

type dataEvaluator struct {
	stage Stage
	data  authorizer.ConditionsData
	next  ConditionEvaluator
	// permit says whether authors may be asked; nil if they may.
	permit func(context.Context) error
	// budget is spent if the context has none.
	budget Budget
}

var _ setEvaluator = &dataEvaluator{}

func (e *dataEvaluator) EvaluateCondition(ctx context.Context, c Condition) Outcome {
	ctx = e.budget.In(ctx)
	start := time.Now()
	outcome, route := Unsupported(errUnsupported), routeInProcess
	if c.EvaluateFunc != nil {
		outcome = c.EvaluateFunc(ctx, e.data)
	}
	if outcome.IsUnsupported() && e.next != nil {
		outcome, route = e.next.EvaluateCondition(ctx, c), routeText
	}
	measureCondition(e.stage, route, start, c, outcome)
	return outcome
}

var errAuthorAllows = errors.New("the author of a condition set that cannot allow has answered with Allow")

// evaluateSet returns the answer of the author of a set. The set fails, and its failure mode decides, if
// permit returns an error, if the author returns Deny with an error, or if the author allows although the set
// cannot become Allow.
func (e *dataEvaluator) evaluateSet(ctx context.Context, set Set) Decision {
	//guard:authors-permission
	if e.permit != nil {
		if err := e.permit(ctx); err != nil {
			return set.fails(err)
		}
	}
	ctx = e.budget.In(ctx)
	author := set.Author
	set.Author = nil // the author is not to ask itself
	start := time.Now()
	decision, reason, err := author.EvaluateConditions(ctx, ToUpstream(Chained(set)), e.data)
	observeEvaluation(e.stage, routeAuthor, time.Since(start))
	evaluations.WithLabelValues(set.typeLabel(), routeAuthor.label(), authorLabel(decision, err)).Inc()
	return set.answered(decision, reason, err)
}

// fails returns the decision of a set that cannot be evaluated: NoOpinion if that is its failure mode, and
// else Deny.
func (s Set) fails(err error) Decision {
	var reasons []string
	for _, c := range s.Decision.allConditions() {
		reasons = append(reasons, c.becauseFailed(err))
	}
	if s.FailureMode == FailureModeNoOpinion {
		return NoOpinion(bounded(reasons), err)
	}
	return Deny(bounded(reasons), err)
}

// DeciderOf returns a Decider for an authorizer. It returns the authorizer itself if that is a Decider,
// and nil for nil. The Decider evaluates its conditions as the authorizer does, and is pinned and
// expanded if the authorizer is a Pinner or an Expander.
func DeciderOf(a authorizer.Authorizer) Decider {
	switch a := a.(type) {
	case nil:
		return nil
	case adapter: // it has the method Decide, and hides what else its Decider is
		return a.Decider
	case Decider:
		return a
	default:
		return upstreamDecider{a}
	}
}

// upstreamDecider is an authorizer that does not know this package.
type upstreamDecider struct{ authorizer.Authorizer }

func (u upstreamDecider) Decide(ctx context.Context, attributes authorizer.Attributes) Decision {
	return FromUpstream("", u.ConditionsAwareAuthorize(ctx, attributes))
}

// as returns a Decider as a T, or the authorizer that it wraps.
func as[T any](d Decider) (T, bool) {
	if upstream, ok := d.(upstreamDecider); ok {
		t, ok := upstream.Authorizer.(T)
		return t, ok
	}
	t, ok := d.(T)
	return t, ok
}

// AuthorizerOf returns an authorizer for a Decider, for callers that do not know this package. The
// authorizer evaluates conditions in process, or calls the Decider if it is a ConditionsAuthor.
func AuthorizerOf(d Decider) authorizer.Authorizer { return adapter{d} }

type adapter struct{ Decider }

var _ authorizer.Authorizer = adapter{}

// Authorize decides for callers that do not support conditions: a conditional decision is folded, and
// never becomes Allow.
func (a adapter) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.Decide(ctx, attributes).Fold().Concrete()
}

// ConditionsAwareAuthorize decides, conditions included.
func (a adapter) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return ToUpstream(a.Decide(ctx, attributes))
}

// EvaluateConditions evaluates a decision that ConditionsAwareAuthorize returned.
func (a adapter) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	if author, ok := as[ConditionsAuthor](a.Decider); ok {
		return author.EvaluateConditions(ctx, decision, data)
	}
	return FromUpstream("", decision).Evaluate(ctx, EvaluatorFor(data, nil)).Concrete()
}
