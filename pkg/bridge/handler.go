/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The paths of the listener.
const (
	AuthorizePath = "/webhooks/authorize"
	ReadyPath     = "/readyz"
)

const (
	// maxReviewBytes bounds a review that is read. Longer ones are denied, not refused: their
	// length is up to clients of kube-apiserver, which makes an object of every few bytes of a
	// selector, and where its failure policy is NoOpinion a refusal would let whatever a Deny
	// policy forbids.
	maxReviewBytes = 8 << 20
	// maxDrainedBytes bounds how much of a longer one is taken before it is answered, so that
	// the answer arrives. It is more than kube-apiserver makes of a request, whose headers, the
	// first line included, have at most 1 MiB.
	maxDrainedBytes = 64 << 20
	// smallReviewBytes is what nearly every review is below: names are at most some hundred
	// bytes, and groups some dozen.
	smallReviewBytes = 64 << 10
	// maxLargeReviews bounds how many of the others there are at a time, so that a thousand
	// streams of one connection come to some hundred megabytes. Further ones wait.
	maxLargeReviews = 8
	// requestTimeout bounds reading and deciding a review: the longest that kube-apiserver
	// may be configured to wait for an answer.
	requestTimeout = 30 * time.Second
)

const mediaType = "application/json"

// NewHandler makes the handler of the listener. Only clients are answered.
func NewHandler(door *FrontDoor, clients *Clients) http.Handler {
	RegisterMetrics()
	mux := http.NewServeMux()
	mux.Handle(AuthorizePath, withFewLarge(http.HandlerFunc(door.authorize)))
	mux.HandleFunc(ReadyPath, door.ready)
	return withRecovery(withDeadline(clients.only(mux)))
}

// authorize answers a SubjectAccessReview of authorization.k8s.io/v1.
func (d *FrontDoor) authorize(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	attributes, refusal := readReview(w, r)
	switch {
	case refusal != nil && refusal.ErrStatus.Code == http.StatusRequestEntityTooLarge:
		status := authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: reasonTooLong}
		observe(&status, time.Since(started))
		write(w, http.StatusOK, &authorizationv1.SubjectAccessReview{TypeMeta: reviewType, Status: status})
		return
	case refusal != nil:
		refuse(w, refusal)
		return
	}
	decision, err := d.Decide(r.Context(), attributes)
	if err != nil {
		// Without a Retry-After, kube-apiserver goes by its failure policy at once.
		refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	status := statusOf(decision)
	if message := authorization.SelectorErrors(attributes); message != "" && status.EvaluationError == "" {
		status.EvaluationError = message
	}
	observe(&status, time.Since(started))
	write(w, http.StatusOK, &authorizationv1.SubjectAccessReview{TypeMeta: reviewType, Status: status})
}

// ready answers whether the policies are loaded, and not out of date.
func (d *FrontDoor) ready(w http.ResponseWriter, _ *http.Request) {
	if err := d.Ready(); err != nil {
		refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	_, _ = io.WriteString(w, "ok") // a client that is gone needs no answer
}

var reviewType = metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}

var reasonTooLong = fmt.Sprintf("what is asked has more than %d bytes, which no policy is asked about", maxReviewBytes)

// readReview reads what a request asks. What is wrong with it is said in the error.
func readReview(w http.ResponseWriter, r *http.Request) (authorizer.Attributes, *apierrors.StatusError) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "a review is sent by POST")
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != mediaType {
		return nil, statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "a review is sent as "+mediaType)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReviewBytes+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest("the review could not be read")
	case len(body) > maxReviewBytes:
		_, _ = io.CopyN(io.Discard, r.Body, maxDrainedBytes) // whatever comes of it, the answer is the same
		return nil, apierrors.NewRequestEntityTooLargeError(reasonTooLong)
	}
	var review authorizationv1.SubjectAccessReview
	if err := utiljson.Unmarshal(body, &review); err != nil {
		return nil, apierrors.NewBadRequest("the review is not valid JSON of its kind")
	}
	if review.TypeMeta != reviewType {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("this is no %s of %s", reviewType.Kind, reviewType.APIVersion))
	}
	if (review.Spec.ResourceAttributes == nil) == (review.Spec.NonResourceAttributes == nil) {
		return nil, apierrors.NewBadRequest("exactly one of resourceAttributes and nonResourceAttributes is needed")
	}
	return attributesOf(&review.Spec), nil
}

// attributesOf reads the attributes. A selector that makes no sense is left out, which
// asks for more than the request would use: it comes from the client of kube-apiserver,
// who must not be able to make a review fail.
func attributesOf(spec *authorizationv1.SubjectAccessReviewSpec) authorizer.Attributes {
	subject := authorization.SubjectOf(&authorizationapi.SubjectAccessReviewSpec{
		User: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: spec.Extra,
	})
	return authorization.AttributesOf(subject, spec.ResourceAttributes, spec.NonResourceAttributes)
}

func statusOf(decision authorization.Decision) authorizationv1.SubjectAccessReviewStatus {
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision.IsAllow(), Denied: decision.IsDeny(), Reason: decision.Reason(),
	}
	if err := decision.Err(); err != nil {
		status.EvaluationError = err.Error()
	}
	return status
}

func statusError(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// refuse answers an error as API servers do.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	refusals.WithLabelValues(fmt.Sprint(status.Code)).Inc()
	write(w, int(status.Code), &status)
}

func write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that is gone needs no answer
}

// withDeadline bounds how long a request may take, its body included.
func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A recorder of tests has no connection to set a deadline on.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withFewLarge has large requests, and those that do not tell their size, wait for each
// other.
func withFewLarge(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxLargeReviews)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > smallReviewBytes {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-r.Context().Done():
				refuse(w, apierrors.NewServiceUnavailable("too many large reviews"))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// withRecovery answers 500 to a request that makes its handler panic. Handlers write only
// once they are done, so nothing has been written.
func withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil {
				klog.FromContext(r.Context()).Error(nil, "The front door panicked", "type", fmt.Sprintf("%T", cause), "stack", string(debug.Stack()))
				refuse(w, apierrors.NewInternalError(errPanic))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

var errPanic = errors.New("the front door failed; its log says where")
