/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// memory holds answers for as long as they may be reused. An answer from the future, after
// the clock was set back, is not reused: nobody knows how old it is. The clock of the
// process cannot be set back, but one that comes without a monotonic reading can.
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

// remembered is an answer, and since when it has been held.
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
