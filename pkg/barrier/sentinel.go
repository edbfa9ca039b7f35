/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// SentinelName is the name of the sentinel, a policy and a binding.
	SentinelName = "rollout.barriers.proviso.dev"
	// RolloutLabel is the label of the Leases that the sentinel refuses. Its value is the number of the sentinel.
	RolloutLabel = "barriers.proviso.dev/rollout"

	// sentinelMessage begins the message of a refusal by the sentinel. Its number follows.
	sentinelMessage = "barriers are loaded up to number "
)

// Sentinel returns the policy and the binding of the sentinel with a number. The sentinel is written after the barriers, and each
// time with a greater number. A kube-apiserver that refuses the creation of a Lease in the namespace that has RolloutLabel with
// this number, in a dry run, has loaded all barriers that were written before the sentinel: it loads policies in the order of
// their resource versions, and bindings likewise. No other request is refused.
//
// The number is in the policy and in the binding, so that only both together refuse.
func Sentinel(namespace string, number int64) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: SentinelName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy:       ptr.To(admissionregistrationv1.Exact),
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ObjectSelector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: RolloutLabel, Operator: metav1.LabelSelectorOpExists}},
				},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"leases"},
							Scope: ptr.To(admissionregistrationv1.NamespacedScope),
						},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "false", Message: sentinelMessage + strconv.FormatInt(number, 10), Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: SentinelName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: SentinelName,
			MatchResources: &admissionregistrationv1.MatchResources{
				MatchPolicy:       ptr.To(admissionregistrationv1.Exact),
				NamespaceSelector: &metav1.LabelSelector{},
				ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{RolloutLabel: strconv.FormatInt(number, 10)}},
			},
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding
}

// NumberIn returns the number of the sentinel in the message with which kube-apiserver refuses a Lease. It returns false for any
// other message.
func NumberIn(message string) (int64, bool) {
	prefix := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", SentinelName, SentinelName, sentinelMessage)
	_, text, found := strings.Cut(message, prefix)
	if !found {
		return 0, false
	}
	return parseNumber(text)
}

// NumberOf returns the number of a stored policy of the sentinel. It returns false for any other policy.
func NumberOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (int64, bool) {
	if policy.Name != SentinelName || len(policy.Spec.Validations) != 1 {
		return 0, false
	}
	text, found := strings.CutPrefix(policy.Spec.Validations[0].Message, sentinelMessage)
	if !found {
		return 0, false
	}
	return parseNumber(text)
}

// parseNumber parses a number as Sentinel writes it. Zero is none.
func parseNumber(text string) (int64, bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	//guard:barriers-number-0-sentinel
	return number, err == nil && strconv.FormatInt(number, 10) == text && number > 0
}
