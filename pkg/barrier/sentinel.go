/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"fmt"
	"maps"
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
	meta, scope := metav1.ObjectMeta{Name: SentinelName}, ptr.To(admissionregistrationv1.NamespacedScope)
	policy := NewPolicy(meta, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			MatchPolicy:       ptr.To(admissionregistrationv1.Exact),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ObjectSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: RolloutLabel, Operator: metav1.LabelSelectorOpExists}},
			},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
				NewRule([]string{"coordination.k8s.io"}, []string{"leases"}, scope, admissionregistrationv1.Create),
			},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: "false", Message: sentinelMessage + strconv.FormatInt(number, 10), Reason: ptr.To(metav1.StatusReasonForbidden),
		}},
	})
	return policy, NewBinding(meta, &admissionregistrationv1.MatchResources{
		MatchPolicy:       ptr.To(admissionregistrationv1.Exact),
		NamespaceSelector: &metav1.LabelSelector{},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{RolloutLabel: strconv.FormatInt(number, 10)}},
	}, admissionregistrationv1.Deny)
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

// The annotations of an Extent.
const (
	policiesAnnotation = "barriers.proviso.dev/policies-up-to"
	bindingsAnnotation = "barriers.proviso.dev/bindings-up-to"
)

// Extent says which objects of barriers were stored before the sentinel was: all whose resource version is not greater. The resource
// version of the sentinel itself does not say that, because kube-controller-manager writes the status of policies afterwards.
type Extent struct {
	// Policies and Bindings are the greatest resource versions of ValidatingAdmissionPolicies and of their bindings. They are not
	// compared with each other.
	Policies, Bindings uint64
}

// IsBefore reports whether all of it can have been stored before the objects of the sentinel, which have greater resource versions then. An
// extent that says more was forged.
func (e Extent) IsBefore(policy, binding metav1.Object) bool {
	return e.Policies < VersionOf(policy) && e.Bindings < VersionOf(binding)
}

// VersionOf returns the resource version of a stored object, and 0 if it is no number.
func VersionOf(stored metav1.Object) uint64 {
	version, err := strconv.ParseUint(stored.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// SetExtent records on the policy of the sentinel what was stored before it was written.
func SetExtent(sentinel *admissionregistrationv1.ValidatingAdmissionPolicy, extent Extent) {
	sentinel.Annotations = maps.Clone(sentinel.Annotations)
	metav1.SetMetaDataAnnotation(&sentinel.ObjectMeta, policiesAnnotation, strconv.FormatUint(extent.Policies, 10))
	metav1.SetMetaDataAnnotation(&sentinel.ObjectMeta, bindingsAnnotation, strconv.FormatUint(extent.Bindings, 10))
}

// ExtentOf returns what was stored before the sentinel was written. It returns false if the policy does not say so.
func ExtentOf(sentinel *admissionregistrationv1.ValidatingAdmissionPolicy) (extent Extent, ok bool) {
	policies, err := strconv.ParseUint(sentinel.Annotations[policiesAnnotation], 10, 64)
	bindings, errOfBindings := strconv.ParseUint(sentinel.Annotations[bindingsAnnotation], 10, 64)
	if err != nil || errOfBindings != nil {
		return Extent{}, false
	}
	return Extent{Policies: policies, Bindings: bindings}, true
}
