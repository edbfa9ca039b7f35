/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

var errPanicked = errors.New("the decision panicked")

// Decider decides writes at admission.
type Decider struct {
	// Chain decides requests. Of the authorizers that know only the request, it must have all that can deny, and those that
	// may allow what kube-apiserver has let pass on the word of Proviso.
	Chain *authorization.Chain
	// Evaluator returns an evaluator for conditions that cannot evaluate themselves. It may be nil.
	Evaluator func(authorizer.ConditionsData) authorization.ConditionEvaluator
}

// Decide returns Allow if all checks of one way to send the write are allowed for its objects, and Deny otherwise. All
// decisions are made from the policies of one moment, and share one budget.
func (d *Decider) Decide(ctx context.Context, write *Write) (decision authorization.Decision) {
	defer func() {
		if panicked := recover(); panicked != nil {
			// The value may quote the object, so only its type is logged.
			klog.FromContext(ctx).Error(errPanicked, "A write cannot be decided", "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
			decision = authorization.Deny("the write could not be decided", errPanicked)
		}
	}()
	if err := write.Decode(); err != nil {
		return authorization.Deny("the write cannot be decided: "+err.Error(), nil)
	}
	ctx = authorization.WithBudget(d.Chain.Pin(ctx))
	var reasons []string
	for _, way := range write.Ways() {
		decision = d.decideWay(ctx, write, way)
		if decision.IsAllow() {
			return decision
		}
		if reason := decision.Reason(); reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return authorization.Deny(strings.Join(reasons, "; "), decision.Err())
}

// decideWay returns the first decision that is not Allow, or Allow.
func (d *Decider) decideWay(ctx context.Context, write *Write, way []authorizer.AttributesRecord) (decision authorization.Decision) {
	for _, attributes := range way {
		decision = d.Chain.Decide(ctx, attributes)
		if !decision.IsUnconditional() {
			decision = decision.Evaluate(ctx, authorization.WithoutValues(authorization.EvaluatorFor(&data{write}, d.evaluatorFor(write))))
		}
		if !decision.IsAllow() {
			return decision
		}
		if err := ctx.Err(); err != nil {
			return authorization.Deny("the time to decide is over", err)
		}
	}
	return decision
}

func (d *Decider) evaluatorFor(write *Write) authorization.ConditionEvaluator {
	if d.Evaluator == nil {
		return nil
	}
	return d.Evaluator(&data{write})
}
