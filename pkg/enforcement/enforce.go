/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
)

var (
	errNotAuthorized = errors.New("the request reached admission without an authorization decision")
	errOtherRequest  = errors.New("the authorization decision is about another request than the one that reached admission")
	errPanicked      = errors.New("the evaluation of conditions panicked")
	errNotConverted  = errors.New("the conversion failed")
	errNoCreate      = errors.New("the request creates an object, but the verb create was not authorized")
)

// Enforce evaluates the conditional decision about a request (KEP-5681,
// "AuthorizationConditionsEnforcer admission controller"). It returns nil if the request is
// allowed, a 403 status error if it is not, and a 500 status error if an evaluation panics. A request
// that has no decision, or whose decision is about another request, is not allowed. Enforce may be
// called several times for a request, and concurrently: for each object of a deletecollection, and
// for each attempt at an update.
func Enforce(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	s := slotFrom(ctx)
	if s == nil {
		return admission.NewForbidden(a, errNotAuthorized)
	}
	records, err := s.recordsOf(a)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	// All decisions about this object share one budget, as in a review of the object.
	ctx = authorization.WithBudget(ctx)
	data := &requestData{admitted: a, objects: o, namespace: s.enforcer.config.Namespace, sent: s.sentBy(a)}
	var result outcome
	for _, r := range records {
		if !r.isConditional() {
			continue
		}
		r.evaluated.Store(true)
		start := time.Now()
		decision := s.enforcer.evaluate(ctx, r, data)
		measure(ctx, start, decision)
		result.add(r, decision)
		if !decision.IsAllow() {
			s.settle(result)
			s.auditObject(ctx, decision, data)
			return refusal(r.attributes, decision, data)
		}
	}
	s.settle(result)
	s.setAllowed(true)
	s.auditObject(ctx, authorization.Allow("", nil), data)
	return nil
}

// recordsOf returns the decisions about a request that reaches admission. The request is allowed
// only if all of them evaluate to Allow; a nil record needs no evaluation. It returns an error if a
// decision is missing or about another request.
func (s *slot) recordsOf(a admission.Attributes) ([]*record, error) {
	request, connect, create := s.records()
	switch {
	case request == nil:
		return nil, errNotAuthorized
	//guard:enforcement-another-request
	case !request.admits(a):
		return nil, errOtherRequest
	case request.attributes.GetVerb() == "create" || a.GetOperation() != admission.Create:
		return []*record{request, connect}, nil
	case create == nil:
		return nil, errNoCreate
	}
	//guard:enforcement-create-update
	return []*record{request, connect, create}, nil
}

// evaluate evaluates one conditional decision, and returns an unconditional one. It returns Deny if the object cannot be
// converted or if the evaluation panics. It recovers panics because a panic in the workers that delete a collection would
// end the process. The reason is found here as well, since that evaluates conditions again.
func (e *Enforcer) evaluate(ctx context.Context, r *record, data *requestData) (decision authorization.Decision) {
	defer func() {
		if panicked := recover(); panicked != nil {
			// The panic value may quote the object, so only its type is logged; the stack has no
			// data.
			klog.FromContext(ctx).Error(errPanicked, "Conditions cannot be evaluated", "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
			decision = authorization.Deny("the conditions could not be evaluated", errPanicked)
		}
	}()
	if data.convert() != nil { // the error may quote the object
		return authorization.Deny("the object cannot be converted to the version of the request", errNotConverted)
	}
	decision = r.lazy.Evaluate(ctx, authorization.WithoutValues(authorization.EvaluatorFor(data, e.evaluatorFor(data))))
	_ = decision.Reason()
	return decision
}

// refusal returns the error for a decision that is not Allow: 403 with the reason of the decision, or 500 if the evaluation
// panicked. The reason names the conditions that failed, and has no values of the object. The message also shows values
// that the user has sent (sentValues).
func refusal(a authorizer.Attributes, decision authorization.Decision, data *requestData) error {
	if errors.Is(decision.Err(), errPanicked) {
		return apierrors.NewInternalError(errPanicked)
	}
	reason := decision.Reason()
	if err := decision.Err(); err != nil && (reason == "" || !authorization.OnlyConditionsFailed(err)) {
		reason = fmt.Sprintf("%s: %v", reason, err)
	}
	return responsewriters.ForbiddenStatusError(a, joinBounded(reason, data.sentValues()))
}

// evaluatorFor returns an evaluator for the CEL conditions that other authorizers returned for one request. It returns nil
// if Config.Conditions is nil.
func (e *Enforcer) evaluatorFor(data *requestData) authorization.ConditionEvaluator {
	if e.config.Conditions == nil {
		return nil
	}
	if data.cel == nil {
		data.cel = &celeval.DataEvaluator{Compiler: e.config.Conditions, Bound: e.config.Bound, Checks: e.config.Checks, Data: data}
	}
	return data.cel
}

// admits reports whether the request at admission is the one that the record is about.
func (r *record) admits(a admission.Attributes) bool {
	was := r.attributes
	if !was.IsResourceRequest() ||
		was.GetAPIGroup() != a.GetResource().Group || was.GetAPIVersion() != a.GetResource().Version ||
		was.GetResource() != a.GetResource().Resource || was.GetSubresource() != a.GetSubresource() ||
		was.GetNamespace() != a.GetNamespace() || !sameUser(was.GetUser(), a.GetUserInfo()) {
		return false
	}
	switch a.GetOperation() {
	case admission.Create:
		switch was.GetVerb() {
		case "create": // the name may be in the object only
			return was.GetName() == "" || was.GetName() == a.GetName()
		case "update", "patch":
			return was.GetName() == a.GetName()
		}
	case admission.Update:
		return (was.GetVerb() == "update" || was.GetVerb() == "patch") && was.GetName() == a.GetName()
	case admission.Delete:
		// The objects of a collection are deleted one by one, and without a name.
		return was.GetVerb() == "delete" && was.GetName() == a.GetName() || was.GetVerb() == "deletecollection" && was.GetName() == ""
	case admission.Connect:
		return was.GetName() == a.GetName()
	}
	return false
}
