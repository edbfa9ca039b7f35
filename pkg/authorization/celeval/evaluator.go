/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package celeval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// Evaluator evaluates conditions of types authorization.ConditionTypeCEL and authorization.ConditionTypeCELBound.
// One is made for one request: it spends the budget of its context (authorization.WithBudget), or its own if
// there is none. It must not be used concurrently.
type Evaluator struct {
	// Compiler compiles the texts of conditions of type authorization.ConditionTypeCEL.
	Compiler *cel.Compiler
	// Bound compiles conditions of type authorization.ConditionTypeCELBound. If nil, they are not
	// supported.
	Bound *bound.Compiler
	// Values is the data. Authorizer and RequestResource are added by the evaluator.
	Values cel.Values
	// Partial is set when only the variables of impersonation are known yet. It compiles
	// conditions so that the parts that depend on other variables stay as a residual, in which the
	// variables of impersonation no longer occur.
	Partial *partial.Compiler
	// Secondary answers the checks that conditions make with authorizer. If nil, a
	// condition that makes one fails.
	Secondary *SecondaryChecks

	budget authorization.Budget
}

var _ authorization.ConditionEvaluator = &Evaluator{}

// EvaluateCondition evaluates one condition within the limits of pkg/cel.
func (e *Evaluator) EvaluateCondition(ctx context.Context, c authorization.Condition) authorization.Outcome {
	ctx = e.budget.In(ctx)
	if e.Partial != nil {
		return e.evaluateInPart(ctx, c)
	}
	if !e.supports(c.Type) {
		return authorization.Unsupported(fmt.Errorf("conditions of type %q are not supported", c.Type))
	}
	if err := errBefore(ctx); err != nil {
		return authorization.Exhausted(err)
	}
	program, cost, err := e.compile(c)
	authorization.BudgetOf(ctx).Spend(cost)
	if err != nil {
		return authorization.Failed(notCompiledError{err})
	}
	return EvaluateProgram(ctx, program, e.Values, e.Secondary)
}

// notCompiledError marks an error of the compiler as ErrNotCompiled, and keeps its text.
type notCompiledError struct{ error }

func (e notCompiledError) Is(target error) bool { return target == authorization.ErrNotCompiled }
func (e notCompiledError) Unwrap() error        { return e.error }

// errBefore returns an error if nothing more can be compiled or evaluated for a request, because the request has ended
// or its budget is spent.
func errBefore(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", cel.ErrEvaluation, err)
	}
	return authorization.BudgetOf(ctx).Err()
}

func (e *Evaluator) supports(t string) bool {
	return t == authorization.ConditionTypeCEL || t == authorization.ConditionTypeCELBound && e.Bound != nil
}

// compile returns the program of a condition of a supported type, and what compiling costs. The cost
// is the same whether the program is kept or not, so that a request always has the same answer.
func (e *Evaluator) compile(c authorization.Condition) (Program, uint64, error) {
	if c.Type == authorization.ConditionTypeCELBound {
		return e.Bound.CompileWithCost(c.Text)
	}
	return e.Compiler.CompileWithCost(c.Text)
}

// Program is a compiled condition.
type Program interface {
	// Reads reports whether the value may depend on the variable.
	Reads(variable cel.Variable) bool
	// Eval evaluates the program, and returns what that cost.
	Eval(ctx context.Context, values cel.Values) (result bool, cost uint64, err error)
}

// MakesChecks reports whether a program may make secondary checks.
func MakesChecks(program Program) bool {
	return program.Reads(cel.Authorizer) || program.Reads(cel.RequestResource)
}

// EvaluateProgram evaluates a program. If the program makes secondary checks, secondary answers
// them; if secondary is nil, they fail. The cost of the evaluation is taken from the budget of ctx.
// The outcome is Exhausted if nothing is left before the evaluation, if the evaluation exceeds its
// own cost limit, or if it fails after ctx has ended. Exhausted does not say that the condition
// is wrong: with more time or budget it could have a value.
func EvaluateProgram(ctx context.Context, program Program, values cel.Values, secondary *SecondaryChecks) authorization.Outcome {
	budget := authorization.BudgetOf(ctx)
	if err := budget.Err(); err != nil {
		return authorization.Exhausted(err)
	}
	var checks *checker
	if secondary != nil && MakesChecks(program) {
		values, checks = withChecks(ctx, values, secondary)
	}
	result, cost, err := program.Eval(ctx, values)
	budget.Spend(cost)
	switch {
	case err != nil && ctx.Err() != nil, errors.Is(err, cel.ErrCost):
		return authorization.Exhausted(err)
	case err != nil && checks != nil && checks.err != nil:
		return authorization.Failed(checks.err)
	case err != nil:
		return authorization.Failed(err)
	}
	return authorization.Bool(result)
}

// WithChecks returns a copy of values with the variables for secondary checks, for one evaluation in ctx.
func WithChecks(ctx context.Context, values cel.Values, secondary *SecondaryChecks) cel.Values {
	values, _ = withChecks(ctx, values, secondary)
	return values
}

func withChecks(ctx context.Context, values cel.Values, secondary *SecondaryChecks) (cel.Values, *checker) {
	// The path and the selectors of a check are in the condition, so that nothing of it is unseen.
	//guard:inner-door-checks-see
	checks := &checker{ctx: authorization.WithoutUnseen(ctx), checks: secondary}
	values = maps.Clone(values)
	values[cel.Authorizer] = library.NewAuthorizerVal(secondary.User, checks)
	values[cel.RequestResource] = library.NewResourceAuthorizerVal(secondary.User, checks, secondary.Resource)
	return values, checks
}

// evaluateInPart evaluates a condition as far as the variables of impersonation allow. A condition of another
// type, or one that does not compile here, is returned as residual.
func (e *Evaluator) evaluateInPart(ctx context.Context, c authorization.Condition) authorization.Outcome {
	if c.Type != authorization.ConditionTypeCEL {
		return authorization.Residual(c) // an evaluator with all data may know its type
	}
	if err := errBefore(ctx); err != nil {
		return authorization.Exhausted(err)
	}
	budget := authorization.BudgetOf(ctx)
	_, cost, err := e.Compiler.CompileWithCost(c.Text)
	budget.Spend(cost)
	if err != nil {
		return authorization.Residual(c) // its author may know a newer language, and is asked with all data
	}
	budget.Spend(cost) // the plan is compiled from the text, too
	if err := errBefore(ctx); err != nil {
		//guard:partial-budget
		return authorization.Exhausted(err)
	}
	plan, err := e.Partial.Prepare(c.Text, cel.ImpersonatedRequest, cel.ImpersonatedUser)
	if err != nil {
		return authorization.Exhausted(err)
	}
	outcome := plan.Eval(ctx, e.Values)
	budget.Spend(outcome.Cost())
	switch residual := outcome.Residual(); {
	case residual != nil:
		return writeDown(ctx, c, residual)
	case outcome.Stopped():
		//guard:partial-stopped
		return authorization.Exhausted(outcome.Err())
	case outcome.Err() != nil:
		return authorization.Failed(outcome.Err())
	}
	return authorization.Bool(outcome.IsTrue())
}

// writeDown returns the outcome for a residual: the condition with the text of the residual, which has been compiled
// to be sure that it is valid. The outcome is Exhausted if there is no such text, or if the budget is spent.
func writeDown(ctx context.Context, c authorization.Condition, residual *partial.Residual) authorization.Outcome {
	if err := errBefore(ctx); err != nil {
		return authorization.Exhausted(err)
	}
	text, err := residual.Text()
	authorization.BudgetOf(ctx).Spend(residual.TextCost())
	if err != nil {
		return authorization.Exhausted(err)
	}
	c.Text = text
	return authorization.Residual(c)
}

// SecondaryChecks answers the authorization checks that conditions make (KEP-5681,
// "Built-in CEL conditions evaluator"). How many one condition can make is bounded by
// its cost limit: a check costs 350000 units, so the third ends the evaluation.
type SecondaryChecks struct {
	// Authorizer decides. Its answers are never conditional.
	Authorizer authorizer.UnconditionalAuthorizer
	// User is the user of the request, for whom the checks are made.
	User user.Info
	// Resource is the resource of the request.
	Resource library.Resource
	// Permit says whether checks may be made at all. It is called at most once, before
	// the first check.
	Permit func(ctx context.Context) error

	once      sync.Once
	permitErr error
}

func (s *SecondaryChecks) permitted(ctx context.Context) error {
	s.once.Do(func() {
		if s.Permit != nil {
			s.permitErr = s.Permit(ctx)
		}
	})
	return s.permitErr
}

// checker serves one evaluation. CEL gives its authorizer no context, so the checker
// holds the one of the evaluation. A check that fails is an error to CEL, and not a check that
// is not allowed, which `!` would turn into true. The checker remembers the first error, which
// says more than the one that CEL reports if the condition fails.
type checker struct {
	//nolint:containedctx // lives for one evaluation
	ctx    context.Context
	checks *SecondaryChecks
	err    error
}

func (c *checker) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := c.check(attributes)
	if err != nil {
		c.err = cmp.Or(c.err, err)
		//guard:checks-error-no-denial
		cel.Fail(err)
	}
	return decision, reason, nil
}

// check makes one check, in the context of the evaluation.
func (c *checker) check(attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	//guard:checks-permission
	if err := c.checks.permitted(c.ctx); err != nil {
		return authorizer.DecisionDeny, "", err
	}
	decision, reason, err := c.checks.Authorizer.Authorize(c.ctx, attributes)
	if err != nil {
		err = fmt.Errorf("%w: %w", authorization.ErrCheckFailed, err)
	}
	return decision, reason, errors.Join(err, c.ctx.Err())
}
