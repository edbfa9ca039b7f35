/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation

import (
	"context"
	"errors"
	"fmt"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// Conditions returns the conditions on which a request depends at authorization, as a review shows them. There are none for a request
// that is decided at authorization.
func (c *Compilers) Conditions(ctx context.Context, source *engine.Source, r *Request) ([]authorizationv1alpha1.SubjectAccessReviewConditionSet, error) {
	chain, err := ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	s, err := c.situationOf(ctx, chain, &Request{Spec: r.Spec, Permissions: r.Permissions})
	if err != nil {
		return nil, err
	}
	status := authorization.Status(chain.Decide(s.ctx, s.attributes))
	served := &authorizationv1alpha1.SubjectAccessReviewStatus{}
	err = authorizationv1alpha1.Convert_authorization_SubjectAccessReviewStatus_To_v1alpha1_SubjectAccessReviewStatus(&status, served, nil)
	return served.ConditionsChain, err
}

// The reasons why a condition is not evaluated without a cluster.
var (
	errType      = errors.New("it is not in CEL")
	errChecks    = errors.New("it checks permissions")
	errNamespace = errors.New("it reads the namespace, which is not known")
)

// Evaluate evaluates conditions that a review of the request has shown, with the data of the request. It returns an error, and a decision that denies, if the
// decision could depend on a condition that this process cannot evaluate as a server does.
func (c *Compilers) Evaluate(ctx context.Context, shown []authorizationv1alpha1.SubjectAccessReviewConditionSet, r *Request) (none authorization.Decision, err error) {
	status := authorizationapi.SubjectAccessReviewStatus{}
	served := &authorizationv1alpha1.SubjectAccessReviewStatus{ConditionsChain: shown}
	if err := authorizationv1alpha1.Convert_v1alpha1_SubjectAccessReviewStatus_To_authorization_SubjectAccessReviewStatus(served, &status, nil); err != nil {
		return none, err
	}
	sets, err := authorization.SetsFromWire(status.ConditionsChain)
	if err != nil {
		return none, err
	}
	d, err := dataOf(r, authorization.AttributesOf(r.User(), r.Spec.ResourceAttributes, nil))
	if err != nil {
		return none, err
	}
	evaluator := &celeval.DataEvaluator{Compiler: c.conditions, Data: d}
	var obstacles []error
	decision := authorization.Chained(sets...).Evaluate(authorization.WithBudget(ctx), authorization.EvaluatorFor(d,
		authorization.ConditionEvaluatorFunc(func(ctx context.Context, condition authorization.Condition) authorization.Outcome {
			if err := c.obstacle(condition, d); err != nil {
				obstacles = append(obstacles, fmt.Errorf("the condition %s cannot be evaluated here: %w", condition.Label(), err))
				return authorization.Unsupported(err)
			}
			return evaluator.EvaluateCondition(ctx, condition)
		})))
	//guard:conditions-without-cluster-not-evaluated
	if len(obstacles) > 0 {
		return none, errors.Join(obstacles...)
	}
	return decision, nil
}

// obstacle returns why this process cannot evaluate a condition, or nil.
func (c *Compilers) obstacle(condition authorization.Condition, d *data) error {
	if condition.Type != authorization.ConditionTypeCEL {
		return errType
	}
	program, err := c.conditions.Compile(condition.Text)
	switch {
	case err != nil:
		return err
	case celeval.MakesChecks(program):
		return errChecks
	//guard:conditions-without-cluster-namespace
	case d.namespace == nil && program.Reads(cel.NamespaceObject):
		return errNamespace
	}
	return nil
}
