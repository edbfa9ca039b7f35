/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Knows reports whether the bound knows a function with a number of arguments, the receiver among them.
func Knows(function string, arguments int) bool {
	switch function {
	case operators.Conditional, operators.Index, operators.OptIndex, operators.OptSelect:
		return true
	}
	w := &walk{}
	factory := ast.NewExprFactory()
	args, results := make([]ast.Expr, 0, 3), make([]result, 0, 3)
	for range max(arguments, 1) {
		args, results = append(args, factory.NewLiteral(0, types.IntOne)), append(results, result{value: textOf(none)})
	}
	if function == "matches" || function == "find" || function == "findAll" {
		args[1] = factory.NewLiteral(0, types.String("a"))
	}
	_ = w.own(function, args, results)
	return w.unbounded == ""
}
