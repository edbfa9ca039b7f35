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

const (
	// surchargeFunction is the name under which the cost tracker sees an instruction with a surcharge.
	// No expression can call a function of this name.
	surchargeFunction = "@surcharge"
	// operandsPerUnit is how many elements of a literal, or constants that are joined by && or ||, are evaluated
	// for one unit, and freeOperands how many cost nothing.
	operandsPerUnit = 4
	freeOperands    = 16
)

// surcharge makes an instruction look like a call without arguments to the cost tracker, so that
// it can cost more. The overload ID is the cost as a number.
type surcharge struct {
	units uint64
}

// Function implements interpreter.InterpretableCall.
func (surcharge) Function() string { return surchargeFunction }

// OverloadID implements interpreter.InterpretableCall.
func (s surcharge) OverloadID() string { return strconv.FormatUint(s.units, 10) }

// Args implements interpreter.InterpretableCall. The values of the operands stay on the stack of the
// tracker until the instruction around this one removes them. They would be missing there
// if one of them fails, and nothing would be charged.
func (surcharge) Args() []interpreter.InterpretableV2 { return nil }

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
	surcharge
}

// longChain is a chain of many constants that are joined by && or ||. Without the surcharge it costs nothing.
type longChain struct {
	interpreter.InterpretableV2
	surcharge
}

var (
	_ interpreter.InterpretableCall        = longLiteral{}
	_ interpreter.InterpretableConstructor = longLiteral{}
	_ interpreter.InterpretableCall        = longChain{}
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
			if isVariable(node) {
				return longLiteral{node, surcharge{baseCost(node) + n/operandsPerUnit}}, nil
			}
		default:
			return longChain{i, surcharge{n / operandsPerUnit}}, nil
		}
		return i, nil
	}
}

// isVariable reports whether a literal has an element that is not a constant. The planner makes the value of a literal without
// such an element once.
func isVariable(node interpreter.InterpretableConstructor) bool {
	for _, v := range node.InitVals() {
		if _, constant := v.(interpreter.InterpretableConst); !constant {
			return true
		}
	}
	return false
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
