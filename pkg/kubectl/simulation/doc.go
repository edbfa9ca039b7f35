/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package simulation decides requests without a cluster: at authorization, and with the data of admission.
//
// Invariants:
//
//   - Policies are compiled and evaluated by the packages of the server, in a chain with the names and the order of the server's.
//   - No server is called. What other authorizers, such as RBAC, allow is part of the request.
//
// The package must not import the server, pkg/apiserver.
package simulation
