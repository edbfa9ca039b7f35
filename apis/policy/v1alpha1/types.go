/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

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

// The reasons of the condition Ready of a policy or a mapping.
const (
	// ReasonCompiled says that the object as it is written is in force.
	ReasonCompiled = "Compiled"
	// ReasonCompileFailed says that the object as it is written cannot be evaluated, and is not in force.
	ReasonCompileFailed = "CompileFailed"
	// ReasonContradicted says that a part of a mapping contradicts another mapping.
	ReasonContradicted = "Contradicted"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterAuthorizationPolicy allows, denies or holds back requests in the whole cluster,
// unconditionally or if a condition on their content holds.
type ClusterAuthorizationPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the policy says.
	Spec AuthorizationPolicySpec `json:"spec"`
	// status is what became of it. It is written through /status only.
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

// AuthorizationPolicy is a ClusterAuthorizationPolicy for the requests in its namespace.
type AuthorizationPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the policy says. Its rules must not name non-resource URLs.
	Spec AuthorizationPolicySpec `json:"spec"`
	// status is what became of it. It is written through /status only.
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

// AuthorizationPolicySpec is what a policy says: for requests of one of the subjects that
// one of the rules describes, effect applies if condition holds.
type AuthorizationPolicySpec struct {
	// description is shown to users, in conditions and in denials; at most 1024 bytes.
	// +optional
	Description string `json:"description,omitempty"`
	// effect is Allow, Deny or NoOpinion.
	Effect PolicyEffect `json:"effect"`
	// subjects are whose requests the policy is about; at most 256. If omitted, those of
	// the group system:authenticated for the effect Allow, and everybody's for the others.
	// +optional
	// +listType=atomic
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
	// rules describe the requests; any one of them suffices. At least 1 and at most 64.
	// +listType=atomic
	Rules []PolicyRule `json:"rules"`
	// variables are named CEL expressions, to which those after them and condition refer as
	// variables.NAME. They are evaluated when they are needed. At most 64.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	Variables []Variable `json:"variables,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// condition is a CEL expression that yields a bool; at most 10240 bytes. It may read
	// request, object, oldObject, options, operation, dryRun, namespaceObject, authorizer
	// and variables. If omitted, the effect is unconditional.
	// +optional
	Condition string `json:"condition,omitempty"`
}

// PolicyRule describes requests, either for resources or for non-resource URLs.
type PolicyRule struct {
	// verbs are the verbs of the requests, such as create, or * for all of them.
	// +listType=atomic
	Verbs []string `json:"verbs"`
	// apiGroups are the groups of the resources, the empty string being the core group, or
	// * for all of them. Required with resources.
	// +optional
	// +listType=atomic
	APIGroups []string `json:"apiGroups,omitempty"`
	// apiVersions are the versions for which the condition was written; if omitted, all. A
	// request in another version is not allowed by an Allow policy, and a Deny or NoOpinion
	// policy matches it whatever the condition says.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty"`
	// resources are the resources, as in RBAC: pods, pods/exec for a subresource, */scale
	// for that subresource of every resource, and * for everything, subresources included.
	// +optional
	// +listType=atomic
	Resources []string `json:"resources,omitempty"`
	// resourceNames are the names of the objects; if omitted, all. A create or a
	// deletecollection has no name.
	// +optional
	// +listType=atomic
	ResourceNames []string `json:"resourceNames,omitempty"`
	// nonResourceURLs are the paths of the requests, such as /healthz, or /metrics/* for
	// every path that starts with /metrics/. They exclude all fields above but verbs, and are not
	// allowed in namespaced policies.
	// +optional
	// +listType=atomic
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Variable is a named expression.
type Variable struct {
	// name is the name under which others refer to the expression: a CEL identifier.
	Name string `json:"name"`
	// expression is a CEL expression of any type, which may read the variables before it.
	Expression string `json:"expression"`
}

// AuthorizationPolicyStatus is what became of a policy.
type AuthorizationPolicyStatus struct {
	// observedGeneration is the generation of the policy that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Ready and Effective.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// typeChecking are the mistakes that the schemas of the resources show. They do not keep
	// a policy from being in force.
	// +optional
	TypeChecking *TypeChecking `json:"typeChecking,omitempty"`
}

// TypeChecking is what checking the expressions against schemas found.
type TypeChecking struct {
	// expressionWarnings are the mistakes; at most 32.
	// +optional
	// +listType=atomic
	ExpressionWarnings []ExpressionWarning `json:"expressionWarnings,omitempty"`
}

// ExpressionWarning is a mistake in an expression.
type ExpressionWarning struct {
	// fieldRef is the path of the field with the expression, such as spec.condition.
	FieldRef string `json:"fieldRef"`
	// warning says what is wrong, and for which kind of object.
	Warning string `json:"warning"`
}
