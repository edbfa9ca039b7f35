/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package typechecking finds mistakes in the expressions of policies by the schemas of the resources that their rules
// name, as ValidatingAdmissionPolicy does for its expressions.
//
// Invariants:
//
//   - It only warns. A schema may be incomplete or change, so a mistake or a missing schema does not disable a
//     policy.
//   - A type describes the JSON data, not its meaning: a time is a string. Parts that a schema does not describe have
//     the type dyn, for which there are no warnings about types.
//   - A field that the table of kube-apiserver's defaults or the schema requires is taken to exist at admission. What else may be missing is the matter of
//     package presence.
//   - Work, memory and the size of the result are bounded, and no input panics.
//   - The same policy and schemas give the same warnings in the same order.
//
// The package must not import packages that decide requests or serve them.
package typechecking
