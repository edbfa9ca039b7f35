/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/place"
)

const (
	// maxReviewBytes bounds a review that is read. Longer reviews are denied instead of answered
	// with an error: clients of kube-apiserver determine their length, and with the failure policy
	// NoOpinion an error would leave the decision to RBAC alone. A user with 256 groups who
	// selects a thousand values by labels causes a review of about 100 KiB. The longest selector
	// that kube-apiserver accepts, one megabyte, causes a review of 13 MiB, because kube-apiserver
	// makes an object of every few bytes of a selector. An HTTP/2 client may send this many bytes
	// without waiting for the server, so that even a very busy machine reads a review in one go.
	maxReviewBytes = 256 << 10
	// maxDrainedBytes bounds how much of a longer review is read from an HTTP/1 connection before
	// it is answered, so that the answer arrives. It is more than the longest review of
	// kube-apiserver.
	maxDrainedBytes = 64 << 20
)

// denial is an error for a review that is denied although no policy denies it. With an error
// response kube-apiserver would apply its failure policy, and its clients can cause the denial.
type denial struct {
	// cause is the value of the label cause of the metric.
	cause string
	// reason is shown to the user, and includes what to do.
	reason string
}

// Error implements error.
func (d *denial) Error() string { return d.reason }

var (
	errTooLong = &denial{cause: "too_long", reason: fmt.Sprintf("the review of this request is longer than %d bytes, the most that policies decide about: use a shorter selector", maxReviewBytes)}
	errNoSlot  = &denial{cause: "no_slot", reason: "too many requests at the same time: try again later"}
	// errNoLargeSlot is errNoSlot for large reviews.
	errNoLargeSlot = &denial{cause: "no_slot", reason: "too many large requests at the same time: try again later, or use a shorter selector"}
	errTooLate     = &denial{cause: "too_late", reason: "the policies did not decide in time: try again later"}
	errPanicked    = &denial{cause: "panic", reason: "the front door of Proviso failed: its log says where"}
)

var reviewType = metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}

// review is a SubjectAccessReview whose selectors are not decoded.
type review struct {
	metav1.TypeMeta `json:",inline"`

	Spec reviewSpec `json:"spec"`
}

type reviewSpec struct {
	authorizationv1.SubjectAccessReviewSpec `json:",inline"`

	ResourceAttributes   *resourceAttributes                         `json:"resourceAttributes,omitempty"`
	AuthorizationOptions *authorizationv1alpha1.AuthorizationOptions `json:"authorizationOptions,omitempty"`
	// ConditionalAuthorization requests conditions in the form of KEP-5681, which reviews of v1 do not have.
	ConditionalAuthorization *json.RawMessage `json:"conditionalAuthorization,omitempty"`

	// client has sent the review.
	client *place.Client
}

// resourceAttributes keep selectors as they were sent. It implements authorization.Selectors.
type resourceAttributes struct {
	authorizationv1.ResourceAttributes `json:",inline"`

	RawLabelSelector json.RawMessage `json:"labelSelector,omitempty"`
	RawFieldSelector json.RawMessage `json:"fieldSelector,omitempty"`
}

var _ authorization.Selectors = &resourceAttributes{}

// LabelSelector decodes the label selector.
func (a *resourceAttributes) LabelSelector() (*authorizationv1.LabelSelectorAttributes, error) {
	return decodeSelector[authorizationv1.LabelSelectorAttributes](a.RawLabelSelector)
}

// FieldSelector decodes the field selector.
func (a *resourceAttributes) FieldSelector() (*authorizationv1.FieldSelectorAttributes, error) {
	return decodeSelector[authorizationv1.FieldSelectorAttributes](a.RawFieldSelector)
}

func decodeSelector[T any](raw json.RawMessage) (*T, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var selector *T
	err := utiljson.Unmarshal(raw, &selector)
	return selector, err
}

// namespace returns the namespace that a review asks about, if any.
func (s *reviewSpec) namespace() string {
	if s.ResourceAttributes == nil {
		return ""
	}
	return s.ResourceAttributes.Namespace
}

// attributes returns the attributes that a review asks about. An invalid selector is left out,
// which asks for more than the request would use: the selector comes from the client of
// kube-apiserver, which must not be able to make a review fail. Parse errors are not reported
// either, because that would require parsing every selector; kube-apiserver sends selectors that
// it has parsed itself.
func (s *reviewSpec) attributes() authorizer.Attributes {
	subject := authorization.SubjectOf(&authorizationapi.SubjectAccessReviewSpec{User: s.User, UID: s.UID, Groups: s.Groups, Extra: s.Extra})
	if s.ResourceAttributes == nil {
		return authorization.LazyAttributesOf(subject, nil, s.NonResourceAttributes, nil)
	}
	return authorization.LazyAttributesOf(subject, &s.ResourceAttributes.ResourceAttributes, nil, s.ResourceAttributes)
}

// checkHeader returns an error if a request cannot be a review.
func checkHeader(r *http.Request) *apierrors.StatusError {
	if r.Method != http.MethodPost {
		return statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "a review must be sent by POST")
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != mediaType {
		return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "a review must be sent as "+mediaType)
	}
	return nil
}

// drain reads the rest of an HTTP/1 body that is not used, because the client would otherwise miss
// the answer. In HTTP/2 the answer ends the stream, whether or not the whole body was sent.
func drain(r *http.Request) {
	if r.ProtoMajor < 2 {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrainedBytes) // the answer is the same if this fails
	}
}

// readBody reads a body, and at most one byte more than the bound.
func readBody(r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(min(r.ContentLength, maxReviewBytes)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(r.Body, maxReviewBytes+1))
	return body.Bytes(), err
}

// readReview reads the review in a request. The error is a denial, or a StatusError that describes
// the defect.
func readReview(r *http.Request) (*reviewSpec, error) {
	body, err := readBody(r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errTooLate
	case err != nil:
		return nil, apierrors.NewBadRequest("the review could not be read")
	case len(body) > maxReviewBytes:
		drain(r)
		return nil, errTooLong
	}
	var got review
	if err := utiljson.Unmarshal(body, &got); err != nil {
		return nil, apierrors.NewBadRequest("the review is not valid JSON of its kind")
	}
	if got.TypeMeta != reviewType {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is not a %s of %s", reviewType.Kind, reviewType.APIVersion))
	}
	if (got.Spec.ResourceAttributes == nil) == (got.Spec.NonResourceAttributes == nil) {
		return nil, apierrors.NewBadRequest("exactly one of resourceAttributes and nonResourceAttributes is needed")
	}
	//guard:conditions-left-two-forms
	if got.Spec.AuthorizationOptions != nil && got.Spec.ConditionalAuthorization != nil {
		return nil, apierrors.NewBadRequest("conditionalAuthorization and authorizationOptions request conditions in different forms")
	}
	got.Spec.client = clientOf(r)
	return &got.Spec, nil
}
