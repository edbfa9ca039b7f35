/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// The checker of cel-go keeps one map of all type variables that it has found a type for, and
// copies it for every overload that it tries and for every element of a literal. A generic call,
// such as an index or a comparison, adds variables. The time therefore grows with the square of
// the length: 10 KB of `o[0][0]…` took 7.5 seconds. The constants bound and count these copies.
const (
	// maxTypeWork bounds the type variables that are copied while one expression is checked. A copy
	// takes some 60 to 140 ns, so that checking takes at most about 35 ms. It leaves room for about 410
	// comparisons joined by ||, or 90 if each of them has an index into an object.
	maxTypeWork = 1 << 18
	// compileCostOfAny and compileCostPerByte are what compiling costs for a text and for each byte of it,
	// in the units of CostLimit: the shortest text takes some 0.15 ms, and parsing some 5 to 10 µs a byte.
	// Each copied type variable costs one unit more.
	compileCostOfAny   = 1000
	compileCostPerByte = 32
)

var errTypeWork = fmt.Errorf("it has too many comparisons, indexes and other calls of generic functions: "+
	"to check its types takes more than %d copies of type variables", maxTypeWork)

// compileCost is what compiling a text costs before its types are checked, in the units of CostLimit.
func compileCost(text string) uint64 {
	return compileCostOfAny + compileCostPerByte*uint64(len(text))
}

// candidates are the overloads that the checker tries for a call.
type candidates struct {
	// count is the number of the overloads, and variables how many type variables they have.
	count, variables int
}

// callStyle tells the functions of a name that are called on a receiver from the others.
type callStyle struct {
	name   string
	member bool
}

// candidatesOf lists the overloads of an environment.
func candidatesOf(env *cel.Env) map[callStyle]candidates {
	result := map[callStyle]candidates{}
	for name, function := range env.Functions() {
		for _, overload := range function.OverloadDecls() {
			style := callStyle{name, overload.IsMemberFunction()}
			c := result[style]
			c.count++
			c.variables += len(overload.TypeParams())
			result[style] = c
		}
	}
	return result
}

// checkTypeWork refuses an expression, with its macros expanded, whose types would take too long to
// check. It returns how many type variables are copied at most.
func (g *guard) checkTypeWork(e ast.Expr) (uint64, error) {
	w := typeWork{candidates: g.candidates}
	w.expr(e)
	if w.copied > maxTypeWork {
		return maxTypeWork, errTypeWork
	}
	return uint64(w.copied), nil //nolint:gosec // not negative, and bounded
}

// typeWork walks an expression as the checker does.
type typeWork struct {
	candidates map[callStyle]candidates
	// variables are the type variables so far, and copied how often one of them was copied.
	variables, copied int
}

// try counts copies of the map, to which variables may be added.
func (w *typeWork) try(count, variables int) {
	w.variables += variables
	if w.copied <= maxTypeWork { // no overflow
		w.copied += count * w.variables
	}
}

func (w *typeWork) expr(e ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		w.expr(e.AsSelect().Operand())
		w.try(1, 0)
	case ast.CallKind:
		w.call(e.AsCall())
	case ast.ListKind:
		w.literal(e, 1)
	case ast.MapKind:
		w.literal(e, 2)
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			w.expr(field.AsStructField().Value())
			w.try(1, 0)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			w.expr(part)
		}
		w.try(3, 0) // the range, the condition and the step have to fit
	default:
	}
}

// literal counts a list or a map. An empty one has types that must be found.
func (w *typeWork) literal(e ast.Expr, parameters int) {
	parts := elements(e)
	for _, part := range parts {
		w.expr(part)
		w.try(1, 0)
	}
	if len(parts) == 0 {
		w.try(0, parameters)
	}
}

func (w *typeWork) call(c ast.CallExpr) {
	for _, arg := range c.Args() {
		w.expr(arg)
	}
	name := c.FunctionName()
	style := callStyle{name, c.IsMemberFunction()}
	if c.IsMemberFunction() {
		w.expr(c.Target())
		if qualified, ok := qualifiedName(c.Target()); ok {
			if _, ok := w.candidates[callStyle{qualified + "." + name, false}]; ok {
				style = callStyle{qualified + "." + name, false}
			}
		}
	}
	found := w.candidates[style]
	if name == operators.LogicalAnd || name == operators.LogicalOr {
		found.count = len(c.Args()) // each of them has to be a bool
	}
	w.try(max(found.count, 1), found.variables)
}

// qualifiedName returns the name that a chain of selections may be.
func qualifiedName(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), true
	case ast.SelectKind:
		prefix, ok := qualifiedName(e.AsSelect().Operand())
		return prefix + "." + e.AsSelect().FieldName(), ok && !e.AsSelect().IsTestOnly()
	default:
		return "", false
	}
}
