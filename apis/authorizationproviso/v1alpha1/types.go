/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"

// The kinds of the group.
type (
	// SubjectAccessReview asks whether a user or group may make a request, and on what conditions.
	SubjectAccessReview = v1alpha1.SubjectAccessReview
	// SelfSubjectAccessReview asks whether the caller may make a request, and on what conditions.
	SelfSubjectAccessReview = v1alpha1.SelfSubjectAccessReview
	// LocalSubjectAccessReview asks whether a user or group may make a request in the namespace of
	// the review, and on what conditions.
	LocalSubjectAccessReview = v1alpha1.LocalSubjectAccessReview
	// AuthorizationConditionsReview evaluates conditions with the data of a request.
	AuthorizationConditionsReview = v1alpha1.AuthorizationConditionsReview
	// ImpersonationReview asks whether a user may make a request as another user.
	ImpersonationReview = v1alpha1.ImpersonationReview
)
