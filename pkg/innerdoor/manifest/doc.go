/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package manifest writes the configuration with which kube-apiserver calls the inner door: a manifest of static admission
// webhooks, which no request to the API can change, and which does not change with policies.
//
// Invariants:
//
//   - The manifest calls the inner door for each write to a listed resource that the other authorizers of the chain do not
//     allow. An authorizer that fails does not allow.
//   - Where a write can be sent in several ways, the other authorizers count as allowing it only if they allow all that one
//     of the ways needs.
//
// The package writes configuration only. It must import nothing of the server.
package manifest
