/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"strconv"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// roundFunction is the name under which the cost tracker sees the end of a round of a macro. No
// expression can call a function of this name, and it costs nothing.
const roundFunction = "@round"

// trackedCall is an instruction that looks like a call of a function to the cost tracker. No expression can call such a function.
type trackedCall struct {
	interpreter.InterpretableV2
	function, overload string
	// args are the arguments, whose values the tracker removes from its stack. It knows arguments by their IDs, and charges nothing for the call if
	// one of them is not there.
	args []interpreter.InterpretableV2
}

var _ interpreter.InterpretableCall = trackedCall{}

// Function implements interpreter.InterpretableCall.
func (c trackedCall) Function() string { return c.function }

// OverloadID implements interpreter.InterpretableCall.
func (c trackedCall) OverloadID() string { return c.overload }

// Args implements interpreter.InterpretableCall.
func (c trackedCall) Args() []interpreter.InterpretableV2 { return c.args }

// round wraps a part of a macro that is evaluated once in each round. The cost tracker of cel-go
// keeps the values of all rounds of a macro on a stack until the macro ends, and searches this
// stack at each step, so that a macro takes time that is quadratic in its rounds. The tracker
// removes the arguments of a call, and everything above them. A round therefore looks to the
// tracker like a call with the same part of the previous round as its argument. Costs stay as
// they are, and the stack stays as short as it is in the second round.
func round(i interpreter.InterpretableV2) interpreter.InterpretableV2 {
	return trackedCall{i, roundFunction, roundFunction, []interpreter.InterpretableV2{i}}
}

// rounds returns a decorator that makes one part of each macro a round: its condition if this is constant, or its step if this
// is && or ||. These parts have no cost of their own, and each macro has one of them.
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
				return round(i), nil
			}
		case interpreter.InterpretableAttribute, interpreter.InterpretableCall, interpreter.InterpretableConstructor:
		default:
			if steps[i.ID()] {
				return round(i), nil
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

const (
	// surchargeFunction is the name under which the cost tracker sees an instruction with a surcharge.
	// No expression can call a function of this name.
	surchargeFunction = "@surcharge"
	// operandsPerUnit is how many elements of a literal, or constants that are joined by && or ||, are evaluated
	// for one unit, and freeOperands how many cost nothing.
	operandsPerUnit = 4
	freeOperands    = 16
)

// surcharge wraps an instruction that costs more than the cost tracker counts. The overload ID is the cost as a number. The values of the operands
// stay on the stack of the tracker until the instruction around this one removes them. They would be missing there if one of them fails, and
// nothing would be charged.
func surcharge(i interpreter.InterpretableV2, units uint64) trackedCall {
	return trackedCall{i, surchargeFunction, strconv.FormatUint(units, 10), nil}
}

// costOfSurcharge returns the cost in an overload ID of surchargeFunction, or maxProduct if the ID is no number.
func costOfSurcharge(overload string) uint64 {
	units, err := strconv.ParseUint(overload, 10, 64)
	if err != nil {
		return maxProduct
	}
	return units
}

// longLiteral is a list or map literal with many elements. Without the surcharge the cost tracker counts it like a literal with
// few elements.
type longLiteral struct {
	interpreter.InterpretableConstructor
	trackedCall
}

var (
	_ interpreter.InterpretableCall        = longLiteral{}
	_ interpreter.InterpretableConstructor = longLiteral{}
)

// surcharges returns a decorator that charges literals with many elements, and many constants that are
// joined by && or ||.
func surcharges(exprs []ast.Expr) interpreter.InterpretableDecoratorV2 {
	operands := operandsOf(exprs)
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		n := uint64(operands[i.ID()])
		if n <= freeOperands {
			return i, nil
		}
		switch node := i.(type) {
		case interpreter.InterpretableConst, interpreter.InterpretableAttribute, interpreter.InterpretableCall:
		case interpreter.InterpretableConstructor:
			if !areConstant(node.InitVals()) {
				return longLiteral{node, surcharge(nil, baseCost(node)+n/operandsPerUnit)}, nil
			}
		default:
			return surcharge(i, n/operandsPerUnit), nil // without it, a chain of constants costs nothing
		}
		return i, nil
	}
}

// baseCost returns the cost that the cost tracker counts for a literal.
func baseCost(node interpreter.InterpretableConstructor) uint64 {
	switch node.Type() {
	case types.ListType:
		return common.ListCreateBaseCost
	case types.MapType:
		return common.MapCreateBaseCost
	}
	return common.StructCreateBaseCost
}

// operandsOf returns, by ID, the number of elements of each list and map literal, and the number of constants in each chain of
// && and ||. A chain is the outermost && or || with all && and || directly in it.
func operandsOf(exprs []ast.Expr) map[int64]int {
	operands, joined := map[int64]int{}, map[int64]bool{}
	visitor := ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			joined[e.AsComprehension().LoopStep().ID()] = true // a round, which must stay one
		case ast.ListKind, ast.MapKind:
			operands[e.ID()] = len(Elements(e))
		case ast.CallKind:
			if isLogicCall(e) && !joined[e.ID()] {
				operands[e.ID()] = joinedConstants(e, joined)
			}
		default:
		}
	})
	for _, e := range exprs {
		ast.PreOrderVisit(e, visitor)
	}
	return operands
}

func joinedConstants(e ast.Expr, joined map[int64]bool) (n int) {
	switch {
	case e.Kind() == ast.LiteralKind:
		return 1
	case isLogicCall(e):
		joined[e.ID()] = true
		for _, arg := range e.AsCall().Args() {
			n += joinedConstants(arg, joined)
		}
	}
	return n
}
