/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package memo caches values that are expensive to compute while they are in use.
package memo

import (
	"crypto/sha256"
	"encoding/gob"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// Key is the hash of the inputs of a value.
type Key [sha256.Size]byte

// KeyOf returns the key of inputs, which encoding/gob must be able to encode. Different inputs have different keys, except that
// nil and an empty list, and nil and a pointer to a zero value, are equal.
func KeyOf(of ...any) (Key, error) {
	hash := sha256.New()
	encoder := gob.NewEncoder(hash)
	for _, value := range of {
		if err := encoder.Encode(value); err != nil {
			return Key{}, err
		}
	}
	return Key(hash.Sum(nil)), nil
}

// Memo is a cache. It has at most one value for a key, holds it with a weak pointer, and so drops it when the last user does. The values that were
// computed last are held in addition. A Memo is safe for concurrent use. Callers must not change the values.
type Memo[V any] struct {
	mu      sync.Mutex
	entries map[Key]*entry[V]
	// recent is a ring of the values that were computed last. It keeps them in the cache without other users.
	recent []*V
	next   int
	// computed counts the values.
	computed atomic.Uint64
}

// entry is the entry of a key. mu is held while the value is computed.
type entry[V any] struct {
	mu    sync.Mutex
	value weak.Pointer[V]
}

// New returns a Memo that holds the given number of recent values, at least one.
func New[V any](recent int) *Memo[V] {
	return &Memo[V]{entries: map[Key]*entry[V]{}, recent: make([]*V, max(recent, 1))}
}

// Get returns the value of a key. If the cache has none, Get calls create; other calls with the same key wait. If create returns an error, Get returns the
// error and caches nothing.
func (m *Memo[V]) Get(key Key, create func() (*V, error)) (*V, error) {
	e := m.lock(key)
	defer e.mu.Unlock()
	value := e.value.Value()
	if value == nil {
		defer func() { m.forget(key, e) }() // if create has failed or panicked
		var err error
		if value, err = create(); err != nil {
			return nil, err
		}
		m.computed.Add(1)
		e.value = weak.Make(value)
		of := weak.Make(m) // the cleanup must not keep the Memo
		runtime.AddCleanup(value, func(key Key) {
			if m := of.Value(); m != nil {
				m.clean(key, e)
			}
		}, key)
		m.keep(value)
	}
	return value, nil
}

// lock returns the entry of a key, which it makes if there is none, and locks it.
func (m *Memo[V]) lock(key Key) *entry[V] {
	for {
		m.mu.Lock()
		e := m.entries[key]
		if e == nil {
			e = &entry[V]{}
			m.entries[key] = e
		}
		m.mu.Unlock()
		e.mu.Lock()
		m.mu.Lock()
		isCurrent := m.entries[key] == e
		m.mu.Unlock()
		if isCurrent {
			return e
		}
		e.mu.Unlock() // it was removed in between
	}
}

// Computed returns the number of values that were computed so far.
func (m *Memo[V]) Computed() uint64 { return m.computed.Load() }

// keep adds a value to the ring, and drops the oldest one.
func (m *Memo[V]) keep(value *V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent[m.next] = value
	m.next = (m.next + 1) % len(m.recent)
}

// clean removes the entry of a value that was dropped, unless the value is being computed again.
func (m *Memo[V]) clean(key Key, e *entry[V]) {
	if e.mu.TryLock() {
		defer e.mu.Unlock()
		m.forget(key, e)
	}
}

// forget removes an entry without a value. The caller holds its lock.
func (m *Memo[V]) forget(key Key, e *entry[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.value.Value() == nil && m.entries[key] == e {
		delete(m.entries, key)
	}
}
