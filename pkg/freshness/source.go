/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package freshness

import (
	"context"
	"sync/atomic"
)

// Source holds the value that decisions are made from, such as the compiled policies, and replaces it while the
// server runs. The zero value holds none. It is safe for concurrent use.
type Source[T any] struct {
	Tracker
	current atomic.Pointer[T]
}

// State is the state of a Source at one time.
type State[T any] struct {
	// Value is nil until the first value is stored.
	Value *T
	// Stale is the reason why the value may be out of date. It is empty if the value is up to date.
	Stale string
}

// Store replaces the value. The value must not change afterwards.
func (s *Source[T]) Store(value *T) { s.current.Store(value) }

// Current returns the current value, or nil if there is none yet.
func (s *Source[T]) Current() *T { return s.current.Load() }

type pinned[T any] struct{ source *Source[T] }

// Pin returns a context in which all decisions are made from the current state. A context that is pinned already is
// returned as it is.
func (s *Source[T]) Pin(ctx context.Context) context.Context {
	if _, ok := ctx.Value(pinned[T]{s}).(State[T]); ok {
		return ctx
	}
	return s.PinTo(ctx, s.load())
}

// PinTo returns a context in which all decisions are made from the given state, also if ctx is pinned already.
func (s *Source[T]) PinTo(ctx context.Context, state State[T]) context.Context {
	return context.WithValue(ctx, pinned[T]{s}, state)
}

// StateOf returns the state that a context is pinned to. If it is not pinned, it returns the current state.
func (s *Source[T]) StateOf(ctx context.Context) State[T] {
	if state, ok := ctx.Value(pinned[T]{s}).(State[T]); ok {
		return state
	}
	return s.load()
}

func (s *Source[T]) load() State[T] {
	// The reason is read first, so that it is not about a newer value.
	stale := s.Stale()
	return State[T]{Value: s.Current(), Stale: stale}
}
