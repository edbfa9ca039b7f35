/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package typechecking finds mistakes in the expressions of policies by the schemas of the
// resources that their rules name, as ValidatingAdmissionPolicy does for its own.
//
// What holds in it:
//
//   - It only warns. A schema may be incomplete or change, so a mistake keeps no policy
//     from being in force, and neither does a schema that cannot be had.
//   - A type says what is in the data, not what it means: a time is a string in JSON and
//     so it is here. What a schema leaves open has the type dyn, which is never wrong.
//   - Work, memory and the size of the result are bounded, and no input panics.
//   - The same policy and schemas give the same warnings in the same order.
//
// The package must not import anything that decides requests or serves them.
package typechecking
