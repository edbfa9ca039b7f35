/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"context"
	"strings"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// Decisions are the decisions about a request, with the one of the policies of a set.
type Decisions struct {
	*simulation.Decisions

	// Admission is nil if the request does not reach admission.
	Admission *Result
}

// Decide decides a request in both phases. The policies of the set decide about requests that the policies of source allow.
func (s *Set) Decide(ctx context.Context, c *simulation.Compilers, source *engine.Source, r *simulation.Request) (*Decisions, error) {
	authorized, err := c.Decide(ctx, source, r)
	d := &Decisions{Decisions: authorized}
	if err != nil || d.Outcome != answer.Yes || s.IsEmpty() {
		return d, err
	}
	checks, err := simulation.ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	d.Admission, err = s.Admit(authorization.WithPolicyBudgets(authorization.WithBudget(checks.Pin(ctx))), r, checks)
	if err == nil && len(d.Admission.Denying) > 0 {
		d.Outcome, d.Reason = answer.No, strings.Join(d.Admission.Messages, "; ")
	}
	return d, err
}

// Policies returns the names of the policies in the reason of the last decision.
func (d *Decisions) Policies() []string {
	if d.Admission != nil && len(d.Admission.Denying) > 0 {
		return d.Admission.Denying
	}
	return d.Decisions.Policies()
}
