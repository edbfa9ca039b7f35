/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// ErrConditionFailed is wrapped by the errors that WithoutValues returns.
var ErrConditionFailed = errors.New("the condition could not be evaluated")

// Evaluators wrap these errors, so that WithoutValues can name the class of a failure.
var (
	// ErrNotCompiled marks the failure of a condition that cannot be compiled here. The author of
	// the condition may still be able to compile it.
	ErrNotCompiled = errors.New("not compiled")
	// ErrCheckFailed is wrapped by the error of a secondary check.
	ErrCheckFailed = errors.New("an authorization check failed")
	// ErrUnreadableObjects is wrapped by the error of a condition that read an object which cannot
	// be converted.
	ErrUnreadableObjects = errors.New("the objects could not be read")
	// ErrUnreadableNamespace is wrapped by the error of a condition whose namespace cannot be read.
	ErrUnreadableNamespace = fmt.Errorf("%s could not be read", cel.NamespaceObject)
)

// classified is the error of a condition without the text of its cause, which may quote the
// object: only the class of the cause is kept.
type classified struct {
	class       string
	notCompiled bool
}

func (c *classified) Error() string { return c.class }

// Is reports whether target is ErrConditionFailed, or ErrNotCompiled for a condition that does not compile.
func (c *classified) Is(target error) bool {
	return target == ErrConditionFailed || c.notCompiled && target == ErrNotCompiled
}

// classify returns an error with the class of err, and without its text, which may quote the object.
func classify(err error) error {
	c := &classified{class: cel.FailureClass(err)}
	switch {
	case errors.Is(err, ErrNotCompiled):
		c.class, c.notCompiled = "the condition does not compile", true
	case errors.Is(err, ErrCheckFailed):
		c.class = ErrCheckFailed.Error()
	case errors.Is(err, ErrUnreadableObjects):
		c.class = ErrUnreadableObjects.Error()
	case errors.Is(err, ErrUnreadableNamespace):
		c.class = ErrUnreadableNamespace.Error()
	}
	return c
}

// WithoutValues returns an evaluator that evaluates like another one, but whose errors do not
// quote the data: they have only the class of the failure (cel.FailureClass). Requests need it, because
// their user may not be allowed to read the stored object. In reviews the caller has sent the object, and
// may see the full errors.
func WithoutValues(evaluator ConditionEvaluator) ConditionEvaluator {
	if sets, ok := evaluator.(setEvaluator); ok {
		return withoutValuesOfSets{withoutValues: withoutValues{evaluator}, sets: sets}
	}
	return withoutValues{evaluator}
}

type withoutValues struct{ evaluator ConditionEvaluator }

func (w withoutValues) EvaluateCondition(ctx context.Context, c Condition) Outcome {
	outcome := w.evaluator.EvaluateCondition(ctx, c)
	if outcome.kind == outcomeError {
		outcome.err = classify(outcome.err)
	}
	return outcome
}

type withoutValuesOfSets struct {
	withoutValues
	sets setEvaluator
}

var _ setEvaluator = withoutValuesOfSets{}

// errAuthorFailed replaces the error of an authorizer that evaluates its own conditions. The
// error may quote the objects that the authorizer was sent.
var errAuthorFailed = &classified{class: "their authorizer failed to evaluate them"}

func (w withoutValuesOfSets) evaluateSet(ctx context.Context, set Set) Decision {
	decision := w.sets.evaluateSet(ctx, set)
	if decision.err != nil {
		decision.err = errAuthorFailed
	}
	return decision
}

// OnlyConditionsFailed reports whether every error in err is about a condition that could not
// be evaluated, and none about an authorizer that did not answer. It returns false for nil.
// A request that is refused for such an error is forbidden: its policies are at fault, not
// the server.
func OnlyConditionsFailed(err error) bool {
	causes := causesOf(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool { return !isConditionFailure(cause) })
}

func isConditionFailure(err error) bool {
	return errors.Is(err, ErrConditionFailed) || errors.Is(err, cel.ErrEvaluation) || errors.Is(err, cel.ErrCost) || errors.Is(err, ErrInvalidConditions)
}

// failureClass returns the class of the error of a condition. It quotes no data.
func failureClass(err error) string {
	var c *classified
	switch {
	case errors.As(err, &c):
	case errors.Is(err, errUnsupported):
		return errUnsupported.Error()
	default:
		c, _ = classify(err).(*classified) //nolint:errorlint // classify returns no other
	}
	return c.class
}

// FailureClasses names the classes of the failures in an error for which OnlyConditionsFailed
// is true, each once. It quotes no data.
func FailureClasses(err error) string {
	var classes []string
	for _, cause := range causesOf(err) {
		class := cel.FailureClass(cause)
		var c *classified
		switch {
		case errors.As(cause, &c):
			class = c.class
		case errors.Is(cause, ErrInvalidConditions):
			class = ErrInvalidConditions.Error()
		}
		if !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	return strings.Join(classes, "; ")
}

// causesOf returns the errors that decisions have gathered in err.
func causesOf(err error) []error {
	if err == nil {
		return nil
	}
	//nolint:errorlint // each level is looked at by itself
	switch e := err.(type) {
	case utilerrors.Aggregate:
		var causes []error
		for _, one := range e.Errors() {
			causes = append(causes, causesOf(one)...)
		}
		return causes
	case interface{ Unwrap() error }:
		// Authorizers and conditions wrap one error each to name themselves. The text of the
		// wrapping error is not needed.
		if inner := e.Unwrap(); inner != nil && !isSentinel(inner) {
			return causesOf(inner)
		}
	}
	return []error{err}
}

// isSentinel reports whether err is one of the errors by which an error that wraps it is recognised.
func isSentinel(err error) bool {
	return slices.Contains([]error{cel.ErrEvaluation, cel.ErrCost, ErrInvalidConditions, ErrCheckFailed}, err)
}
