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

// pauses is how many times as long as a call took run waits at least before the next one, so that it takes a twentieth of a processor.
const pauses = 20

// run calls do after changes until ctx ends: at once after the first one, and then at least an interval after the last call began, or longer if that took long.
func (s signal) run(ctx context.Context, interval time.Duration, do func()) {
	for {
		select {
		case <-s:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		do()
		select {
		case <-time.After(max(interval-time.Since(began), pauses*time.Since(began))):
		case <-ctx.Done():
			return
		}
	}
}
