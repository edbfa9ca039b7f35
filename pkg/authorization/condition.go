/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
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
// only TextFunc and EvaluateFunc may refer to shared data, and that data must not change.
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
	// Description is shown to people where a reason names the condition.
	Description string
	// Hint says what the user can do so that an Allow condition would allow the request at authorization. A reason has it if the
	// condition is folded. It is not serialised, and may be empty.
	Hint string
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

// ConditionEvaluator evaluates conditions on the data that it was made for.
type ConditionEvaluator interface {
	// EvaluateCondition returns the outcome of the condition. It never panics. A condition
	// of a type that it does not know is Unsupported if it has all data; an evaluator that
	// has only a part of the data returns it as Residual.
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
	outcomeCount
)

// Outcome is what a condition evaluates to: True, False, an error, a residual on data
// that is still unknown, or Unsupported, the zero value: this process cannot evaluate it.
type Outcome struct {
	kind     outcomeKind
	err      error
	residual Condition
	// why returns the reason of Because or Explained; it may be nil.
	why func() string
	// exhausted marks an outcome of Exhausted.
	exhausted bool
}

// True returns the outcome of a condition that holds.
func True() Outcome { return Outcome{kind: outcomeTrue} }

// False returns the outcome of a condition that does not hold.
func False() Outcome { return Outcome{kind: outcomeFalse} }

// Bool returns True() if value is true, and False() otherwise.
func Bool(value bool) Outcome {
	if value {
		return True()
	}
	return False()
}

// Failed returns the outcome of a condition whose evaluation ended in an error.
func Failed(err error) Outcome { return Outcome{kind: outcomeError, err: err} }

// Because returns the outcome with a reason that people are shown beside the description of
// the condition: which field, for example. It has no influence on what is decided.
func (o Outcome) Because(reason string) Outcome {
	return o.Explained(func() string { return reason })
}

// Explained is Because for a reason that takes time to find. The function is called at most once, before the
// evaluation of the decision ends. If the condition is false, it is called only if the reason is shown.
func (o Outcome) Explained(why func() string) Outcome {
	o.why = why
	return o
}

func (o Outcome) because() string {
	if o.why == nil {
		return ""
	}
	return o.why()
}

// Residual returns the outcome of a condition whose value depends on data that is still unknown. The
// argument is its residual: the text, the type and the functions of the argument replace those in
// the condition. The condition keeps its ID, effect and description.
func Residual(condition Condition) Outcome {
	return Outcome{kind: outcomeResidual, residual: condition}
}

// Unsupported returns the outcome of a condition that this process cannot evaluate. The error is the cause.
func Unsupported(err error) Outcome { return Outcome{kind: outcomeUnsupported, err: err} }

// Exhausted returns the outcome of a condition that this evaluation cannot afford to evaluate:
// time, cost or size have run out. With more of them the condition could have a value. The
// outcome is an error that cannot open anything: an Allow condition is ignored, a NoOpinion
// condition counts as true, and a Deny condition denies for every failure mode of its set.
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

// areWellFormed is a fast path for validation: it may return false for valid conditions, but never
// true for invalid ones. Condition texts are not checked. Every decision calls it, because validation
// makes the paths of fields and matches regular expressions, which takes longer than deciding.
func areWellFormed(conditions []Condition) bool {
	for _, c := range conditions {
		knownEffect := c.Effect == EffectAllow || c.Effect == EffectDeny || c.Effect == EffectNoOpinion
		knownType := c.Type == ConditionTypeCEL || c.Type == ConditionTypeCELBound
		if !knownEffect || !knownType || !isPlainID(c.ID) {
			return false
		}
	}
	return !hasDuplicates(conditions)
}

// hasDuplicates reports whether two conditions have the same ID.
func hasDuplicates(conditions []Condition) bool {
	if len(conditions) > authorization.MaxConditionsPerSet {
		seen := make(map[string]bool, len(conditions))
		for _, c := range conditions {
			seen[c.ID] = true
		}
		return len(seen) < len(conditions)
	}
	for i, c := range conditions {
		// At most a few thousand comparisons, of texts that are mostly of different lengths.
		if slices.ContainsFunc(conditions[:i], func(other Condition) bool { return other.ID == c.ID }) {
			return true
		}
	}
	return false
}

// isPlainID reports whether an ID is a label key with a domain in lower case that isOfKubernetes
// does not count as reserved, like the IDs of policies.
func isPlainID(id string) bool {
	domain, name, ok := strings.Cut(id, "/")
	if !ok || len(domain) > content.DNS1123SubdomainMaxLength || len(name) > content.LabelValueMaxLength || isOfKubernetes(domain) {
		return false
	}
	return isMadeOf(domain, domainEnds, domainMiddles) && !strings.Contains(domain, "..") &&
		!strings.Contains(domain, ".-") && !strings.Contains(domain, "-.") && isMadeOf(name, nameEnds, nameMiddles)
}

// isOfKubernetes reports whether a domain ends in k8s.io or kubernetes.io. It is also true for some
// domains that are not reserved, such as myk8s.io.
func isOfKubernetes(domain string) bool {
	return strings.HasSuffix(domain, "k8s.io") || strings.HasSuffix(domain, "kubernetes.io")
}

// isMadeOf reports whether a text is not empty, has only bytes of middles, and has a byte of ends as its first and last byte.
func isMadeOf(text string, ends, middles *bytesOf) bool {
	if text == "" || !ends[text[0]] || !ends[text[len(text)-1]] {
		return false
	}
	for i := range len(text) {
		if !middles[text[i]] {
			return false
		}
	}
	return true
}

// bytesOf is a set of bytes.
type bytesOf [256]bool

func setOf(all string) *bytesOf {
	result := &bytesOf{}
	for _, c := range []byte(all) {
		result[c] = true
	}
	return result
}

const (
	lowerAndDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
	upper          = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

var (
	domainEnds, domainMiddles = setOf(lowerAndDigits), setOf(lowerAndDigits + "-.")
	nameEnds, nameMiddles     = setOf(lowerAndDigits + upper), setOf(lowerAndDigits + upper + "-_.")
)
