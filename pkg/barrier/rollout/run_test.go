/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout_test

import (
	"context"
	"math"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	provisofake "github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/generated/informers/externalversions"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
	"github.com/proviso-authz/proviso/pkg/cluster"
)

// TestRun has informers deliver what is stored, and probes run by themselves.
func TestRun(t *testing.T) {
	t.Parallel()
	namespaced := engine.Key{Namespace: "n", Name: "q"}
	spec := specOf("one", "update")
	w := newWorld(t, "a", "b")
	config := w.config(func(c *cluster.Config) { c.Clock, c.Interval = clock.RealClock{}, 200*time.Millisecond })
	kube := fake.NewClientset()
	config.Stored = func(ctx context.Context) (policies, bindings rollout.Stored, err error) {
		policies, bindings = storedOf[*admissionregistrationv1.ValidatingAdmissionPolicy](nil, math.MaxUint64), storedOf[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](nil, math.MaxUint64)
		ofPolicies, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
		if err != nil {
			return policies, bindings, err
		}
		ofBindings, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
		for i := range ofPolicies.Items {
			policies.Objects[ofPolicies.Items[i].Name] = barrier.VersionOf(&ofPolicies.Items[i])
		}
		for i := range ofBindings.Items {
			bindings.Objects[ofBindings.Items[i].Name] = barrier.VersionOf(&ofBindings.Items[i])
		}
		return policies, bindings, err
	}
	replica, err := rollout.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.replica = replica
	for _, key := range []engine.Key{policyKey, namespaced} {
		w.writeBarrier(t, key, spec)
	}
	w.writeSentinel()
	w.load("a", "b")
	for _, name := range []string{nameOf(policyKey), nameOf(namespaced), barrier.SentinelName} {
		if _, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), w.policy(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), w.binding(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var proviso versioned.Interface = provisofake.NewSimpleClientset(
		&policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyKey.Name}, Spec: *spec},
		&policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespaced.Namespace, Name: namespaced.Name}, Spec: *spec},
	)
	ctx, cancel := context.WithCancel(t.Context())
	admission, stored := informers.NewSharedInformerFactory(kube, 0), externalversions.NewSharedInformerFactory(proviso, 0)
	objects, own := admission.Admissionregistration().V1(), stored.Policy().V1alpha1()
	followed := make(chan error, 1)
	policies, bindings := objects.ValidatingAdmissionPolicies().Informer(), objects.ValidatingAdmissionPolicyBindings().Informer()
	ofCluster, others := own.ClusterAuthorizationPolicies().Informer(), own.AuthorizationPolicies().Informer()
	admission.Start(ctx.Done())
	stored.Start(ctx.Done())
	go func() { followed <- replica.Follow(ctx, ofCluster, others, policies, bindings) }()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		go replica.RunSight(ctx)
		replica.Run(ctx)
	}()
	defer func() {
		cancel()
		<-stopped
		admission.Shutdown()
		stored.Shutdown()
	}()
	eventually := func(what string, holds func() bool) {
		t.Helper()
		if wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil }) != nil {
			t.Fatalf("%s: %+v", what, replica.State(policyKey))
		}
	}
	phaseOf := func(key engine.Key) rollout.Phase { return replica.State(key).Phase }
	eventually("both active", func() bool { return phaseOf(policyKey) == rollout.Active && phaseOf(namespaced) == rollout.Active })
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), nameOf(policyKey), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("a binding that is gone", func() bool { return phaseOf(policyKey) == rollout.Pending })
	if err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), nameOf(namespaced), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("a policy of kube-apiserver that is gone", func() bool { return phaseOf(namespaced) == rollout.Pending })
	if err := proviso.PolicyV1alpha1().ClusterAuthorizationPolicies().Delete(t.Context(), policyKey.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := proviso.PolicyV1alpha1().AuthorizationPolicies("n").Delete(t.Context(), namespaced.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("policies that are gone", func() bool { return phaseOf(policyKey) == rollout.Absent && phaseOf(namespaced) == rollout.Absent })

	// A number that servers load later is found out quickly, although the server is silent at first.
	w.mu.Lock()
	w.server("a").mode = "stalled"
	w.mu.Unlock()
	if _, err := proviso.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyKey.Name}, Spec: *spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.writeBarrier(t, policyKey, spec)
	w.writeSentinel()
	if _, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), w.binding(nameOf(policyKey)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nameOf(policyKey), barrier.SentinelName} {
		if _, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), w.policy(name), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Update(t.Context(), w.binding(barrier.SentinelName), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.load("a", "b")
	eventually("a stalled server", func() bool { return len(replica.State(policyKey).Lacking) == 1 })
	w.mu.Lock()
	w.server("a").mode = ""
	w.mu.Unlock()
	eventually("active again", func() bool { return phaseOf(policyKey) == rollout.Active })
}
