/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// PaceInterval is the time after which Pace allows another write of a status.
const PaceInterval = 30 * time.Second

// StatusBurst is how many writes of a status that says what other components do pass at once. A policy whose barrier comes into force has four or
// five: the barrier is about to be written, an earlier text is in force, the sentinel has not followed, a kube-apiserver has not loaded it, all have.
const StatusBurst = 6

// Pace bounds how often the status of an object is written because of what this replica has found out, and not because of the object:
// replicas that do not agree would write it in turns, as fast as the store allows. The zero value allows one write in each PaceInterval. Its
// methods may be called concurrently.
type Pace[K comparable] struct {
	// Burst is how many writes of one generation of an object pass at once after a time without any. If zero, one does.
	Burst int
	// Now returns the time. If nil, it is time.Now.
	Now func() time.Time

	mu      sync.Mutex
	written map[K]paced
}

// paced is what was written of a generation of an object.
type paced struct {
	generation int64
	limiter    *rate.Limiter
}

func (p *Pace[K]) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// Wait returns how long to wait before the status of a generation of an object is written. It may be negative.
func (p *Pace[K]) Wait(key K, generation int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.written[key]
	if !ok || last.generation != generation {
		return 0
	}
	return time.Duration((1 - last.limiter.TokensAt(p.now())) * float64(PaceInterval))
}

// Wrote records that a status has been written.
func (p *Pace[K]) Wrote(key K, generation int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.written == nil {
		p.written = map[K]paced{}
	}
	last, ok := p.written[key]
	if !ok || last.generation != generation {
		last = paced{generation, rate.NewLimiter(rate.Every(PaceInterval), max(p.Burst, 1))}
		p.written[key] = last
	}
	last.limiter.ReserveN(p.now(), 1)
}

// Forget forgets an object that has been deleted.
func (p *Pace[K]) Forget(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, key)
}
