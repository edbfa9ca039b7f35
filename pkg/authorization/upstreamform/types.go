/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionTypeCEL is the type of CEL conditions in this form. It is authorization.ConditionTypeCEL in the other form.
const ConditionTypeCEL = "authorizer.kubernetes.io/cel"

// The types of decisions.
const (
	TypeAllow         = "Allow"
	TypeDeny          = "Deny"
	TypeNoOpinion     = "NoOpinion"
	TypeConditionsMap = "ConditionsMap"
	TypeUnion         = "Union"
)

// AuthorizationOptions are in the spec of a SubjectAccessReview whose client understands conditions.
type AuthorizationOptions struct {
	// HandledDecisionTypes are the types of decisions that the client can handle. Types that are not known are ignored.
	HandledDecisionTypes []string `json:"handledDecisionTypes,omitempty"`
}

// Decision is a decision. It has exactly one member, which Type names.
type Decision struct {
	Type          string         `json:"type"`
	Allow         *Unconditional `json:"allow,omitempty"`
	Deny          *Unconditional `json:"deny,omitempty"`
	NoOpinion     *Unconditional `json:"noOpinion,omitempty"`
	ConditionsMap *ConditionsMap `json:"conditionsMap,omitempty"`
	// Union is a chain of authorizers in order.
	Union []Member `json:"union,omitempty"`
}

// Unconditional is the answer of an authorizer that depends on nothing.
type Unconditional struct {
	Reason          string `json:"reason,omitempty"`
	EvaluationError string `json:"evaluationError,omitempty"`
}

// ConditionsMap has the conditions of one authorizer by effect.
type ConditionsMap struct {
	DenyConditions      []Condition `json:"denyConditions,omitempty"`
	NoOpinionConditions []Condition `json:"noOpinionConditions,omitempty"`
	AllowConditions     []Condition `json:"allowConditions,omitempty"`
}

// Condition is a condition.
type Condition struct {
	// ID is unique in its ConditionsMap.
	ID          string `json:"id"`
	Type        string `json:"type,omitempty"`
	Condition   string `json:"condition,omitempty"`
	Description string `json:"description,omitempty"`
}

// Member is the answer of one authorizer in a chain.
type Member struct {
	// AuthorizerName is unique in its chain.
	AuthorizerName string   `json:"authorizerName"`
	Decision       Decision `json:"decision"`
}

// AuthorizationConditionsReview asks an authorizer to evaluate a conditional decision that it made.
type AuthorizationConditionsReview struct {
	metav1.TypeMeta `json:",inline"`

	Request  *ConditionsRequest  `json:"request,omitempty"`
	Response *ConditionsResponse `json:"response,omitempty"`
}

// ConditionsRequest has the decision, and the request with its objects.
type ConditionsRequest struct {
	Decision         *Decision                     `json:"decision"`
	AdmissionRequest *admissionv1.AdmissionRequest `json:"admissionRequest"`
}

// ConditionsResponse is the answer. Its decision is unconditional.
type ConditionsResponse struct {
	// UID is the uid of the admission request.
	UID      types.UID `json:"uid"`
	Decision *Decision `json:"decision"`
}
