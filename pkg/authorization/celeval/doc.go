/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package celeval evaluates the conditions of pkg/authorization that are written in CEL (KEP-5681,
// "Built-in CEL conditions evaluator"): from their texts, with all data or in part (Evaluator), and
// from compiled programs (EvaluateProgram). It reads the data of a request as the variables of
// conditions (ValuesOf), and makes the authorization checks of conditions (SecondaryChecks).
//
// Invariants:
//
//   - Every evaluation spends the budget of its context. Once nothing is left, the outcome is
//     Exhausted, which never opens anything.
//   - A condition that was evaluated in part, and then with the rest of the data, has the same value
//     as one that was evaluated with all data.
//   - A check that fails is an error of the condition, and not a denial that ! would turn into true.
//
// The package decides nothing about sets and chains: that is pkg/authorization, which must not
// import it.
package celeval
