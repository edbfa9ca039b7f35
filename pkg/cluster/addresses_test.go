/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster_test

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/cluster"
)

// TestEndpointsOf lists the endpoints of one Service.
func TestEndpointsOf(t *testing.T) {
	t.Parallel()
	slice := func(name, namespace, service string, ready bool, addresses ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Ports:      []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](6443)}, {Name: ptr.To("other"), Port: ptr.To[int32](80)}, {Name: ptr.To("https")}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}},
		}
	}
	client := fake.NewClientset(
		slice("a", "default", "kubernetes", true, "10.0.0.1", "10.0.0.2"), slice("b", "default", "kubernetes", false, "fd00::1"),
		slice("c", "default", "other", true, "10.0.0.3"), slice("d", "demo", "kubernetes", true, "10.0.0.4"),
	)
	got, err := cluster.EndpointsOf(client)(t.Context())
	slices.Sort(got)
	if want := []string{"https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://[fd00::1]:6443"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestLeasesOf counts the Leases that kube-apiservers renew.
func TestLeasesOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	lease := func(name, namespace string, age time.Duration) runtime.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-age)))}}
	}
	client := fake.NewClientset(
		lease("apiserver-a", "kube-system", time.Second), lease("apiserver-b", "kube-system", time.Minute), lease("apiserver-c", "kube-system", time.Minute+time.Second),
		lease("apiserver-d", "demo", time.Second), lease("kube-scheduler", "kube-system", time.Second),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "apiserver-e", Namespace: "kube-system"}},
	)
	renewed, err := cluster.LeasesOf(client)(t.Context())
	if got := (cluster.State{Renewed: renewed, RenewedAt: now}).Alive(cluster.AliveFor); err != nil || got != 2 {
		t.Errorf("got %d, %v, want 2", got, err)
	}
}

// TestAddress has the ways to write the address of a server.
func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://a:6443": "https://a:6443", "https://A:6443/": "https://a:6443", "https://a.:6443": "https://a:6443", "https://a": "https://a:443", "https://a:443/": "https://a:443",
		"https://[FD00::1]": "https://[fd00::1]:443", "https://10.0.0.1:6443//": "https://10.0.0.1:6443",
		"": "", "a:6443": "", "http://a:6443": "", "https://": "", "https://:6443": "", "https://a:": "", "https://u@a": "", "https://a/b": "", "https://a?b": "", "https://a?": "", "https://a#b": "", "https://[": "",
	} {
		if got, err := cluster.Address(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
