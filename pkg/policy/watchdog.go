/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// checksPerBound is how often the store is probed within the bound of staleness: often
// enough that one failure does not matter.
const checksPerBound = 4

// watchdog knows for how long the store has been out of reach. A watch that stays open
// tells nothing of that, so the store is probed as well.
type watchdog struct {
	what     string // what is stored, for people
	bound    time.Duration
	contacts []*contact

	mu      sync.Mutex
	reached time.Time
}

func newWatchdog(what string, bound time.Duration) *watchdog {
	return &watchdog{what: what, bound: bound, reached: time.Now()}
}

func (w *watchdog) interval() time.Duration { return max(w.bound/checksPerBound, time.Millisecond) }

// newContact makes the contact of one informer. It must be called before check is.
func (w *watchdog) newContact() *contact {
	c := &contact{}
	w.contacts = append(w.contacts, c)
	return c
}

// check probes the store and returns why what is stored may be out of date, or nothing, and
// what failed last. That may name what is stored: it is for the log, the reason for everybody.
func (w *watchdog) check(ctx context.Context, probe func(context.Context) error) (reason string, cause error) {
	started := time.Now()
	probeCtx, cancel := context.WithTimeout(ctx, w.interval())
	defer cancel()
	err := probe(probeCtx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.reached = started
	}
	if silence := time.Since(w.reached); silence > w.bound {
		return fmt.Sprintf("the store has been out of reach for more than %s", w.bound), err
	}
	for _, c := range w.contacts {
		if silence, err := c.lostFor(); silence > w.bound {
			return fmt.Sprintf("%s have not been watched for more than %s", w.what, w.bound), err
		}
	}
	return "", nil
}

// staleness is where it is kept whether what is stored may be out of date.
type staleness interface {
	// Stale returns why it may be, or nothing.
	Stale() string
	SetStale(reason string)
}

// run looks after the store until ctx ends. It logs when what is stored gets out of date, and
// when it is not any more.
func (w *watchdog) run(ctx context.Context, probe func(context.Context) error, kept staleness, outdated, again string) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		reason, cause := w.check(ctx, probe)
		switch before := kept.Stale(); {
		case ctx.Err() != nil:
			return // the check failed because the server stops
		case before == "" && reason != "":
			klog.FromContext(ctx).Error(cause, outdated, "reason", reason)
		case before != "" && reason == "":
			klog.FromContext(ctx).Info(again)
		}
		kept.SetStale(reason)
	}, w.interval())
}

// contact says since when an informer has had no watch, and why.
type contact struct {
	mu    sync.Mutex
	since time.Time
	cause error
}

func (c *contact) lost(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.cause = cause
}

func (c *contact) found() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.cause = time.Time{}, nil
}

func (c *contact) lostFor() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return 0, nil
	}
	return time.Since(c.since), c.cause
}
