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

// run calls do after changes until ctx ends: at once after the first one, and then at least an interval after the last call began.
func (s signal) run(ctx context.Context, interval time.Duration, do func()) {
	for {
		select {
		case <-s:
		case <-ctx.Done():
			return
		}
		next := time.After(interval)
		do()
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}
