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
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/proviso-authz/proviso/pkg/slots"
)

const (
	// maxReviewBytes bounds a review. A review of an update has two objects. kube-apiserver accepts objects of at most 3 MiB, and
	// escaped characters make them longer in the review.
	maxReviewBytes = 16 << 20
	// answerTimeout bounds the time to read and decide a review. It is less than kube-apiserver waits, so that the user is told
	// what happened.
	answerTimeout = 4 * time.Second

	// The numbers of reviews that are decided at the same time, and that wait. A namespace, a user, and a user in one namespace
	// get less than all, so that others are decided.
	maxReviews                   = 16
	maxReviewsPerUser            = 8
	maxReviewsPerNamespace       = 12
	maxReviewsPerUserInNamespace = 4
	maxWaiting                   = 256
	maxWaitingOfOneUser          = 64
	maxWaitingInNamespace        = 48
)

const mediaType = "application/json"

var (
	errBusy    = errors.New("too many writes at the same time: try again later")
	errTooLate = errors.New("the policies did not decide in time: try again later")
)

var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// Handler answers AdmissionReviews of admission.k8s.io/v1. Every answer but one that allows makes kube-apiserver refuse the
// write, because the manifest says so.
type Handler struct {
	decider   *Decider
	namespace func(name string) (map[string]any, error)
	slots     *slots.Slots
}

// NewHandler returns a handler. namespace returns a Namespace as it is decoded from JSON, from a cache; it may be nil.
func NewHandler(decider *Decider, namespace func(name string) (map[string]any, error)) *Handler {
	return &Handler{decider: decider, namespace: namespace, slots: slots.New(slots.Bounds{
		All: maxReviews, PerUser: maxReviewsPerUser, PerNamespace: maxReviewsPerNamespace, PerUserInNamespace: maxReviewsPerUserInNamespace,
		Waiting: maxWaiting, WaitingOfOneUser: maxWaitingOfOneUser, WaitingOfOneUserInNamespace: maxWaitingInNamespace, Refusal: errBusy,
	})}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		// A test recorder has no connection to set a deadline on.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
	}
	request, code, err := read(w, r)
	if err != nil {
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	// A client that has disconnected needs no answer.
	_ = json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{TypeMeta: reviewType, Response: h.answer(ctx, request)})
}

// read returns the request of a review, or an HTTP status with an error that does not quote it.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	if r.Method != http.MethodPost {
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("use %s", http.MethodPost)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != mediaType {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("the body must be %s", mediaType)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReviewBytes))
	if err != nil {
		if tooLong := (&http.MaxBytesError{}); errors.As(err, &tooLong) {
			return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", maxReviewBytes)
		}
		return nil, http.StatusBadRequest, errors.New("the body cannot be read")
	}
	review := &admissionv1.AdmissionReview{}
	switch err := utiljson.Unmarshal(body, review); {
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("the body is not an AdmissionReview")
	case review.TypeMeta != reviewType:
		return nil, http.StatusBadRequest, fmt.Errorf("the body must be an %s of %s", reviewType.Kind, reviewType.APIVersion)
	case review.Request == nil || review.Request.UID == "":
		return nil, http.StatusBadRequest, errors.New("the review has no request, or its request has no uid")
	}
	return review.Request, 0, nil
}

// answer decides a request.
func (h *Handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	write, err := NewWrite(request, h.namespace)
	if err != nil {
		return refused(request, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	}
	release, err := h.slots.Acquire(ctx, request.UserInfo.Username, request.Namespace)
	if err != nil {
		return refused(request, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, errBusy.Error())
	}
	defer release()
	decision := h.decider.Decide(ctx, write)
	switch {
	case ctx.Err() != nil:
		return refused(request, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, errTooLate.Error())
	case decision.IsAllow():
		return &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	}
	reason := decision.Reason()
	if err := decision.Err(); err != nil && reason == "" {
		reason = err.Error()
	}
	return refused(request, http.StatusForbidden, metav1.StatusReasonForbidden, shortened(reason))
}

// maxReasonBytes bounds the reason of a refusal.
const maxReasonBytes = 4096

func shortened(reason string) string {
	if len(reason) <= maxReasonBytes {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReasonBytes-len("…")], "") + "…"
}

func refused(request *admissionv1.AdmissionRequest, code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{UID: request.UID, Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}
