/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SubjectAccessReview asks whether a user or group may make a request, and on what conditions.
type SubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the request.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is the answer of the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SelfSubjectAccessReview asks whether the caller may make a request, and on what conditions.
type SelfSubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the request. The user is the caller.
	Spec SelfSubjectAccessReviewSpec `json:"spec"`

	// status is the answer of the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LocalSubjectAccessReview asks whether a user or group may make a request in the namespace of
// the review, and on what conditions.
type LocalSubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty except for the namespace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the request. Its namespace must be the namespace of the review.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is the answer of the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// SubjectAccessReviewSpec describes a request. Exactly one of resourceAttributes and
// nonResourceAttributes must be set, and at least one of user and groups.
type SubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes describes a request for a path outside the API resources.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// user is the name of the user. A user without groups counts as a member of no group.
	// +optional
	User string `json:"user,omitempty"`
	// groups are the groups of the user.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// extra is additional information about the user from the authenticator.
	// +optional
	Extra map[string]authorizationv1.ExtraValue `json:"extra,omitempty"`
	// uid identifies the user even if the name changes.
	// +optional
	UID string `json:"uid,omitempty"`

	// conditionalAuthorization requests conditions. If neither it nor authorizationOptions is set, the
	// answer has no conditions: a conditional decision becomes Deny if a condition could deny,
	// Allow if every value of the conditions allows, and NoOpinion otherwise.
	// +optional
	ConditionalAuthorization *ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`

	// authorizationOptions requests conditions in the form that is proposed for Kubernetes. It
	// cannot be set together with conditionalAuthorization. Without the feature gate
	// UpstreamConditionalDecisions it is ignored.
	// +optional
	AuthorizationOptions *AuthorizationOptions `json:"authorizationOptions,omitempty"`
}

// SelfSubjectAccessReviewSpec describes a request of the caller. Exactly one of
// resourceAttributes and nonResourceAttributes must be set.
type SelfSubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes describes a request for a path outside the API resources.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// conditionalAuthorization requests conditions. If neither it nor authorizationOptions is set, the
	// answer has no conditions: a conditional decision becomes Deny if a condition could deny,
	// Allow if every value of the conditions allows, and NoOpinion otherwise.
	// +optional
	ConditionalAuthorization *ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`

	// authorizationOptions requests conditions in the form that is proposed for Kubernetes. It
	// cannot be set together with conditionalAuthorization. Without the feature gate
	// UpstreamConditionalDecisions it is ignored.
	// +optional
	AuthorizationOptions *AuthorizationOptions `json:"authorizationOptions,omitempty"`
}

// AuthorizationOptions says which answers the caller of a review handles, in the form that is
// proposed for Kubernetes.
type AuthorizationOptions struct {
	// handledDecisionTypes are the types of decisions that the caller handles. With ConditionsMap
	// and Union the answer may have a conditionalDecision. Types that are not known are ignored.
	// At most 16, each at most 64 bytes.
	// +optional
	// +listType=atomic
	HandledDecisionTypes []string `json:"handledDecisionTypes,omitempty"`
}

// ConditionalAuthorizationConfiguration configures conditional authorization for a review
// (KEP-5681, "Changes to (Self)SubjectAccessReview").
type ConditionalAuthorizationConfiguration struct {
	// mode is the preferred form of conditions: HumanReadable or Optimized. Authorizers may
	// ignore the preference. If the mode is empty, the caller does not support conditions, and
	// the answer never has any.
	// +optional
	Mode ConditionsMode `json:"mode,omitempty"`
}

// ConditionsMode is the form of conditions that a caller prefers.
// +enum
type ConditionsMode string

const (
	// ConditionsModeNone means that the caller does not support conditions.
	ConditionsModeNone ConditionsMode = ""
	// ConditionsModeHumanReadable requests readable conditions with descriptions.
	ConditionsModeHumanReadable ConditionsMode = "HumanReadable"
	// ConditionsModeOptimized requests conditions that are fast to evaluate.
	ConditionsModeOptimized ConditionsMode = "Optimized"
)

// SubjectAccessReviewStatus is the answer: allowed, denied, or a conditionsChain. If none of
// the three is set, no authorizer has an opinion.
type SubjectAccessReviewStatus struct {
	// allowed is true if the request is allowed unconditionally.
	Allowed bool `json:"allowed"`
	// denied is true if the request is denied unconditionally. It is not true together with
	// allowed.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason is the reason for the answer.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError is an error that occurred during the decision. There may be an answer in
	// spite of it.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// conditionsChain is set if the review requests conditions, and the answer depends on data
	// that it does not have. Each item is the decision of one authorizer, in the order in which
	// the server calls them. The first item that does not evaluate to NoOpinion decides. If it is
	// set, allowed and denied are false, so that a client that does not know the field reads NoOpinion.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`

	// conditionalDecision is set instead of conditionsChain if the review has
	// authorizationOptions: the same conditions in the form that is proposed for Kubernetes. The
	// other fields are then empty.
	// +optional
	ConditionalDecision *runtime.RawExtension `json:"conditionalDecision,omitempty"`
}

// SubjectAccessReviewConditionSet is the decision of one authorizer. At most one of allowed,
// denied, conditions and conditionsChain may be set. If none is set, the decision is
// NoOpinion.
type SubjectAccessReviewConditionSet struct {
	// allowed means that the authorizer allows the request unconditionally.
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// denied means that the authorizer denies the request unconditionally.
	// +optional
	Denied bool `json:"denied,omitempty"`

	// failureMode is the decision of the set if one of its Deny conditions fails, or if a
	// condition that the decision depends on cannot be evaluated: Deny, which is the default,
	// or NoOpinion. It has no meaning without conditions; the sets of a conditionsChain have
	// failure modes of their own. A Deny condition for which the time or the budget does not
	// suffice denies in any case.
	// +optional
	FailureMode FailureMode `json:"failureMode,omitempty"`

	// authorizerName is the name of the authorizer that made this decision. It is unique in
	// its list, and at most 253 bytes long.
	AuthorizerName string `json:"authorizerName"`

	// conditions are evaluated together; their order has no meaning. At most 128.
	// +optional
	// +listType=map
	// +listMapKey=id
	Conditions []SubjectAccessReviewCondition `json:"conditions,omitempty"`

	// conditionsChain is set if the authorizer is itself a chain of authorizers. It is
	// evaluated like the conditionsChain of a status. At most 8 levels, and at most 32 sets in the
	// whole chain.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`
}

// FailureMode is the decision of a condition set whose evaluation fails (KEP-5681, "Computing
// a concrete decision from a ConditionSet").
// +enum
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
	// id identifies the condition in its set, and is shown in messages. It is a label key with
	// a domain prefix, such as example.com/no-exec: at most 253 bytes before the slash, and 63
	// after it. Domains under k8s.io and kubernetes.io are reserved.
	ID string `json:"id"`
	// effect is the effect of the condition if it is true.
	Effect ConditionEffect `json:"effect"`
	// type is the language of the condition, a label key with a domain prefix, such as
	// k8s.io/authorization-cel: at most 253 bytes before the slash, and 63 after it.
	Type string `json:"type"`
	// condition is the text of the condition in the language of its type, at most 10240 bytes.
	// It may be empty if the type needs only the ID.
	// +optional
	Condition string `json:"condition,omitempty"`
	// description is shown to users. At most 1024 bytes.
	// +optional
	Description string `json:"description,omitempty"`
}

// ConditionEffect is the effect of a condition that is true (KEP-5681, "Condition and
// ConditionSet data model").
// +enum
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

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConditionsReview asks an authorizer to evaluate the conditions that a
// SubjectAccessReview returned, with the data that was unknown then (KEP-5681, "Supporting
// webhooks through the AuthorizationConditionsReview API").
type AuthorizationConditionsReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// request has the conditions and the data.
	// +optional
	Request *AuthorizationConditionsRequest `json:"request,omitempty"`
	// response is the answer of the server.
	// +optional
	Response *AuthorizationConditionsResponse `json:"response,omitempty"`
}

// AuthorizationConditionsRequest has conditions, and the data with which they are evaluated. It has one of
// two forms, which must not be mixed: decision and admissionRequest are the form that is proposed for
// Kubernetes, and all other fields are the form of KEP-5681.
type AuthorizationConditionsRequest struct {
	// decision is the conditionalDecision that a SubjectAccessReview returned, unmodified. It needs
	// the feature gate UpstreamConditionalDecisions.
	// +optional
	Decision *runtime.RawExtension `json:"decision,omitempty"`
	// admissionRequest is the request, as an AdmissionRequest of admission.k8s.io/v1. Its uid is
	// required.
	// +optional
	AdmissionRequest *runtime.RawExtension `json:"admissionRequest,omitempty"`

	// conditionSets is the conditionsChain that a SubjectAccessReview returned, unmodified and
	// in order. At most 32 sets and 512 conditions in total, with at most 8 levels of nesting.
	// +optional
	// +listType=atomic
	ConditionSets []SubjectAccessReviewConditionSet `json:"conditionSets,omitempty"`

	// operation is the operation on the object: CREATE, UPDATE, DELETE or CONNECT. It is required,
	// unless impersonation or decision is set. With impersonation and without operation, object,
	// oldObject, options, dryRun and namespaceObject are still unknown, and the response may have
	// residual conditions on them.
	// +optional
	Operation Operation `json:"operation,omitempty"`
	// kind is the kind of the object in the request.
	// +optional
	Kind *metav1.GroupVersionKind `json:"kind,omitempty"`
	// resource is the resource of the request.
	// +optional
	Resource *metav1.GroupVersionResource `json:"resource,omitempty"`
	// subResource is the subresource of the request, if any; at most 8192 bytes.
	// +optional
	SubResource string `json:"subResource,omitempty"`
	// name is the name of the object, if it is known; at most 8192 bytes.
	// +optional
	Name string `json:"name,omitempty"`
	// namespace is the namespace of the request, if any; at most 8192 bytes.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// namespaceObject is the Namespace of the request. Conditions can read its metadata.
	// +optional
	NamespaceObject *runtime.RawExtension `json:"namespaceObject,omitempty"`
	// userInfo is the user who makes the request.
	// +optional
	UserInfo *authenticationv1.UserInfo `json:"userInfo,omitempty"`
	// object is the object of the request after mutating admission; for CONNECT, the options
	// of the connection. If it is absent, conditions read null.
	// +optional
	Object *runtime.RawExtension `json:"object,omitempty"`
	// oldObject is the stored object, for UPDATE and DELETE. If it is absent, conditions read
	// null.
	// +optional
	OldObject *runtime.RawExtension `json:"oldObject,omitempty"`
	// options are the options of the operation, such as meta.k8s.io/v1 CreateOptions. If they
	// are absent, conditions read null.
	// +optional
	Options *runtime.RawExtension `json:"options,omitempty"`
	// dryRun is true if the request will not be persisted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// impersonation is set if the conditions are from an impersonation check.
	// +optional
	Impersonation *ImpersonationData `json:"impersonation,omitempty"`
}

// Operation is an operation on an object.
// +enum
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
	// request is the request of the impersonated user; the CEL variable is
	// impersonatedRequest.
	Request ImpersonatedRequest `json:"request"`
	// user is the impersonated user; the CEL variable is impersonatedUser.
	User authenticationv1.UserInfo `json:"user"`
}

// ImpersonatedRequest describes the request of an impersonated user. It has the fields of the
// CEL variable impersonatedRequest.
type ImpersonatedRequest struct {
	// verb is the verb of the request, such as get; at most 8192 bytes.
	Verb string `json:"verb"`
	// apiGroup is the API group of the resource; at most 8192 bytes.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// apiVersion is the version of the resource, without the group; at most 8192 bytes.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// resource is the resource, such as pods; at most 8192 bytes.
	// +optional
	Resource string `json:"resource,omitempty"`
	// subresource is the subresource, such as exec; at most 8192 bytes.
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// namespace is the namespace of the request; at most 8192 bytes.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object; at most 8192 bytes.
	// +optional
	Name string `json:"name,omitempty"`
	// path is the path of a request outside the API resources; at most 8192 bytes.
	// +optional
	Path string `json:"path,omitempty"`
}

// AuthorizationConditionsResponse is the result of evaluating the conditions. If allowed,
// denied and conditionSets are all unset, the decision is NoOpinion.
type AuthorizationConditionsResponse struct {
	// allowed means that the conditions allow the request.
	Allowed bool `json:"allowed"`
	// denied means that the conditions deny the request.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason names the conditions that decided, with their descriptions.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError has the errors that occurred, including errors for which a failure mode
	// decided.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// conditionSets has the residual conditions. It is set only if the request has no
	// operation, that is, before the object is known.
	// +optional
	// +listType=atomic
	ConditionSets []SubjectAccessReviewConditionSet `json:"conditionSets,omitempty"`

	// uid is the uid of the admissionRequest.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// decision is the answer to a request that has a decision: Allow, Deny or NoOpinion, in the form
	// that is proposed for Kubernetes. allowed is absent then, whatever the answer is.
	// +optional
	Decision *runtime.RawExtension `json:"decision,omitempty"`
}

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ImpersonationReview asks whether a requester may make a request as another user. The answer
// is the decision of an API server's impersonation filter on the request with Impersonate-
// headers, and the reason for it (KEP-5284).
type ImpersonationReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the requester, the impersonated user and the request.
	Spec ImpersonationReviewSpec `json:"spec"`

	// status is the answer of the server.
	// +optional
	Status ImpersonationReviewStatus `json:"status,omitempty"`
}

// ImpersonationReviewSpec describes an impersonated request. Exactly one of resourceAttributes
// and nonResourceAttributes must be set.
type ImpersonationReviewSpec struct {
	// user is the name of the requester, who impersonates. If user, uid, groups and extra are
	// omitted, the requester is the caller. A review about a requester that is named here
	// needs permission to create subjectaccessreviews.
	// +optional
	User string `json:"user,omitempty"`
	// uid identifies the requester even if the name changes.
	// +optional
	UID string `json:"uid,omitempty"`
	// groups are the groups of the requester.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// extra is additional information about the requester from the authenticator, such as the
	// node of a service account.
	// +optional
	Extra map[string]authorizationv1.ExtraValue `json:"extra,omitempty"`

	// impersonate is the user to impersonate, as in the Impersonate- headers. A user name is
	// required. At most 128 groups and 128 values of extra.
	Impersonate authenticationv1.UserInfo `json:"impersonate"`

	// resourceAttributes describes a request for an API resource. Its verb and resource are
	// required.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes describes a request for a path outside the API resources. Its verb
	// and path are required.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// conditionalAuthorization requests conditions: the conditions of the requestDecision, and
	// the conditions on which checks depended.
	// +optional
	ConditionalAuthorization *ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`
}

// ImpersonationMode is a way to impersonate with its own permissions (KEP-5284).
// +enum
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

// ImpersonationReviewStatus is the answer: allowed, denied, or a conditionsChain.
type ImpersonationReviewStatus struct {
	// allowed is true if the requester may impersonate the user for this request. The
	// requestDecision shows whether the impersonated user may make the request.
	Allowed bool `json:"allowed"`
	// denied is true if the impersonation would be refused.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason is the reason for a denial, usually the text of the 403 answer.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError is an error that occurred during the decision.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// mode is the mode that allows the impersonation, on the conditions of conditionsChain if it is
	// set.
	// +optional
	Mode ImpersonationMode `json:"mode,omitempty"`
	// constraint is the verb that allows the impersonation, as audit events record it in
	// authenticationMetadata.impersonationConstraint. It is empty for the mode legacy.
	// +optional
	Constraint string `json:"constraint,omitempty"`
	// impersonatedUser is the impersonated user as the server sees it, including the groups
	// that the server adds.
	// +optional
	ImpersonatedUser *authenticationv1.UserInfo `json:"impersonatedUser,omitempty"`

	// checks are the authorization checks that were made, in order. Values of extra are
	// checked in the order of their keys.
	// +optional
	// +listType=atomic
	Checks []ImpersonationCheck `json:"checks,omitempty"`

	// conditionsChain is set if the impersonation is neither allowed nor denied. It has
	// deny-only conditions on the object. A server evaluates them before all other decisions
	// on the request; in an AuthorizationConditionsReview they precede the conditionsChain of
	// the requestDecision.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`

	// requestDecision shows whether the impersonated user may make the request. It is set only
	// if the impersonation is not denied.
	// +optional
	RequestDecision *SubjectAccessReviewStatus `json:"requestDecision,omitempty"`
}

// ImpersonationCheck is one authorization check of the requester. Exactly one of
// resourceAttributes and nonResourceAttributes is set.
type ImpersonationCheck struct {
	// mode is the mode of the check.
	Mode ImpersonationMode `json:"mode"`
	// resourceAttributes are the attributes of a check on a resource.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes are the attributes of a check on a path.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// allowed is true if the check passed.
	Allowed bool `json:"allowed"`
	// denied is true if an authorizer denied the check. A check that is neither allowed nor
	// denied has not passed either: no authorizer allowed it.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason is the reason for the result of the check.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError is an error that occurred in the check.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// conditionsChain has the conditions on which the check depended, in the mode conditional.
	// allowed and denied are their result.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`
}
