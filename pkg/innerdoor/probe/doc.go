/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package probe finds out which kube-apiservers call the inner door. The front door lets writes pass on conditions only for them.
//
// Every few seconds, each replica of Proviso sends canaries to each kube-apiserver: dry-run requests, one for each operation, that
// the front door allows and the inner door refuses. The refusal has the digest of the manifest that the kube-apiserver has.
// The check that the kube-apiserver sends to the front door has the nonce of the canary, and arrives with the client
// certificate of the kube-apiserver: it ties the server to the certificate.
//
// Invariants:
//
//   - A certificate is known only if all canaries of the last round at its server were refused with this replica's own digest, and
//     all checks about the canaries of one round arrived at this replica with this certificate. Both must have happened within
//     three intervals. A replica that has just started knows no certificate.
//   - A server that allows a canary, or refuses it otherwise, is not known from then on. An answer that does not come in time changes nothing until
//     the three intervals are over.
//   - Where servers share a certificate, or may share one, it is known only if all servers call the inner door, and no
//     kube-apiserver is missing in the list of servers.
//   - Nothing that a client sends makes a certificate known: the nonces are random, and each is used for one round.
//
// The package decides nothing about requests of users. It must not import the front door.
package probe
