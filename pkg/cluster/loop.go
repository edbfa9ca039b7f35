/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxJitter is the part of the interval by which rounds may be early, so that replicas do not probe at the same time.
const maxJitter = 0.2

// Loop makes rounds again and again. Make it with NewLoop.
type Loop struct {
	cluster *Cluster
	wanted  chan struct{}
	least   time.Duration
}

// NewLoop returns a Loop. A round that is wanted begins at least the time least after the beginning of the one before.
func (c *Cluster) NewLoop(least time.Duration) *Loop { return &Loop{c, make(chan struct{}, 1), least} }

// Want asks for a round before its time.
func (l *Loop) Want() {
	select {
	case l.wanted <- struct{}{}:
	default: // a round is wanted already
	}
}

// Run calls round until ctx ends. round returns how long after its own beginning the next round begins. isWanted says that Want was called.
func (l *Loop) Run(ctx context.Context, round func(_ context.Context, isWanted bool) time.Duration) {
	for isWanted := false; ctx.Err() == nil; {
		began := l.cluster.Clock.Now()
		next := round(ctx, isWanted)
		if isWanted = l.wait(ctx, next-l.cluster.Clock.Since(began), l.wanted); isWanted && l.least > 0 {
			l.wait(ctx, l.least-l.cluster.Clock.Since(began), nil)
		}
	}
}

// wait waits for a time. It returns true if a round is wanted before.
func (l *Loop) wait(ctx context.Context, d time.Duration, wanted <-chan struct{}) bool {
	timer := l.cluster.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-wanted:
		return true
	}
	return false
}

// Early returns the interval less a random part, so that replicas do not probe at the same time.
func (c *Cluster) Early() time.Duration {
	return c.Interval - time.Duration(rand.Float64()*maxJitter*float64(c.Interval)) //nolint:gosec // no secret
}
