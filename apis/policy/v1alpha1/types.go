/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyEffect is the effect of a policy on a request that matches one of its subjects and
// rules and for which its condition is true.
// +enum
type PolicyEffect string

const (
	// PolicyEffectAllow allows the request, unless a Deny or NoOpinion policy applies as well.
	PolicyEffectAllow PolicyEffect = "Allow"
	// PolicyEffectDeny denies the request, even if other policies or authorizers allow it.
	PolicyEffectDeny PolicyEffect = "Deny"
	// PolicyEffectNoOpinion prevents Allow policies from allowing the request. Other authorizers
	// may still allow it.
	PolicyEffectNoOpinion PolicyEffect = "NoOpinion"
)

// PolicyEnforcement says whether a policy decides requests.
// +enum
type PolicyEnforcement string

const (
	// PolicyEnforcementEnforce means that the policy decides requests.
	PolicyEnforcementEnforce PolicyEnforcement = "Enforce"
	// PolicyEnforcementAudit means that the policy decides nothing. The requests that it would decide are counted in the status and
	// annotated in audit events, and clients are warned of a denial.
	PolicyEnforcementAudit PolicyEnforcement = "Audit"
)

// The types of the conditions in the status of a policy.
const (
	// PolicyReady is True if the current version of the object is applied.
	PolicyReady = "Ready"
	// PolicyEffective is True if the policy decides all requests that its rules describe, with its condition. Its
	// reason is Enforced, CompileFailed, Audit, or the worst result of status.enforcement. Of a mapping, it is True if all
	// exclusions are checked for all users.
	PolicyEffective = "Effective"
)

// BarrierFinalizer is the finalizer of a policy or a mapping that may have a barrier, and of the objects of the barrier. The server adds it, and no
// user can.
const BarrierFinalizer = "policy.proviso.dev/barrier"

// EnforcementPlace is where requests that a rule of a policy describes are decided.
// +enum
type EnforcementPlace string

const (
	// EnforcedAtServer means this server, which serves the requests.
	EnforcedAtServer EnforcementPlace = "Server"
	// EnforcedAtFrontDoor means the front door, which kube-apiserver asks about requests if it is configured to.
	EnforcedAtFrontDoor EnforcementPlace = "FrontDoor"
	// EnforcedAtInnerDoor means the inner door, which kube-apiserver calls at admission for writes to the resources in its
	// configuration.
	EnforcedAtInnerDoor EnforcementPlace = "InnerDoor"
	// EnforcedAtAggregatedServer means another aggregated server, which an EnforcementConfiguration names.
	EnforcedAtAggregatedServer EnforcementPlace = "AggregatedServer"
	// EnforcedAtBarrier means kube-apiserver, by a ValidatingAdmissionPolicy that is generated from a Deny policy.
	EnforcedAtBarrier EnforcementPlace = "Barrier"
	// EnforcedAtKubeAPIServer means kube-apiserver itself, which handles conditional decisions: it gets the conditions at authorization, and has
	// them evaluated at admission.
	EnforcedAtKubeAPIServer EnforcementPlace = "KubeAPIServer"
	// EnforcedAtReviews means that no request is decided by the rule: only the answers to reviews show it.
	EnforcedAtReviews EnforcementPlace = "Reviews"
)

// EnforcementResult is what a policy does to requests in one place.
// +enum
type EnforcementResult string

const (
	// ResultEnforced means that the effect applies to the requests for which the condition is true.
	ResultEnforced EnforcementResult = "Enforced"
	// ResultPending means that the effect applies to the requests for which the condition is true as soon as kube-apiserver has loaded
	// the barrier of the policy. Until then, an earlier version of the policy may apply, or none.
	ResultPending EnforcementResult = "Pending"
	// ResultInnerDoorUnknown means that the effect applies to the requests for which the condition is true, except through the
	// kube-apiservers in the message, which are not known to call the inner door. There, no policy allows a request on conditions.
	ResultInnerDoorUnknown EnforcementResult = "InnerDoorUnknown"
	// ResultGrantsNothing means that the condition is folded: an Allow policy allows only requests for which the request, or at the
	// front door its namespace, makes the condition true.
	ResultGrantsNothing EnforcementResult = "GrantsNothing"
	// ResultWithholdsUnconditionally means that the condition is folded: a NoOpinion policy applies to each request, unless the
	// request, or at the front door its namespace, makes the condition false.
	ResultWithholdsUnconditionally EnforcementResult = "WithholdsUnconditionally"
	// ResultDeniesUnconditionally means that the condition is folded: a Deny policy denies each request, unless the request,
	// or at the front door its namespace, makes the condition false.
	ResultDeniesUnconditionally EnforcementResult = "DeniesUnconditionally"
	// ResultNotEnforced means that the policy decides no request there. The message says why: for example, kube-apiserver refuses the barrier.
	ResultNotEnforced EnforcementResult = "NotEnforced"
	// ResultAudited means that the policy, whose enforcement is Audit, decides no request; the message says what it would do.
	ResultAudited EnforcementResult = "Audited"
)

// The reasons of the condition Ready of a policy or a mapping, and of the condition Effective of a policy.
const (
	// ReasonCompiled means that the current version of the object is applied.
	ReasonCompiled = "Compiled"
	// ReasonCompileFailed means that the current version of the object cannot be evaluated and
	// is not applied.
	ReasonCompileFailed = "CompileFailed"
	// ReasonContradicted means that a part of a mapping contradicts another mapping.
	ReasonContradicted = "Contradicted"
	// ReasonAudit is the reason of the condition Effective of a policy with the enforcement Audit, which decides no request.
	ReasonAudit = "Audit"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterAuthorizationPolicy allows or denies requests in the whole cluster, or prevents other
// policies from allowing them. It applies unconditionally, or if a condition on the request
// and its object is true.
type ClusterAuthorizationPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the requests, the condition and the effect of the policy.
	Spec AuthorizationPolicySpec `json:"spec"`
	// status shows whether the policy is applied. It is written through /status only.
	// +optional
	Status AuthorizationPolicyStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterAuthorizationPolicyList is a list of policies.
type ClusterAuthorizationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []ClusterAuthorizationPolicy `json:"items"`
}

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationPolicy is like a ClusterAuthorizationPolicy, but applies only to requests in
// its namespace.
type AuthorizationPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the requests, the condition and the effect of the policy. Its rules must not
	// have nonResourceURLs.
	Spec AuthorizationPolicySpec `json:"spec"`
	// status shows whether the policy is applied. It is written through /status only.
	// +optional
	Status AuthorizationPolicyStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationPolicyList is a list of policies.
type AuthorizationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []AuthorizationPolicy `json:"items"`
}

// AuthorizationPolicySpec is the specification of a policy. The effect applies to a request if
// its user matches one of the subjects, the request matches one of the rules, and the
// condition is true.
type AuthorizationPolicySpec struct {
	// description is shown to users, in conditions and in denials; at most 1024 bytes.
	// +optional
	Description string `json:"description,omitempty"`
	// effect is what the policy does to the requests that match and for which the condition is true.
	Effect PolicyEffect `json:"effect"`
	// enforcement is Enforce or Audit; Enforce if omitted. A policy with Audit decides nothing: requests have the same
	// outcome as without it. The requests to which it would apply are counted in status.audit and annotated in audit
	// events, and clients are warned of what it would deny.
	// +optional
	Enforcement PolicyEnforcement `json:"enforcement,omitempty"`
	// subjects are the users, groups and service accounts whose requests match; at most 256, with
	// names of at most 1024 bytes. Required with the effect Allow. If omitted, a policy with another effect applies to all users, except those whose requests kube-apiserver decides without Proviso, such as the group system:masters.
	// +optional
	// +listType=atomic
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
	// rules describe the requests. A request matches if at least one rule matches. At least 1
	// and at most 64.
	// +listType=atomic
	Rules []PolicyRule `json:"rules"`
	// variables are named CEL expressions. The condition and later variables refer to them as
	// variables.NAME. They are evaluated only if they are used. At most 64; together with the
	// condition at most 20480 bytes.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	Variables []Variable `json:"variables,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// condition is a CEL expression of type bool; at most 10240 bytes. If omitted, the effect is
	// unconditional. It may read these variables:
	//
	// - request.verb, request.apiGroup, request.apiVersion, request.resource, request.subresource,
	// request.namespace, request.name and request.path: strings, empty if the request has no such value.
	//
	// - request.userInfo.username, request.userInfo.uid, request.userInfo.groups and
	// request.userInfo.extra: the user.
	//
	// - request.fieldSelector.requirements and request.labelSelector.requirements: lists of
	// requirements with key, operator and values.
	//
	// - operation: CREATE, UPDATE, DELETE or CONNECT.
	//
	// - object and oldObject: the new and the stored object, or null; for CONNECT object has the
	// options of the connection. options and dryRun: how the object is written.
	//
	// - namespaceObject: the metadata of the namespace of the request.
	//
	// - authorizer and authorizer.requestResource: whether the user has another permission.
	//
	// - impersonatedRequest and impersonatedUser, in impersonation checks.
	//
	// - variables.NAME: the value of a variable.
	//
	// A condition that reads request alone is decided at authorization. All others are conditions
	// on the object, which are enforced only where this is shown in status.enforcement.
	// +optional
	Condition string `json:"condition,omitempty"`
}

// PolicyRule describes requests, either for resources or for non-resource URLs.
type PolicyRule struct {
	// verbs are the verbs of the requests, such as create, or * for all verbs. At least 1 and at
	// most 64, each of at most 253 bytes.
	// +listType=atomic
	Verbs []string `json:"verbs"`
	// apiGroups are the API groups of the resources; the empty string is the core group, and *
	// means all groups. Required with resources. At most 64, each of at most 253 bytes.
	// +optional
	// +listType=atomic
	APIGroups []string `json:"apiGroups,omitempty"`
	// apiVersions are the versions for which the condition was written. Required if it reads object
	// or oldObject; * means all versions. If omitted, all versions. In another version, an Allow policy
	// does not allow the request, and a Deny or NoOpinion policy applies without evaluating its
	// condition. At most 64, each of at most 63 bytes.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty"`
	// resources are the resources, as in RBAC: pods; pods/exec for a subresource; */scale for
	// this subresource of every resource; and * for all resources and subresources. Required
	// without nonResourceURLs. At most 64, each of at most 253 bytes.
	// +optional
	// +listType=atomic
	Resources []string `json:"resources,omitempty"`
	// resourceNames are the names of the objects. If omitted, all names. A create by POST, unless
	// it is of a subresource, and a deletecollection have no name. At most 256, each of at most
	// 1024 bytes.
	// +optional
	// +listType=atomic
	ResourceNames []string `json:"resourceNames,omitempty"`
	// nonResourceURLs are the paths of the requests, such as /healthz, or /metrics/* for every
	// path that starts with /metrics/. With them, verbs is the only other field that may be
	// set. They are not allowed in namespaced policies. At most 64, each of at most 1024 bytes.
	// +optional
	// +listType=atomic
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Variable is a named expression.
type Variable struct {
	// name is the name of the variable, a CEL identifier; at most 253 bytes.
	Name string `json:"name"`
	// expression is a CEL expression of any type; at most 10240 bytes. It may read what a condition
	// may read, but of the variables only earlier ones.
	Expression string `json:"expression"`
}

// AuthorizationPolicyStatus is the status of a policy.
type AuthorizationPolicyStatus struct {
	// observedGeneration is the generation of the policy that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Ready and Effective, and conditions of other controllers; at most 16.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// typeChecking has the mistakes that were found in the policy. The policy is applied in spite of them.
	// +optional
	TypeChecking *TypeChecking `json:"typeChecking,omitempty"`
	// enforcement says what the rules do, and where; at most 64 entries. It is empty for a policy that does not compile.
	// +optional
	// +listType=atomic
	Enforcement []RuleEnforcement `json:"enforcement,omitempty"`
	// audit counts what a policy with the enforcement Audit would have decided.
	// +optional
	Audit *PolicyAuditStatus `json:"audit,omitempty"`
}

// PolicyAuditStatus counts the requests to which a policy with the enforcement Audit would have applied. All servers add their
// counts to it.
type PolicyAuditStatus struct {
	// observedGeneration is the generation of the policy that the counts are about. They begin again with each generation.
	ObservedGeneration int64 `json:"observedGeneration"`
	// decided is how often the policy would have applied to a request. For Deny and NoOpinion, this includes errors.
	Decided int64 `json:"decided"`
	// errors is how often the condition could not be evaluated.
	// +optional
	Errors int64 `json:"errors,omitempty"`
	// undetermined is how often the result is not known, for example because the request was refused before its object was read.
	// +optional
	Undetermined int64 `json:"undetermined,omitempty"`
	// lastTime is when the policy would have applied to a request for the last time.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
}

// RuleEnforcement is what one rule does to some of the requests that it describes.
type RuleEnforcement struct {
	// rule is the index of the rule in spec.rules, from 0.
	Rule int32 `json:"rule"`
	// verbs are the verbs of the requests. The verb * stays, or is resolved to the verbs that the place knows.
	// At most 64.
	// +listType=atomic
	Verbs []string `json:"verbs"`
	// resources are the resources of the requests, such as pods, deployments.apps or deployments.apps/scale, or their
	// paths. At most 64.
	// +listType=atomic
	Resources []string `json:"resources"`
	// at is where the requests are decided. Later versions may have more values, of at most 253 bytes.
	At EnforcementPlace `json:"at"`
	// result is what the policy does there. Later versions may have more values, of at most 253 bytes.
	Result EnforcementResult `json:"result"`
	// message explains the result; at most 1024 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// TypeChecking is the result of checking a policy against the resources of the cluster and their schemas.
type TypeChecking struct {
	// expressionWarnings are the mistakes that were found; at most 32.
	// +optional
	// +listType=atomic
	ExpressionWarnings []ExpressionWarning `json:"expressionWarnings,omitempty"`
}

// ExpressionWarning is a mistake in an expression or in another field.
type ExpressionWarning struct {
	// fieldRef is the path of the field, such as spec.condition; at most 256 bytes.
	FieldRef string `json:"fieldRef"`
	// warning describes the mistake; at most 4096 bytes. If it is one for some kind of object, it
	// begins with the kind.
	Warning string `json:"warning"`
}
