/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policy runs the controller that compiles stored policies, publishes them as immutable snapshots, and writes
// their status.
//
// Invariants:
//
//   - A policy that does not compile is refused when it is written, with the field and the position of the mistake.
//   - A stored policy that does not compile any more keeps its last good compilation. Without one, a Deny or NoOpinion
//     policy denies what its rules match, and an Allow policy grants nothing.
//   - Every replica writes the same status.
//
// It must not import storage or anything of the server: it reaches policies as a client.
package policy
