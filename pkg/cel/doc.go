/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cel is the CEL environment of conditions: which variables an expression may
// read, what it may cost, how it is compiled and evaluated (KEP-5681, "Built-in CEL
// conditions evaluator").
//
// Invariants:
//
//   - One environment, built on that of Kubernetes, so that what a
//     ValidatingAdmissionPolicy can say a condition can say too.
//   - No input panics, and none runs without bound: expressions are bounded in size,
//     evaluations in cost and by their context.
//   - A variable that is not known is an error, never a default.
//
// The package knows nothing of decisions, conditions or Kubernetes requests, and must
// not import anything else of Proviso.
package cel
