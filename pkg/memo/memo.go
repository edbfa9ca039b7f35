/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package memo keeps what is expensive to make as long as someone uses it.
package memo

import (
	"crypto/sha256"
	"encoding/gob"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// Key identifies what a value is made of.
type Key [sha256.Size]byte

// KeyOf returns the key of values that encoding/gob can encode. Other values have another key, unless they differ in nil and empty lists only.
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

// Memo makes one value for each key as long as someone uses the value, and keeps some in between. It is safe for concurrent use. The values must
// not be changed.
type Memo[V any] struct {
	mu      sync.Mutex
	entries map[Key]*entry[V]
	// recent are the values that were made last. They are in use even if nobody else uses them.
	recent []*V
	next   int
	made   atomic.Uint64
}

// entry is the place of a value.
type entry[V any] struct {
	mu    sync.Mutex
	value weak.Pointer[V]
}

// New returns a Memo that keeps the values that were made last, also if nobody uses them. It keeps that many, at least one.
func New[V any](recent int) *Memo[V] {
	return &Memo[V]{entries: map[Key]*entry[V]{}, recent: make([]*V, max(recent, 1))}
}

// Get returns the value of a key. If there is none, Get calls create, and others who ask for the same key wait for it. If create returns an error, Get
// returns it, and keeps nothing.
func (m *Memo[V]) Get(key Key, create func() (*V, error)) (*V, error) {
	m.mu.Lock()
	e := m.entries[key]
	if e == nil {
		e = &entry[V]{}
		m.entries[key] = e
	}
	m.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	value := e.value.Value()
	if value == nil {
		defer func() { m.forget(key, e) }() // if it was not made, also because create has panicked
		var err error
		if value, err = create(); err != nil {
			return nil, err
		}
		m.made.Add(1)
		e.value = weak.Make(value)
		runtime.AddCleanup(value, func(key Key) { m.clean(key, e) }, key)
		m.keep(value)
	}
	return value, nil
}

// Made returns how many values were made.
func (m *Memo[V]) Made() uint64 { return m.made.Load() }

// keep makes a new value one of the last ones.
func (m *Memo[V]) keep(value *V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent[m.next] = value
	m.next = (m.next + 1) % len(m.recent)
}

// clean forgets the place of a value that nobody uses any more, unless it is being made again.
func (m *Memo[V]) clean(key Key, e *entry[V]) {
	if e.mu.TryLock() {
		defer e.mu.Unlock()
		m.forget(key, e)
	}
}

// forget forgets a place without a value. The caller holds its lock.
func (m *Memo[V]) forget(key Key, e *entry[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.value.Value() == nil && m.entries[key] == e {
		delete(m.entries, key)
	}
}
