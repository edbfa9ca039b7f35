/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"github.com/google/cel-go/common/ast"
)

// RoundFunction is the name of the function that the cost tracker sees at the end of a round.
const RoundFunction = roundFunction

// LargestType returns the bounds of the parts and of the depth of all types in an expression.
func (g *Guard) LargestType(e ast.Expr) (parts, depth int) {
	w := typeWork{Guard: g}
	w.expr(e)
	return w.largest.parts, w.largest.depth
}

// Walks reports whether a function may walk through its arguments.
func (g *Guard) Walks(function string) bool { return g.walks.Has(function) }
