/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
)

var errStopped = errors.New("the process has ended")

// stopAfter has the first n writes to both servers succeed, dry runs included, and none after them. The returned function reports whether
// a write has failed.
func (r *rig) stopAfter(n int64) func() bool {
	var made atomic.Int64
	before := func(string, string, string, bool) error {
		if made.Add(1) > n {
			return errStopped
		}
		return nil
	}
	r.setBefore(before)
	return func() bool { return made.Load() > n }
}

func (r *rig) setBefore(before func(verb, resource, name string, dryRun bool) error) {
	for _, s := range []*store{r.kube, r.proviso} {
		s.mu.Lock()
		s.before = before
		s.mu.Unlock()
	}
}

// TestEndsAnywhere ends the leader after each number of writes, while it does something, and checks that the next leader completes it.
func TestEndsAnywhere(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, r *rig) { t.Helper(); r.delete(t, "a") }
	isGone := func(t *testing.T, r *rig) bool {
		t.Helper()
		return !r.exists(t, "a") && r.vap(t, "a") == nil && r.binding(t, "a") == nil
	}
	change := func(t *testing.T, r *rig) {
		t.Helper()
		r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = "2" })
	}
	isChanged := func(t *testing.T, r *rig) bool { t.Helper(); return r.isBarred(t, "a", "2") }
	deleteBoth := func(t *testing.T, r *rig) {
		t.Helper()
		client, name := r.kubeClient.AdmissionregistrationV1(), barrier.Name(engine.Key{Name: "a"})
		if err := errors.Join(client.ValidatingAdmissionPolicies().Delete(t.Context(), name, metav1.DeleteOptions{}),
			client.ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{})); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		// exists says that the barrier is written before.
		exists bool
		do     func(*testing.T, *rig)
		done   func(*testing.T, *rig) bool
	}{
		{name: "write", do: func(t *testing.T, r *rig) { t.Helper(); r.create(t, policy("a", "1")) }, done: func(t *testing.T, r *rig) bool { t.Helper(); return r.isBarred(t, "a", "1") }},
		{name: "change", exists: true, do: change, done: isChanged},
		{name: "remove", exists: true, do: remove, done: isGone},
		{name: "another effect", exists: true, do: func(t *testing.T, r *rig) {
			t.Helper()
			r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Effect = policyv1alpha1.PolicyEffectAllow })
		}, done: func(t *testing.T, r *rig) bool { t.Helper(); return r.vap(t, "a") == nil && r.binding(t, "a") == nil }},
		{name: "restore", exists: true, do: deleteBoth, done: func(t *testing.T, r *rig) bool { t.Helper(); return r.isBarred(t, "a", "1") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := int64(0)
			for ; !endsAfter(t, n, tc.exists, tc.do, tc.done); n++ {
				if n > 30 {
					t.Fatal("it writes without end")
				}
			}
			if n < 2 {
				t.Errorf("got %d writes, so that the test proves nothing", n)
			}
		})
	}
}

// endsAfter ends the leader after n writes, and reports whether it needed no more. exists, do and done are as in the table of
// TestEndsAnywhere.
func endsAfter(t *testing.T, n int64, exists bool, do func(*testing.T, *rig), done func(*testing.T, *rig) bool) bool {
	t.Helper()
	r := newRig(t)
	if exists {
		_, stop := r.start(t, lead)
		r.create(t, policy("a", "1"))
		eventually(t, "the sentinel is written", func() bool { return r.isBarred(t, "a", "1") && r.sentinel(t) > 0 })
		stop()
	}
	do(t, r) // while no replica runs
	hasStopped := r.stopAfter(n)
	_, stop := r.start(t, lead)
	isDone := func() bool { return done(t, r) && r.sentinel(t) > 0 }
	eventually(t, fmt.Sprintf("after %d writes: it stops or ends", n), func() bool { return hasStopped() || isDone() })
	stop()
	isComplete := !hasStopped()
	r.setBefore(nil)
	_, stop = r.start(t, lead)
	eventually(t, fmt.Sprintf("after %d writes: the next leader completes it", n), isDone)
	stop()
	return isComplete
}

// TestStatusInBetween writes the status of new policies while the controller gives them its finalizer. The barriers do not wait for the interval
// between two writes, because nothing of them was written.
func TestStatusInBetween(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	steps := testingclock.NewFakeClock(time.Now())
	r.clock = steps
	var conflicts atomic.Int64
	r.setBefore(func(verb, resource, name string, _ bool) error {
		if verb == "update" && resource == "clusterauthorizationpolicies" && conflicts.Add(1) <= 3 {
			return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, nil)
		}
		return nil
	})
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	var waited time.Duration
	eventually(t, "the barrier is written", func() bool {
		if conflicts.Load() > 0 && waited < 900*time.Millisecond {
			waited += 10 * time.Millisecond
			steps.Step(10 * time.Millisecond)
		}
		return r.isBarred(t, "a", "1")
	})
	if conflicts.Load() < 3 {
		t.Errorf("got %d attempts, so that the test proves nothing", conflicts.Load())
	}
}

// TestStalePoliciesChangeNoBarrier changes policies while those that are stored, or the mappings, may be out of date: nothing is written or removed until they are up to date again.
func TestStalePoliciesChangeNoBarrier(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]func(*rig) *staleness{
		"policies": func(r *rig) *staleness { return &r.stalePolicies }, "mappings": func(r *rig) *staleness { return &r.staleMappings },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(t, lead)
			for _, name := range []string{"deleted", "allows", "unheld"} {
				r.create(t, policy(name, "1"))
			}
			eventually(t, "barriers are written", func() bool {
				return r.isBarred(t, "deleted", "1") && r.isBarred(t, "allows", "1") && r.isBarred(t, "unheld", "1") && r.sentinel(t) > 0
			})
			which(r).Store(true)
			before := r.kube.writes()
			r.create(t, policy("new", "1"))
			r.change(t, "allows", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Effect = policyv1alpha1.PolicyEffectAllow })
			r.delete(t, "deleted")
			r.change(t, "unheld", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Finalizers = nil })
			r.delete(t, "unheld")
			time.Sleep(1500 * time.Millisecond) // more than the least time between two writes of one barrier
			if written := r.kube.writes()[len(before):]; len(written) > 0 || !r.exists(t, "deleted") {
				t.Errorf("got %v", written)
			}
			which(r).Store(false)
			eventually(t, "barriers follow", func() bool {
				return r.isBarred(t, "new", "1") && r.vap(t, "allows") == nil && r.vap(t, "unheld") == nil && r.vap(t, "deleted") == nil && !r.exists(t, "deleted")
			})
		})
	}
}

// TestTwoLeaders has two leaders at the same time while policies change and others tamper with their barriers. In the end everything is in order,
// and no leader has replaced a later text by an earlier one.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t, lead)
	r.start(t, lead)
	const number, last = 5, 20
	for i := range number {
		r.create(t, policy(fmt.Sprintf("p%d", i), "0"))
	}
	for text := range last {
		for i := range number {
			r.change(t, fmt.Sprintf("p%d", i), func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = fmt.Sprint(text + 1) })
		}
		time.Sleep(20 * time.Millisecond)
	}
	for i := range number {
		eventually(t, "the last text is written", func() bool { return r.isBarred(t, fmt.Sprintf("p%d", i), fmt.Sprint(last)) })
	}
	r.delete(t, "p0")
	eventually(t, "a barrier is removed", func() bool { return r.vap(t, "p0") == nil && !r.exists(t, "p0") })
	time.Sleep(50 * time.Millisecond)
	if r.vap(t, "p0") != nil || !r.isBarred(t, "p1", fmt.Sprint(last)) {
		t.Error("a leader undoes the work of the other one")
	}
}

// TestOldLeader has a leader that stands still between its reads and its write, while another one writes a later text.
func TestOldLeader(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(t, policy("a", "1"))
			// The old leader has its own connection, which stands still.
			old := newRig(t)
			old.recorder, old.policies, old.proviso = r.recorder, r.policies, r.proviso
			old.kubeClient = r.otherClient()
			reached, resume := make(chan struct{}), make(chan struct{})
			held := atomic.Bool{}
			old.kubeClient.PrependReactor("create", resource, holdFirst(&held, reached, resume))
			_, stopOld := old.start(t, lead)
			letGo := sync.OnceFunc(func() { close(resume) })
			t.Cleanup(letGo) // before the controllers are stopped
			<-reached
			r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Spec.Condition = "2" })
			_, stop := r.start(t, lead)
			if resource == "validatingadmissionpolicies" {
				eventually(t, "the new leader writes", func() bool { return r.isBarred(t, "a", "2") })
			} else {
				eventually(t, "the new leader writes", func() bool { return r.vap(t, "a").Spec.Validations[0].Expression == "2" })
			}
			letGo()
			eventually(t, "both are done", func() bool { return r.isBarred(t, "a", "2") })
			stopOld()
			stop()
			if !r.isBarred(t, "a", "2") {
				t.Error("the old leader has overwritten the later text")
			}
		})
	}
}

// TestSentinelCountsStatus checks that the sentinel is written again after a status was written, as kube-controller-manager does.
func TestSentinelCountsStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	var number int64
	eventually(t, "the sentinel is written", func() bool { number = r.sentinel(t); return number > 0 && r.isBarred(t, "a", "1") })
	eventually(t, "the status is written", func() bool {
		vap := r.vap(t, "a")
		vap.Status.ObservedGeneration = 1
		_, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), vap, metav1.UpdateOptions{})
		return err == nil
	})
	eventually(t, "the sentinel is written again", func() bool { return r.sentinel(t) > number })
	if r.recorder.has("BarrierRestored") {
		t.Error("a status counts as a change by others")
	}
	// Others delete the sentinel.
	if err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), barrier.SentinelName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sentinel is written with a greater number", func() bool { return r.sentinel(t) > number+1 })
}

// TestSentinelThatSaysTooMuch checks that a sentinel is written again that others have changed to say that what is stored later was stored before it.
func TestSentinelThatSaysTooMuch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		forged barrier.Extent
	}{
		{"policies", barrier.Extent{Policies: 1 << 40}},
		{"bindings", barrier.Extent{Bindings: 1 << 40}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(t, lead)
			r.create(t, policy("a", "1"))
			var number int64
			eventually(t, "the sentinel is written", func() bool { number = r.sentinel(t); return number > 0 && r.isBarred(t, "a", "1") })
			client := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies()
			eventually(t, "others change it", func() bool {
				stored, err := client.Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
				if err != nil {
					return false
				}
				tc.forged.Policies, tc.forged.Bindings = max(tc.forged.Policies, r.extent(t).Policies), max(tc.forged.Bindings, r.extent(t).Bindings)
				barrier.SetExtent(stored, tc.forged)
				_, err = client.Update(t.Context(), stored, metav1.UpdateOptions{})
				return err == nil
			})
			eventually(t, "it is written again", func() bool { return r.extent(t) != tc.forged && r.sentinel(t) > number })
		})
	}
}

// TestSentinelOfNumberZero checks that a sentinel is written again to which others have given the number 0, which is none.
func TestSentinelOfNumberZero(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	var number int64
	eventually(t, "the sentinel is written", func() bool { number = r.sentinel(t); return number > 0 && r.isBarred(t, "a", "1") })
	zeroPolicy, zeroBinding := barrier.Sentinel(namespace, 0)
	admission := r.kubeClient.AdmissionregistrationV1()
	eventually(t, "others change both objects", func() bool {
		stored, err := admission.ValidatingAdmissionPolicyBindings().Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		stored.Spec = zeroBinding.Spec
		if _, err = admission.ValidatingAdmissionPolicyBindings().Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
			return false
		}
		policy, err := admission.ValidatingAdmissionPolicies().Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		policy.Spec = zeroPolicy.Spec
		_, err = admission.ValidatingAdmissionPolicies().Update(t.Context(), policy, metav1.UpdateOptions{})
		return err == nil
	})
	eventually(t, "it is written again", func() bool { return r.sentinel(t) > number })
}

// extent returns what the stored sentinel says that was stored before.
func (r *rig) extent(t *testing.T) barrier.Extent {
	t.Helper()
	stored, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
	if err != nil {
		return barrier.Extent{}
	}
	extent, _ := barrier.ExtentOf(stored)
	return extent
}

// TestSentinelThatCannotGo checks that a sentinel that others have deleted, with a finalizer of their own, is replaced instead of written again and again.
func TestSentinelThatCannotGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the sentinel is written", func() bool { return r.isBarred(t, "a", "1") && r.sentinel(t) > 0 })
	client := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	sentinel := func() *admissionregistrationv1.ValidatingAdmissionPolicy {
		stored, err := client.Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return stored
	}
	before := sentinel()
	eventually(t, "others delete it, and it stays", func() bool {
		stored := sentinel()
		stored.Finalizers = []string{"example.com/stay"}
		if _, err := client.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
			return false
		}
		return client.Delete(t.Context(), barrier.SentinelName, metav1.DeleteOptions{}) == nil
	})
	eventually(t, "another one is written", func() bool {
		stored := sentinel()
		return stored != nil && stored.UID != before.UID && stored.DeletionTimestamp == nil && r.sentinel(t) > 0
	})
}

// TestNoNeedlessWrites checks that nothing is written once everything is in order.
func TestNoNeedlessWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.start(t, lead)
	r.create(t, policy("a", "1"))
	eventually(t, "the sentinel is written", func() bool {
		return r.isBarred(t, "a", "1") && r.sentinel(t) > 0 && phaseOf(c, "a") == barriercontroller.Written
	})
	time.Sleep(1500 * time.Millisecond) // an event of its own write must not have it written again
	before := r.kube.writes()
	r.change(t, "a", func(p *policyv1alpha1.ClusterAuthorizationPolicy) { p.Status.ObservedGeneration++ })
	time.Sleep(1500 * time.Millisecond)
	if after := r.kube.writes(); !slices.Equal(before, after) {
		t.Errorf("got the writes %q", after[len(before):])
	}
}
