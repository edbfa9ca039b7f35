/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package kubeapiservers finds the kube-apiservers of a cluster, for code that must know about each of them.
//
// Invariants:
//
//   - One server does not count as two because its address is written in two ways.
//   - If the list or the Leases cannot be read, the last ones stay, with their time.
//
// The package sends no requests to the servers that it finds.
package kubeapiservers
