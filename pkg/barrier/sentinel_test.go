/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"
	"math"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// TestSentinelMatchesItsLeaseOnly checks which Leases the selectors of the sentinel select.
func TestSentinelMatchesItsLeaseOnly(t *testing.T) {
	t.Parallel()
	policy, binding := barrier.Sentinel("proviso-system", 42)
	for _, tc := range []struct {
		name      string
		namespace string
		labels    labels.Set
		want      bool
	}{
		{name: "its Lease", namespace: "proviso-system", labels: labels.Set{barrier.RolloutLabel: "42"}, want: true},
		{name: "a Lease without the label", namespace: "proviso-system"},
		{name: "another number", namespace: "proviso-system", labels: labels.Set{barrier.RolloutLabel: "41"}},
		{name: "another namespace", namespace: "default", labels: labels.Set{barrier.RolloutLabel: "42"}},
	} {
		got := true
		for selector, selected := range map[*metav1.LabelSelector]labels.Set{
			policy.Spec.MatchConstraints.NamespaceSelector: {"kubernetes.io/metadata.name": tc.namespace},
			policy.Spec.MatchConstraints.ObjectSelector:    tc.labels,
			binding.Spec.MatchResources.NamespaceSelector:  {"kubernetes.io/metadata.name": tc.namespace},
			binding.Spec.MatchResources.ObjectSelector:     tc.labels,
		} {
			s, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			got = got && s.Matches(selected)
		}
		if got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
	if policy.Name != barrier.SentinelName || binding.Name != barrier.SentinelName || binding.Spec.PolicyName != policy.Name {
		t.Errorf("got the policy %q, and the binding %q of %q", policy.Name, binding.Name, binding.Spec.PolicyName)
	}
}

// refusal is the message with which kube-apiserver refuses a Lease, given the message of the policy.
func refusal(policy, message string) string {
	return fmt.Sprintf("leases.coordination.k8s.io \"a\" is forbidden: ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, policy, message)
}

// TestNumber checks that the number of the sentinel is found in its refusal and in its policy, and nowhere else.
func TestNumber(t *testing.T) {
	t.Parallel()
	for _, number := range []int64{1, 42, math.MaxInt64} {
		policy, _ := barrier.Sentinel("proviso-system", number)
		if got, ok := barrier.NumberIn(refusal(policy.Name, policy.Spec.Validations[0].Message)); !ok || got != number {
			t.Errorf("refusal: got %d, %t, want %d", got, ok, number)
		}
		if got, ok := barrier.NumberOf(policy); !ok || got != number {
			t.Errorf("policy: got %d, %t, want %d", got, ok, number)
		}
	}
	policy, _ := barrier.Sentinel("proviso-system", 7)
	message := policy.Spec.Validations[0].Message
	for name, text := range map[string]string{
		"nothing":                  "",
		"a refusal by RBAC":        `leases.coordination.k8s.io is forbidden: User "a" cannot create resource "leases"`,
		"the same text by another": refusal("another.example.com", message),
		"more text":                refusal(policy.Name, message+" or so"),
		"a sign":                   refusal(policy.Name, message[:len(message)-1]+"+7"),
		"a negative number":        refusal(policy.Name, message[:len(message)-1]+"-7"),
		"a leading zero":           refusal(policy.Name, message[:len(message)-1]+"07"),
		"too great":                refusal(policy.Name, message+"0000000000000000000"),
		"zero":                     refusal(policy.Name, message[:len(message)-1]+"0"),
		"no number":                refusal(policy.Name, message[:len(message)-1]),
	} {
		if got, ok := barrier.NumberIn(text); ok {
			t.Errorf("%s: got %d from %q", name, got, text)
		}
	}
	policy.Name = "another"
	if _, ok := barrier.NumberOf(policy); ok {
		t.Error("another policy: got a number")
	}
}
