/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package barrier compiles Deny policies into ValidatingAdmissionPolicies. A barrier is the ValidatingAdmissionPolicy of one
// Deny policy, with its binding. With it, kube-apiserver refuses the writes that the policy denies, also if RBAC allows them.
//
// Invariants:
//
//   - A barrier refuses a request exactly if the policy denies it. TestLaw compares both on random policies and requests, with the
//     admission plugin of kube-apiserver.
//   - Where a rule cannot be translated exactly, it is left out, and the report says why. Covers returns false for its requests.
//   - Compiling the same policy again gives the same bytes.
//   - A refusal shows no text of a policy but its description, and quotes no stored object.
//
// The package writes nothing to a cluster; package controller does.
package barrier
