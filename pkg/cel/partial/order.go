/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TextIteratingLast returns a text of the expression in which those operands of && and || come last that read one of the variables and have a
// macro, as their cost can grow faster than the values. The text has the same value, because the order of operands has no meaning. An
// evaluation does not come to them if another operand decides.
func (e *Expression) TextIteratingLast(variables ...cel.Variable) string {
	return textOf(iteratingLast(e.tree, namesOf(variables)))
}

func iteratingLast(n *node, late sets.Set[string]) *node {
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
	isLate := func(operand *node) bool { return operand.dependsOn(late) && iterates(operand) != "" }
	operands := termsOf(&duplicate, n.name)
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

// within returns the variables, and the variables that a macro binds in its bodies if its range depends on one of them.
func within(n *node, variables sets.Set[string]) sets.Set[string] {
	//guard:rewritten-variables-macros
	if n.kind != macroNode || !n.target.dependsOn(variables) {
		return variables
	}
	return variables.Union(sets.New(n.binders...))
}

func namesOf(variables []cel.Variable) sets.Set[string] {
	names := sets.New[string]()
	for _, v := range variables {
		names.Insert(string(v))
	}
	return names
}
