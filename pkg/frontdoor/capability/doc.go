/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package capability finds out which kube-apiservers handle conditional decisions. The status of policies then says that kube-apiserver
// enforces conditions itself.
//
// Every few seconds, each replica of Proviso sends a canary to each kube-apiserver: a dry-run request that the front door denies. The
// reason says whether the review of the request had the options for conditions, and comes back in the answer of kube-apiserver. It does not
// matter which replica has answered the review, and which client certificates the kube-apiservers have.
//
// Invariants:
//
//   - kube-apiservers are said to handle conditions only if the last canary at each listed server says so, within three intervals, and if no
//     kube-apiserver is missing in the list.
//   - A server that does not answer, or answers otherwise, is not known to handle conditions from then on.
//   - Nothing that a client sends makes a server known: the nonces are random, and each is used once.
//
// The package decides nothing about requests: the front door answers each review by the options of that review alone. It must not import
// the front door.
package capability
