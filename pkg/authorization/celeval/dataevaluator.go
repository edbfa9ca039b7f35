/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package celeval

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
)

// DataEvaluator evaluates conditions on the data of one request, and reads its objects while conditions need them. It must not be used
// concurrently.
type DataEvaluator struct {
	// Compiler compiles conditions in CEL, and Bound compiles bound conditions.
	Compiler *cel.Compiler
	Bound    *bound.Compiler
	// Checks answers the secondary checks of conditions. Its answers are never conditional.
	Checks authorizer.UnconditionalAuthorizer
	// Data is the data. Its objects must be in the version of the request when conditions are evaluated.
	Data authorizer.ConditionsData

	evaluator *Evaluator
}

var _ authorization.ConditionEvaluator = &DataEvaluator{}

// EvaluateCondition evaluates one condition. It fails if an object that the condition reads cannot be converted.
func (d *DataEvaluator) EvaluateCondition(ctx context.Context, c authorization.Condition) authorization.Outcome {
	if d.evaluator == nil {
		d.evaluator = &Evaluator{
			Compiler: d.Compiler, Bound: d.Bound,
			Secondary: &SecondaryChecks{Authorizer: d.Checks, User: d.Data.GetUserInfo(), Resource: d.Data},
		}
	}
	reader := &cel.ObjectReader{}
	values, err := ValuesOf(d.Data, reader)
	if err != nil {
		return authorization.Failed(err)
	}
	d.evaluator.Values = values
	outcome := d.evaluator.EvaluateCondition(ctx, c)
	//guard:conditions-others-unreadable-objects
	if err := reader.Err(); err != nil {
		return authorization.Failed(fmt.Errorf("%w: %w", authorization.ErrUnreadableObjects, err))
	}
	return outcome
}
