/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"time"
)

// signal says that something has changed. Until it is heard, further changes add nothing.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// set says that something has changed. It does not wait.
func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

const (
	// pauses is how many times as long as a call took run waits before the next one, so that quick calls take a twentieth of a processor.
	pauses = 20
	// longestPause bounds this wait. A call also takes long if the machine is busy or the process was suspended; without the bound, the next status
	// would be many seconds late.
	longestPause = time.Second
)

// run calls do after changes until ctx ends: at once after the first change, and then at least an interval after the last call began. It waits longer if
// that call took long.
func (s signal) run(ctx context.Context, interval time.Duration, do func()) {
	for {
		select {
		case <-s:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		do()
		took := time.Since(began)
		select {
		case <-time.After(max(interval-took, min(pauses*took, longestPause))):
		case <-ctx.Done():
			return
		}
	}
}
