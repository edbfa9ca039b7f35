/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

var errNoPlan = errors.New("the condition was not prepared for this kind of request")

// outcomeOf evaluates the condition of a policy, or takes the outcome of Namespaced.Evaluate, and counts it.
func (e *evaluation) outcomeOf(p *Policy) outcome {
	var o outcome
	switch {
	case e.wildcards:
		o = outcome{wildcards: true}
	case e.namespaced != nil && p.key.Namespace != "":
		o = e.namespaced.outcomeOf(p)
	default:
		o = e.evaluate(p)
	}
	p.count(resultOf(o))
	return o
}

// observe records the time that the conditions took, if there were any.
func (e *evaluation) observe() {
	if !e.began.IsZero() {
		authorization.ObserveEvaluation(e.stage, time.Since(e.began))
	}
}

// evaluate evaluates the condition of a policy as far as what is known allows, within what is left
// of the budget of policies of its scope. A condition that is over the budget fails.
func (e *evaluation) evaluate(p *Policy) outcome {
	if e.began.IsZero() {
		e.began = time.Now()
	}
	plan, values := e.request.planOf(e.ctx, p)
	switch {
	case plan == nil:
		return outcome{Result: partial.Failed(errNoPlan)}
	//guard:engine-conditions-names-not-known
	case p.condition.dependsOnName(e.request.Attributes):
		return outcome{Result: partial.Failed(errAnyName)}
	}
	result := partial.Failed(errBudget)
	if left := e.budgets.Left(p.key.Namespace); left > 0 {
		result = plan.EvalWithin(e.ctx, values, left)
		e.budgets.Spend(p.key.Namespace, result.Cost())
	}
	if err := result.Err(); errors.Is(err, cel.ErrCost) || errors.Is(err, context.DeadlineExceeded) {
		authorization.ObserveOverBudget(err)
	}
	return outcome{Result: result}
}

// planOf returns the plan for the condition of a policy with what is known of the request, and what is known. The plan is nil if there is
// none for such a request.
func (q *request) planOf(ctx context.Context, p *Policy) (*partial.Plan, cel.Values) {
	if inNamespace := p.condition.namespacePlans[q.class]; inNamespace != nil {
		if known := q.knownInNamespace(ctx); known != nil {
			return inNamespace, known
		}
	}
	return p.condition.plans[q.class], q.known()
}

var errBudget = fmt.Errorf("%w: while only the request is known, the conditions of cluster-scoped policies may cost %d together, and the conditions of the policies of one namespace %d",
	cel.ErrCost, uint64(cel.AuthorizationBudget), uint64(cel.NamespacedAuthorizationBudget))

// condition returns the residual condition of a policy. Its text, which is computed when it
// is serialised, is the residual expression, or the bound form of the whole condition if the
// caller requests the mode Optimized and may read the policy. In process, the policy's own
// program is evaluated instead of the text.
func (e *evaluation) condition(p *Policy, o outcome) authorization.Condition {
	c := authorization.Condition{
		ID: p.id, Effect: p.conditionEffect(), Type: authorization.ConditionTypeCEL, Description: p.description,
	}
	if o.wildcards {
		// The condition is folded. If it is evaluated all the same, it must not allow anything.
		//guard:engine-no-residual-condition-allows-before-known
		c.Text = strconv.FormatBool(c.Effect != authorization.EffectAllow)
		return c
	}
	q := e.request
	c.EvaluateFunc = q.evaluateFunc(p)
	c.TextFunc = o.Residual().Text
	c.Hint = e.hint(p)
	// A review shows at most so many conditions of a set. For all further conditions it does not matter whether the caller
	// may read the policy.
	if e.conditions++; e.conditions > authorizationapi.MaxConditionsPerSet {
		return c
	}
	if authorization.RequestOf(q.Attributes).Mode == authorizationapi.ConditionsModeOptimized && e.mayRead(p) {
		c.Type = authorization.ConditionTypeCELBound
		c.TextFunc = func() (string, error) { return p.condition.expression.Bound(requestData(q.Attributes)) }
	}
	return c
}

// mayRead reports whether the caller may see the whole policy.
func (e *evaluation) mayRead(p *Policy) bool {
	return e.request.decider.MayRead != nil && e.request.decider.MayRead(e.ctx, e.request.Attributes, p.key)
}

// evaluateFunc returns a function that evaluates the whole condition of a policy, with the values
// that are known at authorization and the data that the function is given at admission, within the
// budget of its context.
func (q *request) evaluateFunc(p *Policy) func(context.Context, authorizer.ConditionsData) authorization.Outcome {
	return func(ctx context.Context, data authorizer.ConditionsData) (outcome authorization.Outcome) {
		if p.audit == nil { // otherwise the result counts for the whole request
			defer func() { p.count(resultOf(outcome)) }()
		}
		reader := &cel.ObjectReader{}
		values, err := celeval.ValuesOf(data, reader)
		if err != nil {
			return authorization.Failed(err)
		}
		for variable, value := range q.values {
			values[variable] = value
		}
		program, secondary := p.condition.expression.Program(), (*celeval.SecondaryChecks)(nil)
		if q.decider.Checks != nil && celeval.MakesChecks(program) {
			// Checks are answered by the policies that made the decision.
			ctx = q.decider.Source.PinTo(ctx, q.state)
			secondary = &celeval.SecondaryChecks{Authorizer: q.decider.Checks, User: data.GetUserInfo(), Resource: data}
		}
		result := celeval.EvaluateProgram(ctx, program, values, secondary)
		//guard:engine-unreadable-objects
		if err := reader.Err(); err != nil {
			return authorization.Failed(fmt.Errorf("%w: %w", authorization.ErrUnreadableObjects, err))
		}
		if result.IsFalse() && p.conditionEffect() == authorization.EffectAllow {
			return result.Explained(func() string { return p.failedPart(ctx, values, data) })
		}
		return result
	}
}

// always returns a condition that is always true, for a policy that allows unconditionally.
// It is for a set in which NoOpinion conditions may still hold the request back.
func (e *evaluation) always(p *Policy) authorization.Condition {
	return authorization.Condition{
		ID: p.id, Effect: p.conditionEffect(), Type: authorization.ConditionTypeCEL, Text: "true", Description: p.description,
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome {
			p.count(resultTrue)
			return authorization.True()
		},
	}
}
