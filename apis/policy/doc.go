/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policy holds the internal (hub) types of policy.proviso.dev: the policies from
// which requests are authorized.
//
// Invariants:
//
//   - Every field that is accepted is evaluated; there is no inert field.
//   - The package knows nothing of CEL: what compiles is decided where policies are stored.
//
// +k8s:deepcopy-gen=package
// +groupName=policy.proviso.dev
package policy
