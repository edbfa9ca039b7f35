/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package enforcementstatus says what the rules of a policy do, and where: for the status of the policy, and for warnings
// to its author.
//
// Invariants:
//
//   - It never says that a policy is enforced on requests for which its condition is folded. Where one rule describes
//     both kinds of requests, it says so separately.
//   - Without Places, the result depends only on the specification and on the configuration of the server, so that all
//     replicas write the same status. Replicas may have different Places for some time.
//   - The size of the result is bounded.
//
// The package decides nothing, and must not import packages that do.
package enforcementstatus
