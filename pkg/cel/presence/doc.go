/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package presence finds the accesses of an expression that may fail, because a field, a key or an element need not exist and no guard
// protects the access.
//
// It evaluates the checked expression on objects. Only their Shape is known. Each time when the result depends on what is not known,
// such as whether a field exists or what a comparison yields, it chooses one answer, and the next run chooses another, until all are tried. So
// guards need no rules of their own: has, optionals, ternaries and macros do what they do in CEL. A list has at most two elements.
//
// Invariants:
//
//   - It decides nothing: its findings are for warnings.
//   - Work is bounded by Bound. If it does not suffice, findings may be missing.
//   - What a Shape does not describe is assumed to exist.
//
// The package must not import anything else of Proviso.
package presence
