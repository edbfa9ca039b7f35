/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
)

// TestLife follows a policy from its creation to its deletion.
func TestLife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
	eventually(t, "the state is known", func() bool { return phaseOf(c, "a") == barriercontroller.Written })
	stored, err := r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	vap := r.vap(t, "a")
	if !slices.Contains(stored.Finalizers, barriercontroller.Finalizer) || vap.Annotations[barriercontroller.UIDAnnotation] != string(stored.UID) ||
		vap.Annotations[barriercontroller.RevisionAnnotation] != stored.ResourceVersion || vap.Annotations[barrier.PolicyAnnotation] != "a" {
		t.Errorf("got the finalizers %v of the policy (%s, %s) and the annotations %v", stored.Finalizers, stored.UID, stored.ResourceVersion, vap.Annotations)
	}
	if !r.recorder.has("a BarrierWritten") {
		t.Error("got no event")
	}
	var number int64
	eventually(t, "the sentinel is written", func() bool { number = r.sentinel(t); return number > 0 })

	r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = "2" })
	eventually(t, "the barrier changes", func() bool { return r.isBarred(t, "a", "2") })
	eventually(t, "the sentinel is written again", func() bool { return r.sentinel(t) > number })

	r.delete(t, "a")
	eventually(t, "the barrier is gone", func() bool { return r.vap(t, "a") == nil && r.binding(t, "a") == nil })
	eventually(t, "the policy is gone", func() bool { return !r.exists(t, "a") })
	if _, ok := c.State(barriercontroller.Key{Key: engine.Key{Name: "a"}}); ok {
		t.Error("the state is still known")
	}
	log := r.kube.writes()
	if vap, binding := slices.Index(log, "create validatingadmissionpolicies "+vap.Name), slices.Index(log, "create validatingadmissionpolicybindings "+vap.Name); vap < 0 || binding < vap {
		t.Errorf("got the writes %q, want the policy before the binding", log)
	}
	if vap, binding := slices.Index(log, "delete validatingadmissionpolicies "+vap.Name), slices.Index(log, "delete validatingadmissionpolicybindings "+vap.Name); binding < 0 || vap < binding {
		t.Errorf("got the writes %q, want the binding deleted before the policy", log)
	}
}

// TestPolicyOutlivesNoBarrier checks that a deleted policy stays as long as its barrier cannot be removed.
func TestPolicyOutlivesNoBarrier(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
	var mu sync.Mutex
	isDown, refused := true, 0
	r.kube.mu.Lock()
	r.kube.before = func(verb, _, _ string, _ bool) error {
		mu.Lock()
		defer mu.Unlock()
		if isDown && verb == "delete" {
			refused++
			return errors.New("connection refused")
		}
		return nil
	}
	r.kube.mu.Unlock()
	r.delete(t, "a")
	eventually(t, "the removal is tried", func() bool { mu.Lock(); defer mu.Unlock(); return refused > 1 })
	if !r.exists(t, "a") || r.binding(t, "a") == nil {
		t.Fatal("the policy is gone before its barrier")
	}
	mu.Lock()
	isDown = false
	mu.Unlock()
	eventually(t, "the policy is gone", func() bool { return !r.exists(t, "a") && r.vap(t, "a") == nil })
}

// TestGoneBeforeTheCacheHasTheBarrier deletes a policy whose barrier the leader has just written, before the leader's watches tell of the barrier. An administrator has taken the
// finalizer, so that only the memory of the deletion says that the barrier may go. The clock stands still: nothing is removed while the policy exists, and the memory does not end.
func TestGoneBeforeTheCacheHasTheBarrier(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.clock = testingclock.NewFakeClock(time.Now())
	told := make(chan struct{})
	r.kubeClient.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		events, err := r.kubeClient.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(events, func(event watch.Event) (watch.Event, bool) { <-told; return event, true }), nil
	})
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
	r.delete(t, "a")
	r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Finalizers = nil })
	time.Sleep(100 * time.Millisecond) // the controller sees the deletion, and no barrier
	close(told)
	eventually(t, "the barrier is gone", func() bool { return r.vap(t, "a") == nil && r.binding(t, "a") == nil })
}

// TestUnwanted has policies that need no barrier any more.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*policyv1alpha1.ClusterAuthorizationPolicy){
		"another effect":     func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Effect = policyv1alpha1.PolicyEffectAllow },
		"not translatable":   func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = "untranslatable" },
		"the finalizer gone": nil, // and then the policy
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(t, lead)
			r.create(t, policy("a", "1"))
			eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
			if change == nil {
				// An administrator takes the finalizer from a policy that is being deleted.
				r.kube.mu.Lock()
				r.kube.before = func(verb, _, _ string, _ bool) error {
					if verb == "delete" && r.exists(t, "a") {
						return errors.New("connection refused")
					}
					return nil
				}
				r.kube.mu.Unlock()
				r.delete(t, "a")
				r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Finalizers = nil })
			} else {
				r.change(t, "a", change)
			}
			eventually(t, "the barrier is gone", func() bool { return r.vap(t, "a") == nil && r.binding(t, "a") == nil })
			if change != nil {
				eventually(t, "the policy can be deleted", func() bool {
					p, err := r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), "a", metav1.GetOptions{})
					return err == nil && len(p.Finalizers) == 0
				})
			}
		})
	}
}

// TestBarrierControllerTampering has changes of a barrier by others. Each is undone, and an event says so.
func TestBarrierControllerTampering(t *testing.T) {
	t.Parallel()
	type objects struct {
		policy  *admissionregistrationv1.ValidatingAdmissionPolicy
		binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	}
	for _, tc := range []struct {
		name   string
		change func(objects)
		// deletePolicy and deleteBinding delete the object, after change.
		deletePolicy, deleteBinding bool
	}{
		{name: "condition", change: func(o objects) { o.policy.Spec.Validations[0].Expression = "true" }},
		{name: "failure policy", change: func(o objects) {
			ignore := admissionregistrationv1.Ignore
			o.policy.Spec.FailurePolicy = &ignore
		}},
		{name: "binding to another policy", change: func(o objects) { o.binding.Spec.PolicyName = "other" }},
		{name: "finalizer", change: func(o objects) { o.policy.Finalizers = nil }},
		{name: "finalizer of the binding", change: func(o objects) { o.binding.Finalizers = nil }},
		{name: "another finalizer", change: func(o objects) { o.policy.Finalizers = append(o.policy.Finalizers, "example.com/stay") }},
		{name: "label", change: func(o objects) { o.policy.Labels = nil }},
		{name: "annotation", change: func(o objects) { o.policy.Annotations = nil }},
		{name: "annotation of another policy", change: func(o objects) { o.policy.Annotations[barrier.PolicyAnnotation] = "b" }},
		{name: "revision of the far future", change: func(o objects) {
			o.policy.Annotations[barriercontroller.RevisionAnnotation] = "99999999999"
			o.policy.Spec.Validations[0].Expression = "true"
		}},
		{name: "owner reference", change: func(o objects) {
			o.policy.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
		}},
		{name: "deletion", deletePolicy: true},
		{name: "deletion of the binding", deleteBinding: true},
		{name: "deletion without finalizer", change: func(o objects) { o.policy.Finalizers = nil }, deletePolicy: true},
		{name: "annotations that leave no room", change: func(o objects) {
			for _, meta := range []*metav1.ObjectMeta{&o.policy.ObjectMeta, &o.binding.ObjectMeta} {
				meta.Annotations = map[string]string{"example.com/full": "full"}
			}
			o.policy.Spec.Validations[0].Expression = "true"
		}},
		{name: "labels that leave no room", change: func(o objects) {
			for _, meta := range []*metav1.ObjectMeta{&o.policy.ObjectMeta, &o.binding.ObjectMeta} {
				meta.Labels = map[string]string{"example.com/full": "full"}
			}
			o.policy.Spec.Validations[0].Expression = "true"
		}},
		{name: "all marks and the condition", change: func(o objects) {
			o.policy.Finalizers, o.policy.Labels, o.policy.Annotations = nil, nil, nil
			o.policy.Spec.Validations[0].Expression = "true"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.kubeClient.PrependReactor("update", "*", refuseFull)
			c, _ := r.start(t, lead)
			r.create(t, policy("a", "1"))
			eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") && phaseOf(c, "a") == barriercontroller.Written })
			client := r.kubeClient.AdmissionregistrationV1()
			o := objects{r.vap(t, "a"), r.binding(t, "a")}
			if tc.change != nil {
				tc.change(o)
				if _, err := client.ValidatingAdmissionPolicies().Update(t.Context(), o.policy, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := client.ValidatingAdmissionPolicyBindings().Update(t.Context(), o.binding, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.deletePolicy {
				if err := client.ValidatingAdmissionPolicies().Delete(t.Context(), o.policy.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.deleteBinding {
				if err := client.ValidatingAdmissionPolicyBindings().Delete(t.Context(), o.policy.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "an event tells", func() bool { return r.recorder.has("a BarrierRestored: Others had changed") })
			eventually(t, "the barrier is as it was", func() bool {
				return r.isBarred(t, "a", "1") && r.vap(t, "a").Annotations[barrier.PolicyAnnotation] == "a"
			})
		})
	}
}

// refuseFull refuses an object to which annotations or labels are added that have no room for more, as kube-apiserver refuses more than 256 KiB
// of annotations, and etcd more than 1.5 MiB in all.
func refuseFull(action clienttesting.Action) (bool, runtime.Object, error) {
	object := action.(clienttesting.UpdateAction).GetObject().(metav1.Object)
	if _, ok := object.GetAnnotations()["example.com/full"]; ok && len(object.GetAnnotations()) > 1 {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, object.GetName(), nil)
	}
	if _, ok := object.GetLabels()["example.com/full"]; ok && len(object.GetLabels()) > 1 {
		return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}}
	}
	return false, nil, nil
}

// TestTamperingAtOnce checks that a barrier counts as changed by others also if they removed it before the cache had all of it.
func TestTamperingAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	removed := false
	r.kubeClient.PrependReactor("create", "validatingadmissionpolicybindings", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateActionImpl)
		if name := barrier.Name(engine.Key{Name: "a"}); !ok || removed || len(create.CreateOptions.DryRun) > 0 || accessorOf(create.Object).GetName() != name {
			return false, nil, nil
		}
		removed = true
		handled, created, err := r.kube.react(action)
		resource := admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
		if deleteErr := r.kube.tracker.Delete(resource, "", accessorOf(created).GetName()); deleteErr != nil {
			t.Error(deleteErr)
		}
		return handled, created, err
	})
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier is written again", func() bool { return r.isBarred(t, "a", "1") })
	eventually(t, "an event tells", func() bool { return r.recorder.has("a BarrierRestored: Others had changed") })
}

// TestReplacedObjects checks that objects that others have put in the place of a barrier while no replica ran are undone.
func TestReplacedObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		replace func(*testing.T, *rig)
	}{
		{"the marks and the condition", func(t *testing.T, r *rig) {
			stored := r.vap(t, "a")
			stored.Finalizers, stored.Labels, stored.Annotations = nil, nil, nil
			stored.Spec.Validations[0].Expression = "true"
			if _, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"the policy", func(t *testing.T, r *rig) {
			stored := r.vap(t, "a")
			replace(t, r, "validatingadmissionpolicies", &admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: stored.Name},
				Spec:       admissionregistrationv1.ValidatingAdmissionPolicySpec{Validations: []admissionregistrationv1.Validation{{Expression: "true"}}},
			})
		}},
		{"the binding", func(t *testing.T, r *rig) {
			stored := r.binding(t, "a")
			replace(t, r, "validatingadmissionpolicybindings", &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: stored.Name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "other"},
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, stop := r.start(t, lead)
			r.create(t, policy("a", "1"))
			eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
			stop()
			tc.replace(t, r)
			if r.isBarred(t, "a", "1") {
				t.Fatal("nothing was replaced")
			}
			r.start(t, lead)
			eventually(t, "the barrier is as it was", func() bool { return r.isBarred(t, "a", "1") })
		})
	}
}

// replace has an object of another tool in the place of the one with its name.
func replace(t *testing.T, r *rig, resource string, object runtime.Object) {
	t.Helper()
	gvr := admissionregistrationv1.SchemeGroupVersion.WithResource(resource)
	if err := r.kube.tracker.Delete(gvr, "", accessorOf(object).GetName()); err != nil {
		t.Fatal(err)
	}
	r.kube.next(accessorOf(object))
	if err := r.kube.tracker.Create(gvr, object, ""); err != nil {
		t.Fatal(err)
	}
}

// TestForeignObjects checks that objects of other tools are neither changed nor removed.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := barrier.Name(engine.Key{Name: "a"})
	client := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	foreign := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "gatekeeper"}}}
	foreign.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "theirs"}}
	if _, err := client.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c, _ := r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the state tells", func() bool { return phaseOf(c, "a") == barriercontroller.NameTaken })
	if state, _ := c.State(barriercontroller.Key{Key: engine.Key{Name: "a"}}); !strings.Contains(state.Message, "belongs to another tool") || !r.recorder.has("a BarrierRefused") {
		t.Errorf("got %q, and the events %q", state.Message, r.recorder.events)
	}
	r.delete(t, "a")
	eventually(t, "the policy is gone", func() bool { return !r.exists(t, "a") })
	if got := r.vap(t, "a"); got == nil || got.Spec.Validations[0].Expression != "theirs" || len(got.Finalizers) > 0 || r.binding(t, "a") != nil {
		t.Errorf("got %v, and the binding %v", got, r.binding(t, "a"))
	}
}

// TestForeignObjectsOfDeletedPolicies checks that an object of another tool stays which got the name of a barrier, while no replica ran that could
// have taken it over, before the policy was deleted.
func TestForeignObjectsOfDeletedPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	foreign := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: barrier.Name(engine.Key{Name: "a"})}}
	if _, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	barred := policy("a", "1")
	barred.Finalizers = []string{barriercontroller.Finalizer}
	r.create(t, barred)
	r.delete(t, "a")
	r.start(t, lead)
	eventually(t, "the policy is gone", func() bool { return !r.exists(t, "a") })
	if r.vap(t, "a") == nil {
		t.Error("the object of another tool is gone")
	}
}

// TestRenderedObjects checks that manifests that were rendered and applied before are taken over.
func TestRenderedObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rendered, err := compile(engine.Key{Name: "a"}, &policy("a", "0").Spec)
	if err != nil {
		t.Fatal(err)
	}
	rendered.Policy.Labels = map[string]string{barrier.ManagedByLabel: barrier.ManagedBy}
	rendered.Policy.Annotations = map[string]string{barrier.PolicyAnnotation: "a"}
	if _, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), rendered.Policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "it is taken over", func() bool { return r.isBarred(t, "a", "1") })
}

// TestRefusal checks that a barrier that kube-apiserver refuses is not written, that the earlier one stays, and that the reason is told.
func TestRefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kube.before = func(_, resource, name string, dryRun bool) error {
		if !strings.HasPrefix(name, "bad") {
			return nil
		}
		if !dryRun {
			return errors.New("not after a dry run that fails")
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: resource}, name, nil)
	}
	c, _ := r.start(t, lead)
	r.create(t, policy("bad", "1"))
	r.create(t, policy("good", "1"))
	eventually(t, "the other barrier is written", func() bool { return r.isBarred(t, "good", "1") })
	eventually(t, "the refusal is told", func() bool { return phaseOf(c, "bad") == barriercontroller.Refused })
	state, _ := c.State(barriercontroller.Key{Key: engine.Key{Name: "bad"}})
	if !strings.Contains(state.Message, "is invalid") || strings.Contains(state.Message, "good") || len(state.Message) > 1024 || !r.recorder.has("bad BarrierRefused") {
		t.Errorf("got %q, and the events %q", state.Message, r.recorder.events)
	}
	if r.vap(t, "bad") != nil || r.binding(t, "bad") != nil {
		t.Error("it was written")
	}

	r.kube.mu.Lock()
	r.kube.before = func(_, resource, name string, dryRun bool) error {
		if dryRun && strings.HasPrefix(name, "good") {
			return apierrors.NewInvalid(schema.GroupKind{Kind: resource}, name, nil)
		}
		return nil
	}
	r.kube.mu.Unlock()
	r.change(t, "good", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = "2" })
	eventually(t, "the refusal is told", func() bool { return phaseOf(c, "good") == barriercontroller.Refused })
	if !r.isBarred(t, "good", "1") {
		t.Error("the earlier barrier is gone")
	}
	r.change(t, "good", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = "broken" })
	eventually(t, "the failure is told", func() bool {
		return phaseOf(c, "good") == barriercontroller.Broken || phaseOf(c, "good") == barriercontroller.Refused
	})
	if !r.isBarred(t, "good", "1") {
		t.Error("the earlier barrier is gone")
	}
}

// TestFollower checks that a replica that does not lead knows the state of barriers, and writes nothing.
func TestFollower(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, stop := r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "1") })
	stop()
	before := len(r.kube.writes())
	c, _ := r.start(t, follow)
	eventually(t, "the state is known", func() bool { return phaseOf(c, "a") == barriercontroller.Written })
	r.create(t, policy("b", "1"))
	r.delete(t, "a")
	time.Sleep(100 * time.Millisecond)
	if got := len(r.kube.writes()); got != before || !r.exists(t, "a") {
		t.Errorf("got %q", r.kube.writes()[before:])
	}
}

// TestLostStore checks that no barrier is removed because the store does not have its policy.
func TestLostStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, stop := r.start(t, lead)
	r.create(t, policy("a", "1"))
	r.create(t, policy("b", "1"))
	eventually(t, "the barriers are written", func() bool { return r.isBarred(t, "a", "1") && r.isBarred(t, "b", "1") })
	stop()
	lost := newRig(t)
	lost.kube, lost.kubeClient = r.kube, r.kubeClient
	lost.create(t, policy("b", "2")) // with another UID
	lost.start(t, lead)
	eventually(t, "the policy that exists has its barrier", func() bool { return lost.isBarred(t, "b", "2") })
	eventually(t, "the orphan is told", func() bool { return lost.recorder.has("BarrierOrphaned") })
	if !lost.isBarred(t, "a", "1") {
		t.Error("the barrier is gone")
	}
	loseB := func() {
		t.Helper()
		lost.recorder.mu.Lock()
		lost.recorder.events = nil
		lost.recorder.mu.Unlock()
		if err := lost.policies.Tracker().Delete(policyv1alpha1.SchemeGroupVersion.WithResource("clusterauthorizationpolicies"), "", "b"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the orphan is told", func() bool {
			return lost.recorder.has(barrier.Name(engine.Key{Name: "b"}) + " BarrierOrphaned")
		})
	}
	loseB() // a key that vanishes from the store without the API is no deletion
	if !lost.isBarred(t, "b", "2") {
		t.Error("the barrier of the vanished policy is gone")
	}
	// The same name again takes the barrier over.
	lost.create(t, policy("a", "3"))
	lost.create(t, policy("b", "3"))
	eventually(t, "the barriers are taken over", func() bool { return lost.isBarred(t, "a", "3") && lost.isBarred(t, "b", "3") })
	loseB() // again
	lost.delete(t, "a")
	eventually(t, "it is removed with its policy", func() bool { return lost.vap(t, "a") == nil })
}

// TestCoalescing checks that a policy that changes all the time is written once in a second, and its last text in the end.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t, lead)
	r.create(t, policy("a", "0"))
	eventually(t, "the barrier is written", func() bool { return r.isBarred(t, "a", "0") })
	started := time.Now()
	const changes = 60
	for i := range changes {
		r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = fmt.Sprint(i + 1) })
		time.Sleep(2 * time.Millisecond) // the watch of the fake has room for 100 events
	}
	eventually(t, "the last text is written", func() bool { return r.isBarred(t, "a", fmt.Sprint(changes)) })
	name, written := barrier.Name(engine.Key{Name: "a"}), 0
	for _, w := range r.kube.writes() {
		if w == "update validatingadmissionpolicies "+name {
			written++
		}
	}
	if most := int(time.Since(started)/time.Second) + 2; written > most {
		t.Errorf("got %d writes in %s, want %d at most", written, time.Since(started), most)
	}
}

// TestClusterScopedPoliciesDoNotWait has policies of many namespaces that take long to compile.
func TestClusterScopedPoliciesDoNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	resume := make(chan struct{})
	defer close(resume)
	r.compile = func(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error) {
		if key.Namespace != "" {
			<-resume
		}
		return compile(key, spec)
	}
	for n := range 20 {
		p := &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", n), Name: "a"}, Spec: policy("", "1").Spec}
		if _, err := r.policies.PolicyV1alpha1().AuthorizationPolicies(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the barrier of the cluster-scoped policy is written", func() bool { return r.isBarred(t, "a", "1") })
	if c.IsKnown() {
		t.Error("all barriers are known while policies of namespaces have not been compared with theirs")
	}
}
