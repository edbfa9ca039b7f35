/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"math"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Value is the bound of the value of an expression.
type Value struct{ value }

// Bytes returns the bound of the size, for objects of a size.
func (v Value) Bytes(bytes int) float64 { return v.bytes.at(float64(bytes)) }

// Count returns the bound of the number of elements of a list or a map. It returns false if only the size bounds it.
func (v Value) Count() (count float64, ok bool) { return v.count, v.counted }

// IsSmall reports whether the value is a number or another value of a small size.
func (v Value) IsSmall() bool { return v.shape == scalar }

// ValueOf returns the bound of the value of an expression. It returns false if the cost of the expression has no bound.
func ValueOf(parsed *ast.AST) (Value, bool) {
	e, err := environment()
	if err != nil {
		panic(err)
	}
	w := &walk{functions: e.Engine().Env.Functions(), variables: map[string]value{}, isValidated: true, size: math.Inf(1), widths: map[string]int{}}
	result := w.of(parsed.Expr())
	return Value{result.value}, w.unbounded == ""
}

// Knows reports whether the bound knows a function with a number of arguments, the receiver among them.
func Knows(function string, arguments int) bool {
	switch function {
	case operators.Conditional, operators.Index, operators.OptIndex, operators.OptSelect:
		return true
	}
	w := &walk{widths: map[string]int{}}
	factory := ast.NewExprFactory()
	args, results := make([]ast.Expr, 0, 3), make([]result, 0, 3)
	for range max(arguments, 1) {
		args, results = append(args, factory.NewLiteral(0, types.IntOne)), append(results, result{value: textOf(none)})
	}
	if slices.Contains([]string{"matches", "find", "findAll"}, function) {
		args[1] = factory.NewLiteral(0, types.String("a"))
	}
	if function == "quantity" || function == "isQuantity" {
		args[0] = factory.NewLiteral(0, types.String("1"))
	}
	_ = w.own(function, args, results)
	return w.unbounded == ""
}
