/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// The estimator of cel-go returns minima that are too large. It assumes the largest possible number of elements for
// a slice or range whose bounds are not literals, counts every element of a list although exists() may end
// at the first, and counts literals that the planner makes once. MinCost returns a lower bound instead: it counts
// unknown work as 0.

// MinCost returns a lower bound of the cost of an evaluation, in the cost units of CEL. An evaluation
// that ends in an error may cost less. MinCost counts secondary checks, lists and maps that are made,
// functions over lists of a known length, and the repetitions of all these in loops over lists of a known
// length. It returns 0 if the bound cannot be computed.
func MinCost(checked *ast.AST) (cost uint64) {
	defer func() {
		if r := recover(); r != nil {
			cost = 0
		}
	}()
	return (&costWalk{checked: checked}).of(checked.Expr()).cost
}

// minimum is the minimal cost of a part of an expression, and the minimal number of elements of its value if
// that is a list or a map.
type minimum struct {
	cost, size uint64
}

// maxMinimum bounds costs and sizes, so that sums of them do not overflow. It is far over every limit.
const maxMinimum = 1 << 40

func product(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return maxMinimum
	}
	return min(low, maxMinimum)
}

func sum(terms ...uint64) (total uint64) {
	for _, term := range terms {
		total = min(total+term, maxMinimum)
	}
	return total
}

// costWalk computes the minimum for each part of a checked expression. accumulators are the result variables of the enclosing
// macros.
type costWalk struct {
	checked      *ast.AST
	accumulators []string
}

func (w *costWalk) of(e ast.Expr) minimum {
	switch e.Kind() {
	case ast.CallKind:
		return w.call(e)
	case ast.SelectKind:
		return minimum{cost: w.of(e.AsSelect().Operand()).cost}
	case ast.ListKind:
		return w.list(e)
	case ast.MapKind:
		return w.mapping(e)
	case ast.ComprehensionKind:
		return w.comprehension(e.AsComprehension())
	default:
		return minimum{}
	}
}

// all returns the cost of parts that are all evaluated.
func (w *costWalk) all(parts ...ast.Expr) (cost uint64) {
	for _, part := range parts {
		cost = sum(cost, w.of(part).cost)
	}
	return cost
}

// least returns the cost of the cheapest of parts, for && and ||: at least one of the parts is evaluated, and the others may
// not be. Accumulators are left out, because their first value decides nothing.
func (w *costWalk) least(parts ...ast.Expr) uint64 {
	least := uint64(maxMinimum)
	for _, part := range parts {
		if !w.isAccumulator(part) {
			least = min(least, w.of(part).cost)
		}
	}
	return least
}

func (w *costWalk) isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && slices.Contains(w.accumulators, e.AsIdent())
}

func (w *costWalk) list(e ast.Expr) minimum {
	list := e.AsList()
	size := uint64(len(list.Elements()) - len(list.OptionalIndices()))
	if w.isConstant(e) {
		return minimum{size: size} // made once
	}
	return minimum{cost: sum(w.all(list.Elements()...), common.ListCreateBaseCost), size: size}
}

func (w *costWalk) mapping(e ast.Expr) minimum {
	result := minimum{}
	for _, entry := range e.AsMap().Entries() {
		result.cost = sum(result.cost, w.all(entry.AsMapEntry().Key(), entry.AsMapEntry().Value()))
		if len(e.AsMap().Entries()) == 1 && !entry.AsMapEntry().IsOptional() {
			result.size = 1 // the keys of more could be the same
		}
	}
	if !w.isConstant(e) {
		result.cost = sum(result.cost, common.MapCreateBaseCost)
	}
	return result
}

// isConstant reports whether an expression consists of literals, names of types and conversions of
// these only. The planner makes them one value, which costs nothing in an evaluation.
func (w *costWalk) isConstant(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind:
		return w.checked.GetType(e.ID()).Kind() == types.TypeKind
	case ast.CallKind:
		return overloads.IsTypeConversionFunction(e.AsCall().FunctionName()) && len(e.AsCall().Args()) == 1 && w.isConstant(e.AsCall().Args()[0])
	case ast.ListKind, ast.MapKind:
		return !slices.ContainsFunc(Elements(e), func(element ast.Expr) bool { return !w.isConstant(element) })
	default:
		return false
	}
}

// comprehension returns the minimum of a macro. A macro that can end early counts as one round, if its range has an element.
// The initial value of the accumulator costs nothing, because it may never be read.
func (w *costWalk) comprehension(c ast.ComprehensionExpr) minimum {
	over := w.of(c.IterRange())
	inner := costWalk{checked: w.checked, accumulators: append(w.accumulators[:len(w.accumulators):len(w.accumulators)], c.AccuVar())}
	rounds := over.size
	if condition := c.LoopCondition(); condition.Kind() != ast.LiteralKind || condition.AsLiteral() != types.True {
		rounds = min(rounds, 1)
	}
	result := w.of(c.Result())
	if c.Result().Kind() == ast.IdentKind && c.Result().AsIdent() == c.AccuVar() {
		result.size = product(rounds, inner.appended(c.LoopStep()))
	}
	result.cost = sum(result.cost, over.cost, product(rounds, inner.of(c.LoopStep()).cost))
	return result
}

// appended returns the least number of elements that a step of a macro appends to its accumulator. It is 0 if the step is no
// sum of the accumulator and a list.
func (w *costWalk) appended(step ast.Expr) uint64 {
	if step.Kind() != ast.CallKind || step.AsCall().FunctionName() != operators.Add || !w.isAccumulator(step.AsCall().Args()[0]) {
		return 0
	}
	return w.of(step.AsCall().Args()[1]).size
}

// costOfCheck is the cost of an authorization check in the library of Kubernetes.
const costOfCheck = 350_000

func (w *costWalk) call(e ast.Expr) minimum {
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		return minimum{cost: w.least(args...)}
	case operators.Conditional:
		return minimum{cost: sum(w.of(args[0]).cost, min(w.of(args[1]).cost, w.of(args[2]).cost))}
	case operators.NotStrictlyFalse:
		return minimum{} // an error in it is none
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return minimum{cost: w.of(args[0]).cost} // the others are not evaluated if that is an optional which is none
	case operators.In:
		if w.isConstant(args[1]) && len(Elements(args[1])) == 0 {
			return minimum{} // the planner makes it false
		}
	case "or", "orValue":
		if c.IsMemberFunction() {
			return minimum{cost: w.of(c.Target()).cost}
		}
	}
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	own := w.own(e, args)
	return minimum{cost: sum(w.all(args...), own.cost), size: own.size}
}

// own returns the minimum of a call itself, without the costs of its arguments. The receiver is one of the arguments.
func (w *costWalk) own(e ast.Expr, args []ast.Expr) minimum {
	if e.AsCall().FunctionName() == "check" && e.AsCall().IsMemberFunction() {
		return minimum{cost: costOfCheck}
	}
	reference, ok := w.checked.ReferenceMap()[e.ID()]
	if !ok || len(reference.OverloadIDs) != 1 || len(args) == 0 {
		return minimum{}
	}
	const base = 1 + common.ListCreateBaseCost
	switch overload := reference.OverloadIDs[0]; {
	case overload == "lists_range":
		n := literalSize(args[0])
		return minimum{cost: sum(base, n), size: n}
	case overload == "list_slice" && len(args) == 3:
		// Bounds that are out of range are an error.
		n := literalSize(args[2]) - min(literalSize(args[1]), literalSize(args[2]))
		if args[1].Kind() != ast.LiteralKind {
			n = 0
		}
		return minimum{cost: sum(base, n), size: n}
	case overload == "list_reverse":
		n := w.of(args[0]).size
		return minimum{cost: sum(base, n), size: n}
	case overload == "list_distinct":
		return minimum{cost: sum(base, squared(w.of(args[0]).size)), size: min(w.of(args[0]).size, 1)}
	case strings.HasPrefix(overload, "list_") && strings.HasSuffix(overload, "_sort"):
		n := w.of(args[0]).size
		return minimum{cost: sum(base, squared(n)), size: n}
	}
	return minimum{}
}

// squared returns a lower bound of the cost of comparing n elements with each other, which costOfComparing charges.
func squared(n uint64) uint64 { return product(product(n, n), 2) }

// literalSize returns the value of an integer literal that can be a size, or 0.
func literalSize(e ast.Expr) uint64 {
	if e.Kind() != ast.LiteralKind {
		return 0
	}
	if n, ok := e.AsLiteral().(types.Int); ok && n > 0 {
		return min(uint64(n), maxMinimum)
	}
	return 0
}
