/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"slices"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TextIteratingLast returns a text of the expression in which those operands of && and || come last that read one of the variables and have a
// macro, as their cost can grow faster than the values. The text has the same value, because the order of operands has no meaning. An
// evaluation does not come to them if another operand decides.
func (e *Expression) TextIteratingLast(variables ...cel.Variable) string {
	return textOf(iteratingLast(e.tree, namesOf(variables)))
}

func iteratingLast(n *node, late map[string]bool) *node {
	duplicate, inner := *n, within(n, late)
	if n.target != nil {
		duplicate.target = iteratingLast(n.target, late)
	}
	duplicate.args = make([]*node, 0, len(n.args))
	for _, arg := range n.args {
		duplicate.args = append(duplicate.args, iteratingLast(arg, inner))
	}
	if !isLogic(n) {
		return &duplicate
	}
	//guard:ordered-cheap-first
	isLate := func(operand *node) bool { return dependsOn(operand, late) && iterates(operand) != "" }
	operands := chainOf(&duplicate, n.name)
	first := slices.DeleteFunc(slices.Clone(operands), isLate)
	last := slices.DeleteFunc(operands, func(operand *node) bool { return !isLate(operand) })
	if len(first) == 0 || len(last) == 0 {
		return &duplicate
	}
	result := fold(n.name, append(first, last...))
	//guard:ordered-values-another-operator
	result.free = n.free
	return result
}

// chainOf returns the operands of a chain of an operator, in their order.
func chainOf(n *node, operator string) []*node {
	if n.kind != callNode || n.name != operator {
		return []*node{n}
	}
	return append(chainOf(n.args[0], operator), chainOf(n.args[1], operator)...)
}

// within returns the variables, and the variables that a macro binds in its bodies if its range depends on one of them.
func within(n *node, variables map[string]bool) map[string]bool {
	//guard:rewritten-variables-macros
	if n.kind != macroNode || !dependsOn(n.target, variables) {
		return variables
	}
	inner := map[string]bool{}
	for name := range variables {
		inner[name] = true
	}
	for _, binder := range n.binders {
		inner[binder] = true
	}
	return inner
}

func namesOf(variables []cel.Variable) map[string]bool {
	names := map[string]bool{}
	for _, v := range variables {
		names[string(v)] = true
	}
	return names
}
