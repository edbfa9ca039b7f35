/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyEffect says what it means that the condition of a policy holds.
type PolicyEffect string

const (
	// PolicyEffectAllow allows the request, unless a Deny or NoOpinion policy holds too.
	PolicyEffectAllow PolicyEffect = "Allow"
	// PolicyEffectDeny denies the request, whoever else allows it.
	PolicyEffectDeny PolicyEffect = "Deny"
	// PolicyEffectNoOpinion keeps Allow policies from allowing the request. Authorizers
	// after the policies may still do so.
	PolicyEffectNoOpinion PolicyEffect = "NoOpinion"
)

// The types of the conditions in the status of a policy.
const (
	// PolicyReady says whether the policy as it is written is in force.
	PolicyReady = "Ready"
	// PolicyEffective says whether something can come of the policy: it is False if
	// nobody enforces what a rule names.
	PolicyEffective = "Effective"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterAuthorizationPolicy allows, denies or holds back requests in the whole cluster,
// unconditionally or if a condition on their content holds.
type ClusterAuthorizationPolicy struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec is what the policy says.
	Spec AuthorizationPolicySpec
	// Status is what became of it. It is written through /status only.
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

// AuthorizationPolicy is a ClusterAuthorizationPolicy for the requests in its namespace.
type AuthorizationPolicy struct {
	metav1.TypeMeta
	// metadata is the standard object metadata. The name has at most 63 characters.
	metav1.ObjectMeta

	// Spec is what the policy says. Its rules must not name non-resource URLs.
	Spec AuthorizationPolicySpec
	// Status is what became of it. It is written through /status only.
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

// AuthorizationPolicySpec is what a policy says: for requests of one of the subjects that
// one of the rules describes, effect applies if condition holds.
type AuthorizationPolicySpec struct {
	// Description is shown to users, in conditions and in denials; at most 1024 bytes.
	Description string
	// Effect is Allow, Deny or NoOpinion.
	Effect PolicyEffect
	// Subjects are whose requests the policy is about; at most 256. If omitted, those of
	// the group system:authenticated for the effect Allow, and everybody's for the others.
	Subjects []rbacv1.Subject
	// Rules describe the requests; any one of them suffices. At least 1 and at most 64.
	Rules []PolicyRule
	// Variables are named CEL expressions, to which those after them and condition refer as
	// variables.NAME. They are evaluated when they are needed. At most 64.
	Variables []Variable
	// Condition is a CEL expression that yields a bool; at most 10240 bytes. It may read
	// request, object, oldObject, options, operation, dryRun, namespaceObject, authorizer
	// and variables. If omitted, the effect is unconditional.
	Condition string
}

// PolicyRule describes requests, either for resources or for non-resource URLs.
type PolicyRule struct {
	// Verbs are the verbs of the requests, such as create, or * for all of them.
	Verbs []string
	// APIGroups are the groups of the resources, the empty string being the core group, or
	// * for all of them. Required with resources.
	APIGroups []string
	// APIVersions are the versions for which the condition was written; if omitted, all. A
	// request in another version is not allowed by an Allow policy, and a Deny or NoOpinion
	// policy matches it whatever the condition says.
	APIVersions []string
	// Resources are the resources, as in RBAC: pods, pods/exec for a subresource, */scale
	// for that subresource of every resource, and * for everything, subresources included.
	Resources []string
	// ResourceNames are the names of the objects; if omitted, all. A create or a
	// deletecollection has no name.
	ResourceNames []string
	// NonResourceURLs are the paths of the requests, such as /healthz, or /metrics/* for
	// every path that starts with /metrics/. They exclude all fields above but verbs, and are not
	// allowed in namespaced policies.
	NonResourceURLs []string
}

// Variable is a named expression.
type Variable struct {
	// Name is the name under which others refer to the expression: a CEL identifier.
	Name string
	// Expression is a CEL expression of any type, which may read the variables before it.
	Expression string
}

// AuthorizationPolicyStatus is what became of a policy.
type AuthorizationPolicyStatus struct {
	// ObservedGeneration is the generation of the policy that the status describes.
	ObservedGeneration int64
	// Conditions are Ready and Effective.
	Conditions []metav1.Condition
	// TypeChecking are the mistakes that the schemas of the resources show. They do not keep
	// a policy from being in force.
	TypeChecking *TypeChecking
}

// TypeChecking is what checking the expressions against schemas found.
type TypeChecking struct {
	// ExpressionWarnings are the mistakes; at most 32.
	ExpressionWarnings []ExpressionWarning
}

// ExpressionWarning is a mistake in an expression.
type ExpressionWarning struct {
	// FieldRef is the path of the field with the expression, such as spec.condition.
	FieldRef string
	// Warning says what is wrong, and for which kind of object.
	Warning string
}
