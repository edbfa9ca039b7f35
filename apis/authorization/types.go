/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SubjectAccessReview asks whether a user or group may make a request, and on what conditions.
type SubjectAccessReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// Spec describes the request.
	Spec SubjectAccessReviewSpec

	// Status is the answer of the server.
	Status SubjectAccessReviewStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SelfSubjectAccessReview asks whether the caller may make a request, and on what conditions.
type SelfSubjectAccessReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// Spec describes the request. The user is the caller.
	Spec SelfSubjectAccessReviewSpec

	// Status is the answer of the server.
	Status SubjectAccessReviewStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LocalSubjectAccessReview asks whether a user or group may make a request in the namespace of
// the review, and on what conditions.
type LocalSubjectAccessReview struct {
	metav1.TypeMeta
	// metadata must be empty except for the namespace.
	metav1.ObjectMeta

	// Spec describes the request. Its namespace must be the namespace of the review.
	Spec SubjectAccessReviewSpec

	// Status is the answer of the server.
	Status SubjectAccessReviewStatus
}

// SubjectAccessReviewSpec describes a request. Exactly one of ResourceAttributes and
// NonResourceAttributes must be set, and at least one of User and Groups.
type SubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// nonResourceAttributes describes a request for a path outside the API resources.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// User is the name of the user. A user without groups counts as a member of no group.
	User string
	// Groups are the groups of the user.
	Groups []string
	// Extra is additional information about the user from the authenticator.
	Extra map[string]authorizationv1.ExtraValue
	// UID identifies the user even if the name changes.
	UID string

	// ConditionalAuthorization requests conditions. If neither it nor AuthorizationOptions is set, the
	// answer has no conditions: a conditional decision becomes Deny if a condition could deny,
	// Allow if every value of the conditions allows, and NoOpinion otherwise.
	ConditionalAuthorization *ConditionalAuthorizationConfiguration

	// AuthorizationOptions requests conditions in the form that is proposed for Kubernetes. It
	// cannot be set together with ConditionalAuthorization. Without the feature gate
	// UpstreamConditionalDecisions it is ignored.
	AuthorizationOptions *AuthorizationOptions
}

// SelfSubjectAccessReviewSpec describes a request of the caller. Exactly one of
// ResourceAttributes and NonResourceAttributes must be set.
type SelfSubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// nonResourceAttributes describes a request for a path outside the API resources.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// ConditionalAuthorization requests conditions. If neither it nor AuthorizationOptions is set, the
	// answer has no conditions: a conditional decision becomes Deny if a condition could deny,
	// Allow if every value of the conditions allows, and NoOpinion otherwise.
	ConditionalAuthorization *ConditionalAuthorizationConfiguration

	// AuthorizationOptions requests conditions in the form that is proposed for Kubernetes. It
	// cannot be set together with ConditionalAuthorization. Without the feature gate
	// UpstreamConditionalDecisions it is ignored.
	AuthorizationOptions *AuthorizationOptions
}

// AuthorizationOptions says which answers the caller of a review handles, in the form that is
// proposed for Kubernetes.
type AuthorizationOptions struct {
	// HandledDecisionTypes are the types of decisions that the caller handles. With ConditionsMap
	// and Union the answer may have a ConditionalDecision. Types that are not known are ignored.
	// At most 16.
	HandledDecisionTypes []string
}

// ConditionalAuthorizationConfiguration configures conditional authorization for a review
// (KEP-5681, "Changes to (Self)SubjectAccessReview").
type ConditionalAuthorizationConfiguration struct {
	// Mode is the preferred form of conditions: HumanReadable or Optimized. Authorizers may
	// ignore the preference. If the mode is empty, the caller does not support conditions, and
	// the answer never has any.
	Mode ConditionsMode
}

// ConditionsMode is the form of conditions that a caller prefers.
type ConditionsMode string

const (
	// ConditionsModeNone means that the caller does not support conditions.
	ConditionsModeNone ConditionsMode = ""
	// ConditionsModeHumanReadable requests readable conditions with descriptions.
	ConditionsModeHumanReadable ConditionsMode = "HumanReadable"
	// ConditionsModeOptimized requests conditions that are fast to evaluate.
	ConditionsModeOptimized ConditionsMode = "Optimized"
)

// SubjectAccessReviewStatus is the answer: Allowed, Denied, or a ConditionsChain. If none of
// the three is set, no authorizer has an opinion.
type SubjectAccessReviewStatus struct {
	// Allowed is true if the request is allowed unconditionally.
	Allowed bool
	// Denied is true if the request is denied unconditionally. It is not true together with
	// Allowed.
	Denied bool
	// Reason is the reason for the answer.
	Reason string
	// EvaluationError is an error that occurred during the decision. There may be an answer in
	// spite of it.
	EvaluationError string

	// ConditionsChain is set if the review requests conditions, and the answer depends on data
	// that it does not have. Each item is the decision of one authorizer, in the order in which
	// the server calls them. The first item that does not evaluate to NoOpinion decides. If it is
	// set, Allowed and Denied are false, so that a client that does not know the field reads NoOpinion.
	ConditionsChain []SubjectAccessReviewConditionSet

	// ConditionalDecision is set instead of ConditionsChain if the review has
	// AuthorizationOptions: the same conditions in the form that is proposed for Kubernetes. The
	// other fields are then empty.
	ConditionalDecision *runtime.RawExtension
}

// SubjectAccessReviewConditionSet is the decision of one authorizer. At most one of Allowed,
// Denied, Conditions and ConditionsChain may be set. If none is set, the decision is
// NoOpinion.
type SubjectAccessReviewConditionSet struct {
	// Allowed means that the authorizer allows the request unconditionally.
	Allowed bool
	// Denied means that the authorizer denies the request unconditionally.
	Denied bool

	// FailureMode is the decision of the set if one of its Deny conditions fails, or if a
	// condition that the decision depends on cannot be evaluated: Deny, which is the default,
	// or NoOpinion. It has no meaning without conditions; the sets of a ConditionsChain have
	// failure modes of their own. A Deny condition for which the time or the budget does not
	// suffice denies in any case.
	FailureMode FailureMode

	// AuthorizerName is the name of the authorizer that made this decision. It is unique in
	// its list, and at most 253 bytes long.
	AuthorizerName string

	// Conditions are evaluated together; their order has no meaning. At most 128.
	Conditions []SubjectAccessReviewCondition

	// ConditionsChain is set if the authorizer is itself a chain of authorizers. It is
	// evaluated like the ConditionsChain of a status.
	ConditionsChain []SubjectAccessReviewConditionSet
}

// FailureMode is the decision of a condition set whose evaluation fails (KEP-5681, "Computing
// a concrete decision from a ConditionSet").
type FailureMode string

const (
	// FailureModeDeny denies the request.
	FailureModeDeny FailureMode = "Deny"
	// FailureModeNoOpinion leaves the decision to later authorizers.
	FailureModeNoOpinion FailureMode = "NoOpinion"
)

// SubjectAccessReviewCondition is a function of the data that is unknown at authorization. It
// yields true or false (KEP-5681, "Condition and ConditionSet data model").
type SubjectAccessReviewCondition struct {
	// ID identifies the condition in its set, and is shown in messages. It is a label key with
	// a domain prefix, such as example.com/no-exec. Domains under k8s.io and kubernetes.io are
	// reserved.
	ID string
	// Effect is the effect of the condition if it is true.
	Effect ConditionEffect
	// Type is the language of the condition, a label key with a domain prefix, such as
	// k8s.io/authorization-cel.
	Type string
	// Condition is the text of the condition in the language of its type, at most 10240 bytes.
	// It may be empty if the type needs only the ID.
	Condition string
	// Description is shown to users. At most 1024 bytes.
	Description string
}

// ConditionEffect is the effect of a condition that is true (KEP-5681, "Condition and
// ConditionSet data model").
type ConditionEffect string

const (
	// ConditionEffectAllow allows the request, unless a condition with another effect in the
	// same set is true.
	ConditionEffectAllow ConditionEffect = "Allow"
	// ConditionEffectDeny denies the request, even if other conditions are true. Later
	// authorizers are not called.
	ConditionEffectDeny ConditionEffect = "Deny"
	// ConditionEffectNoOpinion overrides the Allow conditions of its own set. Later
	// authorizers are still called.
	ConditionEffectNoOpinion ConditionEffect = "NoOpinion"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConditionsReview asks an authorizer to evaluate the conditions that a
// SubjectAccessReview returned, with the data that was unknown then (KEP-5681, "Supporting
// webhooks through the AuthorizationConditionsReview API").
type AuthorizationConditionsReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// Request has the conditions and the data.
	Request *AuthorizationConditionsRequest
	// Response is the answer of the server.
	Response *AuthorizationConditionsResponse
}

// AuthorizationConditionsRequest has conditions, and the data with which they are evaluated. It has one of
// two forms, which must not be mixed: Decision and AdmissionRequest are the form that is proposed for
// Kubernetes, and all other fields are the form of KEP-5681.
type AuthorizationConditionsRequest struct {
	// Decision is the ConditionalDecision that a SubjectAccessReview returned, unmodified.
	Decision *runtime.RawExtension
	// AdmissionRequest is the request, as an AdmissionRequest of admission.k8s.io/v1. Its UID is
	// required.
	AdmissionRequest *runtime.RawExtension

	// ConditionSets is the conditionsChain that a SubjectAccessReview returned, unmodified and
	// in order. At most 32 sets and 512 conditions in total, with at most 8 levels of nesting.
	ConditionSets []SubjectAccessReviewConditionSet

	// Operation is the operation on the object: CREATE, UPDATE, DELETE or CONNECT. It is required,
	// unless Impersonation or Decision is set. With Impersonation and without Operation, Object,
	// OldObject, Options, DryRun and NamespaceObject are still unknown, and the response may have
	// residual conditions on them.
	Operation Operation
	// Kind is the kind of the object in the request.
	Kind *metav1.GroupVersionKind
	// resource is the resource of the request.
	Resource *metav1.GroupVersionResource
	// subResource is the subresource of the request, if any.
	SubResource string
	// name is the name of the object, if it is known.
	Name string
	// namespace is the namespace of the request, if any.
	Namespace string
	// NamespaceObject is the Namespace of the request. Conditions can read its metadata.
	NamespaceObject *runtime.RawExtension
	// UserInfo is the user who makes the request.
	UserInfo *authenticationv1.UserInfo
	// Object is the object of the request after mutating admission; for CONNECT, the options
	// of the connection. If it is absent, conditions read null.
	Object *runtime.RawExtension
	// OldObject is the stored object, for UPDATE and DELETE. If it is absent, conditions read
	// null.
	OldObject *runtime.RawExtension
	// Options are the options of the operation, such as meta.k8s.io/v1 CreateOptions. If they
	// are absent, conditions read null.
	Options *runtime.RawExtension
	// DryRun is true if the request will not be persisted.
	DryRun bool

	// Impersonation is set if the conditions are from an impersonation check.
	Impersonation *ImpersonationData
}

// Operation is an operation on an object.
type Operation string

const (
	// OperationCreate creates an object.
	OperationCreate Operation = "CREATE"
	// OperationUpdate changes an object, by an update or a patch.
	OperationUpdate Operation = "UPDATE"
	// OperationDelete deletes an object.
	OperationDelete Operation = "DELETE"
	// OperationConnect opens a connection to a subresource.
	OperationConnect Operation = "CONNECT"
)

// ImpersonationData is the data that conditions of an impersonation check can read (KEP-5681,
// "Constrained Impersonation through Conditional Authorization").
type ImpersonationData struct {
	// Request is the request of the impersonated user; the CEL variable is
	// impersonatedRequest.
	Request ImpersonatedRequest
	// User is the impersonated user; the CEL variable is impersonatedUser.
	User authenticationv1.UserInfo
}

// ImpersonatedRequest describes the request of an impersonated user. It has the fields of the
// CEL variable impersonatedRequest.
type ImpersonatedRequest struct {
	// verb is the verb of the request, such as get.
	Verb string
	// apiGroup is the API group of the resource.
	APIGroup string
	// apiVersion is the version of the resource, without the group.
	APIVersion string
	// resource is the resource, such as pods.
	Resource string
	// subresource is the subresource, such as exec.
	Subresource string
	// namespace is the namespace of the request.
	Namespace string
	// name is the name of the object.
	Name string
	// path is the path of a request outside the API resources.
	Path string
}

// AuthorizationConditionsResponse is the result of evaluating the conditions. If Allowed,
// Denied and ConditionSets are all unset, the decision is NoOpinion.
type AuthorizationConditionsResponse struct {
	// allowed means that the conditions allow the request.
	Allowed bool
	// denied means that the conditions deny the request.
	Denied bool
	// Reason names the conditions that decided, with their descriptions.
	Reason string
	// EvaluationError has the errors that occurred, including errors for which a failure mode
	// decided.
	EvaluationError string

	// ConditionSets has the residual conditions. It is set only if the request has no
	// Operation, that is, before the object is known.
	ConditionSets []SubjectAccessReviewConditionSet

	// UID is the UID of the AdmissionRequest.
	UID types.UID
	// Decision is the answer to a request that has a Decision: Allow, Deny or NoOpinion, in the form
	// that is proposed for Kubernetes. Allowed is false then, whatever the answer is.
	Decision *runtime.RawExtension
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ImpersonationReview asks whether a requester may make a request as another user. The answer
// is the decision of an API server's impersonation filter on the request with Impersonate-
// headers, and the reason for it (KEP-5284).
type ImpersonationReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// Spec describes the requester, the impersonated user and the request.
	Spec ImpersonationReviewSpec

	// Status is the answer of the server.
	Status ImpersonationReviewStatus
}

// ImpersonationReviewSpec describes an impersonated request. Exactly one of ResourceAttributes
// and NonResourceAttributes must be set.
type ImpersonationReviewSpec struct {
	// User is the name of the requester, who impersonates. If User, UID, Groups and Extra are
	// omitted, the requester is the caller. A review about a requester that is named here
	// needs permission to create subjectaccessreviews.
	User string
	// UID identifies the requester even if the name changes.
	UID string
	// groups are the groups of the requester.
	Groups []string
	// Extra is additional information about the requester from the authenticator, such as the
	// node of a service account.
	Extra map[string]authorizationv1.ExtraValue

	// Impersonate is the user to impersonate, as in the Impersonate- headers. A user name is
	// required. At most 128 groups and 128 values of extra.
	Impersonate authenticationv1.UserInfo

	// ResourceAttributes describes a request for an API resource. Its verb and resource are
	// required.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// NonResourceAttributes describes a request for a path outside the API resources. Its verb
	// and path are required.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// ConditionalAuthorization requests conditions: the conditions of the RequestDecision, and
	// the conditions on which checks depended.
	ConditionalAuthorization *ConditionalAuthorizationConfiguration
}

// ImpersonationMode is a way to impersonate with its own permissions (KEP-5284).
type ImpersonationMode string

const (
	// ImpersonationModeAssociatedNode impersonates the node on which the requesting service
	// account runs.
	ImpersonationModeAssociatedNode ImpersonationMode = "associated-node"
	// ImpersonationModeArbitraryNode impersonates a node.
	ImpersonationModeArbitraryNode ImpersonationMode = "arbitrary-node"
	// ImpersonationModeServiceAccount impersonates a service account.
	ImpersonationModeServiceAccount ImpersonationMode = "serviceaccount"
	// ImpersonationModeUserInfo impersonates any other user.
	ImpersonationModeUserInfo ImpersonationMode = "user-info"
	// ImpersonationModeConditional impersonates any user, on conditions (KEP-5681,
	// "Constrained Impersonation through Conditional Authorization").
	ImpersonationModeConditional ImpersonationMode = "conditional"
	// ImpersonationModeLegacy impersonates for any request, with the verb impersonate.
	ImpersonationModeLegacy ImpersonationMode = "legacy"
)

// ImpersonationReviewStatus is the answer: Allowed, Denied, or a ConditionsChain.
type ImpersonationReviewStatus struct {
	// Allowed is true if the requester may impersonate the user for this request. The
	// RequestDecision shows whether the impersonated user may make the request.
	Allowed bool
	// denied is true if the impersonation would be refused.
	Denied bool
	// Reason is the reason for a denial, usually the text of the 403 answer.
	Reason string
	// EvaluationError is an error that occurred during the decision.
	EvaluationError string

	// mode is the mode that allows the impersonation, on the conditions of ConditionsChain if it is
	// set.
	Mode ImpersonationMode
	// Constraint is the verb that allows the impersonation, as audit events record it in
	// authenticationMetadata.impersonationConstraint. It is empty for the mode legacy.
	Constraint string
	// ImpersonatedUser is the impersonated user as the server sees it, including the groups
	// that the server adds.
	ImpersonatedUser *authenticationv1.UserInfo

	// Checks are the authorization checks that were made, in order. Values of extra are
	// checked in the order of their keys.
	Checks []ImpersonationCheck

	// ConditionsChain is set if the impersonation is neither allowed nor denied. It has
	// deny-only conditions on the object. A server evaluates them before all other decisions
	// on the request; in an AuthorizationConditionsReview they precede the ConditionsChain of
	// the RequestDecision.
	ConditionsChain []SubjectAccessReviewConditionSet

	// RequestDecision shows whether the impersonated user may make the request. It is set only
	// if the impersonation is not denied.
	RequestDecision *SubjectAccessReviewStatus
}

// ImpersonationCheck is one authorization check of the requester. Exactly one of
// resourceAttributes and nonResourceAttributes is set.
type ImpersonationCheck struct {
	// Mode is the mode of the check.
	Mode ImpersonationMode
	// ResourceAttributes are the attributes of a check on a resource.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// NonResourceAttributes are the attributes of a check on a path.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// allowed is true if the check passed.
	Allowed bool
	// Denied is true if an authorizer denied the check. A check that is neither allowed nor
	// denied has not passed either: no authorizer allowed it.
	Denied bool
	// Reason is the reason for the result of the check.
	Reason string
	// evaluationError is an error that occurred in the check.
	EvaluationError string

	// ConditionsChain has the conditions on which the check depended, in the mode conditional.
	// Allowed and Denied are their result.
	ConditionsChain []SubjectAccessReviewConditionSet
}
