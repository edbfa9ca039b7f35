/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package admissionpolicy decides requests by ValidatingAdmissionPolicies without a cluster: policies, bindings and parameters come
// from files.
//
// Invariants:
//
//   - Expressions are compiled, and policies matched and dispatched, by the packages of kube-apiserver's admission plugin.
//   - A decision that depends on data that only a server has is an error, never a guess.
//   - No server is called.
//
// The package must not import the server, pkg/apiserver.
package admissionpolicy
