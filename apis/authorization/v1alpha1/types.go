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
)

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SubjectAccessReview asks whether a user or group may perform an action, and on
// what conditions.
type SubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the request that is asked about.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is filled in by the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SelfSubjectAccessReview asks whether the caller may perform an action, and on
// what conditions.
type SelfSubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the request that is asked about. The user is the caller.
	Spec SelfSubjectAccessReviewSpec `json:"spec"`

	// status is filled in by the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LocalSubjectAccessReview asks whether a user or group may perform an action in
// the namespace of the review, and on what conditions.
type LocalSubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty except for the namespace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the request that is asked about. Its namespace must equal the
	// namespace of the review.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is filled in by the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// SubjectAccessReviewSpec describes the request that is asked about. Exactly one of
// resourceAttributes and nonResourceAttributes must be set, and at least one of user
// and groups.
type SubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes describes a request for a path outside the API resources.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// user is the name of the user who is asked about. A user without groups is taken
	// to be a member of no group.
	// +optional
	User string `json:"user,omitempty"`
	// groups are the groups that are asked about.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// extra is what an authenticator would add to the user.
	// +optional
	Extra map[string]authorizationv1.ExtraValue `json:"extra,omitempty"`
	// uid identifies the user across changes of name.
	// +optional
	UID string `json:"uid,omitempty"`

	// conditionalAuthorization says whether and how the caller wants conditions. When it
	// is unset, conditions are never returned: an answer that would have been conditional
	// becomes Deny if it could have denied, NoOpinion otherwise.
	// +optional
	ConditionalAuthorization *ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`
}

// SelfSubjectAccessReviewSpec describes a request of the caller's own. Exactly one of
// resourceAttributes and nonResourceAttributes must be set.
type SelfSubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes describes a request for a path outside the API resources.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// conditionalAuthorization says whether and how the caller wants conditions. When it
	// is unset, conditions are never returned: an answer that would have been conditional
	// becomes Deny if it could have denied, NoOpinion otherwise.
	// +optional
	ConditionalAuthorization *ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`
}

// ConditionalAuthorizationConfiguration is what a caller says about conditional
// authorization (KEP-5681, "Changes to (Self)SubjectAccessReview").
type ConditionalAuthorizationConfiguration struct {
	// mode says that the caller supports conditions, and in which form it prefers them.
	// Empty means that it does not support them. The form is a wish that an authorizer may
	// ignore; that an empty mode never returns conditions is a promise.
	// +optional
	Mode ConditionsMode `json:"mode,omitempty"`
}

// ConditionsMode is the form in which a caller prefers conditions.
// +enum
type ConditionsMode string

const (
	// ConditionsModeNone says that the caller does not support conditions.
	ConditionsModeNone ConditionsMode = ""
	// ConditionsModeHumanReadable asks for conditions that a person can read, with
	// descriptions.
	ConditionsModeHumanReadable ConditionsMode = "HumanReadable"
	// ConditionsModeOptimized asks for conditions that are fast to evaluate.
	ConditionsModeOptimized ConditionsMode = "Optimized"
)

// SubjectAccessReviewStatus is the answer. An answer is one of: allowed; denied; a
// non-empty conditionsChain; none of the three, which means that no authorizer has an
// opinion.
type SubjectAccessReviewStatus struct {
	// allowed is true if the action would be allowed unconditionally.
	Allowed bool `json:"allowed"`
	// denied is true if the action would be denied unconditionally. It may not be true
	// together with allowed.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason says why the answer is what it is.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError is an error that occurred while deciding. It is possible to get an
	// error and still an answer.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// conditionsChain is set when the answer depends on data that is not part of the
	// question. Each item is the answer of one authorizer, in the order in which the
	// server asks them. The first item that does not evaluate to NoOpinion decides. When it
	// is set, allowed and denied are false, so that a client that does not know the field
	// sees NoOpinion.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`
}

// SubjectAccessReviewConditionSet is the answer of one authorizer. At most one of
// allowed, denied, conditions and conditionsChain may be set; none of them means
// NoOpinion.
type SubjectAccessReviewConditionSet struct {
	// allowed means that the authorizer allows unconditionally.
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// denied means that the authorizer denies unconditionally.
	// +optional
	Denied bool `json:"denied,omitempty"`

	// failureMode says what it counts as if a Deny condition of this set is an error, or
	// if a condition on which the set depends cannot be evaluated: Deny, which is the
	// default, or NoOpinion. It has no meaning for an item without conditions; those of a
	// conditionsChain have their own.
	// +optional
	FailureMode FailureMode `json:"failureMode,omitempty"`

	// authorizerName names the authorizer that gave this answer. It is unique among the
	// items of the list that it is in, and at most 253 bytes long.
	AuthorizerName string `json:"authorizerName"`

	// conditions are evaluated together; their order has no meaning. At most 128.
	// +optional
	// +listType=map
	// +listMapKey=id
	Conditions []SubjectAccessReviewCondition `json:"conditions,omitempty"`

	// conditionsChain is set when the authorizer is itself composed of authorizers. It
	// evaluates as the chain of a status does.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`
}

// FailureMode says what an error in evaluating a condition set counts as (KEP-5681,
// "Computing a concrete decision from a ConditionSet").
// +enum
type FailureMode string

const (
	// FailureModeDeny turns an error into Deny.
	FailureModeDeny FailureMode = "Deny"
	// FailureModeNoOpinion turns an error into NoOpinion, so that later authorizers are
	// asked.
	FailureModeNoOpinion FailureMode = "NoOpinion"
)

// SubjectAccessReviewCondition is a function from the data that was unknown at
// authorization to true or false (KEP-5681, "Condition and ConditionSet data model").
type SubjectAccessReviewCondition struct {
	// id identifies the condition within its set and is shown in messages. It is a label
	// key with a domain prefix, such as example.com/no-exec. Domains under k8s.io and
	// kubernetes.io are reserved.
	ID string `json:"id"`
	// effect says what the condition being true means.
	Effect ConditionEffect `json:"effect"`
	// type is the language of the condition, a label key with a domain prefix, such as
	// k8s.io/authorization-cel.
	Type string `json:"type"`
	// condition is the text of the condition in the language of its type, at most 10240
	// bytes. It may be empty for a type that needs only the ID.
	// +optional
	Condition string `json:"condition,omitempty"`
	// description is for people: it is shown when the condition decides. At most 1024
	// bytes.
	// +optional
	Description string `json:"description,omitempty"`
}

// ConditionEffect says what a condition being true means (KEP-5681, "Condition and
// ConditionSet data model").
// +enum
type ConditionEffect string

const (
	// ConditionEffectAllow allows, unless a condition of another effect in the same set
	// prevents it.
	ConditionEffectAllow ConditionEffect = "Allow"
	// ConditionEffectDeny denies, whatever else is true, and no later authorizer is asked.
	ConditionEffectDeny ConditionEffect = "Deny"
	// ConditionEffectNoOpinion overrides the Allow conditions of its own set. Later
	// authorizers are still asked.
	ConditionEffectNoOpinion ConditionEffect = "NoOpinion"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConditionsReview asks an authorizer to evaluate the conditions that a
// SubjectAccessReview returned against the data that was missing then (KEP-5681,
// "Supporting webhooks through the AuthorizationConditionsReview API").
type AuthorizationConditionsReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// request holds the conditions and the data.
	// +optional
	Request *AuthorizationConditionsRequest `json:"request,omitempty"`
	// response is filled in by the server.
	// +optional
	Response *AuthorizationConditionsResponse `json:"response,omitempty"`
}

// AuthorizationConditionsRequest holds the conditions and the data to evaluate them
// against.
type AuthorizationConditionsRequest struct {
	// conditionSets is the conditionsChain that a SubjectAccessReview returned, unmodified
	// and in order. At most 32 sets and 512 conditions in all, nested at most 8 deep.
	// +listType=atomic
	ConditionSets []SubjectAccessReviewConditionSet `json:"conditionSets"`

	// operation is what is being done to the object: CREATE, UPDATE, DELETE or CONNECT. It
	// may be empty only when impersonation is set: then object, oldObject, options, dryRun
	// and namespaceObject are not known yet, and the response may hold remaining
	// conditions on them.
	// +optional
	Operation Operation `json:"operation,omitempty"`
	// kind is the kind of the object in the request.
	// +optional
	Kind *metav1.GroupVersionKind `json:"kind,omitempty"`
	// resource is the resource of the request.
	// +optional
	Resource *metav1.GroupVersionResource `json:"resource,omitempty"`
	// subResource is the subresource of the request, if any.
	// +optional
	SubResource string `json:"subResource,omitempty"`
	// name is the name of the object. It may be empty for CREATE.
	// +optional
	Name string `json:"name,omitempty"`
	// namespace is the namespace of the request, if any.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// namespaceObject is the Namespace that the request is in; conditions see its metadata.
	// +optional
	NamespaceObject *runtime.RawExtension `json:"namespaceObject,omitempty"`
	// userInfo is the user who makes the request.
	// +optional
	UserInfo *authenticationv1.UserInfo `json:"userInfo,omitempty"`
	// object is the object of the request after mutation. For CONNECT it is the options of
	// the connection. Conditions see null when it is absent.
	// +optional
	Object *runtime.RawExtension `json:"object,omitempty"`
	// oldObject is the stored object, for UPDATE and DELETE. Conditions see null when it is
	// absent.
	// +optional
	OldObject *runtime.RawExtension `json:"oldObject,omitempty"`
	// options are the options of the operation, such as meta.k8s.io/v1 CreateOptions.
	// Conditions see null when they are absent.
	// +optional
	Options *runtime.RawExtension `json:"options,omitempty"`
	// dryRun says that nothing will be persisted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// impersonation is set when the conditions came from an impersonation check.
	// +optional
	Impersonation *ImpersonationData `json:"impersonation,omitempty"`
}

// Operation is what is being done to an object.
// +enum
type Operation string

const (
	// OperationCreate creates an object.
	OperationCreate Operation = "CREATE"
	// OperationUpdate changes an object; a patch is an update.
	OperationUpdate Operation = "UPDATE"
	// OperationDelete deletes an object.
	OperationDelete Operation = "DELETE"
	// OperationConnect opens a connection to a subresource.
	OperationConnect Operation = "CONNECT"
)

// ImpersonationData is what conditions of an impersonation check may refer to
// (KEP-5681, "Constrained Impersonation through Conditional Authorization").
type ImpersonationData struct {
	// request is the request that is made while impersonating; impersonatedRequest in CEL.
	Request ImpersonatedRequest `json:"request"`
	// user is the user who is impersonated; impersonatedUser in CEL.
	User authenticationv1.UserInfo `json:"user"`
}

// ImpersonatedRequest describes a request that is made while impersonating. The fields
// are those of the CEL variable impersonatedRequest.
type ImpersonatedRequest struct {
	// verb is the verb of the request, such as get.
	Verb string `json:"verb"`
	// apiGroup is the API group of the resource.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// apiVersion is the version of the resource, without the group.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// resource is the resource, such as pods.
	// +optional
	Resource string `json:"resource,omitempty"`
	// subresource is the subresource, such as exec.
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// namespace is the namespace of the request.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	// +optional
	Name string `json:"name,omitempty"`
	// path is the path of a request outside the API resources.
	// +optional
	Path string `json:"path,omitempty"`
}

// AuthorizationConditionsResponse is the decision that the conditions evaluate to. None
// of allowed, denied and conditionSets means NoOpinion.
type AuthorizationConditionsResponse struct {
	// allowed means that the conditions allow the request.
	Allowed bool `json:"allowed"`
	// denied means that the conditions deny the request.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason says which condition decided, with its description.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError holds the errors that occurred, also those that the failure mode
	// turned into a decision.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// conditionSets holds what remains to be evaluated. It is set only for requests without
	// operation, that is, before the object is known.
	// +optional
	// +listType=atomic
	ConditionSets []SubjectAccessReviewConditionSet `json:"conditionSets,omitempty"`
}

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ImpersonationReview asks whether somebody may make a request as somebody else: what
// the impersonation filter of an API server would answer to the request with
// Impersonate- headers, and why (KEP-5284).
type ImpersonationReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes who makes which request as whom.
	Spec ImpersonationReviewSpec `json:"spec"`

	// status is filled in by the server.
	// +optional
	Status ImpersonationReviewStatus `json:"status,omitempty"`
}

// ImpersonationReviewSpec describes an impersonated request. Exactly one of
// resourceAttributes and nonResourceAttributes must be set.
type ImpersonationReviewSpec struct {
	// user is the name of the requester, who impersonates. It may be omitted, together with
	// uid, groups and extra: then the requester is the caller. To ask about a requester
	// who is named here takes permission to create subjectaccessreviews.
	// +optional
	User string `json:"user,omitempty"`
	// uid identifies the requester across changes of name.
	// +optional
	UID string `json:"uid,omitempty"`
	// groups are the groups of the requester.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// extra is what an authenticator would add to the requester, such as the node that a
	// service account runs on.
	// +optional
	Extra map[string]authorizationv1.ExtraValue `json:"extra,omitempty"`

	// impersonate is who is to be impersonated: what the Impersonate- headers would say. A
	// user name is required. At most 128 groups and 128 values of extra.
	Impersonate authenticationv1.UserInfo `json:"impersonate"`

	// resourceAttributes describes the request, which is for an API resource. Its verb and
	// resource are required.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes describes the request, which is for a path outside the API
	// resources. Its verb and path are required.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// conditionalAuthorization says whether and how the caller wants conditions: those of the
	// requestDecision, and those on which a check depended.
	// +optional
	ConditionalAuthorization *ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`
}

// ImpersonationMode is a way of impersonating that has permissions of its own (KEP-5284).
// +enum
type ImpersonationMode string

const (
	// ImpersonationModeAssociatedNode impersonates the node that a service account runs on.
	ImpersonationModeAssociatedNode ImpersonationMode = "associated-node"
	// ImpersonationModeArbitraryNode impersonates a node.
	ImpersonationModeArbitraryNode ImpersonationMode = "arbitrary-node"
	// ImpersonationModeServiceAccount impersonates a service account.
	ImpersonationModeServiceAccount ImpersonationMode = "serviceaccount"
	// ImpersonationModeUserInfo impersonates anybody else.
	ImpersonationModeUserInfo ImpersonationMode = "user-info"
	// ImpersonationModeConditional impersonates anybody, on conditions (KEP-5681, "Constrained
	// Impersonation through Conditional Authorization").
	ImpersonationModeConditional ImpersonationMode = "conditional"
	// ImpersonationModeLegacy impersonates for any request, with the verb impersonate.
	ImpersonationModeLegacy ImpersonationMode = "legacy"
)

// ImpersonationReviewStatus is the answer: allowed, or denied.
type ImpersonationReviewStatus struct {
	// allowed is true if the requester may impersonate for this request. Whether the
	// impersonated user may make it is the requestDecision.
	Allowed bool `json:"allowed"`
	// denied is true if the impersonation would be refused.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason says why it would be refused, in the words of the refusal.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError is an error that occurred while deciding.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// mode is the mode that allows the impersonation.
	// +optional
	Mode ImpersonationMode `json:"mode,omitempty"`
	// constraint is the verb that allows the impersonation, as audit would record it in
	// authenticationMetadata.impersonationConstraint. It is empty for the mode legacy.
	// +optional
	Constraint string `json:"constraint,omitempty"`
	// impersonatedUser is the user that the server would see, with the groups that every
	// such user is in.
	// +optional
	ImpersonatedUser *authenticationv1.UserInfo `json:"impersonatedUser,omitempty"`

	// checks are the authorization checks that were made, in order. The values of extra
	// are checked in the order of their keys.
	// +optional
	// +listType=atomic
	Checks []ImpersonationCheck `json:"checks,omitempty"`

	// conditionsChain is what the impersonation depends on if it is neither allowed nor
	// denied: conditions on the object, each of which denies. A server puts them before
	// everything else that decides the request; in an AuthorizationConditionsReview they come
	// before the conditionsChain of the requestDecision.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`

	// requestDecision says whether the impersonated user may make the request. It is only
	// there if the impersonation is not denied.
	// +optional
	RequestDecision *SubjectAccessReviewStatus `json:"requestDecision,omitempty"`
}

// ImpersonationCheck is one authorization check of the requester. Exactly one of
// resourceAttributes and nonResourceAttributes is set.
type ImpersonationCheck struct {
	// mode is the mode that the check belongs to.
	Mode ImpersonationMode `json:"mode"`
	// resourceAttributes are what was checked.
	// +optional
	ResourceAttributes *authorizationv1.ResourceAttributes `json:"resourceAttributes,omitempty"`
	// nonResourceAttributes are what was checked.
	// +optional
	NonResourceAttributes *authorizationv1.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	// allowed is true if the check passed.
	Allowed bool `json:"allowed"`
	// denied is true if an authorizer denied. A check that is neither allowed nor denied
	// has not passed either: nobody allowed it.
	// +optional
	Denied bool `json:"denied,omitempty"`
	// reason says why the check came out as it did.
	// +optional
	Reason string `json:"reason,omitempty"`
	// evaluationError is an error that occurred in the check.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// conditionsChain are the conditions on which the check depended, in the mode
	// conditional. They have been evaluated for allowed and denied.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`
}
