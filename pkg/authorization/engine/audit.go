/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Policies with the enforcement Audit have an index of their own in a snapshot. No decision reads it: it is read for the Audit of a
// request only, once the part of the chain that would have the policies has decided.

// AuditCounts count what a policy with the enforcement Audit would have done, for its status. They are safe for concurrent use.
type AuditCounts struct {
	decided, errors, undetermined atomic.Int64
	last                          atomic.Int64 // in seconds since the epoch
}

// AuditDelta is what AuditCounts have counted since they were taken before.
type AuditDelta struct {
	// Decided, Errors and Undetermined are as in the status.
	Decided, Errors, Undetermined int64
	// Last is when the policy would have applied for the last time. It is zero if it never would have.
	Last time.Time
}

// IsZero reports whether nothing was counted.
func (d AuditDelta) IsZero() bool { return d.Decided == 0 && d.Errors == 0 && d.Undetermined == 0 }

// HasAny reports whether something was counted since the counts were taken.
func (c *AuditCounts) HasAny() bool {
	return c.decided.Load() > 0 || c.errors.Load() > 0 || c.undetermined.Load() > 0
}

// Take returns the counts, and begins again.
func (c *AuditCounts) Take() AuditDelta {
	d := AuditDelta{Decided: c.decided.Swap(0), Errors: c.errors.Swap(0), Undetermined: c.undetermined.Swap(0)}
	if last := c.last.Load(); last > 0 && d.Decided > 0 {
		d.Last = time.Unix(last, 0)
	}
	return d
}

// Return gives back counts that could not be stored. Nil counts return nothing.
func (c *AuditCounts) Return(d AuditDelta) {
	if c == nil {
		return
	}
	c.decided.Add(d.Decided)
	c.errors.Add(d.Errors)
	c.undetermined.Add(d.Undetermined)
}

func (c *AuditCounts) count(r authorization.AuditResult, effect authorization.Effect) {
	if r.Applies(effect) {
		c.last.Store(time.Now().Unix())
		c.decided.Add(1)
	}
	switch r {
	case authorization.AuditFailed:
		c.errors.Add(1)
	case authorization.AuditUndetermined:
		c.undetermined.Add(1)
	case authorization.AuditApplied, authorization.AuditUnapplied:
	}
}

// AuditCounts returns the counts of a policy with the enforcement Audit, and nil for other policies.
func (p *Policy) AuditCounts() *AuditCounts { return p.audit }

// isAudit reports whether a specification has the enforcement Audit. Every other value enforces.
//
//guard:engine-enforces
func isAudit(spec *policyv1alpha1.AuthorizationPolicySpec) bool {
	return spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit
}

// auditResults maps the result of a policy in Audit to the label of the metric.
var auditResults = map[authorization.AuditResult]result{
	authorization.AuditApplied: resultTrue, authorization.AuditUnapplied: resultFalse,
	authorization.AuditUndetermined: resultResidual, authorization.AuditFailed: resultError,
}

func (p *Policy) countAudit(r authorization.AuditResult) {
	p.count(auditResults[r])
	p.audit.count(r, p.auditEffect())
}

// auditEffect is the effect that the policy would have. A NoOpinion policy that does not compile would deny.
func (p *Policy) auditEffect() authorization.Effect {
	if p.restricts() {
		return authorization.EffectDeny
	}
	return p.conditionEffect()
}

// isAuditedBy reports whether the policy would decide in a part of the chain. NoOpinion policies, which would be in both places of
// Allow policies, count in the first one.
func (p *Policy) isAuditedBy(part Part) bool {
	if p.restricts() || part == Restricting {
		return p.restricts() && part == Restricting
	}
	switch {
	case part == Granting:
		return true
	case p.conditionEffect() == authorization.EffectAllow && p.key.Namespace != "":
		return part == GrantingNamespaced
	}
	return part == GrantingCluster
}

// audit adds the policies with the enforcement Audit to the Audit of a request. heldBack says that an enforced NoOpinion policy, or
// policies that are out of date, keep all Allow policies from granting: those would not have decided.
func (a *Authorizer) audit(ctx context.Context, attributes authorizer.Attributes, s state, heldBack bool) {
	audit := authorization.RequestOf(attributes).Audit
	if audit == nil || authorization.HasWildcards(attributes) { // a question about more than one request is no request
		return
	}
	var buffer [8]matching
	var q *request
	for _, m := range s.Value.audited.find(attributes, buffer[:0]) {
		p := m.policy
		grantsNothing := heldBack || authorization.UnseenOf(ctx) != nil && p.condition != nil && p.condition.readsUnseen
		if !p.isAuditedBy(a.Part) || grantsNothing && p.conditionEffect() == authorization.EffectAllow {
			continue
		}
		if q == nil {
			q = newRequest(a, s, attributes)
		}
		audit.Add(authorization.AuditPolicy{
			ID: p.id, Description: p.description, Effect: p.auditEffect(), Known: a.auditKnown(q, m), Evaluate: auditEvaluate(q, m), Count: p.countAudit,
		})
	}
}

// auditKnown returns a function that evaluates a policy with what is known of a request.
func (a *Authorizer) auditKnown(q *request, m matching) func(context.Context, *authorization.PolicyBudgets) authorization.Outcome {
	return func(ctx context.Context, budgets *authorization.PolicyBudgets) authorization.Outcome {
		switch {
		case m.policy.failure != nil:
			return authorization.Failed(m.policy.failure)
		case !m.isConditional():
			return authorization.True()
		}
		e := &evaluation{stage: a.Stage, ctx: ctx, request: q, budgets: budgets}
		switch o := e.evaluate(m.policy); {
		case o.IsTrue():
			return authorization.True()
		case o.IsFalse(), o.IsResidual() && neverTrue(o) && m.policy.conditionEffect() == authorization.EffectAllow:
			return authorization.False()
		case o.IsResidual():
			return authorization.Residual(authorization.Condition{ID: m.policy.id})
		default:
			return authorization.Failed(o.Err())
		}
	}
}

// auditEvaluate returns a function that evaluates the whole condition of a policy.
func auditEvaluate(q *request, m matching) func(context.Context, authorizer.ConditionsData) authorization.Outcome {
	if m.policy.condition == nil {
		return nil // it is never residual
	}
	return q.evaluateFunc(m.policy)
}
