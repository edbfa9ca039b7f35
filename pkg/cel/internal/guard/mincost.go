/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// costOfCheck is the cost of an authorization check in the library of Kubernetes.
const costOfCheck = 350_000

// MinCost returns what the authorization checks of each evaluation of an expression cost together, in the cost units of CEL, or less. All other work
// counts as 0. An evaluation that ends in an error may cost less.
func MinCost(checked *ast.AST) uint64 {
	if checked == nil {
		return 0
	}
	return costOfCheck * minChecks(checked.Expr())
}

// minChecks returns the number of checks that each evaluation makes, or less. A macro may have no round.
func minChecks(e ast.Expr) (n uint64) {
	switch e.Kind() {
	case ast.CallKind:
		return minChecksOfCall(e.AsCall())
	case ast.SelectKind:
		return minChecks(e.AsSelect().Operand())
	case ast.ListKind, ast.MapKind:
		return minChecksOfAll(Elements(e)...)
	case ast.ComprehensionKind:
		return minChecksOfAll(e.AsComprehension().IterRange(), e.AsComprehension().Result())
	case ast.UnspecifiedExprKind, ast.IdentKind, ast.LiteralKind, ast.StructKind: // policies make no structs
	}
	return 0
}

func minChecksOfAll(parts ...ast.Expr) (n uint64) {
	for _, part := range parts {
		n += minChecks(part)
	}
	return n
}

func minChecksOfCall(c ast.CallExpr) (n uint64) {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr: // one decides
		n = minChecks(args[0])
		for _, other := range args[1:] {
			n = min(n, minChecks(other))
		}
		return n
	case operators.Conditional:
		return minChecks(args[0]) + min(minChecks(args[1]), minChecks(args[2]))
	case operators.NotStrictlyFalse: // an error in it is none
		return 0
	case operators.Index, operators.OptIndex, operators.OptSelect: // the others are not evaluated if the first is an optional which is none
		return minChecks(args[0])
	case operators.In: // the planner makes a search in an empty list false
		if args[1].Kind() == ast.ListKind && len(Elements(args[1])) == 0 {
			return 0
		}
	}
	n = minChecksOfAll(args...)
	if !c.IsMemberFunction() {
		return n
	}
	switch c.FunctionName() {
	case "or", "orValue":
		return minChecks(c.Target())
	case "check":
		n++
	}
	return n + minChecks(c.Target())
}
