/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// Effect says what a condition being true means.
type Effect = authorization.ConditionEffect

// FailureMode says what a set that cannot be evaluated counts as. The empty value is
// Deny.
type FailureMode = authorization.FailureMode

// The effects and failure modes, under the names that read well beside decisions.
const (
	EffectAllow     = authorization.ConditionEffectAllow
	EffectDeny      = authorization.ConditionEffectDeny
	EffectNoOpinion = authorization.ConditionEffectNoOpinion

	FailureModeDeny      = authorization.FailureModeDeny
	FailureModeNoOpinion = authorization.FailureModeNoOpinion
)

// Condition is a function from the data that was unknown at authorization to true or
// false (KEP-5681, "Condition and ConditionSet data model"). A Condition is a value;
// only EvaluateFunc may hide a reference, and what it refers to must not change.
type Condition struct {
	// ID identifies the condition within its set: a label key with a domain.
	ID string
	// Effect says what the condition being true means.
	Effect Effect
	// Type is the language of Text: a label key with a domain.
	Type string
	// Text is the condition in the language of Type, at most
	// authorization.MaxConditionBytes long when it is serialised.
	Text string
	// TextFunc makes Text when the condition is serialised, which enforcement in the same
	// process does not need. An error keeps the set from being serialised. It must be safe
	// for concurrent use. If nil, Text is the text.
	TextFunc func() (string, error)
	// Description is shown to people when the condition decides.
	Description string
	// EvaluateFunc evaluates the condition in the process that made it, without reading
	// Text. It must agree with Text, be safe for concurrent use, and use its context for
	// cancellation and for the budget of the request (BudgetOf) only. It is nil in a condition that was read from the wire.
	EvaluateFunc func(ctx context.Context, data authorizer.ConditionsData) Outcome
}

// NamespaceData is implemented by condition data that knows the namespace of the request.
type NamespaceData interface {
	// GetNamespaceObject returns the Namespace as it is decoded from JSON, or nil if there
	// is none.
	GetNamespaceObject() (map[string]any, error)
}

// ConditionEvaluator evaluates conditions that cannot evaluate themselves.
type ConditionEvaluator interface {
	// EvaluateCondition returns what the condition is for the data that the evaluator
	// was made for. It never panics. A condition of a type that it does not know is
	// Unsupported.
	EvaluateCondition(ctx context.Context, condition Condition) Outcome
}

// ConditionEvaluatorFunc makes a function a ConditionEvaluator.
type ConditionEvaluatorFunc func(ctx context.Context, condition Condition) Outcome

// EvaluateCondition calls f.
func (f ConditionEvaluatorFunc) EvaluateCondition(ctx context.Context, condition Condition) Outcome {
	return f(ctx, condition)
}

type outcomeKind uint8

const (
	outcomeUnsupported outcomeKind = iota
	outcomeFalse
	outcomeTrue
	outcomeError
	outcomeResidual
)

// Outcome is what a condition evaluates to: True, False, an error, a residual on data
// that is still unknown, or Unsupported, the zero value: this process cannot evaluate it.
type Outcome struct {
	kind     outcomeKind
	err      error
	residual Condition
	reason   string
	// exhausted marks an outcome of Exhausted.
	exhausted bool
}

// True says that the condition holds.
func True() Outcome { return Outcome{kind: outcomeTrue} }

// False says that the condition does not hold.
func False() Outcome { return Outcome{kind: outcomeFalse} }

// Bool says whether the condition holds.
func Bool(value bool) Outcome {
	if value {
		return True()
	}
	return False()
}

// Failed says that evaluating the condition ended in an error.
func Failed(err error) Outcome { return Outcome{kind: outcomeError, err: err} }

// Because returns the outcome with a reason that people are shown beside the description of
// the condition: which field, for example. It has no influence on what is decided.
func (o Outcome) Because(reason string) Outcome {
	o.reason = reason
	return o
}

// Residual says that the condition now is the one given, whose value depends on data
// that is still unknown. It has the Effect and the ID of the original.
func Residual(condition Condition) Outcome {
	return Outcome{kind: outcomeResidual, residual: condition}
}

// Unsupported says that this process cannot evaluate the condition, and why.
func Unsupported(err error) Outcome { return Outcome{kind: outcomeUnsupported, err: err} }

// Exhausted returns the outcome of a condition that has a value, but not one that this
// evaluation can afford: time, cost or size have run out. It is an error that cannot open
// anything: an Allow condition is ignored, a NoOpinion condition counts as true, and a Deny
// condition denies, whatever the failure mode of its set.
func Exhausted(err error) Outcome {
	return Outcome{kind: outcomeError, err: err, exhausted: true}
}

// IsTrue reports whether the condition holds. Every other outcome is not true.
func (o Outcome) IsTrue() bool { return o.kind == outcomeTrue }

// IsFalse reports whether the condition is known not to hold.
func (o Outcome) IsFalse() bool { return o.kind == outcomeFalse }

// IsError reports whether evaluating the condition ended in an error.
func (o Outcome) IsError() bool { return o.kind == outcomeError }

// IsResidual reports whether the value still depends on unknown data.
func (o Outcome) IsResidual() bool { return o.kind == outcomeResidual }

// IsUnsupported reports whether this process could not evaluate the condition.
func (o Outcome) IsUnsupported() bool { return o.kind == outcomeUnsupported }

// Err returns the error of an erring or unsupported outcome.
func (o Outcome) Err() error { return o.err }
