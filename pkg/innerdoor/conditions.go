/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kjson "sigs.k8s.io/json"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
)

// ConditionsPath is the path of the listener at which kube-apiservers that handle conditional decisions have them evaluated.
const ConditionsPath = "/webhooks/conditions"

// loneAuthorizer names the set of a decision that is not a chain.
const loneAuthorizer = "conditions"

var conditionsReviewType = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1alpha1", Kind: "AuthorizationConditionsReview"}

// ConditionsHandler evaluates the conditions that kube-apiserver got from the front door, with the objects of the write, and answers
// AuthorizationConditionsReviews in the form of upstreamform. kube-apiserver refuses the write if the answer is no decision.
type ConditionsHandler struct {
	config HandlerConfig
	limits
}

// NewConditionsHandler returns a handler. It needs no digest. It returns an error if config has no decider.
func NewConditionsHandler(config HandlerConfig) (*ConditionsHandler, error) {
	if config.Decider == nil || config.Decider.Chain == nil {
		return nil, errors.New("the evaluation of conditions needs a chain of authorizers")
	}
	RegisterMetrics()
	return &ConditionsHandler{config: config, limits: newLimits()}, nil
}

// ServeHTTP implements http.Handler.
func (h *ConditionsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := withDeadline(w, r)
	defer cancel()
	decision, code, err := h.answer(ctx, w, r)
	if err != nil {
		conditionsAnswers.WithLabelValues(answerRefused).Inc()
		http.Error(w, err.Error(), code)
		return
	}
	conditionsAnswers.WithLabelValues(answerOf(decision.Decision)).Inc()
	w.Header().Set("Content-Type", mediaType)
	raw, _ := upstreamform.EncodeUnconditional(decision.Decision).Raw() // it has texts only
	// A client that has disconnected needs no answer.
	_ = json.NewEncoder(w).Encode(&upstreamform.AuthorizationConditionsReview{
		TypeMeta: conditionsReviewType, Response: &upstreamform.ConditionsResponse{UID: decision.of.UID, Decision: raw},
	})
}

// evaluated is the decision about a write.
type evaluated struct {
	authorization.Decision
	of *admissionv1.AdmissionRequest
}

// answer returns the decision, or an HTTP status with an error that does not quote the review.
func (h *ConditionsHandler) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (result evaluated, code int, err error) {
	releaseMemory, err := h.reserve(ctx, r)
	if err != nil {
		return result, http.StatusServiceUnavailable, err
	}
	defer releaseMemory()
	body, code, err := readBody(w, r)
	if err != nil {
		return result, code, err
	}
	decision, request, err := readConditions(body)
	if err != nil {
		return result, http.StatusBadRequest, err
	}
	write, err := NewWrite(request, h.config.Namespace)
	if err != nil {
		return result, http.StatusBadRequest, err
	}
	release, err := h.slots.Acquire(ctx, request.UserInfo.Username, request.Namespace)
	if err != nil {
		return result, http.StatusTooManyRequests, errBusy
	}
	defer release()
	answer := h.config.Decider.evaluate(ctx, decision, write)
	if ctx.Err() != nil {
		return result, http.StatusGatewayTimeout, errTooLate
	}
	return evaluated{Decision: answer, of: request}, 0, nil
}

// readConditions returns the decision and the request of a review.
func readConditions(body []byte) (none authorization.Decision, _ *admissionv1.AdmissionRequest, err error) {
	review := &upstreamform.AuthorizationConditionsReview{}
	// A duplicate field is an error, because its meaning would depend on the parser.
	duplicates, err := kjson.UnmarshalStrict(body, review, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return none, nil, fmt.Errorf("the body is not an %s", conditionsReviewType.Kind)
	//guard:conditions-sent-back-duplicate-fields
	case len(duplicates) > 0:
		return none, nil, fmt.Errorf("the body has a field twice: %w", utilerrors.NewAggregate(duplicates[:1]))
	case review.TypeMeta != conditionsReviewType:
		return none, nil, fmt.Errorf("the body must be an %s of %s", conditionsReviewType.Kind, conditionsReviewType.APIVersion)
	//guard:conditions-sent-back-response
	case review.Response != nil:
		return none, nil, errors.New("the review has a response")
	case review.Request == nil:
		return none, nil, errors.New("the review has no request")
	}
	request, err := upstreamform.ReadAdmissionRequest(review.Request.AdmissionRequest)
	if err != nil {
		return none, nil, err
	}
	conditional, err := upstreamform.ReadDecision(review.Request.Decision)
	if err != nil {
		return none, nil, err
	}
	decision, err := upstreamform.Decode(loneAuthorizer, conditional)
	return decision, request, err
}

// evaluate returns the decision that conditions make of a write: Allow, Deny or NoOpinion. The reason shows nothing of a stored object to a
// user who may not read it.
func (d *Decider) evaluate(ctx context.Context, decision authorization.Decision, write *Write) (result authorization.Decision) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result = contained(ctx, panicked)
		}
	}()
	if err := write.Decode(); err != nil {
		return authorization.Deny("the write cannot be decided: "+err.Error(), nil)
	}
	ctx = authorization.WithBudget(d.Chain.Pin(ctx))
	result = authorization.Chained(d.Chain.WithAuthors(decision.Chain()...)...).Evaluate(ctx, d.evaluatorFor(write))
	if result.IsAllow() {
		return result
	}
	reason := d.withheld(ctx, write, slices.Clone(decision.Labels()))
	switch {
	//guard:conditions-sent-back-stored-objects-reasons
	case reason == "":
		return result
	case result.IsNoOpinion():
		return authorization.NoOpinion(reason, nil)
	default:
		return authorization.Deny(reason, nil)
	}
}
