/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cel declares the CEL environments of conditions and policies (KEP-5681, "Built-in CEL
// conditions evaluator"): the variables and their types, the limits of an evaluation, the compiler with
// its cache, and the conversion of requests and Go objects to values of CEL.
//
//   - Package partial evaluates an expression while some of its variables are unknown.
//   - Package bound reads and writes bound conditions: an expression with the data of one request.
//   - Package presence finds the accesses of an expression that fail if a field is missing.
//   - Package internal/engine plans and runs programs; package internal/guard bounds their work.
//
// Invariants:
//
//   - The environments extend the environment of Kubernetes: a condition can use everything that a
//     ValidatingAdmissionPolicy can use, except params.
//   - No expression and no data cause a panic or unbounded work: expressions are bounded in size, evaluations in cost
//     and by their context.
//   - Reading a variable without a value is an error. There are no default values.
//
// The package knows the names and CEL types of the data of requests, not their Go types. It knows nothing of
// decisions and condition sets, and of Proviso outside its own folder it imports package suggestion only.
package cel
