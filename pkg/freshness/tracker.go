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

// Tracker says whether objects from which decisions are made may be out of date. Each good check of their store is a
// lease: it ends by itself, also if the process stood still meanwhile and no check could fail. The zero value says that
// they are up to date: nothing follows a store. It is safe for concurrent use.
type Tracker struct {
	state atomic.Pointer[report]
}

// report is what was said last.
type report struct {
	// stale is why the objects may be out of date, empty if they are not.
	stale string
	// bound is the length of the lease, which starts at start, 0 if it has no end. Once it has ended, lapsed is why the
	// objects may be out of date.
	bound  time.Duration
	start  instant
	lapsed string
}

// SetStale says why the objects may be out of date. The empty reason says that they are not, without end.
func (t *Tracker) SetStale(reason string) { t.state.Store(&report{stale: reason}) }

// SetFresh says that the objects were up to date at a time, which has a monotonic clock reading. Longer than bound after
// it, Stale returns lapsed.
func (t *Tracker) SetFresh(at time.Time, bound time.Duration, lapsed string) {
	t.state.Store(&report{bound: bound, start: instantOf(at), lapsed: lapsed})
}

// Stale returns why the objects may be out of date, empty if they are not. It allocates nothing.
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

// isOver reports whether more than a duration has passed from i to now by either clock. A wall clock that was set back to
// before i does not tell how much has passed, which counts as more.
func (i instant) isOver(bound time.Duration, now instant) bool {
	passed := time.Duration(now.wall - i.wall)
	return now.monotonic-i.monotonic > bound || passed > bound || passed < 0
}
