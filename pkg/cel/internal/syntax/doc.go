/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package syntax has the trees of CEL expressions, and writes their texts. A tree has the macros of an expression as they were written, which the
// checked form of cel-go has expanded.
//
// A Builder makes the tree of a checked expression (builder.go). New nodes can take the place of its parts (node.go), also nodes for values
// that were computed (literal.go). A tree is printed (printer.go).
//
// Invariants:
//
//   - The text of a tree is parsed as the same tree. No value in it can become syntax.
//   - A tree that has a part without a text, or whose text is longer than a bound, is noticed before its text is used.
//   - The tree of an expression is immutable. A function that changes a part copies the nodes around it.
package syntax
