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
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SubjectAccessReview asks whether a user or group may perform an action, and on
// what conditions.
type SubjectAccessReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// spec describes the request that is asked about.
	Spec SubjectAccessReviewSpec

	// status is filled in by the server.
	Status SubjectAccessReviewStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SelfSubjectAccessReview asks whether the caller may perform an action, and on
// what conditions.
type SelfSubjectAccessReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// spec describes the request that is asked about. The user is the caller.
	Spec SelfSubjectAccessReviewSpec

	// status is filled in by the server.
	Status SubjectAccessReviewStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LocalSubjectAccessReview asks whether a user or group may perform an action in
// the namespace of the review, and on what conditions.
type LocalSubjectAccessReview struct {
	metav1.TypeMeta
	// metadata must be empty except for the namespace.
	metav1.ObjectMeta

	// spec describes the request that is asked about. Its namespace must equal the
	// namespace of the review.
	Spec SubjectAccessReviewSpec

	// status is filled in by the server.
	Status SubjectAccessReviewStatus
}

// SubjectAccessReviewSpec describes the request that is asked about. Exactly one of
// resourceAttributes and nonResourceAttributes must be set, and at least one of user
// and groups.
type SubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// nonResourceAttributes describes a request for a path outside the API resources.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// user is the name of the user who is asked about. A user without groups is taken
	// to be a member of no group.
	User string
	// groups are the groups that are asked about.
	Groups []string
	// extra is what an authenticator would add to the user.
	Extra map[string]authorizationv1.ExtraValue
	// uid identifies the user across changes of name.
	UID string

	// conditionalAuthorization says whether and how the caller wants conditions. When it
	// is unset, conditions are never returned: an answer that would have been conditional
	// becomes Deny if it could have denied, NoOpinion otherwise.
	ConditionalAuthorization *ConditionalAuthorizationConfiguration
}

// SelfSubjectAccessReviewSpec describes a request of the caller's own. Exactly one of
// resourceAttributes and nonResourceAttributes must be set.
type SelfSubjectAccessReviewSpec struct {
	// resourceAttributes describes a request for an API resource.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// nonResourceAttributes describes a request for a path outside the API resources.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// conditionalAuthorization says whether and how the caller wants conditions. When it
	// is unset, conditions are never returned: an answer that would have been conditional
	// becomes Deny if it could have denied, NoOpinion otherwise.
	ConditionalAuthorization *ConditionalAuthorizationConfiguration
}

// ConditionalAuthorizationConfiguration is what a caller says about conditional
// authorization (KEP-5681, "Changes to (Self)SubjectAccessReview").
type ConditionalAuthorizationConfiguration struct {
	// mode says that the caller supports conditions, and in which form it prefers them.
	// Empty means that it does not support them. The form is a wish that an authorizer may
	// ignore; that an empty mode never returns conditions is a promise.
	Mode ConditionsMode
}

// ConditionsMode is the form in which a caller prefers conditions.
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
	Allowed bool
	// denied is true if the action would be denied unconditionally. It may not be true
	// together with allowed.
	Denied bool
	// reason says why the answer is what it is.
	Reason string
	// evaluationError is an error that occurred while deciding. It is possible to get an
	// error and still an answer.
	EvaluationError string

	// conditionsChain is set when the answer depends on data that is not part of the
	// question. Each item is the answer of one authorizer, in the order in which the
	// server asks them. The first item that does not evaluate to NoOpinion decides. When it
	// is set, allowed and denied are false, so that a client that does not know the field
	// sees NoOpinion.
	ConditionsChain []SubjectAccessReviewConditionSet
}

// SubjectAccessReviewConditionSet is the answer of one authorizer. At most one of
// allowed, denied, conditions and conditionsChain may be set; none of them means
// NoOpinion.
type SubjectAccessReviewConditionSet struct {
	// allowed means that the authorizer allows unconditionally.
	Allowed bool
	// denied means that the authorizer denies unconditionally.
	Denied bool

	// failureMode says what it counts as if a Deny condition of this set is an error, or
	// if a condition on which the set depends cannot be evaluated: Deny, which is the
	// default, or NoOpinion. It has no meaning for an item without conditions; those of a
	// conditionsChain have their own.
	FailureMode FailureMode

	// authorizerName names the authorizer that gave this answer. It is unique among the
	// items of the list that it is in, and at most 253 bytes long.
	AuthorizerName string

	// conditions are evaluated together; their order has no meaning. At most 128.
	Conditions []SubjectAccessReviewCondition

	// conditionsChain is set when the authorizer is itself composed of authorizers. It
	// evaluates as the chain of a status does.
	ConditionsChain []SubjectAccessReviewConditionSet
}

// FailureMode says what an error in evaluating a condition set counts as (KEP-5681,
// "Computing a concrete decision from a ConditionSet").
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
	ID string
	// effect says what the condition being true means.
	Effect ConditionEffect
	// type is the language of the condition, a label key with a domain prefix, such as
	// k8s.io/authorization-cel.
	Type string
	// condition is the text of the condition in the language of its type, at most 10240
	// bytes. It may be empty for a type that needs only the ID.
	Condition string
	// description is for people: it is shown when the condition decides. At most 1024
	// bytes.
	Description string
}

// ConditionEffect says what a condition being true means (KEP-5681, "Condition and
// ConditionSet data model").
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

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConditionsReview asks an authorizer to evaluate the conditions that a
// SubjectAccessReview returned against the data that was missing then (KEP-5681,
// "Supporting webhooks through the AuthorizationConditionsReview API").
type AuthorizationConditionsReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// request holds the conditions and the data.
	Request *AuthorizationConditionsRequest
	// response is filled in by the server.
	Response *AuthorizationConditionsResponse
}

// AuthorizationConditionsRequest holds the conditions and the data to evaluate them
// against.
type AuthorizationConditionsRequest struct {
	// conditionSets is the conditionsChain that a SubjectAccessReview returned, unmodified
	// and in order. At most 32 sets and 512 conditions in all, nested at most 8 deep.
	ConditionSets []SubjectAccessReviewConditionSet

	// operation is what is being done to the object: CREATE, UPDATE, DELETE or CONNECT. It
	// may be empty only when impersonation is set: then object, oldObject, options, dryRun
	// and namespaceObject are not known yet, and the response may hold remaining
	// conditions on them.
	Operation Operation
	// kind is the kind of the object in the request.
	Kind *metav1.GroupVersionKind
	// resource is the resource of the request.
	Resource *metav1.GroupVersionResource
	// subResource is the subresource of the request, if any.
	SubResource string
	// name is the name of the object. It may be empty for CREATE.
	Name string
	// namespace is the namespace of the request, if any.
	Namespace string
	// namespaceObject is the Namespace that the request is in; conditions see its metadata.
	NamespaceObject *runtime.RawExtension
	// userInfo is the user who makes the request.
	UserInfo *authenticationv1.UserInfo
	// object is the object of the request after mutation. For CONNECT it is the options of
	// the connection. Conditions see null when it is absent.
	Object *runtime.RawExtension
	// oldObject is the stored object, for UPDATE and DELETE. Conditions see null when it is
	// absent.
	OldObject *runtime.RawExtension
	// options are the options of the operation, such as meta.k8s.io/v1 CreateOptions.
	// Conditions see null when they are absent.
	Options *runtime.RawExtension
	// dryRun says that nothing will be persisted.
	DryRun bool

	// impersonation is set when the conditions came from an impersonation check.
	Impersonation *ImpersonationData
}

// Operation is what is being done to an object.
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
	Request ImpersonatedRequest
	// user is the user who is impersonated; impersonatedUser in CEL.
	User authenticationv1.UserInfo
}

// ImpersonatedRequest describes a request that is made while impersonating. The fields
// are those of the CEL variable impersonatedRequest.
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

// AuthorizationConditionsResponse is the decision that the conditions evaluate to. None
// of allowed, denied and conditionSets means NoOpinion.
type AuthorizationConditionsResponse struct {
	// allowed means that the conditions allow the request.
	Allowed bool
	// denied means that the conditions deny the request.
	Denied bool
	// reason says which condition decided, with its description.
	Reason string
	// evaluationError holds the errors that occurred, also those that the failure mode
	// turned into a decision.
	EvaluationError string

	// conditionSets holds what remains to be evaluated. It is set only for requests without
	// operation, that is, before the object is known.
	ConditionSets []SubjectAccessReviewConditionSet
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ImpersonationReview asks whether somebody may make a request as somebody else: what
// the impersonation filter of an API server would answer to the request with
// Impersonate- headers, and why (KEP-5284).
type ImpersonationReview struct {
	metav1.TypeMeta
	// metadata must be empty.
	metav1.ObjectMeta

	// spec describes who makes which request as whom.
	Spec ImpersonationReviewSpec

	// status is filled in by the server.
	Status ImpersonationReviewStatus
}

// ImpersonationReviewSpec describes an impersonated request. Exactly one of
// resourceAttributes and nonResourceAttributes must be set.
type ImpersonationReviewSpec struct {
	// user is the name of the requester, who impersonates. It may be omitted, together with
	// uid, groups and extra: then the requester is the caller. To ask about a requester
	// who is named here takes permission to create subjectaccessreviews.
	User string
	// uid identifies the requester across changes of name.
	UID string
	// groups are the groups of the requester.
	Groups []string
	// extra is what an authenticator would add to the requester, such as the node that a
	// service account runs on.
	Extra map[string]authorizationv1.ExtraValue

	// impersonate is who is to be impersonated: what the Impersonate- headers would say. A
	// user name is required. At most 128 groups and 128 values of extra.
	Impersonate authenticationv1.UserInfo

	// resourceAttributes describes the request, which is for an API resource. Its verb and
	// resource are required.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// nonResourceAttributes describes the request, which is for a path outside the API
	// resources. Its verb and path are required.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// conditionalAuthorization says whether and how the caller wants conditions: those of the
	// requestDecision, and those on which a check depended.
	ConditionalAuthorization *ConditionalAuthorizationConfiguration
}

// ImpersonationMode is a way of impersonating that has permissions of its own (KEP-5284).
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
	Allowed bool
	// denied is true if the impersonation would be refused.
	Denied bool
	// reason says why it would be refused, in the words of the refusal.
	Reason string
	// evaluationError is an error that occurred while deciding.
	EvaluationError string

	// mode is the mode that allows the impersonation.
	Mode ImpersonationMode
	// constraint is the verb that allows the impersonation, as audit would record it in
	// authenticationMetadata.impersonationConstraint. It is empty for the mode legacy.
	Constraint string
	// impersonatedUser is the user that the server would see, with the groups that every
	// such user is in.
	ImpersonatedUser *authenticationv1.UserInfo

	// checks are the authorization checks that were made, in order. The values of extra
	// are checked in the order of their keys.
	Checks []ImpersonationCheck

	// conditionsChain is what the impersonation depends on if it is neither allowed nor
	// denied: conditions on the object, each of which denies. A server puts them before
	// everything else that decides the request; in an AuthorizationConditionsReview they come
	// before the conditionsChain of the requestDecision.
	ConditionsChain []SubjectAccessReviewConditionSet

	// requestDecision says whether the impersonated user may make the request. It is only
	// there if the impersonation is not denied.
	RequestDecision *SubjectAccessReviewStatus
}

// ImpersonationCheck is one authorization check of the requester. Exactly one of
// resourceAttributes and nonResourceAttributes is set.
type ImpersonationCheck struct {
	// mode is the mode that the check belongs to.
	Mode ImpersonationMode
	// resourceAttributes are what was checked.
	ResourceAttributes *authorizationv1.ResourceAttributes
	// nonResourceAttributes are what was checked.
	NonResourceAttributes *authorizationv1.NonResourceAttributes

	// allowed is true if the check passed.
	Allowed bool
	// denied is true if an authorizer denied. A check that is neither allowed nor denied
	// has not passed either: nobody allowed it.
	Denied bool
	// reason says why the check came out as it did.
	Reason string
	// evaluationError is an error that occurred in the check.
	EvaluationError string

	// conditionsChain are the conditions on which the check depended, in the mode
	// conditional. They have been evaluated for allowed and denied.
	ConditionsChain []SubjectAccessReviewConditionSet
}
