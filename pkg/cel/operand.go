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
)

// errInexpressible says that a residual would contain a value that no text stands for,
// such as a string that is not UTF-8.
var errInexpressible = fmt.Errorf("%w: a value in what remains cannot be expressed", ErrEvaluation)

// mayWrite charges a value that is to be written down.
func (e *partialEvaluation) mayWrite(value ref.Val) bool {
	if e.stopped == nil && !walk(value, &e.writable) {
		e.stopped = fmt.Errorf("%w: the values in what remains have more than %d parts", ErrEvaluation, maxWritten)
	}
	return e.stopped == nil
}

// operand writes a part down as an operand of a residual. A value that cannot be written
// ends the evaluation: an error in its place would be absorbed by an || beside it.
func (e *partialEvaluation) operand(p part, original *node) *node {
	switch {
	case p.isError():
		return errorTerm()
	case p.tree != nil:
		return p.tree
	}
	if !e.mayWrite(p.value) {
		return errorTerm()
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

// attempt evaluates in a way that may turn out to have no text, and reports whether it
// has one.
func (e *partialEvaluation) attempt(way func() part) (part, bool) {
	p := way()
	if errors.Is(e.stopped, errInexpressible) {
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
