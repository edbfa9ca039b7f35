/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package explanation shows why an expression is what it is: which of its parts keep it from being true (Parts), the values of everything in it
// (TraceOf), and the selectors for which it looks (WantedSelectors). It reads the tree of a partial.Expression, and evaluates parts of it.
//
// Invariants:
//
//   - No decision is made from an explanation.
//   - The text of a part compiles to the part that is evaluated.
//   - Part.TextFor shows nothing of the request but values in the place of what the part reads, and Trace says from which fields each value comes,
//     so that its caller can withhold values.
//   - Everything is bounded: the number of parts, the bytes of their texts, and the cost of evaluating them.
package explanation
