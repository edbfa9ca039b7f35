/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package engine decides requests from policies: attributes and a snapshot of compiled
// policies give a decision (KEP-5681, "Authorizer requirements").
//
// Invariants:
//
//   - A Snapshot is immutable. A decision belongs to exactly one, whatever changes
//     meanwhile, and its conditions hold the programs that they were made from.
//   - The same attributes and the same policies give the same decision, in the same order.
//   - What it costs to decide grows with the policies that match, not with those that exist.
//   - What cannot be decided is closed: a Deny policy that fails denies, and an Allow policy
//     that fails grants nothing. A NoOpinion policy whose condition cannot be evaluated holds
//     back all Allow policies, and one that does not compile denies. Without policies,
//     nothing is granted.
//
// The package knows nothing of informers and storage: package policy fills snapshots.
package engine
