/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation

import (
	"context"
	"fmt"
	"slices"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Step is the opinion of one authorizer of the chain about a request.
type Step struct {
	// Name is the name of the authorizer.
	Name string
	// Decision is the decision of the last phase. It is conditional if the request has no data, or if a condition needs data that are absent.
	Decision authorization.Decision
	// Policies are the policies of the authorizer that match the request.
	Policies []engine.PolicyTrace
}

// Steps returns the opinion of each authorizer about a request, in the order of the chain, and also of the authorizers after the one that decides.
func (c *Compilers) Steps(ctx context.Context, source *engine.Source, r *Request) ([]Step, error) {
	chain, err := ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	return c.stepsOf(ctx, chain, r)
}

func (c *Compilers) stepsOf(ctx context.Context, chain *Chain, r *Request) ([]Step, error) {
	s, err := c.situationOf(ctx, chain, r)
	if err != nil {
		return nil, err
	}
	steps := make([]Step, 0, len(chain.members))
	for _, member := range chain.members {
		step := Step{Name: member.Name, Decision: member.Decider.Decide(s.ctx, s.attributes)}
		if a, ok := member.Decider.(*engine.Authorizer); ok {
			if s.data == nil {
				step.Policies, err = a.Trace(s.ctx, s.attributes, nil)
			} else {
				step.Policies, err = a.Trace(s.ctx, s.attributes, s.data, r.Absent...)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", member.Name, err)
			}
		}
		steps = append(steps, step)
	}
	if s.data == nil || len(r.Absent) > 0 && slices.ContainsFunc(steps, Step.IsUnknown) {
		return steps, nil
	}
	for i := range steps {
		steps[i].Decision = s.evaluate(steps[i].Decision)
	}
	return steps, nil
}

// IsUnknown reports whether the condition of a policy depends on data that are not known.
func (s Step) IsUnknown() bool {
	return slices.ContainsFunc(s.Policies, func(p engine.PolicyTrace) bool {
		return !p.IsUnconditional && (p.Condition == nil || p.Condition.IsUnknown)
	})
}
