/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// TestEqual checks that defaults of kube-apiserver and metadata make no difference, and that everything else does.
func TestEqual(t *testing.T) {
	t.Parallel()
	rules := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"secrets"}},
	}}}
	stored := func() (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: rules, ExcludeResourceRules: rules}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "a", MatchResources: &admissionregistrationv1.MatchResources{ResourceRules: rules}}
		return policy.DeepCopy(), binding.DeepCopy()
	}
	for _, tc := range []struct {
		name string
		// policy and binding change a copy.
		policy  func(*admissionregistrationv1.ValidatingAdmissionPolicy)
		binding func(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		want    bool
	}{
		{name: "nothing", want: true},
		{name: "metadata", policy: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.ResourceVersion = "7" }, want: true},
		{name: "the failure policy that is the default", policy: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Fail)
		}, want: true},
		{name: "the match policy that is the default", policy: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConstraints.MatchPolicy = ptr.To(admissionregistrationv1.Equivalent)
		}, want: true},
		{name: "empty selectors and the scope", binding: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			m := b.Spec.MatchResources
			m.NamespaceSelector, m.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
			m.ResourceRules[0].Scope = ptr.To(admissionregistrationv1.AllScopes)
		}, want: true},
		{name: "the scope of what is excluded", policy: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConstraints.ExcludeResourceRules[0].Scope = ptr.To(admissionregistrationv1.AllScopes)
		}, want: true},
		{name: "another failure policy", policy: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
		}},
		{name: "another match policy", policy: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConstraints.MatchPolicy = ptr.To(admissionregistrationv1.Exact)
		}},
		{name: "another scope", binding: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.ResourceRules[0].Scope = ptr.To(admissionregistrationv1.ClusterScope)
		}},
		{name: "a selector", binding: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
		{name: "no criteria", binding: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { b.Spec.MatchResources = nil }},
		{name: "another action", binding: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		}},
	} {
		policy, binding := stored()
		if tc.policy != nil {
			tc.policy(policy)
		}
		if tc.binding != nil {
			tc.binding(binding)
		}
		wantPolicy, wantBinding := stored()
		if got := barrier.EqualPolicies(policy, wantPolicy) && barrier.EqualBindings(binding, wantBinding); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}
