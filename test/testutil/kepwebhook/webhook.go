/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package kepwebhook is a conditional webhook authorizer that was written from the text of KEP-5681 alone, by an author who had not seen Proviso.
// It shares no code and no type with Proviso, and uses the standard library only. Where the text leaves a choice, it has the author's: the
// review of conditions is an AuthorizationConditionsReview of authorization.k8s.io/v1alpha1 with the fields of an AdmissionRequest,
// the type of a condition is beside each condition, and CEL has the type of the KEP's examples.
package kepwebhook

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

const (
	// The versions and kinds of the two reviews.
	reviewVersion     = "authorization.k8s.io/v1"
	reviewKind        = "SubjectAccessReview"
	conditionsVersion = "authorization.k8s.io/v1alpha1"
	conditionsKind    = "AuthorizationConditionsReview"

	// celType is the type of CEL conditions in the KEP's examples.
	celType = "k8s.io/authorization-cel"
	// opaqueType is a type that only this webhook can evaluate.
	opaqueType = "demo.proviso.dev/opaque-token"

	// authorizerName is in each set. A webhook cannot know the name with which it is configured.
	authorizerName = "kep-webhook"

	failureModeDeny      = "Deny"
	failureModeNoOpinion = "NoOpinion"

	maxConditionBytes = 1024
	maxBodyBytes      = 8 << 20
)

// NewHandler returns a handler of /authorize and /conditions.
func NewHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /authorize", func(w http.ResponseWriter, r *http.Request) {
		var in subjectAccessReview
		if read(w, r, &in, &in.typeMeta, typeMeta{reviewVersion, reviewKind}) {
			write(w, subjectAccessReviewAnswer{in.typeMeta, authorize(&in.Spec)})
		}
	})
	mux.HandleFunc("POST /conditions", func(w http.ResponseWriter, r *http.Request) {
		var in authorizationConditionsReview
		if !read(w, r, &in, &in.typeMeta, typeMeta{conditionsVersion, conditionsKind}) {
			return
		}
		if in.Request == nil {
			http.Error(w, "the review has no request", http.StatusBadRequest)
			return
		}
		answer := evaluateChain(in.Request)
		write(w, authorizationConditionsReview{typeMeta: in.typeMeta, Response: &answer})
	})
	return mux
}

// read decodes a review, and refuses another version or kind than the KEP has.
func read(w http.ResponseWriter, r *http.Request, into any, got *typeMeta, want typeMeta) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err == nil && *got != want {
		err = fmt.Errorf("the review is %s %s, but should be %s %s", got.APIVersion, got.Kind, want.APIVersion, want.Kind)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// write answers. An error while writing means that the client is gone.
func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
