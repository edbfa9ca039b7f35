/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/door"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/slots"
)

const (
	// answerTimeout bounds the time to read and decide a review. It is less than kube-apiserver waits, so that the user is told
	// what happened.
	answerTimeout = 4 * time.Second
	// timeoutShare is the share of kube-apiserver's timeout that it takes at most.
	timeoutShare = 0.8

	// The numbers of reviews that are decided at the same time, and that wait. A namespace, a user, and a user in one namespace
	// get less than all, so that others are decided.
	maxReviews                     = 16
	maxReviewsPerUser              = 8
	maxReviewsPerNamespace         = 12
	maxReviewsPerUserInNamespace   = 4
	maxWaiting                     = 256
	maxWaitingOfOneUser            = 64
	maxWaitingOfOneUserInNamespace = 48
)

var (
	errBusy    = errors.New("too many writes at the same time: try again later")
	errTooLate = errors.New("the policies did not decide in time: try again later")
)

// The types of the causes in the details of a refusal that has no entries of policies.
const (
	// CauseManifest has the digest of the manifest with which kube-apiserver called the inner door. Each refusal by a decision has this cause.
	CauseManifest metav1.CauseType = "InnerDoorManifest"
	// CauseOtherManifest has the digest of a manifest that was written from another configuration than the server has.
	CauseOtherManifest metav1.CauseType = "OtherInnerDoorManifest"
)

// The keys of the audit annotations of kube-apiserver, after the name of the webhook.
const (
	auditDecision  = "decision"
	auditReason    = "reason"
	auditCondition = "condition"
)

// HandlerConfig configures a Handler.
type HandlerConfig struct {
	// Decider decides the writes.
	Decider *Decider
	// Namespace returns a Namespace as it is decoded from JSON, from a cache. It may be nil.
	Namespace func(name string) (map[string]any, error)
	// Digest is the digest of the manifest that belongs to the configuration of the server. Reviews that come by another manifest
	// are refused: its list of resources or its exemptions may be others.
	Digest string
	// Trail returns a context in which the decision about one write is recorded, and a function that returns the record as pairs of key
	// and value, for the audit event. It may be nil.
	Trail func(context.Context) (context.Context, func() []string)
}

// Handler answers AdmissionReviews of admission.k8s.io/v1. Every answer but one that allows makes kube-apiserver refuse the
// write, because the manifest says so.
type Handler struct {
	config HandlerConfig
	limits
}

// limits bound what a handler reads and decides at the same time.
type limits struct {
	slots *slots.Slots
	// memory has the bytes of long reviews that are in memory.
	memory *semaphore.Weighted
}

func newLimits() limits {
	return limits{memory: semaphore.NewWeighted(maxBytesInFlight), slots: slots.New(slots.Bounds{
		All: maxReviews, PerUser: maxReviewsPerUser, PerNamespace: maxReviewsPerNamespace, PerUserInNamespace: maxReviewsPerUserInNamespace,
		Waiting: maxWaiting, WaitingOfOneUser: maxWaitingOfOneUser, WaitingOfOneUserInNamespace: maxWaitingOfOneUserInNamespace, Refusal: errBusy,
	})}
}

// DigestWildcard is the name of the wildcard with the digest in the pattern under which the handler is served.
const DigestWildcard = "digest"

// NewHandler returns a handler, which must be served under a pattern with DigestWildcard. It returns an error if config has no decider
// or no digest.
func NewHandler(config HandlerConfig) (*Handler, error) {
	if config.Decider == nil || config.Decider.Chain == nil || config.Digest == "" {
		return nil, errors.New("the inner door needs a chain of authorizers and the digest of its manifest")
	}
	RegisterMetrics()
	return &Handler{config: config, limits: newLimits()}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	ctx, cancel := withDeadline(w, r)
	defer cancel()
	release, err := h.reserve(ctx, r)
	if err != nil {
		undecided.WithLabelValues(causeNoMemory).Inc()
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	defer release()
	request, code, err := read(w, r)
	if err != nil {
		refuse(w, code, err)
		return
	}
	response := h.answer(ctx, request, r.PathValue(DigestWildcard), started)
	w.Header().Set("Content-Type", mediaType)
	// A client that has disconnected needs no answer.
	_ = json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{TypeMeta: reviewType, Response: response})
}

// withDeadline returns the context in which a review is read and decided.
func withDeadline(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), door.TimeoutOf(r, answerTimeout, timeoutShare))
	door.SetReadDeadline(ctx, w)
	return ctx, cancel
}

func refuse(w http.ResponseWriter, code int, err error) {
	refusals.WithLabelValues(fmt.Sprint(code)).Inc()
	http.Error(w, err.Error(), code)
}

// answer decides a request that came by the manifest with a digest. It refuses canaries before it compares the digest: their sender
// looks for the digest in the refusal. Only decisions count in the metrics of decisions.
func (h *Handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest, digest string, started time.Time) *admissionv1.AdmissionResponse {
	//guard:inner-door-canaries
	if refusal := RefuseCanary(request, digest); refusal != nil {
		return refusal
	}
	//guard:inner-door-another-manifest
	if digest != h.config.Digest {
		return h.otherManifest(ctx, request, digest)
	}
	write, err := NewWrite(request, h.config.Namespace)
	if err != nil {
		undecided.WithLabelValues(causeOtherWrite).Inc()
		return refused(request, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	}
	release, err := h.slots.Acquire(ctx, request.UserInfo.Username, request.Namespace)
	if err != nil {
		undecided.WithLabelValues(causeNoSlot).Inc()
		return refused(request, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, errBusy.Error())
	}
	defer release()
	ctx, trail := h.withTrail(ctx)
	decision := h.config.Decider.decide(ctx, write)
	switch {
	//guard:inner-door-end-time
	case ctx.Err() != nil:
		undecided.WithLabelValues(causeTooLate).Inc()
		return refused(request, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, errTooLate.Error())
	case errors.Is(decision.Err(), errPanicked):
		undecided.WithLabelValues(causePanic).Inc()
		return h.denied(request, decision, nil)
	}
	observe(decision.IsAllow(), time.Since(started))
	audit := h.config.Decider.endAudit(ctx, write, decision)
	annotations := append(trail(), audit.Annotations()...)
	if decision.IsAllow() {
		// Warnings show nothing of an object to a user who may not read it: only writes of users who may read it get here.
		return &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true, AuditAnnotations: annotationsOf(decision.Decision, annotations), Warnings: audit.Warnings()}
	}
	return h.denied(request, decision, annotations)
}

// withTrail begins the record of a decision.
func (h *Handler) withTrail(ctx context.Context) (context.Context, func() []string) {
	if h.config.Trail == nil {
		return ctx, func() []string { return nil }
	}
	return h.config.Trail(ctx)
}

// otherManifest refuses a review that came by a manifest with another digest. The refusal quotes no more of the path than a digest has.
func (h *Handler) otherManifest(ctx context.Context, request *admissionv1.AdmissionRequest, digest string) *admissionv1.AdmissionResponse {
	undecided.WithLabelValues(causeOtherManifest).Inc()
	if len(digest) > len(h.config.Digest) {
		digest = digest[:len(h.config.Digest)]
	}
	klog.FromContext(ctx).Info("A write is refused: kube-apiserver has a manifest of the inner door that was written from another configuration", "manifest", digest, "want", h.config.Digest)
	response := refused(request, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
		"kube-apiserver has the manifest %q of the inner door, and Proviso was configured with another one, %q: an administrator must install the files of the same configuration (inner-door-config --check)", digest, h.config.Digest))
	response.Result.Details.Causes = []metav1.StatusCause{{Type: CauseOtherManifest, Message: digest}}
	return response
}

// denied returns the answer for a decision that does not allow. The details have an entry for each policy, and the digest.
func (h *Handler) denied(request *admissionv1.AdmissionRequest, decision verdict, trail []string) *admissionv1.AdmissionResponse {
	reason := decision.Reason()
	if err := decision.Err(); err != nil && (reason == "" || !authorization.OnlyConditionsFailed(err)) {
		reason = strings.TrimPrefix(fmt.Sprintf("%s: %v", reason, err), ": ")
	}
	reason = excerpt.Of(cmp.Or(decision.withheld, reason), maxReasonBytes)
	response := refused(request, http.StatusForbidden, metav1.StatusReasonForbidden, reason)
	for _, entry := range authorization.ReasonEntries(reason) {
		response.Result.Details.Causes = append(response.Result.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(entry.Word), Message: entry.Name + ": " + entry.Text,
		})
	}
	response.Result.Details.Causes = append(response.Result.Details.Causes, metav1.StatusCause{Type: CauseManifest, Message: h.config.Digest})
	response.AuditAnnotations = annotationsOf(decision.Decision, trail)
	return response
}

// annotationsOf returns what kube-apiserver adds to the audit event: the decision, and the trail, whose keys lose their domain because kube-apiserver accepts
// none. There are no values of objects.
func annotationsOf(decision authorization.Decision, trail []string) map[string]string {
	annotations := map[string]string{}
	for pair := range slices.Chunk(trail, 2) {
		annotations[path.Base(pair[0])] = pair[len(pair)-1]
	}
	annotations[auditDecision], annotations[auditReason] = "deny", excerpt.Of(decision.Reason(), maxReasonBytes)
	if decision.IsAllow() {
		annotations[auditDecision] = "allow"
	}
	if id := decision.DecidedBy(); id != "" {
		annotations[auditCondition] = id
	}
	return annotations
}

// maxReasonBytes bounds the reason of a refusal.
const maxReasonBytes = 4096

func refused(request *admissionv1.AdmissionRequest, code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{
		UID: request.UID,
		Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: authorization.OneLine(message),
			Details: &metav1.StatusDetails{Name: request.Name, Group: request.Resource.Group, Kind: request.Resource.Resource},
		},
	}
}
