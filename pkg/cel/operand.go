/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// errInexpressible says that a residual would contain a value that no text stands for,
// such as a string that is not UTF-8.
var errInexpressible = fmt.Errorf("%w: a value in what remains cannot be expressed", ErrEvaluation)

// errAttempt says that an attempt has used up its part of the budget.
var errAttempt = fmt.Errorf("%w: a part of it costs too much", ErrCost)

// fits charges a value that is to be written down, and reports whether its text may be short
// enough for a condition. It looks at no more of the value than such a text can hold.
func (e *partialEvaluation) fits(value ref.Val) bool {
	room := MaxExpressionBytes
	parts, ok := leastLength(value, &room)
	cost := parts * writeCost
	if ok {
		cost += uint64(MaxExpressionBytes-room) / bytesPerUnit
	}
	return e.spend(cost) && ok
}

// leastLength takes from room what the literal of a value is long at least. It returns how many
// parts of the value it has looked at, and whether there was room.
func leastLength(v ref.Val, room *int) (parts uint64, ok bool) {
	parts, *room = 1, *room-1
	inner := func(element ref.Val) bool {
		n, ok := leastLength(element, room)
		parts += n
		return ok
	}
	if *room < 0 {
		return parts, false
	}
	switch value := v.(type) {
	case types.String:
		*room -= len(value) + 1
	case traits.Lister:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !inner(it.Next()) {
				return parts, false
			}
		}
	case traits.Mapper:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if key := it.Next(); !inner(key) || !inner(value.Get(key)) {
				return parts, false
			}
		}
	case *types.Optional:
		return parts, !value.HasValue() || inner(value.GetValue())
	}
	return parts, *room >= 0
}

// lengthOf charges what it takes to count the bytes of the text of an expression.
func (e *partialEvaluation) lengthOf(n *node) int {
	length := lengthOf(n, MaxExpressionBytes)
	e.spend(uint64(length) / bytesPerUnit)
	return length
}

// operand writes a part down as an operand of a residual. A value that cannot be written
// ends the evaluation: an error in its place would be absorbed by an || beside it. One that is
// too long is omitted, and the evaluation goes on: what remains may not need it.
func (e *partialEvaluation) operand(p part, original *node) *node {
	switch {
	case p.isError():
		return errorTerm()
	case p.tree != nil:
		return p.tree
	}
	if !e.fits(p.value) {
		return opaque(omitted(types.DynType))
	}
	n, err := literalOf(p.value, original.typ)
	if err == nil {
		return n
	}
	if n = e.decompose(p); !n.typ.IsExactType(original.typ) {
		return opaque(n)
	}
	return n
}

// decompose writes a value without a literal as the operation that made it, whose
// operands are written down.
func (e *partialEvaluation) decompose(p part) *node {
	if p.step == nil || p.step.kind == variableNode || p.step.kind == constantNode {
		if e.stopped == nil {
			e.stopped = errInexpressible
		}
		return errorTerm()
	}
	s, err := e.plan.decomposed(p.step)
	if err != nil || !e.spend(decomposeCost) {
		if e.stopped == nil {
			e.stopped = err
		}
		return errorTerm()
	}
	return e.operand(e.eval(s, p.bindings), s.node)
}

// attempt evaluates in a way that may turn out to have no text, or to cost more than half of what
// is left of the budget, and reports whether it has worked out. What an attempt leaves is enough
// for another way. An attempt within an attempt has half of what is left of that.
func (e *partialEvaluation) attempt(way func() part) (part, bool) {
	outer := e.limit
	e.limit = e.spent + (outer-min(e.spent, outer))/2
	p := way()
	e.limit = outer
	if errors.Is(e.stopped, errInexpressible) || (errors.Is(e.stopped, errAttempt) && e.spent <= outer) {
		e.stopped = nil
		return part{}, false
	}
	return p, true
}

// hasInferredTypes reports whether there is something in an expression whose type may have
// been inferred from what is no longer around it: a list or map that is empty, or a call of
// which the result depends on the arguments, that may be of any type.
func hasInferredTypes(n *node) bool {
	if isEmptyAggregate(n) || (n.kind == callNode && n.result == nil) || (n.target != nil && hasInferredTypes(n.target)) {
		return true
	}
	return slices.ContainsFunc(n.args, hasInferredTypes)
}

// isSubstituted reports whether an operand has become constant that was not written so.
func isSubstituted(p part, s *step) bool {
	switch {
	case p.isError(), len(s.free) == 0 && p.tree != nil:
		return false
	case p.isValue():
		return true
	}
	return !dependsOnVariables(p.tree)
}

// hide keeps the planner and the checker from treating a literal otherwise than the value
// that it stands for: constant arguments of conversions are evaluated, constant keys, patterns
// and formats are compiled and checked, before anything is evaluated, and a constant list beside
// `in` becomes a set.
func hide(function string, argument int, n *node) *node {
	switch function {
	case operators.Index, operators.OptIndex:
		if argument == 1 && n.kind != constantNode {
			return indexed(n) // no constant qualifier, which the planner would refuse
		}
	case operators.In:
		if argument == 1 && mayHoldNumbers(n) {
			return opaque(n)
		}
	case "bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint", "matches", "find", "findAll", "format":
		return indexed(n)
	}
	return n
}

// mayHoldNumbers reports whether a list may have a number as an element. The planner turns a
// constant list beside `in` into a set, also if its elements are constants in dyn, and numbers of
// different types are equal by other rules in a set than by ==. Other elements are equal only to
// elements of their own type, by either rule.
func mayHoldNumbers(n *node) bool {
	return n.kind == listNode && slices.ContainsFunc(n.args, func(element *node) bool {
		switch element.typ.Kind() {
		case types.IntKind, types.UintKind, types.DoubleKind, types.DynKind:
			return true
		default:
			return false
		}
	})
}

// indexed writes a literal as the only element of a list, which nothing looks through,
// and which keeps its type.
func indexed(n *node) *node {
	return &node{kind: callNode, name: operators.Index, typ: n.typ, changed: n.changed,
		args: []*node{{kind: listNode, typ: types.NewListType(n.typ), args: []*node{n}}, literal(types.Int(0), types.IntType)}}
}
