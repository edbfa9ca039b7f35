/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
)

// TestRemove removes all barriers, after each number of writes and then to the end, and checks that policies can be deleted afterwards.
func TestRemove(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rendered := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "rendered", Labels: map[string]string{barrier.ManagedByLabel: barrier.ManagedBy}, Annotations: map[string]string{barrier.PolicyAnnotation: "rendered"},
	}}
	if _, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), rendered, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, stop := r.start(t, lead)
	r.create(t, policy("a", "1"))
	r.create(t, policy("b", "1"))
	eventually(t, "the barriers are written", func() bool { return r.isBarred(t, "a", "1") && r.isBarred(t, "b", "1") && r.sentinel(t) > 0 })
	stop()
	// Others have changed one of them.
	vap := r.vap(t, "a")
	vap.Labels, vap.Annotations = nil, nil
	if _, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), vap, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var removed []string
	remover := &barriercontroller.Remover{KubeAPIServer: r.kubeClient, Policies: r.policies, Namespace: namespace, Log: func(format string, args ...any) {
		removed = append(removed, fmt.Sprintf(format, args...))
	}}
	for n := int64(0); ; n++ {
		if n > 30 {
			t.Fatal("it writes without end")
		}
		hasStopped := r.stopAfter(n)
		err := remover.Remove(t.Context())
		if hasStopped() != (err != nil) {
			t.Fatalf("after %d writes: got %v", n, err)
		}
		r.setBefore(nil)
		if err == nil {
			break
		}
	}
	if len(removed) != 8 { // six objects of both kinds, and two policies
		t.Errorf("got %q", removed)
	}
	left, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "rendered" || r.binding(t, "a") != nil || r.binding(t, "b") != nil {
		t.Errorf("got %v, %v", left.Items, err)
	}
	r.delete(t, "a")
	if r.exists(t, "a") {
		t.Error("a policy cannot be deleted")
	}
}

// TestRemoveWhileLeading checks that nothing is removed while a replica writes barriers.
func TestRemoveWhileLeading(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		holder string
		ago    time.Duration
		want   bool
	}{
		{name: "a leader", holder: "replica"},
		{name: "no holder", want: true},
		{name: "a leader that has ended", holder: "replica", ago: time.Hour, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, stop := r.start(t, lead)
			r.create(t, policy("a", "1"))
			eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
			stop()
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: barriercontroller.LeaseName}}
			lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To(tc.holder), RenewTime: &metav1.MicroTime{Time: time.Now().Add(-tc.ago)}}
			if _, err := r.kubeClient.CoordinationV1().Leases(namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			err := (&barriercontroller.Remover{KubeAPIServer: r.kubeClient, Namespace: namespace, Log: func(string, ...any) {}}).Remove(t.Context())
			var leader *barriercontroller.LeaderError
			if errors.As(err, &leader) == tc.want || !tc.want && !strings.Contains(err.Error(), "turn the flag --barriers off") {
				t.Errorf("got %v", err)
			}
			if removed := r.vap(t, "a") == nil; removed != tc.want {
				t.Errorf("removed: %t, want %t", removed, tc.want)
			}
		})
	}
}
