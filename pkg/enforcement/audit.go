/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Policies with the enforcement Audit are evaluated after the decisions about a request, and change none of them. Their
// results are in the audit event. A client is warned of a denial only if the request succeeds, or if it passes authorization and no
// object is read: a warning about a request that fails could show something of an object to a user who may not read it.

// endAuthorization ends the policies of a request that this server does not evaluate at admission, and of a request that is refused.
func (s *slot) endAuthorization(ctx context.Context, remainder authorization.Remainder, isAllowed bool) {
	s.audit.Finish(remainder)
	audit.AddAuditAnnotations(ctx, s.audit.Annotations()...)
	if isAllowed {
		s.warn(ctx)
	}
}

// auditAuthorization evaluates the policies with what is known when the request has been authorized. request is nil if it was refused.
func (s *slot) auditAuthorization(ctx context.Context, request *record, isCovered bool) {
	s.audit.Settle(ctx)
	switch {
	case !isCovered:
		s.endAuthorization(ctx, authorization.RemainderFolded, request != nil)
	case request == nil:
		s.endAuthorization(ctx, authorization.RemainderRefused, false)
	}
}

// auditObject evaluates the policies on an object for which the conditions had a result.
func (s *slot) auditObject(ctx context.Context, decision authorization.Decision, data *requestData) {
	request, _, _ := s.records()
	if decision.IsDeny() && request.attributes.GetVerb() != "deletecollection" {
		// Policies that allow, or keep others from allowing, come after those that deny.
		s.audit.Leave(authorization.EffectAllow, authorization.EffectNoOpinion)
	}
	if data.convert() == nil {
		//guard:enforcement-objects-audit
		s.audit.Admit(ctx, data)
	}
}

// warn warns the client of the policies that would have denied the request.
func (s *slot) warn(ctx context.Context) {
	for _, text := range s.audit.Warnings() {
		warning.AddWarning(ctx, "", text)
	}
}

// endRequest counts the results of the policies before the answer is written, and warns the client if the answer may depend on them.
func (s *slot) endRequest(ctx context.Context, mayWarn bool) {
	s.audit.Finish(authorization.RemainderNone)
	if mayWarn {
		s.warn(ctx)
	}
}
