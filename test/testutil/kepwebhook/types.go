/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kepwebhook

import "encoding/json"

// typeMeta is in all reviews.
type typeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// subjectAccessReview is the question of phase 1.
type subjectAccessReview struct {
	typeMeta
	Spec   subjectAccessReviewSpec   `json:"spec"`
	Status subjectAccessReviewStatus `json:"status"`
}

// subjectAccessReviewSpec has the fields that the rules read.
type subjectAccessReviewSpec struct {
	ResourceAttributes       *resourceAttributes                    `json:"resourceAttributes,omitempty"`
	User                     string                                 `json:"user,omitempty"`
	ConditionalAuthorization *conditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`
}

// resourceAttributes has the fields of authorization.k8s.io/v1.
type resourceAttributes struct {
	Namespace   string `json:"namespace,omitempty"`
	Verb        string `json:"verb,omitempty"`
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

// conditionalAuthorizationConfiguration says whether the caller supports conditions ("Changes to (Self)SubjectAccessReview").
type conditionalAuthorizationConfiguration struct {
	Mode string `json:"mode,omitempty"`
}

// The modes of reviews.
const (
	modeNone      = ""
	modeHuman     = "HumanReadable"
	modeOptimized = "Optimized"
)

// subjectAccessReviewStatus has the fields of authorization.k8s.io/v1, and the conditions.
type subjectAccessReviewStatus struct {
	Allowed         bool           `json:"allowed"`
	Denied          bool           `json:"denied,omitempty"`
	Reason          string         `json:"reason,omitempty"`
	EvaluationError string         `json:"evaluationError,omitempty"`
	ConditionsChain []conditionSet `json:"conditionsChain,omitempty"`
}

// subjectAccessReviewAnswer is what is sent back: no spec, only the status.
type subjectAccessReviewAnswer struct {
	typeMeta
	Status subjectAccessReviewStatus `json:"status"`
}

// conditionSet is a SubjectAccessReviewConditionSet.
type conditionSet struct {
	Allowed        bool        `json:"allowed,omitempty"`
	Denied         bool        `json:"denied,omitempty"`
	FailureMode    string      `json:"failureMode,omitempty"`
	AuthorizerName string      `json:"authorizerName"`
	Conditions     []condition `json:"conditions,omitempty"`
}

// condition is a SubjectAccessReviewCondition.
type condition struct {
	ID          string `json:"id"`
	Effect      string `json:"effect"`
	Type        string `json:"type"`
	Condition   string `json:"condition"`
	Description string `json:"description,omitempty"`
}

// The effects of conditions.
const (
	effectAllow     = "Allow"
	effectDeny      = "Deny"
	effectNoOpinion = "NoOpinion"
)

// authorizationConditionsReview asks what conditions decide ("Supporting webhooks through the AuthorizationConditionsReview API").
type authorizationConditionsReview struct {
	typeMeta
	Request  *authorizationConditionsRequest  `json:"request,omitempty"`
	Response *authorizationConditionsResponse `json:"response,omitempty"`
}

// authorizationConditionsRequest has the names of AdmissionRequest for the fields of ConditionData, which the KEP does not write out.
type authorizationConditionsRequest struct {
	ConditionSets []conditionSet  `json:"conditionSets,omitempty"`
	Operation     string          `json:"operation,omitempty"`
	Options       json.RawMessage `json:"options,omitempty"`
	Object        json.RawMessage `json:"object,omitempty"`
	OldObject     json.RawMessage `json:"oldObject,omitempty"`
}

// authorizationConditionsResponse is the answer to it.
type authorizationConditionsResponse struct {
	Allowed         bool   `json:"allowed"`
	Denied          bool   `json:"denied,omitempty"`
	Reason          string `json:"reason,omitempty"`
	EvaluationError string `json:"evaluationError,omitempty"`
}
