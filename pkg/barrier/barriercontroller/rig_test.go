/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
)

const namespace = "proviso-system"

// store gives a fake client what an API server has: resource versions, conflicts, dry runs, UIDs, and finalizers.
type store struct {
	tracker clienttesting.ObjectTracker
	// before is called before each write, with the verb, the name and whether it is a dry run. An error is the answer.
	before func(verb, resource, name string, dryRun bool) error

	mu      sync.Mutex
	version int
	// log has each write that was made, such as "create validatingadmissionpolicies a".
	log []string
}

func (s *store) next(obj metav1.Object) {
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version)))
	}
}

func accessorOf(obj runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return accessor
}

func (s *store) may(verb string, resource schema.GroupVersionResource, name string, dryRun bool) error {
	if s.before == nil {
		return nil
	}
	return s.before(verb, resource.Resource, name, dryRun)
}

func (s *store) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := action.GetResource()
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		obj := a.Object.DeepCopyObject()
		accessor, dryRun := accessorOf(obj), len(a.CreateOptions.DryRun) > 0
		if err := s.may("create", resource, accessor.GetName(), dryRun); err != nil {
			return true, nil, err
		}
		if _, err := s.tracker.Get(resource, accessor.GetNamespace(), accessor.GetName()); err == nil {
			return true, nil, apierrors.NewAlreadyExists(resource.GroupResource(), accessor.GetName())
		}
		s.next(accessor)
		if dryRun {
			return true, obj, nil
		}
		s.log = append(s.log, "create "+resource.Resource+" "+accessor.GetName())
		return true, obj, s.tracker.Create(resource, obj, accessor.GetNamespace())
	case clienttesting.UpdateActionImpl:
		obj := a.Object.DeepCopyObject()
		accessor, dryRun := accessorOf(obj), len(a.UpdateOptions.DryRun) > 0
		if err := s.may("update", resource, accessor.GetName(), dryRun); err != nil {
			return true, nil, err
		}
		return s.update(resource, obj, dryRun)
	case clienttesting.DeleteActionImpl:
		if err := s.may("delete", resource, a.Name, false); err != nil {
			return true, nil, err
		}
		return true, nil, s.delete(a)
	}
	return false, nil, nil
}

func (s *store) update(resource schema.GroupVersionResource, obj runtime.Object, dryRun bool) (bool, runtime.Object, error) {
	accessor := accessorOf(obj)
	stored, err := s.tracker.Get(resource, accessor.GetNamespace(), accessor.GetName())
	if err != nil {
		return true, nil, err
	}
	old := accessorOf(stored)
	if accessor.GetUID() != old.GetUID() || accessor.GetResourceVersion() != old.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(resource.GroupResource(), accessor.GetName(), errors.New("the object has been modified"))
	}
	accessor.SetDeletionTimestamp(old.GetDeletionTimestamp())
	s.next(accessor)
	if dryRun {
		return true, obj, nil
	}
	s.log = append(s.log, "update "+resource.Resource+" "+accessor.GetName())
	if accessor.GetDeletionTimestamp() != nil && len(accessor.GetFinalizers()) == 0 {
		return true, obj, s.tracker.Delete(resource, accessor.GetNamespace(), accessor.GetName())
	}
	return true, obj, s.tracker.Update(resource, obj, accessor.GetNamespace())
}

func (s *store) delete(a clienttesting.DeleteActionImpl) error {
	stored, err := s.tracker.Get(a.GetResource(), a.Namespace, a.Name)
	if err != nil {
		return err
	}
	stored = stored.DeepCopyObject()
	accessor := accessorOf(stored)
	if p := a.DeleteOptions.Preconditions; p != nil && (p.UID != nil && *p.UID != accessor.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != accessor.GetResourceVersion()) {
		return apierrors.NewConflict(a.GetResource().GroupResource(), a.Name, errors.New("precondition failed"))
	}
	s.log = append(s.log, "delete "+a.GetResource().Resource+" "+a.Name)
	if len(accessor.GetFinalizers()) == 0 {
		return s.tracker.Delete(a.GetResource(), a.Namespace, a.Name)
	}
	if accessor.GetDeletionTimestamp() != nil {
		return nil
	}
	accessor.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	s.next(accessor)
	return s.tracker.Update(a.GetResource(), stored, a.Namespace)
}

func (s *store) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// recorder has the reasons and notes of events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) Event(regarding *corev1.ObjectReference, _, reason, _, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s: %s", regarding.Name, reason, note))
}

func (r *recorder) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.events, func(e string) bool { return strings.Contains(e, text) })
}

// rig is a cluster and the store of policies.
type rig struct {
	kube, proviso *store
	kubeClient    *kubefake.Clientset
	policies      *fake.Clientset
	recorder      *recorder
	// stalePolicies and staleMappings say that what is stored may be out of date.
	stalePolicies, staleMappings staleness
	// storesNoMappings is for the controllers that start next.
	storesNoMappings bool
	compile          func(engine.Key, *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error)
	// clock is for the controllers that start next. If nil, they have the real one.
	clock clock.WithTicker
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{kubeClient: kubefake.NewSimpleClientset(), policies: fake.NewSimpleClientset(), recorder: &recorder{}, compile: compile}
	r.kube = &store{tracker: r.kubeClient.Tracker()}
	r.proviso = &store{tracker: r.policies.Tracker(), version: 1000}
	r.kubeClient.PrependReactor("*", "*", r.kube.react)
	r.policies.PrependReactor("*", "*", r.proviso.react)
	return r
}

// compile compiles the condition as it is. The condition "untranslatable" has no translation, and "broken" does not compile.
func compile(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error) {
	b := &barrier.Barrier{Key: key}
	switch spec.Condition {
	case "broken":
		return nil, errors.New("syntax error")
	case "untranslatable":
		return b, nil
	}
	name := barrier.Name(key)
	b.Policy = &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: spec.Condition}}
	b.Binding = &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Binding.Spec.PolicyName = name
	b.Report = []barrier.RuleReport{{Verbs: []string{"create"}}}
	return b, nil
}

// lead makes a controller the leader until ctx ends.
func lead(ctx context.Context, lead func(context.Context)) { lead(ctx) }

// follow makes a controller no leader.
func follow(context.Context, func(context.Context)) {}

// staleness is true if objects may be out of date.
type staleness struct{ atomic.Bool }

func (s *staleness) SetStale(string)                           {}
func (s *staleness) SetFresh(time.Time, time.Duration, string) {}
func (s *staleness) Stale() string {
	if s.Load() {
		return "the test says so"
	}
	return ""
}

// newStored returns a controller that follows objects without doing anything with them.
func (r *rig) newStored(t *testing.T, s *staleness) *controller.Controller[string] {
	t.Helper()
	stored, err := controller.New(controller.Config[string]{
		Staleness: s, StalenessBound: time.Minute, End: func(error) {},
		Published: func() bool { return true }, Publish: func(context.Context) {}, WriteStatus: func(context.Context, string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// followed adds the objects of a client to those that a controller follows.
func followed[L runtime.Object](t *testing.T, stored *controller.Controller[string], example runtime.Object, client controller.Client[L]) {
	t.Helper()
	if _, err := stored.Follow(example, clientstore.Of(client, clientstore.Latest), func(any) {}); err != nil {
		t.Fatal(err)
	}
}

// start starts a controller until the returned function or the end of the test stops it.
func (r *rig) start(t *testing.T, elect func(context.Context, func(context.Context))) (*barriercontroller.Controller, func()) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(r.kubeClient, 0)
	client := r.policies.PolicyV1alpha1()
	policies, mappings := r.newStored(t, &r.stalePolicies), r.newStored(t, &r.staleMappings)
	followed(t, policies, &policyv1alpha1.ClusterAuthorizationPolicy{}, client.ClusterAuthorizationPolicies())
	followed(t, policies, &policyv1alpha1.AuthorizationPolicy{}, client.AuthorizationPolicies(metav1.NamespaceAll))
	followed(t, mappings, &policyv1alpha1.FieldPermissionMapping{}, client.FieldPermissionMappings())
	config := barriercontroller.Config{
		Client: r.policies, KubeAPIServer: r.kubeClient, Informers: factory, Policies: policies, Compile: r.compile, Namespace: namespace,
		Changed: func() {}, Events: r.recorder, Elect: elect, Clock: r.clock,
	}
	if !r.storesNoMappings {
		config.Mappings, config.CompileMapping = mappings, compileMapping
	}
	c, err := barriercontroller.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	for _, run := range []func(context.Context){policies.Run, mappings.Run, c.Run} {
		running.Go(func() { run(ctx) })
	}
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return c, stop
}

// policy returns a cluster-scoped Deny policy.
func policy(name, condition string) *policyv1alpha1.ClusterAuthorizationPolicy {
	return &policyv1alpha1.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Condition: condition},
	}
}

func (r *rig) create(t *testing.T, p *policyv1alpha1.ClusterAuthorizationPolicy) {
	t.Helper()
	if _, err := r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// change changes the specification of a policy.
func (r *rig) change(t *testing.T, name string, change func(*policyv1alpha1.ClusterAuthorizationPolicy)) {
	t.Helper()
	eventually(t, "the policy changes", func() bool {
		p, err := r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		p.Generation++
		_, err = r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Update(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
}

func (r *rig) delete(t *testing.T, name string) {
	t.Helper()
	if err := r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// exists reports whether the store has a policy.
func (r *rig) exists(t *testing.T, name string) bool {
	t.Helper()
	_, err := r.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), name, metav1.GetOptions{})
	return err == nil
}

// vap returns the admission policy of a policy, or nil.
func (r *rig) vap(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	stored, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), barrier.Name(engine.Key{Name: name}), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return stored
}

func (r *rig) binding(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	stored, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), barrier.Name(engine.Key{Name: name}), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return stored
}

// isBarred reports whether the barrier of a policy is stored with a condition, and bound.
func (r *rig) isBarred(t *testing.T, name, condition string) bool {
	t.Helper()
	vap, binding := r.vap(t, name), r.binding(t, name)
	return vap != nil && binding != nil && vap.DeletionTimestamp == nil && binding.DeletionTimestamp == nil &&
		slices.Equal(vap.Finalizers, []string{barriercontroller.Finalizer}) && slices.Equal(binding.Finalizers, []string{barriercontroller.Finalizer}) &&
		vap.Labels[barrier.ManagedByLabel] == barrier.ManagedBy && binding.Labels[barrier.ManagedByLabel] == barrier.ManagedBy &&
		len(vap.OwnerReferences) == 0 && vap.Spec.Validations[0].Expression == condition && binding.Spec.PolicyName == vap.Name
}

// sentinel returns the number of the stored sentinel, 0 if it is not complete or does not count all barriers.
func (r *rig) sentinel(t *testing.T) int64 {
	t.Helper()
	client := r.kubeClient.AdmissionregistrationV1()
	vap, err := client.ValidatingAdmissionPolicies().Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
	if err != nil {
		return 0
	}
	binding, err := client.ValidatingAdmissionPolicyBindings().Get(t.Context(), barrier.SentinelName, metav1.GetOptions{})
	if err != nil {
		return 0
	}
	number, ok := barrier.NumberOf(vap)
	extent, hasExtent := barrier.ExtentOf(vap)
	_, wanted := barrier.Sentinel(namespace, number)
	if !ok || !hasExtent || !barrier.EqualBindings(binding, wanted) {
		return 0
	}
	vaps, err := client.ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.ValidatingAdmissionPolicyBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range vaps.Items {
		if vaps.Items[i].Name != barrier.SentinelName && versionOf(t, &vaps.Items[i]) > extent.Policies {
			return 0
		}
	}
	for i := range all.Items {
		if all.Items[i].Name != barrier.SentinelName && versionOf(t, &all.Items[i]) > extent.Bindings {
			return 0
		}
	}
	return number
}

func versionOf(t *testing.T, obj metav1.Object) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func phaseOf(c *barriercontroller.Controller, name string) barriercontroller.Phase {
	state, _ := c.State(barriercontroller.Key{Key: engine.Key{Name: name}})
	return state.Phase
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		return holds(), nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// holdFirst has the first request that is no dry run wait until resume is closed, and closes reached when it arrives.
func holdFirst(held *atomic.Bool, reached, resume chan struct{}) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := action.(clienttesting.CreateActionImpl); ok && len(create.CreateOptions.DryRun) == 0 && held.CompareAndSwap(false, true) {
			close(reached)
			<-resume
		}
		return false, nil, nil
	}
}

// otherClient returns another client of kube-apiserver. Requests of one fake client wait for each other.
func (r *rig) otherClient() *kubefake.Clientset {
	other := kubefake.NewSimpleClientset()
	other.ReactionChain, other.WatchReactionChain = nil, nil
	other.AddReactor("*", "*", r.kube.react)
	other.AddReactor("*", "*", clienttesting.ObjectReaction(r.kubeClient.Tracker()))
	other.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := r.kubeClient.Tracker().Watch(action.GetResource(), action.GetNamespace())
		return true, w, err
	})
	return other
}
