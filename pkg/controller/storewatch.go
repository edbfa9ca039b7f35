/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// probesPerBound is the number of probes of the store within the staleness bound: often enough that one failure does not
// matter.
const probesPerBound = 4

// storeWatch measures for how long the store has been out of reach. A watch connection that stays open does not show it,
// so the store is probed, too.
type storeWatch struct {
	objects     string // in the plural, for people
	bound       time.Duration
	connections []*connection

	mu      sync.Mutex
	reached time.Time
}

func newStoreWatch(objects string, bound time.Duration) *storeWatch {
	return &storeWatch{objects: objects, bound: bound, reached: time.Now()}
}

func (s *storeWatch) interval() time.Duration {
	return max(s.bound/probesPerBound, time.Millisecond)
}

// watched returns a ListWatch that records when it has no watch connection. It must be called before check.
func (s *storeWatch) watched(list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *cache.ListWatch {
	c := &connection{}
	s.connections = append(s.connections, c)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			result, err := list(ctx, options)
			if err != nil {
				c.lost(err)
			}
			return result, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			result, err := watchFunc(ctx, options)
			if err != nil {
				c.lost(err)
				return nil, err
			}
			complete := !ptr.Deref(options.SendInitialEvents, false)
			if complete {
				c.established() // the objects have been listed before
			}
			return watch.Filter(result, func(event watch.Event) (watch.Event, bool) {
				complete = complete || endsInitialEvents(event)
				c.observe(event, complete)
				return event, true
			}), nil
		},
	}
}

// check probes the store. It returns why the objects may be out of date, empty if they are not, and the last error. The
// error may name objects and is for the log only; the reason is for everyone.
func (s *storeWatch) check(ctx context.Context, probe func(context.Context) error) (reason string, cause error) {
	started := time.Now()
	probeCtx, cancel := context.WithTimeout(ctx, s.interval())
	defer cancel()
	err := probe(probeCtx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.reached = started
	}
	if silence := time.Since(s.reached); silence > s.bound {
		return fmt.Sprintf("the store has been out of reach for more than %s", s.bound), err
	}
	for _, c := range s.connections {
		if silence, err := c.lostFor(); silence > s.bound {
			return fmt.Sprintf("%s have not been watched for more than %s", s.objects, s.bound), err
		}
	}
	return "", nil
}

// run checks the store until ctx ends, and logs when the objects become stale and when they are up to date again.
func (s *storeWatch) run(ctx context.Context, probe func(context.Context) error, staleness Staleness, stale, recovered string) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		reason, cause := s.check(ctx, probe)
		switch before := staleness.Stale(); {
		case ctx.Err() != nil:
			return // the check failed because the server stops
		case before == "" && reason != "":
			klog.FromContext(ctx).Error(cause, stale, "reason", reason)
		case before != "" && reason == "":
			klog.FromContext(ctx).Info(recovered)
		}
		staleness.SetStale(reason)
	}, s.interval())
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

// endsInitialEvents reports whether an event is the bookmark after the last object that a connection delivers at first.
func endsInitialEvents(event watch.Event) bool {
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

func (c *connection) lostFor() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return 0, nil
	}
	return time.Since(c.since), c.cause
}
