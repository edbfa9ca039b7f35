/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
)

// The types of the conditions that every Proviso can evaluate.
const (
	ConditionTypeCEL      = authorization.ConditionTypeCEL
	ConditionTypeCELBound = authorization.ConditionTypeCELBound
)

// SetsToWire serialises a chain. Reasons and errors of unconditional sets have no place
// on the wire; everything else is kept, in order. A chain that breaks a bound of the
// data model is an error that wraps ErrInvalidConditions: it is never cut to fit.
func SetsToWire(sets []Set) ([]authorization.SubjectAccessReviewConditionSet, error) {
	wire, err := setsToWire(sets)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateConditionSets(wire, field.NewPath("conditionsChain")); len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConditions, errs.ToAggregate())
	}
	return wire, nil
}

func setsToWire(sets []Set) (_ []authorization.SubjectAccessReviewConditionSet, err error) {
	if sets == nil {
		return nil, nil
	}
	wire := make([]authorization.SubjectAccessReviewConditionSet, 0, len(sets))
	for _, s := range sets {
		w := authorization.SubjectAccessReviewConditionSet{AuthorizerName: s.AuthorizerName, FailureMode: s.FailureMode}
		switch s.Decision.kind {
		case kindAllow:
			w.Allowed = true
		case kindNoOpinion:
		case kindConditions:
			w.Conditions, err = conditionsToWire(s.Decision.conditions)
		case kindChain:
			w.ConditionsChain, err = setsToWire(s.Decision.chain)
		default:
			w.Denied = true
		}
		if err != nil {
			return nil, err
		}
		wire = append(wire, w)
	}
	return wire, nil
}

func conditionsToWire(conditions []Condition) ([]authorization.SubjectAccessReviewCondition, error) {
	RegisterMetrics()
	wire := make([]authorization.SubjectAccessReviewCondition, 0, len(conditions))
	for _, c := range conditions {
		c, err := c.withText()
		if err != nil {
			return nil, err
		}
		conditionBytes.Observe(float64(len(c.Text)))
		wire = append(wire, authorization.SubjectAccessReviewCondition{
			ID: c.ID, Effect: c.Effect, Type: c.Type, Condition: c.Text, Description: c.Description,
		})
	}
	return wire, nil
}

// SetsFromWire reads a chain that a SubjectAccessReview returned. It is the inverse of
// SetsToWire. A chain that breaks the data model or its bounds is an error that wraps
// ErrInvalidConditions, and the caller must fail closed.
func SetsFromWire(wire []authorization.SubjectAccessReviewConditionSet) ([]Set, error) {
	if errs := validation.ValidateConditionSets(wire, field.NewPath("conditionsChain")); len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConditions, errs.ToAggregate())
	}
	return setsFromWire(wire), nil
}

func setsFromWire(wire []authorization.SubjectAccessReviewConditionSet) []Set {
	if wire == nil {
		return nil
	}
	sets := make([]Set, 0, len(wire))
	for _, w := range wire {
		s := Set{AuthorizerName: w.AuthorizerName, FailureMode: w.FailureMode}
		switch {
		case w.Allowed:
			s.Decision = Allow("", nil)
		case w.Denied:
			s.Decision = Deny("", nil)
		case len(w.Conditions) > 0:
			s.Decision = Decision{kind: kindConditions, conditions: conditionsFromWire(w.Conditions)}
		case len(w.ConditionsChain) > 0:
			s.Decision = Decision{kind: kindChain, chain: setsFromWire(w.ConditionsChain)}
		default:
			s.Decision = NoOpinion("", nil)
		}
		sets = append(sets, s)
	}
	return sets
}

func conditionsFromWire(wire []authorization.SubjectAccessReviewCondition) []Condition {
	conditions := make([]Condition, 0, len(wire))
	for _, w := range wire {
		conditionType := w.Type
		if conditionType == authorization.ConditionTypeUpstreamCEL {
			conditionType = ConditionTypeCEL
		}
		conditions = append(conditions, Condition{
			ID: w.ID, Effect: w.Effect, Type: conditionType, Text: w.Condition, Description: w.Description,
		})
	}
	return conditions
}

// Status renders a decision as the status of a review. If a set has more conditions than a
// review can hold, Allow conditions are left out. If a chain still does not fit, or if the
// decision is a lone set of conditions, which has no authorizer's name, it is folded. The
// status says so: a review may be more closed than the request that it describes, never more
// open.
func Status(d Decision) authorization.SubjectAccessReviewStatus {
	d, wire, omissions := d.serializable()
	if len(wire) > 0 {
		return authorization.SubjectAccessReviewStatus{ConditionsChain: wire, EvaluationError: messageOf(omissions)}
	}
	return authorization.SubjectAccessReviewStatus{
		Allowed: d.IsAllow(), Denied: d.IsDeny(), Reason: d.Reason(),
		EvaluationError: messageOf(joinErrors(slices.DeleteFunc([]error{omissions, d.err}, func(err error) bool { return err == nil }))),
	}
}

// Serializable returns a decision as a client of a review knows it, and the condition sets that the review shows. The
// texts of conditions are computed; functions, authors, and the reasons of unconditional sets are dropped. If the decision
// is unconditional, or if a review cannot hold it, Serializable returns the folded decision and no sets.
func Serializable(d Decision) (Decision, []authorization.SubjectAccessReviewConditionSet) {
	serializable, wire, _ := d.serializable()
	if len(wire) == 0 {
		return d.Fold(), nil
	}
	return serializable, wire
}

func (d Decision) serializable() (_ Decision, wire []authorization.SubjectAccessReviewConditionSet, omissions error) {
	d = d.simplify()
	if d.kind == kindConditions {
		d = d.fold("the conditions have no author; they were folded", nil)
	}
	if d.kind == kindChain {
		d, omissions = d.fitting()
	}
	if d.kind != kindChain {
		return d, nil, omissions
	}
	serializable, err := d.withTexts()
	if err == nil {
		wire, err = SetsToWire(serializable.chain)
	}
	if err != nil {
		return d.fold("the conditions exceed what a review can hold; they were folded", err), nil, omissions
	}
	return serializable, wire, omissions
}

// withTexts returns the decision with only the data that a review shows: conditions have their texts instead of functions,
// and unconditional sets have no reasons and errors.
func (d Decision) withTexts() (Decision, error) {
	shown := Decision{kind: d.kind}
	for _, c := range d.conditions {
		c, err := c.withText()
		if err != nil {
			return Decision{}, err
		}
		shown.conditions = append(shown.conditions, c)
	}
	for _, s := range d.chain {
		decision, err := s.Decision.withTexts()
		if err != nil {
			return Decision{}, err
		}
		shown.chain = append(shown.chain, Set{AuthorizerName: s.AuthorizerName, FailureMode: s.FailureMode, Decision: decision})
	}
	return shown, nil
}

// withText returns the condition with its text instead of functions.
func (c Condition) withText() (_ Condition, err error) {
	if c.TextFunc != nil {
		if c.Text, err = c.TextFunc(); err != nil {
			return Condition{}, fmt.Errorf("condition %q: %w", c.ID, err)
		}
	}
	c.TextFunc, c.EvaluateFunc = nil, nil
	return c, nil
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// fitting returns a chain without the conditions that a review cannot hold, and an error that names
// their sets, or nil.
func (d Decision) fitting() (Decision, error) {
	var errs []error
	sets := slices.Clone(d.chain)
	for i, s := range sets {
		var err error
		if s.Decision.kind == kindChain {
			sets[i].Decision, err = s.Decision.fitting()
		} else {
			sets[i].Decision, err = s.fitting()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return Chained(sets...).simplify(), joinErrors(errs)
}

// fitting returns the decision of a set with no more conditions than a review can hold, and an error
// if it changed the decision. Allow conditions that do not fit are left out, as if they were false. If
// the Deny and NoOpinion conditions alone do not fit, the set becomes Deny if one of its conditions
// could deny, and NoOpinion if none could.
func (s Set) fitting() (Decision, error) {
	conditions := s.Decision.conditions
	excess := len(conditions) - authorization.MaxConditionsPerSet
	if excess <= 0 {
		return s.Decision, nil
	}
	isAllow := func(c Condition) bool { return c.Effect == EffectAllow }
	fitting := slices.DeleteFunc(slices.Clone(conditions), isAllow)
	room := authorization.MaxConditionsPerSet - len(fitting)
	if room < 0 {
		err := fmt.Errorf("%w: %s has %d conditions, but a review holds %d of a set", ErrInvalidConditions, s.AuthorizerName, len(conditions), authorization.MaxConditionsPerSet)
		return s.Decision.fold("the conditions exceed what a review can hold; they were folded", err), err
	}
	for _, c := range conditions {
		if isAllow(c) && room > 0 {
			fitting, room = append(fitting, c), room-1
		}
	}
	err := fmt.Errorf("%w: %s: %d of %d conditions with effect Allow are not shown, and count as false: a review holds %d of a set", ErrInvalidConditions, s.AuthorizerName, excess, len(conditions), authorization.MaxConditionsPerSet)
	return Decision{kind: kindConditions, conditions: fitting}, err
}
