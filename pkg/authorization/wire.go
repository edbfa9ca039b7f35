/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"fmt"

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
		if c.TextFunc != nil {
			text, err := c.TextFunc()
			if err != nil {
				return nil, fmt.Errorf("condition %q: %w", c.ID, err)
			}
			c.Text = text
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
		conditions = append(conditions, Condition{
			ID: w.ID, Effect: w.Effect, Type: w.Type, Text: w.Condition, Description: w.Description,
		})
	}
	return conditions
}

// Status renders a decision as the status of a review. A bare set of conditions, which
// has no authorizer's name, and a chain that does not fit the wire fail closed and say
// so: a review may be more closed than the request that it describes, never more open.
func Status(d Decision) authorization.SubjectAccessReviewStatus {
	d = d.simplify()
	if d.kind == kindConditions {
		d = d.fold("the conditions have no author; they were folded", nil)
	}
	if d.kind == kindChain {
		wire, err := SetsToWire(d.chain)
		if err == nil {
			return authorization.SubjectAccessReviewStatus{ConditionsChain: wire}
		}
		d = d.fold("the conditions exceed what a review can hold; they were folded", err)
	}
	status := authorization.SubjectAccessReviewStatus{Allowed: d.IsAllow(), Denied: d.IsDeny(), Reason: d.reason}
	if d.err != nil {
		status.EvaluationError = d.err.Error()
	}
	return status
}
