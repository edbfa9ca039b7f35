/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// probesPerBound is the number of probes of the store within the staleness bound: often enough that one failure does not
// matter.
const probesPerBound = 4

const (
	// probeSelector matches nothing, whatever labels users set.
	probeSelector = "probe,!probe"
	// probeTimeout is how long a list of a probe may take: less than blockTimeout of the watch cache.
	probeTimeout = 2 * time.Second
)

// retryInterval is the longest time between probes while they fail. A store that is restored from a backup should be asked
// for its revision before it has been written to: once the revision has grown to the old one, nothing shows the restore.
const retryInterval = time.Second

// storeWatch measures for how long the store has been out of reach, or the objects have not been watched. A watch
// connection may stay open while the store is out of reach, so the store is probed, too.
type storeWatch struct {
	objects string // in the plural, for people
	bound   time.Duration
	// lapsed is the text for SetFresh: the reason why the objects may be out of date once the bound has passed and no check has
	// reported anything since.
	lapsed      string
	connections []*connection
	revisions   []*revisions
	// lists list the objects of each kind.
	lists []func(context.Context, metav1.ListOptions) (runtime.Object, error)

	mu      sync.Mutex
	reached time.Time
}

func newStoreWatch(objects string, bound time.Duration) *storeWatch {
	lapsed := fmt.Sprintf("the store has not been checked successfully for more than %s", bound)
	return &storeWatch{objects: objects, bound: bound, lapsed: lapsed, reached: time.Now()}
}

func (s *storeWatch) interval() time.Duration {
	return max(s.bound/probesPerBound, time.Millisecond)
}

// watched returns a ListWatch of a store, and records in s since when it has had no watch connection. It must be called before check.
func (s *storeWatch) watched(store Store) *cache.ListWatch {
	c := &connection{}
	s.connections, s.lists = append(s.connections, c), append(s.lists, store.List)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			result, err := store.List(ctx, options)
			if err != nil {
				c.lost(err)
			}
			return result, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			result, err := store.Watch(ctx, options)
			if err != nil {
				c.lost(err)
				return nil, err
			}
			complete := !ptr.Deref(options.SendInitialEvents, false)
			if complete {
				c.established() // the objects have been listed before
			}
			return watch.Filter(result, func(event watch.Event) (watch.Event, bool) {
				complete = complete || EndsInitialEvents(event)
				c.observe(event, complete)
				return event, true
			}), nil
		},
	}
}

// check compares the revisions and probes the store. It returns
//
//   - since, the last time at which the objects are known to have been up to date, or zero if the store has gone back to an
//     earlier revision;
//   - reason, why they may be out of date. It is empty unless since is longer ago than the bound. It may be shown to
//     everyone;
//   - cause, the last error, or nil. It may name objects, and is for the log only.
func (s *storeWatch) check(ctx context.Context) (since time.Time, reason string, cause error) {
	started := time.Now()
	probeCtx, cancel := context.WithTimeout(ctx, s.interval())
	defer cancel()
	err := s.compareRevisions(probeCtx)
	if errors.Is(err, errWentBack) {
		return time.Time{}, errWentBack.Error(), err
	}
	if err == nil {
		err = s.probe(probeCtx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.reached = started
	}
	since = s.reached
	if time.Since(s.reached) > s.bound {
		return since, fmt.Sprintf("the store has been out of reach for more than %s", s.bound), err
	}
	for _, c := range s.connections {
		lost, lostCause := c.lostSince()
		switch {
		case lost.IsZero():
			continue
		case time.Since(lost) > s.bound:
			return lost, fmt.Sprintf("%s have not been watched for more than %s", s.objects, s.bound), lostCause
		case lost.Before(since):
			since = lost
		}
	}
	return since, "", err
}

// probe lists objects of every kind, because this server has a watch cache for each. The watch cache may answer, after it has waited for
// the store's revision: a probe fails if the store is out of reach, and if the cache of a kind has stopped, as it does if it meets an object
// that it cannot decode. The informer's watch then stays open without events, so that only a list shows the failure. A probe does not notice
// that the store has been restored from a backup.
//
// The store must not answer in place of a cache that has stopped. It does while the cache is not ready (KEP-4568), but not for a list with a selector, so
// the probe has one, which matches nothing. And it does after the cache has waited for three seconds (KEP-2340), so the probe does not wait for so long.
// If etcd does not support progress requests, the store answers each probe, which then decodes all objects, and fails at one that it cannot decode.
func (s *storeWatch) probe(ctx context.Context) error {
	//guard:store-probe-watch-cache
	probed := metav1.ListOptions{LabelSelector: probeSelector, Limit: 1}
	for _, list := range s.lists {
		listCtx, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := list(listCtx, probed)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// begin records in staleness that the objects were up to date when the store was last reached.
func (s *storeWatch) begin(staleness Staleness) {
	s.mu.Lock()
	defer s.mu.Unlock()
	staleness.SetFresh(s.reached, s.bound, s.lapsed)
}

// run checks the store until ctx ends, and logs when the objects become stale and when they are up to date again. If the
// store has gone back to an earlier revision, the objects stay stale, and run calls end and returns.
func (s *storeWatch) run(ctx context.Context, staleness Staleness, stale, recovered string, end func(error)) {
	for logged := false; ; {
		since, reason, cause := s.check(ctx)
		switch {
		case ctx.Err() != nil:
			return // the check failed because the server stops
		case !logged && reason != "":
			klog.FromContext(ctx).Error(cause, stale, "reason", reason)
		case logged && reason == "":
			klog.FromContext(ctx).Info(recovered)
		}
		logged = reason != ""
		if reason == "" {
			staleness.SetFresh(since, s.bound, s.lapsed)
		} else {
			staleness.SetStale(reason)
		}
		if errors.Is(cause, errWentBack) {
			klog.FromContext(ctx).Error(cause, "The server ends: the objects cannot be brought up to date in this process", "objects", s.objects)
			end(fmt.Errorf("%s: %w", s.objects, cause))
			return
		}
		pause := s.interval()
		if cause != nil {
			pause = min(pause, retryInterval)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// errWentBack is shown to everyone.
var errWentBack = errors.New("the store has gone back to an earlier revision, as after a restore from a backup: restart the server")

// compareRevisions returns errWentBack if a store has gone back to an earlier revision, and another error if its revision is
// not known. After a store has gone back, the watch waits for a revision that the store may never reach, and the watch
// cache answers lists with objects that the store does not have. This process cannot read the current objects any more.
func (s *storeWatch) compareRevisions(ctx context.Context) error {
	for _, r := range s.revisions {
		if err := r.compare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// revisions compares the revision of a store with revisions that have been seen. It must not be used concurrently.
type revisions struct {
	// seen returns the last resource version that the informer has seen, empty if it has seen none.
	seen    func() string
	current func(context.Context) (uint64, error)
	highest uint64
}

func (r *revisions) compare(ctx context.Context) error {
	if seen := r.seen(); seen != "" { // read first: the revision of a store only grows
		version, err := strconv.ParseUint(seen, 10, 64)
		if err != nil {
			return fmt.Errorf("resource version of an informer: %w", err)
		}
		r.highest = max(r.highest, version)
	}
	current, err := r.current(ctx)
	if err != nil {
		return fmt.Errorf("revision of the store: %w", err)
	}
	if current < r.highest {
		return fmt.Errorf("%w (revision %d after %d)", errWentBack, current, r.highest)
	}
	r.highest = current
	return nil
}

// connection records since when an informer has had no watch connection, and why.
type connection struct {
	mu    sync.Mutex
	since time.Time
	cause error
}

func (c *connection) lost(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.cause = cause
}

// observe records that the connection delivers events. A connection that has to deliver all objects first counts only
// once that is complete: one that always breaks before would leave the informer with old objects for ever.
func (c *connection) observe(event watch.Event, complete bool) {
	switch {
	case event.Type == watch.Error:
		c.lost(apierrors.FromObject(event.Object))
	case complete:
		c.established()
	}
}

// EndsInitialEvents reports whether an event is the bookmark after the last object that a connection delivers at first.
func EndsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	bookmark, err := apimeta.Accessor(event.Object)
	return err == nil && bookmark.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

func (c *connection) established() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.cause = time.Time{}, nil
}

// lostSince returns the time since which there has been no connection, and the cause. The time is zero if there is a
// connection.
func (c *connection) lostSince() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.cause
}
