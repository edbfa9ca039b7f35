/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"sync"
	"time"
)

// PaceInterval is the least time between two writes of a status that Pace allows.
const PaceInterval = 30 * time.Second

// Pace bounds how often the status of an object is written because of what this replica has found out, and not because of the object:
// replicas that do not agree would write it in turns, as fast as the store allows. The zero value is ready. Its methods may be called
// concurrently.
type Pace[K comparable] struct {
	// Now returns the time. If nil, it is time.Now.
	Now func() time.Time

	mu      sync.Mutex
	written map[K]time.Time
}

func (p *Pace[K]) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// Wait returns how long to wait before the status of an object is written. It may be negative.
func (p *Pace[K]) Wait(key K) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.written[key]
	if !ok {
		return 0
	}
	return PaceInterval - p.now().Sub(last)
}

// Wrote records that a status has been written.
func (p *Pace[K]) Wrote(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.written == nil {
		p.written = map[K]time.Time{}
	}
	p.written[key] = p.now()
}

// Forget forgets an object that has been deleted.
func (p *Pace[K]) Forget(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, key)
}
