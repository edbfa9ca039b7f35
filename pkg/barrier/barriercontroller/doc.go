/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package barriercontroller writes the barrier of each Deny policy, and of each mapping that excludes fields, to kube-apiserver, and keeps it
// as it must be. The invariants about policies hold for mappings, too.
//
// Invariants:
//
//   - One replica writes, the leader. Two leaders at the same time do no harm: each write has the resource version that the writer
//     has read, and before each write the leader reads the policy from the store, and not from a cache.
//   - A policy has a finalizer while it may have a barrier, so that a deleted policy is gone only after its barrier is.
//   - A barrier is removed only if the store has its policy, and the policy needs no barrier any more, or if the controller has seen
//     how the policy was deleted. A barrier whose policy the store does not know, as after the loss of the store, stays.
//   - While policies or mappings may be out of date, nothing is written or removed.
//   - An object that the controller has not written is neither changed nor removed.
//   - The leader can end between any two writes. The next leader completes what is missing.
//   - Policies of one namespace delay policies of other namespaces by one write each at most.
//
// The package must not import packages that decide requests, except for the keys of policies.
package barriercontroller
