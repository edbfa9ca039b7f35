/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package bound reads and writes bound conditions. A bound condition is a whole expression of a policy
// and the fields of one request that the expression reads:
//
//	{"expression":"object.owner == request.userInfo.username","request":{"userInfo":{"username":"alice"}}}
//
// All bound conditions with the same expression share one program, whereas every residual is compiled by itself. A bound
// condition shows the expression of the policy, so it is for readers who may read the policy.
//
// Invariants:
//
//   - The same expression and data have the same text: the keys are in order, without spaces.
//   - A bound condition evaluates like its expression with the same request. The oracle of package
//     partial checks that.
//   - Reading is strict: unknown or repeated fields, other types than declared, and trailing data are
//     errors that wrap cel.ErrCompile.
//
// The package knows nothing of policies and decisions. Of Proviso it imports package cel and its internal
// packages only.
package bound
