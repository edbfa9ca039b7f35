/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// Config is what a Controller needs.
type Config struct {
	// Client reaches the policies of this server.
	Client versioned.Interface
	// Compiler compiles them. It must be the one that also checks them when they are stored.
	Compiler *cel.PartialCompiler
	// Source is where the snapshots go.
	Source *engine.Source
	// Types checks expressions against schemas. If nil, that is not done.
	Types *typechecking.Checker
	// Enforced reports whether conditions are enforced on some of the requests that attributes
	// with * stand for. If nil, they are enforced on none.
	Enforced func(attributes authorizer.Attributes) bool
	// StalenessBound is how long the store may be out of reach before Allow policies grant
	// nothing. It must be positive.
	StalenessBound time.Duration
}

// Controller keeps a Source up to date with the policies that are stored, and writes what
// became of them into their status. Run must be called once.
type Controller struct {
	config    Config
	builder   *engine.Builder
	watchdog  *watchdog
	informers [2]cache.SharedIndexInformer // cluster-wide and namespaced policies
	queue     workqueue.TypedRateLimitingInterface[engine.Key]

	mu      sync.Mutex
	dirty   map[engine.Key]bool
	changed chan struct{}
	results map[engine.Key]result
}

// result is what became of a policy.
type result struct {
	// uid tells the policy from another one that had its name before.
	uid  types.UID
	spec *policyv1alpha1.AuthorizationPolicySpec
	// failure says why the specification is not in force, and lastGood that an earlier one
	// is instead.
	failure  error
	lastGood bool
	// readsMore says that the condition depends on more than what is known at authorization.
	readsMore bool
}

// NewController makes a Controller.
func NewController(config Config) (*Controller, error) {
	if config.Client == nil || config.Compiler == nil || config.Source == nil || config.StalenessBound <= 0 {
		return nil, errors.New("a controller of policies needs a client, a compiler, a source and a bound of staleness")
	}
	c := &Controller{
		config: config, builder: engine.NewBuilder(), watchdog: newWatchdog("policies", config.StalenessBound),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[engine.Key](),
			workqueue.TypedRateLimitingQueueConfig[engine.Key]{Name: "policy_status"}),
		dirty: map[engine.Key]bool{}, changed: make(chan struct{}, 1), results: map[engine.Key]result{},
	}
	policies := config.Client.PolicyV1alpha1()
	c.informers[0] = c.newInformer(&policyv1alpha1.ClusterAuthorizationPolicy{},
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return policies.ClusterAuthorizationPolicies().List(ctx, options)
		}, policies.ClusterAuthorizationPolicies().Watch)
	c.informers[1] = c.newInformer(&policyv1alpha1.AuthorizationPolicy{},
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return policies.AuthorizationPolicies(metav1.NamespaceAll).List(ctx, options)
		}, policies.AuthorizationPolicies(metav1.NamespaceAll).Watch)
	for _, informer := range c.informers {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: c.observe, UpdateFunc: func(_, obj any) { c.observe(obj) }, DeleteFunc: c.observe,
		}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Controller) newInformer(example runtime.Object,
	list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.SharedIndexInformer {
	return newWatchedInformer(c.config.Client, c.watchdog.newContact(), example, list, watchFunc)
}

// newWatchedInformer makes an informer whose contact knows when it has no watch.
func newWatchedInformer(client versioned.Interface, contact *contact, example runtime.Object,
	list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			result, err := list(ctx, options)
			if err != nil {
				contact.lost(err)
			}
			return result, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			result, err := watchFunc(ctx, options)
			if err != nil {
				contact.lost(err)
				return nil, err
			}
			contact.found()
			return result, nil
		},
	}, client), example, 0, cache.Indexers{})
}

// observe notes that a policy has changed.
func (c *Controller) observe(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	key, _, ok := policyOf(obj)
	if !ok {
		utilruntime.HandleError(fmt.Errorf("not a policy: %T", obj))
		return
	}
	c.mu.Lock()
	c.dirty[key] = true
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // a round is to come anyway
	}
}

// policyOf returns the key and the content of a policy of either kind.
func policyOf(obj any) (engine.Key, *content, bool) {
	switch p := obj.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		return engine.Key{Name: p.Name}, &content{&p.ObjectMeta, &p.Spec, &p.Status}, true
	case *policyv1alpha1.AuthorizationPolicy:
		return engine.Key{Namespace: p.Namespace, Name: p.Name}, &content{&p.ObjectMeta, &p.Spec, &p.Status}, true
	default:
		return engine.Key{}, nil, false
	}
}

// content is what policies of both kinds have. It belongs to the informer's cache and must
// not be changed.
type content struct {
	meta   *metav1.ObjectMeta
	spec   *policyv1alpha1.AuthorizationPolicySpec
	status *policyv1alpha1.AuthorizationPolicyStatus
}

// isOf reports whether the result is that of a policy as it is now.
func (r result) isOf(p *content) bool {
	return r.uid == p.meta.UID && apiequality.Semantic.DeepEqual(r.spec, p.spec)
}

// get returns a policy from the cache, or nil.
func (c *Controller) get(key engine.Key) *content {
	informer, name := c.informers[0], key.Name
	if key.Namespace != "" {
		informer, name = c.informers[1], key.Namespace+"/"+key.Name
	}
	obj, exists, err := informer.GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	_, p, _ := policyOf(obj)
	return p
}

// Run keeps the source up to date until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	var group wait.Group
	defer group.Wait()
	defer c.queue.ShutDown()
	for _, informer := range c.informers {
		group.StartWithContext(ctx, informer.RunWithContext)
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.informers[0].HasSynced, c.informers[1].HasSynced) {
		return
	}
	c.mu.Lock()
	for _, informer := range c.informers {
		for _, obj := range informer.GetStore().List() {
			if key, _, ok := policyOf(obj); ok {
				c.dirty[key] = true
			}
		}
	}
	c.mu.Unlock()
	logger.V(2).Info("Policies are loaded")
	group.StartWithContext(ctx, c.watch)
	group.StartWithContext(ctx, c.writeStatus)
	for {
		c.publish(ctx)
		select {
		case <-c.changed:
		case <-ctx.Done():
			return
		}
	}
}

// publish compiles what has changed and makes a snapshot of it.
func (c *Controller) publish(ctx context.Context) {
	c.mu.Lock()
	dirty := c.dirty
	c.dirty = map[engine.Key]bool{}
	c.mu.Unlock()
	changes := map[engine.Key]*engine.Policy{}
	for key := range dirty {
		if ctx.Err() != nil {
			return
		}
		p := c.get(key)
		if p == nil {
			changes[key] = nil
			c.forget(key)
			continue
		}
		if compiled, ok := c.compile(ctx, key, p); ok {
			changes[key] = compiled
		}
		c.queue.Add(key)
	}
	if len(changes) == 0 && c.config.Source.Snapshot() != nil {
		return
	}
	snapshot := c.builder.Apply(changes)
	c.config.Source.Publish(snapshot)
	c.measure(snapshot)
}

// compile compiles a policy if its specification has changed. If that fails, what was
// compiled last stays in force, and if there is nothing, the policy fails closed. A policy
// that was deleted and made anew between two rounds has nothing that was compiled before:
// it is not its namesake.
func (c *Controller) compile(ctx context.Context, key engine.Key, p *content) (*engine.Policy, bool) {
	c.mu.Lock()
	before, known := c.results[key]
	c.mu.Unlock()
	if known && before.isOf(p) {
		return nil, false
	}
	next := result{uid: p.meta.UID, spec: p.spec}
	compiled, err := compile(key, p.spec, c.config.Compiler)
	if err != nil {
		compileFailures.Inc()
		next.failure = err
		hasGood := known && before.uid == p.meta.UID && (before.failure == nil || before.lastGood)
		if last := c.builder.Get(key); last != nil && hasGood {
			compiled, next.lastGood = last, true
		} else {
			compiled = engine.Broken(key, p.spec, err)
		}
		klog.FromContext(ctx).Error(err, "Policy cannot be compiled", "policy", klog.KRef(key.Namespace, key.Name), "lastGoodInForce", next.lastGood)
	}
	next.readsMore = p.spec.Condition != "" && (next.failure != nil || compiled.ReadsMoreThanRequest())
	c.mu.Lock()
	c.results[key] = next
	c.mu.Unlock()
	return compiled, true
}

func (c *Controller) forget(key engine.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.results, key)
}

// watch looks after the store until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	c.watchdog.run(ctx, c.probe, c.config.Source,
		"Policies may be out of date: Allow policies grant nothing until the store can be read", "Policies are up to date again")
}

// probe reads from the store, past every cache. Each kind is read: what cannot be decoded
// stops the cache of its kind only, whose watch then stays open and silent.
func (c *Controller) probe(ctx context.Context) error {
	policies, one := c.config.Client.PolicyV1alpha1(), metav1.ListOptions{Limit: 1}
	if _, err := policies.ClusterAuthorizationPolicies().List(ctx, one); err != nil {
		return err
	}
	_, err := policies.AuthorizationPolicies(metav1.NamespaceAll).List(ctx, one)
	return err
}

var (
	errNotLoaded = errors.New("policies have not been loaded yet")
	errStale     = errors.New("policies may be out of date")
)

// Ready is the readiness check of the policies: loaded, and not out of date.
func (c *Controller) Ready() healthz.HealthChecker {
	return healthz.NamedCheck("policies", func(*http.Request) error {
		if c.config.Source.Snapshot() == nil {
			return errNotLoaded
		}
		if reason := c.config.Source.Stale(); reason != "" {
			return fmt.Errorf("%w: %s", errStale, reason)
		}
		return nil
	})
}
