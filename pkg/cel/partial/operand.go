/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// errInexpressible says that a residual would contain a value that has no text, such as a string that is
// not UTF-8.
var errInexpressible = fmt.Errorf("%w: a value in the residual cannot be written", cel.ErrEvaluation)

// errAttempt says that an attempt has used up its part of the budget.
var errAttempt = fmt.Errorf("%w: a part of it costs too much", cel.ErrCost)

// fits charges the cost of writing a value, and reports whether the text of the value may be short enough for a
// condition, and the evaluation may go on. It stops reading the value as soon as the text is certain to be too long.
func (e *evaluation) fits(value ref.Val) bool {
	room := cel.MaxExpressionBytes
	parts, ok := syntax.LeastLength(value, &room)
	cost := parts * writeCost
	if ok {
		cost += uint64(cel.MaxExpressionBytes-room) / guard.BytesPerUnit
	}
	return e.spend(cost) && ok
}

// lengthOf returns the length of the text of an expression, and charges the cost of counting it.
func (e *evaluation) lengthOf(n *syntax.Node) int {
	length := n.Length(cel.MaxExpressionBytes)
	e.spend(uint64(length) / guard.BytesPerUnit)
	return length
}

// operand returns the node of a part that is an operand of a residual. A value that has no text ends the
// evaluation, because || could absorb an error in its place. A value that is too long is omitted, and the
// evaluation goes on: the residual may not need it.
func (e *evaluation) operand(p part, original *syntax.Node) *syntax.Node {
	switch {
	case p.isError():
		return syntax.ErrorTerm()
	case p.tree != nil:
		return p.tree
	}
	if !e.fits(p.value) {
		return syntax.AsDyn(syntax.Omitted(types.DynType))
	}
	n := syntax.LiteralOf(p.value, original.Type)
	if n != nil {
		return n
	}
	//guard:operand-made-value
	if n = e.decompose(p); !n.Type.IsExactType(original.Type) {
		return syntax.AsDyn(n)
	}
	return n
}

// decompose returns, for a value without a literal, the node of the operation that made the value, with operands that have a
// text. If there is no such operation, it stops the evaluation.
func (e *evaluation) decompose(p part) *syntax.Node {
	if p.step == nil || p.step.Kind == syntax.VariableNode || p.step.Kind == syntax.ConstantNode {
		if e.stopped == nil {
			//guard:operand-cannot-expressed
			e.stopped = errInexpressible
		}
		return syntax.ErrorTerm()
	}
	s, err := e.plan.decomposed(p.step)
	if err != nil || !e.spend(decomposeCost) {
		if e.stopped == nil {
			e.stopped = err
		}
		return syntax.ErrorTerm()
	}
	return e.operand(e.eval(s, p.bindings), s.Node)
}

// attempt calls way with half of the remaining budget, and returns its result. It returns false if way has used up this
// budget, or if its result has no text; the caller can then use the rest of the budget for another way. An attempt within an
// attempt has half of the remaining budget of the outer one.
func (e *evaluation) attempt(way func() part) (part, bool) {
	outer := e.limit
	e.limit = e.spent + (outer-min(e.spent, outer))/2
	p := way()
	e.limit = outer
	//guard:attempt
	if errors.Is(e.stopped, errInexpressible) || (errors.Is(e.stopped, errAttempt) && e.spent <= outer) {
		e.stopped = nil
		return part{}, false
	}
	return p, true
}

// hasInferredTypes reports whether a part of an expression may have a type that the checker inferred from the expression
// around it: an empty list or map, or a call whose result type depends on the arguments.
func hasInferredTypes(n *syntax.Node) bool {
	for part := range n.All {
		//guard:inferred-calls
		if part.IsEmptyAggregate() || (part.Kind == syntax.CallNode && part.Result == nil) {
			return true
		}
	}
	return false
}

// isSubstituted reports whether the operand p of a residual is constant, although it was not a constant in the source.
func isSubstituted(p part, s *step) bool {
	switch {
	case p.isError(), len(s.Free) == 0 && p.tree != nil:
		return false
	case p.isValue():
		//guard:substituted-values
		return true
	}
	//guard:substituted-residuals
	return !dependsOnVariables(p.tree)
}

// hideFromPlanner wraps the literal n, an argument of a function, if the planner or the checker would treat the literal in
// another way than the value that it replaces. The planner evaluates constant arguments of conversions, compiles and checks
// constant keys, patterns and formats in advance, and turns a constant list beside `in` into a set.
func hideFromPlanner(function string, argument int, n *syntax.Node) *syntax.Node {
	//guard:hide-conversions
	switch function {
	case operators.Index, operators.OptIndex:
		//guard:hide-keys
		if argument == 1 && n.Kind != syntax.ConstantNode {
			return asElement(n) // no constant qualifier, which the planner would refuse
		}
	case operators.In:
		//guard:hide-numbers-beside
		if argument == 1 && mayHoldNumbers(n) {
			return syntax.AsDyn(n)
		}
	case "bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint", "matches", "find", "findAll", "format":
		return asElement(n)
	}
	return n
}

// mayHoldNumbers reports whether a list may have a number as an element. The planner turns a
// constant list beside `in` into a set, also if its elements are constants in dyn, and numbers of
// different types are equal by other rules in a set than by ==. Other elements are equal only to
// elements of their own type, by either rule.
//
//guard:hide-numbers-unknown-type-beside
func mayHoldNumbers(n *syntax.Node) bool {
	return n.Kind == syntax.ListNode && slices.ContainsFunc(n.Args, func(element *syntax.Node) bool {
		switch element.Type.Kind() {
		case types.IntKind, types.UintKind, types.DoubleKind, types.DynKind:
			return true
		default:
			return false
		}
	})
}

// asElement returns [n][0], which has the value and the type of n, but is no constant to the planner.
func asElement(n *syntax.Node) *syntax.Node {
	//guard:hide-changed
	return &syntax.Node{Kind: syntax.CallNode, Name: operators.Index, Type: n.Type, IsChanged: n.IsChanged,
		Args: []*syntax.Node{{Kind: syntax.ListNode, Type: types.NewListType(n.Type), Args: []*syntax.Node{n}}, syntax.Literal(types.Int(0), types.IntType)}}
}
