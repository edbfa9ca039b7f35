/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"sync/atomic"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// state is what a decision is made from.
type state struct {
	snapshot *Snapshot // nil before the first one
	// stale says why the snapshot may be out of date, empty if it is not.
	stale string
}

// Source holds the current snapshot. The zero value has no snapshot, and denies every request. It is safe for
// concurrent use.
//
// While the snapshot may be out of date, Allow policies grant nothing. Deny and NoOpinion policies still decide.
type Source struct {
	authorization.Freshness
	snapshot atomic.Pointer[Snapshot]
}

// Publish makes a snapshot the current one.
func (s *Source) Publish(snapshot *Snapshot) { s.snapshot.Store(snapshot) }

// Snapshot returns the current snapshot, or nil if there is none yet.
func (s *Source) Snapshot() *Snapshot { return s.snapshot.Load() }

type pinned struct{ source *Source }

// Pin returns a context in which everything is decided from the snapshot that is current
// now. A context that is pinned stays as it is.
func (s *Source) Pin(ctx context.Context) context.Context {
	if _, ok := ctx.Value(pinned{s}).(state); ok {
		return ctx
	}
	return context.WithValue(ctx, pinned{s}, s.load())
}

func (s *Source) load() state {
	// The reason first: what it was said of is not newer than the snapshot.
	stale := s.Stale()
	return state{snapshot: s.Snapshot(), stale: stale}
}

func (s *Source) stateOf(ctx context.Context) state {
	if pinnedState, ok := ctx.Value(pinned{s}).(state); ok {
		return pinnedState
	}
	return s.load()
}

// pinTo returns a context in which everything is decided from a state.
func (s *Source) pinTo(ctx context.Context, decidedIn state) context.Context {
	return context.WithValue(ctx, pinned{s}, decidedIn)
}
