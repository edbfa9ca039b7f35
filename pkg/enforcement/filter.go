/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"

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

// filter is the authorizer that the filters of the handler chain ask. It records what it
// decides about the request itself; what else they ask, such as whether somebody may be
// impersonated, gets folded answers.
type filter struct {
	folding
}

var _ authorizer.Authorizer = &filter{}

// Authorize decides. Allow may mean that the request is allowed on conditions, which are
// then in its slot.
func (f *filter) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if authorization.HasReservedExtra(a.GetUser()) { // nor may such a user become another one
		return authorizer.DecisionDeny, reasonReserved, nil
	}
	s := slotFrom(ctx)
	if s == nil || !describesRequest(ctx, a) {
		return forbidden(f.folding.Authorize(ctx, a))
	}
	request, decision := s.enforcer.decide(ctx, a, nil)
	if request == nil {
		decisions.WithContext(ctx).WithLabelValues(labelDeny).Inc()
		return forbidden(decision.Concrete())
	}
	var connect *record
	if attributes, needed := s.enforcer.createOfConnection(a); needed {
		var also authorization.Decision
		if connect, also = s.enforcer.decide(ctx, attributes, request); connect == nil {
			decisions.WithContext(ctx).WithLabelValues(labelDeny).Inc()
			verdict, reason, err := forbidden(also.Concrete())
			return verdict, "connecting needs the verb create as well: " + reason, err
		}
	}
	if !s.recordRequest(request, connect) {
		return authorizer.DecisionDeny, "the request has been authorized before", nil
	}
	if request.isConditional() || connect.isConditional() {
		decisions.WithContext(ctx).WithLabelValues(labelConditional).Inc()
		audit.AddAuditAnnotation(ctx, auditConditional, "true")
		return authorizer.DecisionAllow, "allowed on conditions that are enforced at admission", nil
	}
	decisions.WithContext(ctx).WithLabelValues(labelAllow).Inc()
	return authorizer.DecisionAllow, decision.Reason(), nil
}

// forbidden makes a refusal with errors a plain refusal if nothing but conditions failed: the
// policies are at fault then, and the answer is 403. The errors of authorizers that did not
// answer stay, and are 500. The text of a failure may quote data, so that the reason has only
// its class.
func forbidden(decision authorizer.Decision, reason string, err error) (authorizer.Decision, string, error) {
	if decision == authorizer.DecisionAllow || !authorization.OnlyConditionsFailed(err) {
		return decision, reason, err
	}
	if reason != "" {
		reason += ": "
	}
	return decision, reason + authorization.FailureClasses(err), nil
}

// reasonReserved: either nobody has read what the extra says, and the request would do more
// than a server in front allowed, or somebody was impersonated into it.
const reasonReserved = "the extra " + authorizationapi.ExtraImpersonationConditions + " is reserved for what remains of an impersonation between servers, and has not been read here"

// describesRequest reports whether attributes are those of the request in ctx. The checks
// of the impersonation filter, which come before, have verbs that no request has.
func describesRequest(ctx context.Context, a authorizer.Attributes) bool {
	of, err := genericapifilters.GetAuthorizerAttributes(ctx)
	if err != nil || of.IsResourceRequest() != a.IsResourceRequest() || of.GetVerb() != a.GetVerb() || of.GetPath() != a.GetPath() {
		return false
	}
	return !of.IsResourceRequest() && sameUser(of.GetUser(), a.GetUser()) || sameObject(of, a)
}

// decide decides about attributes, from what an earlier decision about the same request was
// made from, if any. The record is nil if they cannot become allowed; the decision then is
// unconditional and says why.
func (e *Enforcer) decide(ctx context.Context, a authorizer.Attributes, earlier *record) (*record, authorization.Decision) {
	ctx, chain := e.narrow(ctx, a, earlier)
	if !e.Covers(a) {
		if earlier != nil && earlier.lazy != nil {
			ctx = earlier.lazy.Pin(ctx)
		}
		decision := chain.Decide(ctx, a).Fold()
		if !decision.IsAllow() {
			return nil, decision
		}
		return &record{attributes: a, decided: decision}, decision
	}
	attributes := conditionsAware{a}
	var lazy *authorization.Lazy
	if earlier != nil && earlier.lazy != nil {
		lazy = earlier.lazy.Also(ctx, attributes)
	} else {
		lazy = chain.Begin(ctx, attributes)
	}
	decision := lazy.Decision()
	switch {
	case decision.CanBecomeAllowed():
	case decision.IsUnconditional():
		return nil, decision
	default:
		return nil, authorization.Deny("nobody can allow the request, whatever its object is", nil)
	}
	return &record{attributes: a, lazy: lazy, decided: decision, conditional: !decision.IsAllow()}, decision
}

// conditionsAware asks for conditions. They are for people too: a refusal shows their
// descriptions.
type conditionsAware struct{ authorizer.Attributes }

func (conditionsAware) ConditionsMode() authorization.Mode {
	return authorizationapi.ConditionsModeHumanReadable
}

// createOfConnection returns the attributes of the create that a connection needs as well
// (KEP-5681, "Compound Authorization for Connectible Resources").
func (e *Enforcer) createOfConnection(a authorizer.Attributes) (authorizer.Attributes, bool) {
	if !e.NeedsCreate(a) {
		return nil, false
	}
	return withVerb{a, "create"}, true
}

// withVerb is the same request with another verb.
type withVerb struct {
	authorizer.Attributes
	verb string
}

func (w withVerb) GetVerb() string  { return w.verb }
func (w withVerb) IsReadOnly() bool { return false }

// handlers is the authorizer that the handlers of the generic server ask.
type handlers struct {
	folding
}

var _ authorizer.Authorizer = &handlers{}

// verbUnsafeDelete is what a handler asks about before it deletes an object that cannot be
// read, in which case it runs no admission.
const verbUnsafeDelete = "unsafe-delete-ignore-read-errors"

// Authorize decides. The create that an update or a patch turns into may be allowed on
// conditions, which are then in the slot of the request.
func (h *handlers) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s := slotFrom(ctx)
	if s == nil {
		return authorizer.DecisionDeny, "the request has not been authorized", nil
	}
	request, _, _ := s.records()
	switch {
	case a.GetVerb() == verbUnsafeDelete && (request == nil || request.conditional || request.attributes.GetVerb() != "delete" || !sameObject(request.attributes, a)):
		return authorizer.DecisionDeny, "an object that cannot be read is only deleted for who may delete it unconditionally", nil
	case request.turnsInto(a):
		return s.authorizeCreate(ctx, request, a)
	}
	return forbidden(h.folding.Authorize(ctx, a))
}

// authorizeCreate decides about the create that a request turns into. A handler that asks
// again, because it attempts the update again, gets the same answer.
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

// refusalOfCreate is what the handlers make of a refusal of the create that a request turns into.
func refusalOfCreate(a authorizer.Attributes, reason string, err error) error {
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return responsewriters.ForbiddenStatusError(a, reason)
}
