/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// NewPolicy returns a policy.
func NewPolicy(meta metav1.ObjectMeta, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: meta, Spec: spec,
	}
}

// NewBinding returns the binding of the policy with the same name. resources may be nil.
func NewBinding(meta metav1.ObjectMeta, resources *admissionregistrationv1.MatchResources, actions ...admissionregistrationv1.ValidationAction) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: meta,
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, MatchResources: resources, ValidationActions: actions},
	}
}

// NewRule returns a rule of admission for all versions of resources.
func NewRule(groups, resources []string, scope *admissionregistrationv1.ScopeType, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: groups, APIVersions: []string{all}, Resources: resources, Scope: scope},
	}}
}

// EqualPolicies reports whether two policies decide the same: whether their specifications are equal once kube-apiserver has set
// defaults.
func EqualPolicies(a, b *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return a == b || apiequality.Semantic.DeepEqual(DefaultedPolicy(a), DefaultedPolicy(b))
}

// EqualBindings reports whether two bindings bind the same policy to the same requests, as EqualPolicies does.
func EqualBindings(a, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	return a == b || apiequality.Semantic.DeepEqual(DefaultedBinding(a), DefaultedBinding(b))
}

// DefaultedPolicy returns a specification with the defaults of kube-apiserver.
func DefaultedPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ValidatingAdmissionPolicySpec {
	spec := policy.Spec.DeepCopy()
	if spec.FailurePolicy == nil {
		spec.FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	}
	setDefaults(spec.MatchConstraints)
	return spec
}

// DefaultedBinding returns a specification with the defaults of kube-apiserver.
func DefaultedBinding(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec {
	spec := binding.Spec.DeepCopy()
	setDefaults(spec.MatchResources)
	return spec
}

// setDefaults sets the defaults of match criteria, which may be nil.
func setDefaults(resources *admissionregistrationv1.MatchResources) {
	if resources == nil {
		return
	}
	if resources.MatchPolicy == nil {
		resources.MatchPolicy = ptr.To(admissionregistrationv1.Equivalent)
	}
	if resources.NamespaceSelector == nil {
		resources.NamespaceSelector = &metav1.LabelSelector{}
	}
	if resources.ObjectSelector == nil {
		resources.ObjectSelector = &metav1.LabelSelector{}
	}
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{resources.ResourceRules, resources.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				rules[i].Scope = ptr.To(admissionregistrationv1.AllScopes)
			}
		}
	}
}
