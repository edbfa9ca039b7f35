/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package freshness holds what decisions are made from, such as compiled policies, and says whether it may be out of
// date: whether the store of the objects was checked recently enough. Controllers publish and report the checks;
// authorizers read, and pin the state for one request. The package imports nothing of the project.
package freshness

import (
	"sync/atomic"
	"time"
)

// Tracker says whether objects from which decisions are made may be out of date. Each successful check of their store is
// a lease: the objects count as up to date until it ends, and it also ends while the process is suspended and can make no
// check. The zero value says that the objects are up to date; it is for objects that come from no store. A Tracker is
// safe for concurrent use.
type Tracker struct {
	state atomic.Pointer[report]
}

// report is the argument of the last call of SetStale or SetFresh.
type report struct {
	// stale is the argument of SetStale: the reason why the objects may be out of date, empty if they are up to date.
	stale string
	// bound is the length of the lease, which starts at start, 0 if it has no end. lapsed is the result of Stale once the lease
	// has ended.
	bound  time.Duration
	start  instant
	lapsed string
}

// SetStale sets the reason why the objects may be out of date. An empty reason means that they are up to date, and stay
// so until the next call of SetStale or SetFresh.
func (t *Tracker) SetStale(reason string) { t.state.Store(&report{stale: reason}) }

// SetFresh records that the objects were up to date at a time, which has a monotonic clock reading. Once more than bound
// has passed since then, Stale returns lapsed. If bound is 0, they stay up to date.
func (t *Tracker) SetFresh(at time.Time, bound time.Duration, lapsed string) {
	t.state.Store(&report{bound: bound, start: instantOf(at), lapsed: lapsed})
}

// Stale returns the reason why the objects may be out of date, or nothing if they are up to date. It allocates nothing.
func (t *Tracker) Stale() string {
	state := t.state.Load()
	switch {
	case state == nil:
		return ""
	case state.bound != 0 && state.start.isOver(state.bound, instantOf(time.Now())):
		return state.lapsed
	}
	return state.stale
}

// instant is a time on two clocks. The monotonic clock stands still while the machine is suspended; the wall clock can be
// set.
type instant struct {
	monotonic time.Duration // since processStart
	wall      int64         // nanoseconds
}

// processStart has a monotonic clock reading.
var processStart = time.Now()

func instantOf(t time.Time) instant {
	return instant{monotonic: t.Sub(processStart), wall: t.UnixNano()}
}

// isOver reports whether more than bound has passed from i to now by at least one of the two clocks. It also returns true
// if the wall clock is before i, because it was set back and does not show how much time has passed.
func (i instant) isOver(bound time.Duration, now instant) bool {
	passed := time.Duration(now.wall - i.wall)
	return now.monotonic-i.monotonic > bound || passed > bound || passed < 0
}
