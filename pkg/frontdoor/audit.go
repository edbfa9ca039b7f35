/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"errors"
	"time"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/slots"
)

const (
	// maxAudits bounds the requests whose policies with the enforcement Audit are evaluated at the same time, after the answer.
	// maxAuditsPerNamespace bounds them for one namespace, because its authors choose how long an evaluation takes. Such evaluations must
	// leave the processors to answers.
	maxAudits             = 4
	maxAuditsPerNamespace = 2
	// maxAuditsWaiting bounds the requests that wait for that, each for auditWait at most. They are in memory. Requests beyond the bound are
	// not counted.
	maxAuditsWaiting = 64
	auditWait        = time.Second
)

var errNotAudited = errors.New("too many requests are evaluated for policies in Audit")

func newAudits() *slots.Slots {
	return slots.New(slots.Bounds{
		All: maxAudits, PerUser: maxAudits, PerNamespace: maxAuditsPerNamespace, PerUserInNamespace: maxAuditsPerNamespace,
		Waiting: maxAuditsWaiting, WaitingOfOneUser: maxAuditsWaiting, WaitingOfOneUserInNamespace: maxAuditsWaiting / 4, Refusal: errNotAudited,
	})
}

// audit evaluates the policies with the enforcement Audit that match a request, and counts what they would have done. It leaves to this
// server and to the inner door what these will find out themselves if the request passes.
func (d *Decider) audit(ctx context.Context, r *place.Request, audit *authorization.Audit, decision authorization.Decision) {
	if audit.IsEmpty() {
		return
	}
	found := d.config.Places.Of(r).Audit(decision)
	audit.Leave(found.Leaves...)
	if decision.IsDeny() {
		audit.Leave(authorization.EffectNoOpinion, authorization.EffectAllow) // they come later
	}
	audit.Settle(authorization.WithNamespaces(ctx, d.config.Policies.Namespaces))
	if found.Remainder.Deny == authorization.AuditApplied {
		d.config.Places.Barriers().Leave(r, audit)
	}
	audit.Finish(found.Remainder)
}

// auditLater is audit after the answer, if not too many others are evaluated. It must be called by the goroutine that decided.
func (h *reviewHandler) auditLater(ctx context.Context, review *reviewSpec, result decided) {
	if result.err != nil || result.audit.IsEmpty() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	waiting, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	release, err := h.audits.Acquire(waiting, review.User, review.namespace())
	if err != nil {
		unaudited.Inc()
		return
	}
	defer release()
	defer func() {
		if cause := recover(); cause != nil {
			logPanic(ctx, cause)
		}
	}()
	h.decider.audit(ctx, result.request, result.audit, result.decision)
}
