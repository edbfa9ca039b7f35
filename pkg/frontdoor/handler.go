/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/door"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/slots"
)

// The paths of the listener.
const (
	AuthorizePath = "/webhooks/authorize"
	ReadyPath     = "/readyz"
)

// answerTimeout bounds the time to read a review and to decide it by policies. With the configuration in artifacts/front-door, kube-apiserver waits three
// seconds, twice as long. After that it applies its failure policy, and RBAC may allow a request that a Deny policy forbids. Therefore a review that is not
// decided in time is denied. If policies have no opinion, the authorizers after
// them have afterPoliciesTimeout, and the whole review allTimeout.
const (
	answerTimeout = 1500 * time.Millisecond
	allTimeout    = 2250 * time.Millisecond
)

const mediaType = "application/json"

// Route is another handler of the listener, with a deadline of its own.
type Route struct {
	// Pattern is a pattern of http.ServeMux.
	Pattern string
	// Handler is only called for requests of clients.
	Handler http.Handler
}

// NewHandler returns the handler of the listener. It answers only requests of clients.
func NewHandler(decider *Decider, clients *Clients, others ...Route) http.Handler {
	return newHandler(decider, clients, (*reviewSpec).attributes, others...)
}

func newHandler(decider *Decider, clients *Clients, attributesOf func(*reviewSpec) authorizer.Attributes, others ...Route) http.Handler {
	RegisterMetrics()
	own := http.NewServeMux()
	own.Handle(AuthorizePath, clients.traced(&reviewHandler{decider: decider, limits: newLimits(), audits: newAudits(), attributesOf: attributesOf}))
	own.HandleFunc(ReadyPath, decider.ready)
	mux := http.NewServeMux()
	mux.Handle("/", withDeadline(own))
	for _, other := range others {
		mux.Handle(other.Pattern, clients.traced(other.Handler))
	}
	//guard:inner-door-clients-without-certificate
	return withRecovery(clients.only(mux))
}

// reviewHandler answers SubjectAccessReviews of authorization.k8s.io/v1.
type reviewHandler struct {
	decider *Decider
	limits  *limits
	// audits bounds the requests whose policies with the enforcement Audit are evaluated.
	audits *slots.Slots
	// attributesOf returns the request that a review asks about.
	attributesOf func(*reviewSpec) authorizer.Attributes
}

// ServeHTTP implements http.Handler.
func (h *reviewHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	all := r.Context()
	policies, cancel := context.WithDeadline(all, started.Add(timeoutOf(r)))
	defer cancel()
	status, err := h.answer(all, w, r.WithContext(policies))
	var refusal *apierrors.StatusError
	var denial *denial
	switch {
	case errors.As(err, &denial):
		denials.WithLabelValues(denial.cause).Inc()
		status = answerStatus{SubjectAccessReviewStatus: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: denial.reason}}
	case errors.As(err, &refusal):
		refuse(w, refusal)
		return
	case err != nil:
		// Without a Retry-After header, kube-apiserver does not retry, but applies its failure
		// policy.
		refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	observe(&status, time.Since(started))
	write(w, http.StatusOK, &answer{TypeMeta: reviewType, Status: status})
}

// answer reads and decides a review. The error is a denial, a StatusError, or the reason why the
// front door cannot decide. A panic becomes a denial, because the review may have caused it. The context of the request ends when the policies must
// have decided, and all when the whole review must be.
func (h *reviewHandler) answer(all context.Context, w http.ResponseWriter, r *http.Request) (status answerStatus, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			logPanic(r.Context(), cause)
			err = errPanicked
		}
	}()
	var none answerStatus
	if refusal := checkHeader(r); refusal != nil {
		return none, refusal
	}
	if r.ContentLength > maxReviewBytes {
		drain(r)
		return none, errTooLong
	}
	if r.ContentLength < 0 || r.ContentLength > smallReviewBytes {
		return h.answerLarge(all, w, r)
	}
	review, err := readReview(r)
	if err != nil {
		return none, err
	}
	door.SetReadDeadline(all, w)
	waiting, cancel := waits(r.Context())
	defer cancel()
	return h.decide(r.Context(), all, h.limits.of(waiting, untilOf(r.Context(), all), review, false, func() {}))
}

// answerLarge handles a review that is large or of unknown length.
func (h *reviewHandler) answerLarge(all context.Context, w http.ResponseWriter, r *http.Request) (answerStatus, error) {
	var none answerStatus
	waiting, cancel := waits(r.Context())
	defer cancel()
	release, err := h.limits.buffer(waiting)
	if err != nil {
		return none, err
	}
	begun := false
	defer func() {
		if !begun {
			release()
		}
	}()
	door.SetReadDeadline(waiting, w)
	review, err := readReview(r)
	if err != nil {
		return none, err
	}
	door.SetReadDeadline(all, w)
	begun = true
	return h.decide(r.Context(), all, h.limits.of(waiting, untilOf(r.Context(), all), review, true, release))
}

// decided is the result of deciding a review.
type decided struct {
	request  *place.Request
	decision authorization.Decision
	err      error
	audit    *authorization.Audit
}

// decide decides a review that has been read. It returns at the deadline even if the decision is
// not ready: when the context policies ends, or, if policies have decided, when all ends. A decision that has begun may continue after that. It keeps
// its slots until it ends, and its memory until policies have decided.
func (h *reviewHandler) decide(policies, all context.Context, within *slotLimit) (answerStatus, error) {
	results := make(chan decided, 1)
	go func() {
		result := h.contained(all, within.review, within)
		within.releaseBuffer()
		results <- result
		h.auditLater(all, within.review, result)
	}()
	result, isLate := wait(policies, results)
	end := policies
	if within.isDecided.Load() {
		end = all
	}
	if isLate && end == all {
		result, isLate = wait(all, results)
	}
	switch {
	case isLate:
		return answerStatus{}, errTooLate
	case result.err != nil:
		return answerStatus{}, result.err
	case !result.decision.IsDeny() && errors.Is(end.Err(), context.DeadlineExceeded):
		return answerStatus{}, errTooLate
	}
	return statusOf(result.decision), nil
}

// wait waits for a result until the deadline of ctx.
func wait(ctx context.Context, results <-chan decided) (result decided, isLate bool) {
	late, cancel := untilDeadline(ctx)
	defer cancel()
	select {
	case <-late.Done():
		return decided{}, true
	case result = <-results:
		return result, false
	}
}

// contained decides a review. A panic becomes a denial: in a goroutine it would end the process.
func (h *reviewHandler) contained(ctx context.Context, review *reviewSpec, within limit) (result decided) {
	defer func() {
		if cause := recover(); cause != nil {
			logPanic(ctx, cause)
			result = decided{err: errPanicked}
		}
	}()
	r := &place.Request{Attributes: h.attributesOf(review), Client: review.client}
	//guard:conditions-left-clients-do-not-handle-them
	if options := review.AuthorizationOptions; options != nil && upstreamform.Handles(options.HandledDecisionTypes) {
		r.HandlesConditions = true
	}
	audit := &authorization.Audit{}
	decision, err := h.decider.decideAudited(ctx, r, audit, within)
	return decided{request: r, decision: decision, err: err, audit: audit}
}

// untilDeadline returns a context that ends at the deadline of ctx, but not when the client
// disconnects: such a client does not count as a late decision.
func untilDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(answerTimeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// ready answers 200 if the policies are loaded and up to date, and 503 otherwise.
func (d *Decider) ready(w http.ResponseWriter, _ *http.Request) {
	if err := d.Ready(); err != nil {
		refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	_, _ = io.WriteString(w, "ok") // a client that has disconnected needs no answer
}

// answer is the answer to a review: a SubjectAccessReview of authorization.k8s.io/v1, with conditions if the client handles them.
type answer struct {
	metav1.TypeMeta `json:",inline"`
	// Spec is empty, as kube-apiserver expects.
	Spec   authorizationv1.SubjectAccessReviewSpec `json:"spec"`
	Status answerStatus                            `json:"status"`
}

// answerStatus has either a decision of v1 or ConditionalDecision.
type answerStatus struct {
	authorizationv1.SubjectAccessReviewStatus `json:",inline"`

	ConditionalDecision *upstreamform.Decision `json:"conditionalDecision,omitempty"`
}

// statusOf returns the status for a decision, which is conditional only if the client handles conditions. Conditions for which the answer has no form are
// folded.
func statusOf(decision authorization.Decision) answerStatus {
	form, decision := upstreamform.Encode(decision)
	if form != nil {
		return answerStatus{ConditionalDecision: form}
	}
	status := answerStatus{SubjectAccessReviewStatus: authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision.IsAllow(), Denied: decision.IsDeny(), Reason: decision.Reason(),
	}}
	if err := decision.Err(); err != nil {
		status.EvaluationError = authorization.OneLine(err.Error())
	}
	return status
}

func statusError(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// refuse writes an error as a Status.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	refusals.WithLabelValues(fmt.Sprint(status.Code)).Inc()
	write(w, int(status.Code), &status)
}

func write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that has disconnected needs no answer
}

// withDeadline bounds the time to read the body of a request, and the time of the whole request.
func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout := timeoutOf(r)
		body, cancelBody := context.WithTimeout(r.Context(), timeout)
		defer cancelBody()
		door.SetReadDeadline(body, w)
		ctx, cancel := context.WithTimeout(r.Context(), shareOf(timeout, allTimeout))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// shareOf returns a part of the time of a review: shorter in the same way as timeout is shorter than answerTimeout.
func shareOf(timeout, part time.Duration) time.Duration {
	return time.Duration(float64(part) * float64(timeout) / float64(answerTimeout))
}

// timeoutOf returns how long a request may take until policies have decided it: half of kube-apiserver's timeout at most.
func timeoutOf(r *http.Request) time.Duration { return door.TimeoutOf(r, answerTimeout, 0.5) }

// withRecovery answers 500 if a handler panics outside of answer. Handlers write their answer as a last
// step, so nothing has been written before a panic.
func withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil {
				logPanic(r.Context(), cause)
				refuse(w, apierrors.NewInternalError(errPanic))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func logPanic(ctx context.Context, cause any) { door.LogPanic(ctx, "front door", cause) }

var errPanic = errors.New("the front door failed because of an internal error, which its log has")
