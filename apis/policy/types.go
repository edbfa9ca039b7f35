/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyEffect is the effect of a policy on a request that matches one of its subjects and
// rules and for which its condition is true.
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
	// reason is Enforced, CompileFailed, Audit, or the worst result of status.enforcement.
	PolicyEffective = "Effective"
)

// EnforcementPlace is where requests that a rule of a policy describes are decided.
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

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterAuthorizationPolicy allows or denies requests in the whole cluster, or prevents other
// policies from allowing them. It applies unconditionally, or if a condition on the request
// and its object is true.
type ClusterAuthorizationPolicy struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec has the requests, the condition and the effect of the policy.
	Spec AuthorizationPolicySpec
	// Status shows whether the policy is applied. It is written through /status only.
	Status AuthorizationPolicyStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterAuthorizationPolicyList is a list of policies.
type ClusterAuthorizationPolicyList struct {
	metav1.TypeMeta
	// metadata is the standard list metadata.
	metav1.ListMeta

	// Items are the policies.
	Items []ClusterAuthorizationPolicy
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationPolicy is like a ClusterAuthorizationPolicy, but applies only to requests in
// its namespace.
type AuthorizationPolicy struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec has the requests, the condition and the effect of the policy. Its rules must not
	// have nonResourceURLs.
	Spec AuthorizationPolicySpec
	// Status shows whether the policy is applied. It is written through /status only.
	Status AuthorizationPolicyStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationPolicyList is a list of policies.
type AuthorizationPolicyList struct {
	metav1.TypeMeta
	// metadata is the standard list metadata.
	metav1.ListMeta

	// Items are the policies.
	Items []AuthorizationPolicy
}

// AuthorizationPolicySpec is the specification of a policy. The effect applies to a request if
// its user matches one of the subjects, the request matches one of the rules, and the
// condition is true.
type AuthorizationPolicySpec struct {
	// Description is shown to users, in conditions and in denials; at most 1024 bytes.
	Description string
	// Effect is Allow, Deny or NoOpinion.
	Effect PolicyEffect
	// Enforcement is Enforce or Audit. Only a policy with Enforce decides requests.
	Enforcement PolicyEnforcement
	// Subjects are the users, groups and service accounts whose requests match; at most 256.
	// Required with the effect Allow. If omitted, a policy with another effect applies to all users, except those whose requests kube-apiserver decides without Proviso, such as the group system:masters.
	Subjects []rbacv1.Subject
	// Rules describe the requests. A request matches if at least one rule matches. At least 1
	// and at most 64.
	Rules []PolicyRule
	// Variables are named CEL expressions. The condition and later variables refer to them as
	// variables.NAME. They are evaluated only if they are used. At most 64.
	Variables []Variable
	// Condition is a CEL expression of type bool; at most 10240 bytes. It may read request,
	// object, oldObject, options, operation, dryRun, namespaceObject, authorizer and
	// variables. If omitted, the effect is unconditional.
	Condition string
}

// PolicyRule describes requests, either for resources or for non-resource URLs.
type PolicyRule struct {
	// Verbs are the verbs of the requests, such as create, or * for all verbs.
	Verbs []string
	// APIGroups are the API groups of the resources; the empty string is the core group, and *
	// means all groups. Required with resources.
	APIGroups []string
	// APIVersions are the versions for which the condition was written. Required if it reads object
	// or oldObject; * means all versions. If omitted, all versions. In another version, an Allow policy
	// does not allow the request, and a Deny or NoOpinion policy applies without evaluating its
	// condition.
	APIVersions []string
	// Resources are the resources, as in RBAC: pods; pods/exec for a subresource; */scale for
	// this subresource of every resource; and * for all resources and subresources.
	Resources []string
	// ResourceNames are the names of the objects. If omitted, all names. A create by POST, unless
	// it is of a subresource, and a deletecollection have no name.
	ResourceNames []string
	// NonResourceURLs are the paths of the requests, such as /healthz, or /metrics/* for every
	// path that starts with /metrics/. With them, verbs is the only other field that may be
	// set. They are not allowed in namespaced policies.
	NonResourceURLs []string
}

// Variable is a named expression.
type Variable struct {
	// Name is the name of the variable, a CEL identifier.
	Name string
	// Expression is a CEL expression of any type. It may read earlier variables.
	Expression string
}

// AuthorizationPolicyStatus is the status of a policy.
type AuthorizationPolicyStatus struct {
	// ObservedGeneration is the generation of the policy that the status describes.
	ObservedGeneration int64
	// Conditions are Ready and Effective.
	Conditions []metav1.Condition
	// TypeChecking has the mistakes that were found in the policy. The policy is applied in spite of them.
	TypeChecking *TypeChecking
	// Enforcement says what the rules do, and where; at most MaxRuleEnforcements entries. It is empty for a policy that does
	// not compile.
	Enforcement []RuleEnforcement
	// Audit counts what a policy with the enforcement Audit would have decided.
	Audit *PolicyAuditStatus
}

// PolicyAuditStatus counts the requests to which a policy with the enforcement Audit would have applied. All servers add their
// counts to it.
type PolicyAuditStatus struct {
	// ObservedGeneration is the generation of the policy that the counts are about. They begin again with each generation.
	ObservedGeneration int64
	// Decided is how often the policy would have applied to a request. For Deny and NoOpinion, this includes errors.
	Decided int64
	// Errors is how often the condition could not be evaluated.
	Errors int64
	// Undetermined is how often the result is not known, for example because the request was refused before its object was read.
	Undetermined int64
	// LastTime is when the policy would have applied to a request for the last time.
	LastTime *metav1.Time
}

// RuleEnforcement is what one rule does to some of the requests that it describes.
type RuleEnforcement struct {
	// Rule is the index of the rule in the specification, from 0.
	Rule int32
	// Verbs are the verbs of the requests. The verb * stays, or is resolved to the verbs that the place knows.
	Verbs []string
	// Resources are the resources of the requests, such as pods, deployments.apps or deployments.apps/scale, or their paths.
	Resources []string
	// At is where the requests are decided.
	At EnforcementPlace
	// Result is what the policy does there.
	Result EnforcementResult
	// Message explains the result; at most MaxEnforcementMessageBytes.
	Message string
}

// TypeChecking is the result of checking a policy against the resources of the cluster and their schemas.
type TypeChecking struct {
	// ExpressionWarnings are the mistakes that were found; at most 32.
	ExpressionWarnings []ExpressionWarning
}

// ExpressionWarning is a mistake in an expression or in another field.
type ExpressionWarning struct {
	// FieldRef is the path of the field, such as spec.condition.
	FieldRef string
	// Warning describes the mistake; if it is one for some kind of object, it begins with the kind.
	Warning string
}
