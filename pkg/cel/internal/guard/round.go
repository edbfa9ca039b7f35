/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/interpreter"
)

// roundFunction is the name under which the cost tracker sees the end of a round of a macro. No
// expression can call a function of this name, and it costs nothing.
const roundFunction = "@round"

// round is a part of a macro that is evaluated once in each round. The cost tracker of cel-go
// keeps the values of all rounds of a macro on a stack until the macro ends, and searches this
// stack at each step, so that a macro takes time that is quadratic in its rounds. The tracker
// removes the arguments of a call, and everything above them. A round therefore looks to the
// tracker like a call with the same part of the previous round as its argument. Costs stay as
// they are, and the stack stays as short as it is in the second round.
type round struct {
	interpreter.InterpretableV2
}

var _ interpreter.InterpretableCall = round{}

// Function implements interpreter.InterpretableCall.
func (round) Function() string { return roundFunction }

// OverloadID implements interpreter.InterpretableCall.
func (round) OverloadID() string { return roundFunction }

// Args implements interpreter.InterpretableCall. The tracker knows arguments by their IDs.
func (r round) Args() []interpreter.InterpretableV2 {
	return []interpreter.InterpretableV2{r.InterpretableV2}
}

// rounds returns a decorator of the parts of macros that have no cost of their own: a condition
// that is constant, or a step that is && or ||. Each macro has one of them.
func rounds(exprs []ast.Expr) interpreter.InterpretableDecoratorV2 {
	conditions, steps := map[int64]bool{}, map[int64]bool{}
	visitor := ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		loop := e.AsComprehension()
		if condition := loop.LoopCondition(); condition.Kind() == ast.LiteralKind {
			conditions[condition.ID()] = true
		} else if step := loop.LoopStep(); isLogicCall(step) {
			steps[step.ID()] = true
		}
	})
	for _, e := range exprs {
		ast.PreOrderVisit(e, visitor)
	}
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch i.(type) {
		case interpreter.InterpretableConst:
			if conditions[i.ID()] {
				return round{i}, nil
			}
		case interpreter.InterpretableAttribute, interpreter.InterpretableCall, interpreter.InterpretableConstructor:
		default:
			if steps[i.ID()] {
				return round{i}, nil
			}
		}
		return i, nil
	}
}

func isLogicCall(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	name := e.AsCall().FunctionName()
	return name == operators.LogicalAnd || name == operators.LogicalOr
}
