/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// memory caches answers for a limited time. It does not use an answer that was added at a later time
// than now, because the clock was set back: the age of such an answer is unknown. The clock of the
// process is monotonic, but another clock may lack a monotonic reading.
type memory struct {
	clock cache.Clock
	held  *cache.LRUExpireCache
}

// realClock is the clock of the process.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func newMemory(clock cache.Clock) *memory {
	return &memory{clock: clock, held: cache.NewLRUExpireCacheWithClock(cacheSize, clock)}
}

// remembered is an answer with the time at which it was added.
type remembered struct {
	answer any
	since  time.Time
}

func (m *memory) get(key string) (any, bool) {
	held, ok := m.held.Get(key)
	if !ok {
		return nil, false
	}
	found := held.(remembered)
	if m.clock.Now().Before(found.since) {
		m.held.Remove(key)
		return nil, false
	}
	return found.answer, true
}

func (m *memory) add(key string, answer any, ttl time.Duration) {
	m.held.Add(key, remembered{answer: answer, since: m.clock.Now()}, ttl)
}
