/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// maxReviewBytes bounds a review. A review of an update has two objects. kube-apiserver accepts objects of at most 3 MiB, and
	// escaped characters make them longer in the review.
	maxReviewBytes = 16 << 20
	// smallReviewBytes is the length up to which a review needs no share of the memory. Nearly every review is shorter, and
	// the 600 requests that kube-apiserver serves at a time have less than 40 MiB together.
	smallReviewBytes = 64 << 10
	// maxBytesInFlight bounds the bytes of all longer reviews that are read or decided. A decoded object takes some ten
	// times as many, but only those that have a slot are decoded.
	maxBytesInFlight = 4 * maxReviewBytes
	// memoryTimeout bounds how long a review waits until it may be read. It leaves most of the time to the decision.
	memoryTimeout = time.Second
)

const mediaType = "application/json"

var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

var errNoMemory = errors.New("too many long writes at the same time: try again later")

// reserve waits until a review may be read into memory. The length of a review that does not tell it counts as the longest.
func (l *limits) reserve(ctx context.Context, r *http.Request) (release func(), err error) {
	length := r.ContentLength
	//guard:inner-door-long-reviews
	if length >= 0 && length <= smallReviewBytes || length > maxReviewBytes { // too long to be read
		return func() {}, nil
	}
	if length < 0 {
		length = maxReviewBytes
	}
	waiting, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	if l.memory.Acquire(waiting, length) != nil {
		return nil, errNoMemory
	}
	return func() { l.memory.Release(length) }, nil
}

// readBody returns the body of a request, or an HTTP status with an error.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, int, error) {
	if r.Method != http.MethodPost {
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("use %s", http.MethodPost)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != mediaType {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("the body must be %s", mediaType)
	}
	if r.ContentLength > maxReviewBytes {
		return nil, http.StatusRequestEntityTooLarge, errTooLong
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReviewBytes))
	if err != nil {
		if tooLong := (&http.MaxBytesError{}); errors.As(err, &tooLong) {
			return nil, http.StatusRequestEntityTooLarge, errTooLong
		}
		return nil, http.StatusBadRequest, errors.New("the body cannot be read")
	}
	return body, 0, nil
}

// read returns the request of a review, or an HTTP status with an error that does not quote it.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	body, code, err := readBody(w, r)
	if err != nil {
		return nil, code, err
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

var errTooLong = fmt.Errorf("the body is longer than %d bytes", maxReviewBytes)
