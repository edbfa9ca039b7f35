/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import "github.com/proviso-authz/proviso/pkg/freshness"

// state is what a decision is made from.
type state = freshness.State[Snapshot]

// Source holds the current snapshot. The zero value has no snapshot, and denies every request. It is safe for
// concurrent use.
//
// While the snapshot may be out of date, Allow policies grant nothing. Deny and NoOpinion policies still decide.
type Source struct {
	freshness.Source[Snapshot]
}

// Publish makes a snapshot the current one.
func (s *Source) Publish(snapshot *Snapshot) { s.Store(snapshot) }

// Snapshot returns the current snapshot, or nil if there is none yet.
func (s *Source) Snapshot() *Snapshot { return s.Current() }
