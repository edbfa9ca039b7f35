/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package guard bounds the compilation and the evaluation of CEL expressions where cel-go does not.
// The cost limit of CEL counts neither the work of the compiler nor most of the work of a single
// function. A Guard checks an expression before it is compiled, and decorates its program.
//
// Invariants:
//
//   - The time to parse an expression and to check its types is bounded by constants (expression.go,
//     typework.go, pattern.go).
//   - A function gets no arguments that would keep it busy for more than some milliseconds
//     (arguments.go), and its cost grows with its work (cost.go).
//   - A panic in a function is an error of its call, which && and || may absorb (panics.go).
//   - An evaluation ends soon after its context (guard.go).
//   - An expression within the bounds has the same result as with cel-go alone.
//
// The package knows cel-go and the CEL libraries of Kubernetes only. It must not import anything else
// of Proviso.
package guard
