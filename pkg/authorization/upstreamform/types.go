/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
)

// ConditionTypeCEL is the type of CEL conditions in this form. It is authorization.ConditionTypeCEL in the other form.
const ConditionTypeCEL = authorizationapi.ConditionTypeUpstreamCEL

// The types of decisions.
const (
	TypeAllow         = "Allow"
	TypeDeny          = "Deny"
	TypeNoOpinion     = "NoOpinion"
	TypeConditionsMap = "ConditionsMap"
	TypeUnion         = "Union"
)

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

// ConditionsRequest has the decision, and the request with its objects. Its fields are read by ReadDecision and ReadAdmissionRequest.
type ConditionsRequest struct {
	Decision         *runtime.RawExtension `json:"decision"`
	AdmissionRequest *runtime.RawExtension `json:"admissionRequest"`
}

// ConditionsResponse is the answer. Its decision is unconditional.
type ConditionsResponse struct {
	// UID is the uid of the admission request.
	UID      types.UID             `json:"uid"`
	Decision *runtime.RawExtension `json:"decision"`
}
