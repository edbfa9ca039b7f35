/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package convert is the command kubectl proviso convert rbac. It writes Roles, ClusterRoles and their bindings as Allow policies that decide
// alike.
//
// Invariants:
//
//   - No policy allows a request that its binding does not allow: an entry that a policy cannot have is left out, and a rule whose list loses
//     all entries is left out as a whole.
//   - Whatever is left out is in the report, with a reason, and the exit code is 1.
//   - Every policy passes the validation of the server.
//
// The package must not import the server, pkg/apiserver.
package convert
