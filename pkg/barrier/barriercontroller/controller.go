/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// Config configures a Controller. All fields are needed unless stated otherwise.
type Config struct {
	// Client reaches the policies of this server. It must read from the store if no resource version is requested.
	Client versioned.Interface
	// Policies are the stored ClusterAuthorizationPolicies and AuthorizationPolicies, in this order.
	Policies controller.Stored
	// Mappings are the stored mappings. CompileMapping compiles the fields that they exclude. Both are nil if the server stores no mappings.
	Mappings       controller.Stored
	CompileMapping func(name string, exclusions []mapping.Exclusion) *barrier.Barrier
	// KubeAPIServer writes barriers, events and the Lease.
	KubeAPIServer kubernetes.Interface
	// Informers makes the informers of both kinds of objects. The caller starts it.
	Informers informers.SharedInformerFactory
	// Compile compiles a Deny policy.
	Compile func(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error)
	// Namespace is the namespace of the Lease, and of the Leases that the sentinel refuses.
	Namespace string
	// Changed is called after a state has changed. It must not block.
	Changed func()
	// Events receives the events about policies. If nil, they are sent to kube-apiserver.
	Events controller.Recorder
	// Elect calls lead whenever this process is the leader, with a context that ends when it is not any more. If nil, a Lease decides.
	Elect func(ctx context.Context, lead func(context.Context))
	// Clock may be nil.
	Clock clock.WithTicker
}

// Controller keeps the barriers of stored policies as they must be. Run must be called once.
type Controller struct {
	config    Config
	informers [2]cache.SharedIndexInformer // of cluster-wide and namespaced policies
	// mappings is the informer of mappings, nil if the server stores none. table has all of them.
	mappings cache.SharedIndexInformer
	table    mappingTable
	// synced report whether the Controller has observed what all informers had at first.
	synced   []cache.InformerSynced
	policies policyKind
	bindings bindingKind
	queues   queues
	pace     *pace
	// sendEvents sends the events to kube-apiserver until its context ends. It is nil if Config.Events receives them.
	sendEvents func(context.Context)
	// lead is the context of the leader, nil if this process is not the leader.
	lead     atomic.Pointer[context.Context]
	sentinel sentinel
	// waiting is the number of queues with policies that have not been compared with their barriers since the start.
	waiting atomic.Int32

	mu      sync.Mutex
	records map[Key]*record
	// names has the policies in the cache by the name of their barrier.
	names map[string]Key
}

var errConfig = errors.New("a controller of barriers needs clients, informers, stored policies, a compiler, a namespace, and functions")

// New returns a Controller.
func New(config Config) (c *Controller, err error) {
	if config.Client == nil || config.KubeAPIServer == nil || config.Informers == nil || config.Policies == nil || config.Compile == nil || config.Namespace == "" ||
		config.Changed == nil || (config.Mappings == nil) != (config.CompileMapping == nil) {
		return nil, errConfig
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	c = &Controller{
		config: config, queues: newQueues(config.Clock), pace: newPace(config.Clock),
		records: map[Key]*record{}, names: map[string]Key{},
	}
	c.waiting.Store(int32(len(c.queues)))
	if config.Events == nil {
		sent := controller.NewEvents(config.KubeAPIServer.EventsV1(), "proviso.dev/barriers")
		c.config.Events, c.sendEvents = sent, sent.Start
	}
	if c.config.Elect == nil {
		c.config.Elect = c.elect
	}
	c.makeKinds()
	if err := c.follow(); err != nil {
		return nil, err
	}
	return c, nil
}

// makeKinds makes the clients and the informers of both kinds of objects.
func (c *Controller) makeKinds() {
	client, shared := c.config.KubeAPIServer.AdmissionregistrationV1(), c.config.Informers.Admissionregistration().V1()
	c.policies = policyKind{
		name: "ValidatingAdmissionPolicy", client: client.ValidatingAdmissionPolicies(), informer: shared.ValidatingAdmissionPolicies().Informer(),
		isEqual: barrier.EqualPolicies, setSpec: func(object, from *admissionregistrationv1.ValidatingAdmissionPolicy) {
			object.Spec = *from.Spec.DeepCopy()
		},
	}
	c.bindings = bindingKind{
		name: "ValidatingAdmissionPolicyBinding", client: client.ValidatingAdmissionPolicyBindings(), informer: shared.ValidatingAdmissionPolicyBindings().Informer(),
		isEqual: barrier.EqualBindings, setSpec: func(object, from *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			object.Spec = *from.Spec.DeepCopy()
		},
	}
}

// follow observes all informers.
func (c *Controller) follow() error {
	if copy(c.informers[:], c.config.Policies.Informers()) < len(c.informers) {
		return errConfig
	}
	if c.config.Mappings != nil {
		mappings := c.config.Mappings.Informers()
		if len(mappings) == 0 {
			return errConfig
		}
		c.mappings = mappings[0]
	}
	for _, informer := range c.owners() {
		if err := c.handle(informer, cache.ResourceEventHandlerFuncs{
			AddFunc: c.observe, UpdateFunc: func(_, obj any) { c.observe(obj) }, DeleteFunc: c.observeDeletion,
		}); err != nil {
			return err
		}
	}
	for _, informer := range c.objects() {
		if err := c.handle(informer, cache.ResourceEventHandlerFuncs{
			AddFunc: c.observeObject, UpdateFunc: func(_, obj any) { c.observeObject(obj) }, DeleteFunc: c.observeObject,
		}); err != nil {
			return err
		}
	}
	return nil
}

// handle has an informer call a handler. Run waits until the handler has seen what the informer has at first.
func (c *Controller) handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err == nil {
		c.synced = append(c.synced, registration.HasSynced)
	}
	return err
}

// Informers returns the informers of policies and mappings, and of the objects of barriers. Those who made them run them.
func (c *Controller) Informers() []cache.SharedIndexInformer {
	return slices.Concat(c.owners(), c.objects())
}

// isLoaded reports whether policies and mappings are loaded.
func (c *Controller) isLoaded() bool {
	return c.config.Policies.IsLoaded() && (c.config.Mappings == nil || c.config.Mappings.IsLoaded())
}

// stale returns the reason why policies or mappings may be out of date, or "".
func (c *Controller) stale() string {
	stale := c.config.Policies.Stale()
	if stale == "" && c.config.Mappings != nil {
		return c.config.Mappings.Stale()
	}
	return stale
}

// owners returns the informers of policies and mappings.
func (c *Controller) owners() []cache.SharedIndexInformer {
	informers := c.informers[:]
	if c.mappings != nil {
		informers = append(informers[:2:2], c.mappings)
	}
	return informers
}

// objects returns the informers of the objects of barriers.
func (c *Controller) objects() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{c.policies.informer, c.bindings.informer}
}

// observe enqueues a policy that has changed, or was deleted.
func (c *Controller) observe(obj any) {
	p, ok := policyOf(obj)
	if !ok {
		return
	}
	c.mu.Lock()
	c.names[p.key.barrierName()] = p.key
	c.mu.Unlock()
	if p.key.IsMapping {
		c.observeMapping(p.key.Name)
	}
	c.queues.Add(p.key)
}

// observeDeletion enqueues a policy that is gone, and remembers it if it was deleted through the API: the finalizer was taken from it before, or
// with its last update. A policy that is missing in a list, or that vanished with its finalizer, may have been lost together with its store.
func (c *Controller) observeDeletion(obj any) {
	tombstone, isMissing := obj.(cache.DeletedFinalStateUnknown)
	if isMissing {
		obj = tombstone.Obj
	}
	p, ok := policyOf(obj)
	//guard:barriers-policies-vanish-store
	if ok && !isMissing && (!p.hasFinalizer() || p.meta.DeletionTimestamp != nil) {
		c.with(p.key, func(r *record) { r.deleted = p.meta.UID })
	}
	c.observe(obj)
}

// observeObject enqueues the policy of an object that has changed.
func (c *Controller) observeObject(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	stored, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	if stored.GetName() == barrier.SentinelName {
		c.sentinel.want()
		return
	}
	c.mu.Lock()
	key, ok := ownerOf(stored, c.names)
	c.mu.Unlock()
	if ok {
		c.queues.Add(key)
		c.sentinel.want()
	}
}

// enqueueAll enqueues all policies, and the policies of all objects.
func (c *Controller) enqueueAll() {
	for _, informer := range c.owners() {
		for _, obj := range informer.GetStore().List() {
			if p, ok := policyOf(obj); ok {
				c.queues.Add(p.key)
			}
		}
	}
	for _, informer := range c.objects() {
		for _, obj := range informer.GetStore().List() {
			c.observeObject(obj)
		}
	}
}

// IsKnown reports whether each barrier has been compared with its policy. It returns false for some seconds after the start, or until
// kube-apiserver and the store can be read.
func (c *Controller) IsKnown() bool { return c.waiting.Load() == 0 }

// resyncInterval is the time between two comparisons of all barriers with all policies.
const resyncInterval = time.Minute

// measureInterval is the time between two updates of the gauges.
const measureInterval = time.Second

// Run keeps barriers as they must be until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	var group wait.Group
	defer group.Wait()
	defer c.queues.ShutDown()
	if c.sendEvents != nil {
		c.sendEvents(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), append(c.synced, c.isLoaded)...) {
		return
	}
	klog.FromContext(ctx).V(2).Info("Barriers are loaded")
	c.enqueueAll()
	for _, queue := range c.queues {
		group.StartWithContext(ctx, func(ctx context.Context) { c.work(ctx, queue) })
	}
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(context.Context) {
			c.enqueueAll()
			c.pace.purge()
		}, resyncInterval)
	})
	group.StartWithContext(ctx, c.runSentinel)
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(context.Context) { c.measure() }, measureInterval)
	})
	c.config.Elect(ctx, func(ctx context.Context) {
		c.lead.Store(&ctx)
		leading.Set(1)
		defer leading.Set(0)
		defer c.lead.Store(nil)
		klog.FromContext(ctx).Info("Writing barriers")
		c.sentinel.want() // an earlier leader may have ended before it
		c.enqueueAll()
		<-ctx.Done()
	})
	<-ctx.Done()
	c.queues.ShutDown()
}

// LeaseName is the name of the Lease whose holder writes barriers.
const LeaseName = "proviso-barriers"

// The times of the election, which are the defaults of the components of Kubernetes. Without a leader, barriers stay as they are.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// elect calls lead while this process holds the Lease, again and again until ctx ends.
func (c *Controller) elect(ctx context.Context, lead func(context.Context)) {
	host, err := os.Hostname()
	if err != nil {
		host = "proviso"
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: c.config.Namespace, Name: LeaseName}, Client: c.config.KubeAPIServer.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true, Name: LeaseName,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: lead,
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot take part in the election of the replica that writes barriers")
			return
		}
		elector.Run(ctx)
	}, retryPeriod)
}
