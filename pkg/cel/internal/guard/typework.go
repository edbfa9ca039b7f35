/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

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
	// compileCostOfAny and compileCostPerByte are the costs of compiling any text and each of its bytes,
	// in the cost units of CEL: the shortest text takes some 0.15 ms, and parsing some 5 to 10 µs a byte.
	// Each copied type variable costs one unit more.
	compileCostOfAny   = 1000
	compileCostPerByte = 32
)

// ErrTypeWork says that checking the types of an expression takes too long.
var ErrTypeWork = fmt.Errorf("it has too many comparisons, indexes and other calls of generic functions: "+
	"to check its types takes more than %d copies of type variables", maxTypeWork)

// CompileCost returns the cost of compiling a text without checking its types, in the cost units of CEL.
func CompileCost(text string) uint64 {
	return compileCostOfAny + compileCostPerByte*uint64(len(text))
}

// candidates are the overloads that the checker tries for a call.
type candidates struct {
	// count is the number of the overloads, and variables the number of their type variables.
	count, variables int
}

// callStyle distinguishes the functions of a name that are called on a receiver from the others.
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

// CheckTypeWork refuses an expression, with its macros expanded, whose types would take too long to
// check. It returns an upper bound of the number of copies of type variables.
func (g *Guard) CheckTypeWork(e ast.Expr) (uint64, error) {
	w := typeWork{candidates: g.candidates}
	w.expr(e)
	if w.copied > maxTypeWork {
		return maxTypeWork, ErrTypeWork
	}
	return uint64(w.copied), nil //nolint:gosec // not negative, and bounded
}

// typeWork walks an expression as the checker does.
type typeWork struct {
	candidates map[callStyle]candidates
	// variables is the number of type variables so far, and copied the number of their copies.
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

// literal counts a list or a map. The types of an empty one must be inferred.
func (w *typeWork) literal(e ast.Expr, parameters int) {
	parts := Elements(e)
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

// qualifiedName returns the qualified name that a chain of selections may spell.
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
