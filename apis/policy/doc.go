/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policy has the internal (hub) types of policy.proviso.dev: the policies that authorize
// requests.
//
// Invariants:
//
//   - Every accepted field is evaluated.
//   - The package does not depend on CEL. Expressions are compiled when a policy is stored.
//
// +k8s:deepcopy-gen=package
// +groupName=policy.proviso.dev
package policy
