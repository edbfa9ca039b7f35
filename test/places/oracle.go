/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// Answers are what the code of one commit answers in a case, in its own words.
type Answers struct {
	// Code and Body are the answer of the front door. Without a front door they are empty.
	Code int
	Body []byte
	// Counted are the series of metrics that the answer has changed, such as `proviso_webhook_authorize_requests_total{decision="denied"}`.
	Counted []string
	// Policies are what is known of each policy, in the order of the case.
	Policies []PolicyAnswer
	// Review is the status of a SubjectAccessReview about the request, ReviewError the error in place of one, and Warnings its warnings.
	Review      authorizationapi.SubjectAccessReviewStatus
	ReviewError string
	Warnings    []string
}

// PolicyAnswer is what is known of one policy.
type PolicyAnswer struct {
	// Status is its status before the request.
	Status policyv1alpha1.AuthorizationPolicyStatus
	// Errors and Warnings are for its author.
	Errors, Warnings []string
	// Audit are its counts after the request. They are nil for a policy that is enforced.
	Audit *policyv1alpha1.PolicyAuditStatus
}
