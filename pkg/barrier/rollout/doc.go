/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package rollout finds out which barriers all kube-apiservers have loaded. The front door leaves a conditional Deny to a barrier
// only then.
//
// kube-apiservers load admission policies from their watches, each at its own pace. Barriers are numbered by the sentinel, which is
// written after them, and each replica of Proviso probes each kube-apiserver for the number of the sentinel that it has loaded
// (see barrier.Sentinel).
//
// Invariants:
//
//   - A text of a barrier is active only if both objects are stored as this replica compiles them, and if every kube-apiserver has shown
//     a sentinel that was written after both. No kube-apiserver may be missing in the list. Servers that have left the list count for
//     five minutes.
//   - While another text is on its way to the servers, a request is covered only if every text that a server may have covers it.
//   - A text stays active while servers are silent. It ends if an object changes, or if a server lets a probe pass or shows a
//     lower number than before.
//   - With the front door, a client certificate is known only if its kube-apiserver has refused a probe by the sentinel whose check arrived with this
//     certificate, and with no other. The front door leaves conditions only to the barriers of kube-apiservers with known certificates.
//   - An error, a panic and what is not known cover nothing.
//
// The package writes nothing to a cluster.
package rollout
