/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// auditConditional is the audit annotation of a request that passed authorization on
// conditions (KEP-5681).
const auditConditional = "authorization.k8s.io/is-conditional-decision"

// filter is the authorizer of the filters in the handler chain. It records its decision about the
// request itself. Other checks of the filters, such as whether the requester may impersonate a
// user, get folded answers.
type filter struct {
	folding
}

var _ authorizer.Authorizer = &filter{}

// Authorize decides about a check of the filters. If the check is about the request itself and this
// server enforces conditions on the request, it returns Allow for a conditional decision that can
// become Allow, and records the conditions in the slot of the request. All other decisions are folded.
// It denies users with the reserved extra, and a second check about the same request.
func (f *filter) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if authorization.HasReservedExtra(a.GetUser()) { // such a user may not impersonate either
		return authorizer.DecisionDeny, reasonReserved, nil
	}
	s := slotFrom(ctx)
	if s == nil {
		return forbidden(f.folding.Authorize(ctx, a))
	}
	if !describesRequest(ctx, a) {
		verdict, reason, err := forbidden(f.folding.Authorize(ctx, authorization.Request{Attributes: a, Audit: &s.audit}))
		s.audit.Settle(ctx)
		s.audit.Seal()
		return verdict, reason, err
	}
	request, decision := s.enforcer.decide(ctx, a, nil)
	if request == nil {
		s.auditAuthorization(ctx, nil, s.enforcer.Covers(a))
		decisions.WithContext(ctx).WithLabelValues(labelDeny).Inc()
		return forbidden(decision.Concrete())
	}
	var connect *record
	if s.enforcer.NeedsCreate(a) {
		var also authorization.Decision
		if connect, also = s.enforcer.decide(ctx, authorization.WithVerb(a, "create"), request); connect == nil {
			s.auditAuthorization(ctx, nil, s.enforcer.Covers(a))
			decisions.WithContext(ctx).WithLabelValues(labelDeny).Inc()
			verdict, reason, err := forbidden(also.Concrete())
			return verdict, "a connection also needs the verb create: " + reason, err
		}
	}
	if !s.recordRequest(request, connect) {
		return authorizer.DecisionDeny, "the request has been authorized before", nil
	}
	s.auditAuthorization(ctx, request, request.lazy != nil)
	if request.isConditional() || connect.isConditional() {
		decisions.WithContext(ctx).WithLabelValues(labelConditional).Inc()
		audit.AddAuditAnnotation(ctx, auditConditional, "true")
		return authorizer.DecisionAllow, "allowed on conditions that are enforced at admission", nil
	}
	decisions.WithContext(ctx).WithLabelValues(labelAllow).Inc()
	return authorizer.DecisionAllow, decision.Reason(), nil
}

// forbidden drops the errors of a refusal if only conditions failed: then the policies are at
// fault, and the answer is 403. If an authorizer did not answer, its error stays, and the answer
// is 500. The reason names only the class of a failure, because its text may quote data.
func forbidden(decision authorizer.Decision, reason string, err error) (authorizer.Decision, string, error) {
	if decision == authorizer.DecisionAllow {
		return decision, reason, err
	}
	if !authorization.OnlyConditionsFailed(err) {
		return decision, joinBounded(reason, ""), err
	}
	if classes := authorization.FailureClasses(err); !strings.Contains(reason, classes) {
		reason = strings.TrimPrefix(reason+": "+classes, ": ")
	}
	return decision, joinBounded(reason, ""), nil
}

// reasonReserved is returned if the reserved extra reaches the filter: either no authenticator
// consumed it, so that conditions set by a server in front would be lost, or a client impersonated
// a user that has it.
const reasonReserved = "the extra " + authorizationapi.ExtraImpersonationConditions + " is reserved for impersonation conditions between servers: it cannot be impersonated, and this server has not accepted it from a trusted front proxy"

// describesRequest reports whether the attributes describe the request in ctx. The impersonation
// filter, which runs earlier, makes checks with verbs that no request has.
func describesRequest(ctx context.Context, a authorizer.Attributes) bool {
	of, err := genericapifilters.GetAuthorizerAttributes(ctx)
	if err != nil || of.IsResourceRequest() != a.IsResourceRequest() || of.GetVerb() != a.GetVerb() || of.GetPath() != a.GetPath() {
		return false
	}
	return !of.IsResourceRequest() && sameUser(of.GetUser(), a.GetUser()) || sameObject(of, a)
}

// decide decides about attributes. If earlier is set, it is a decision about the same request, and
// its snapshot is used. If this server does not enforce conditions on the attributes, the decision is
// folded. The record is nil if the decision cannot become Allow; the decision is then unconditional
// and has the reason.
func (e *Enforcer) decide(ctx context.Context, a authorizer.Attributes, earlier *record) (*record, authorization.Decision) {
	var audit *authorization.Audit
	if s := slotFrom(ctx); s != nil {
		audit = &s.audit
	}
	ctx, chain := e.chainFor(ctx, a, earlier)
	if !e.Covers(a) {
		if earlier != nil && earlier.lazy != nil {
			ctx = earlier.lazy.Pin(ctx)
		}
		decision := chain.Decide(ctx, authorization.Request{Attributes: a, Audit: audit}).Fold()
		if !decision.IsAllow() {
			return nil, decision
		}
		return &record{attributes: a, decided: decision}, decision
	}
	attributes := authorization.Request{Attributes: a, Mode: authorization.EvaluatesConditions, Audit: audit}
	var lazy *authorization.Lazy
	if earlier != nil && earlier.lazy != nil {
		lazy = earlier.lazy.ForAttributes(ctx, attributes)
	} else {
		lazy = chain.Begin(ctx, attributes)
	}
	decision := lazy.Decision()
	switch {
	case decision.CanBecomeAllowed():
	case decision.IsUnconditional():
		return nil, decision
	default:
		return nil, authorization.Deny("no authorizer can allow the request, whatever its object is", nil)
	}
	return &record{attributes: a, lazy: lazy, decided: decision, conditional: !decision.IsAllow()}, decision
}

// handlers is the authorizer for the checks of the generic server's handlers.
type handlers struct {
	folding
}

var _ authorizer.Authorizer = &handlers{}

// verbUnsafeDelete is the verb that a handler checks before it deletes an object that cannot be
// read. The handler runs no admission for such a deletion.
const verbUnsafeDelete = "unsafe-delete-ignore-read-errors"

// Authorize decides about a check of a handler. If an update or patch turns into a create and that
// create is allowed on conditions, it returns Allow, and records the conditions in the slot of the
// request. It denies the deletion of an unreadable object unless the delete was allowed without
// conditions. All other decisions are folded.
func (h *handlers) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s := slotFrom(ctx)
	if s == nil {
		return authorizer.DecisionDeny, "the request has not been authorized", nil
	}
	request, _, _ := s.records()
	switch {
	case a.GetVerb() == verbUnsafeDelete && (request == nil || request.conditional || request.attributes.GetVerb() != "delete" || !sameObject(request.attributes, a)):
		return authorizer.DecisionDeny, "deleting an object that cannot be read requires permission to delete it without conditions", nil
	case request.turnsInto(a):
		return s.authorizeCreate(ctx, request, a)
	}
	return forbidden(h.folding.Authorize(ctx, a))
}

// authorizeCreate decides about the create that a request turns into, and records the decision if it
// can become Allow. If the handler attempts the update again, the create is decided again, but
// admission evaluates the decision that was recorded first.
func (s *slot) authorizeCreate(ctx context.Context, request *record, a authorizer.Attributes) (authorizer.Decision, string, error) {
	create, decision := s.enforcer.decide(ctx, a, request)
	if create == nil {
		verdict, reason, err := forbidden(decision.Concrete())
		s.explain(refusalOfCreate(a, reason, err)) // there is no stored object
		return verdict, reason, err
	}
	create = s.recordCreate(create)
	if create.conditional {
		audit.AddAuditAnnotation(ctx, auditConditional, "true")
		return authorizer.DecisionAllow, "allowed on conditions that are enforced at admission", nil
	}
	return authorizer.DecisionAllow, decision.Reason(), nil
}

// refusalOfCreate returns the error with which the handlers answer if the create is refused: 403, or
// 500 if there is an error.
func refusalOfCreate(a authorizer.Attributes, reason string, err error) error {
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return responsewriters.ForbiddenStatusError(a, reason)
}
