/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Staleness keeps whether the objects may be out of date. The consumer of the objects implements it, for example with
// freshness.Tracker.
type Staleness interface {
	// Stale returns the reason why the objects may be out of date. It is empty if they are up to date.
	Stale() string
	// SetStale sets the reason that Stale returns.
	SetStale(reason string)
	// SetFresh records that the objects were up to date at a time. Once more than bound has passed since then, Stale
	// returns lapsed.
	SetFresh(at time.Time, bound time.Duration, lapsed string)
}

// Config configures a Controller whose objects are known by keys of type K. All fields are needed.
type Config[K comparable] struct {
	// Name is the name of the readiness check and of the objects in metrics, and QueueName of the queue in metrics. Objects is what people call the
	// objects, in the plural.
	Name, QueueName, Objects string
	// Staleness gets the result of every check of the store. The objects become stale when StalenessBound has passed since
	// the last successful check. The bound must be positive. StaleMessage is logged when a check finds that the objects are
	// stale, and RecoveredMessage when a later check finds that they are up to date again.
	Staleness                      Staleness
	StalenessBound                 time.Duration
	StaleMessage, RecoveredMessage string
	// End ends the process with an error. It is called once if the store has gone back to an earlier revision, because the
	// objects can then not be brought up to date in this process.
	End func(cause error)
	// Published reports whether Publish has published something.
	Published func() bool
	// Publish publishes the objects as they are in the informers, and enqueues those whose status may have changed. It
	// is called after the first sync, and after changes of objects.
	Publish func(ctx context.Context)
	// WriteStatus writes the status of an object if it is not as it should be.
	WriteStatus func(ctx context.Context, key K) error
}

// Controller follows objects. Run must be called once.
type Controller[K comparable] struct {
	config    Config[K]
	store     *storeWatch
	informers []cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[K]
	changed   chan struct{}
	loaded    atomic.Bool
}

// Stored are the objects that a controller follows, for other components that need them, too. A Controller implements it.
type Stored interface {
	// Informers returns an informer for each call of Follow, in the same order. The controller runs them.
	Informers() []cache.SharedIndexInformer
	// IsLoaded reports whether the informers have synced. Before, Stale does not say whether the objects are up to date.
	IsLoaded() bool
	// Stale returns the reason why the objects may be out of date. It is empty if they are up to date.
	Stale() string
}

// Informers implements Stored.
func (c *Controller[K]) Informers() []cache.SharedIndexInformer { return c.informers }

// IsLoaded implements Stored.
func (c *Controller[K]) IsLoaded() bool { return c.loaded.Load() }

// Stale implements Stored.
func (c *Controller[K]) Stale() string { return c.config.Staleness.Stale() }

var errConfig = errors.New("a controller needs something that is told about staleness, a positive bound of staleness, and functions")

var errNoStore = errors.New("a controller needs a store")

// New returns a controller without informers.
func New[K comparable](config Config[K]) (*Controller[K], error) {
	if config.Staleness == nil || config.StalenessBound <= 0 ||
		config.End == nil || config.Published == nil || config.Publish == nil || config.WriteStatus == nil {
		return nil, fmt.Errorf("%s: %w", config.Name, errConfig)
	}
	registerMetrics()
	return &Controller[K]{
		config: config, store: newStoreWatch(config.Objects, config.StalenessBound), changed: make(chan struct{}, 1),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[K](),
			workqueue.TypedRateLimitingQueueConfig[K]{Name: config.QueueName}),
	}, nil
}

// Client lists and watches the objects of one kind. The clients of generated/ implement it.
type Client[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Store has the objects of one kind. stored.Local is one.
type Store interface {
	Client[runtime.Object]
	// Revision returns the current revision of the store. It asks the store itself, and no cache.
	Revision(ctx context.Context) (uint64, error)
}

// Follow returns an informer of the objects of a store, which are like example, with an index by namespace. Run runs the informer, so Follow must
// be called before. Before a change of an object is published, observe is called with the object. The objects have no managedFields.
func (c *Controller[K]) Follow(example runtime.Object, store Store, observe func(obj any)) (cache.SharedIndexInformer, error) {
	if store == nil {
		return nil, fmt.Errorf("%s: %w", c.config.Name, errNoStore)
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(c.store.watched(store), store), example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(WithoutManagedFields); err != nil {
		return nil, err
	}
	note := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		observe(obj)
		select {
		case c.changed <- struct{}{}:
		default: // a round is pending, which sees this change too
		}
	}
	c.informers = append(c.informers, informer)
	c.store.revisions = append(c.store.revisions, &revisions{seen: informer.LastSyncResourceVersion, current: store.Revision})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) }, DeleteFunc: note,
	})
	return informer, err
}

// WithoutManagedFields is a transform for informers. It drops what takes as much memory as the rest of most objects. A write of an object without managedFields keeps
// the stored ones.
func WithoutManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil { // not of a tombstone, whose object was transformed before
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// ObjectsOf returns the objects of an informer, which belong to the cache.
func ObjectsOf[T any](informer cache.SharedIndexInformer) (objects []T) {
	for _, obj := range informer.GetStore().List() {
		if object, ok := obj.(T); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// Enqueue schedules writing the status of an object.
func (c *Controller[K]) Enqueue(key K) { c.queue.Add(key) }

// EnqueueAfter schedules writing the status of an object after some time.
func (c *Controller[K]) EnqueueAfter(key K, after time.Duration) { c.queue.AddAfter(key, after) }

// Run runs the informers until ctx ends. Once they have synced, it publishes the objects, and publishes them again after
// changes. It checks the store to know whether the objects are up to date, and writes the status of objects in the queue.
func (c *Controller[K]) Run(ctx context.Context) {
	var group wait.Group
	defer group.Wait()
	defer c.queue.ShutDown()
	//guard:stale-started
	collected.add(c.config.Name, c)
	var synced []cache.InformerSynced
	for _, informer := range c.informers {
		group.StartWithContext(ctx, informer.RunWithContext)
		synced = append(synced, informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	klog.FromContext(ctx).V(2).Info("Objects are loaded", "objects", c.config.Objects)
	c.store.begin(c.config.Staleness) // before objects are published, so that they never count as up to date without end
	c.loaded.Store(true)
	group.StartWithContext(ctx, func(ctx context.Context) {
		c.store.run(ctx, c.config.Staleness, c.config.StaleMessage, c.config.RecoveredMessage, c.config.End)
	})
	group.StartWithContext(ctx, func(ctx context.Context) {
		for c.writeNext(ctx) {
		}
	})
	for {
		c.config.Publish(ctx)
		select {
		case <-c.changed:
		case <-ctx.Done():
			return
		}
	}
}

// writeNext writes the status of the next object in the queue. It returns false once the queue is shut down. Every
// replica writes the same status; the later ones find nothing to change.
func (c *Controller[K]) writeNext(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	switch err := c.config.WriteStatus(ctx, key); {
	case err == nil, apierrors.IsNotFound(err):
		c.queue.Forget(key)
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		c.queue.AddRateLimited(key) // the informer will catch up
	default:
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot write a status", "objects", c.config.Objects, "key", key)
		c.queue.AddRateLimited(key)
	}
	return true
}

// Ready returns the readiness check of the objects: they are loaded, and not out of date.
func (c *Controller[K]) Ready() healthz.HealthChecker {
	return healthz.NamedCheck(c.config.Name, func(*http.Request) error {
		if !c.config.Published() {
			return fmt.Errorf("%s have not been loaded yet", c.config.Objects)
		}
		if reason := c.config.Staleness.Stale(); reason != "" {
			return fmt.Errorf("%s may be out of date: %s", c.config.Objects, reason)
		}
		return nil
	})
}
