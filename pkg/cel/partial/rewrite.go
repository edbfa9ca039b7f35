/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// NewAdmissionCompiler makes a compiler for expressions of ValidatingAdmissionPolicies.
func NewAdmissionCompiler() (*Compiler, error) {
	residuals, err := cel.NewAdmissionEnvironment()
	if err != nil {
		return nil, err
	}
	return newCompiler(cel.NewAdmissionEnvironment, cel.NewCompilerFor(residuals))
}

// Reading is a place where an expression reads a variable, or fields of it: variable.field.field.
type Reading struct {
	// Variable is the variable.
	Variable cel.Variable
	// Fields are the names of the fields that are selected one after the other, as many as there are.
	Fields []string
	// IsTest says that the place tests whether the last field exists: has(variable.field).
	IsTest bool
	// IsOptional says that the last field is selected as an optional value: variable.?field.
	IsOptional bool
}

// Rewritten returns the text of the expression for another environment. At each place where the expression reads a variable,
// rewrite returns the text that takes its place, and how many of the fields it stands for. The other fields are selected from
// it. With an empty text, the place stays as it is. rewrite must return constant texts only: they become part of the
// expression. A test is replaced as a whole if the text stands for all fields; if it stands for the variable and none of its fields, the
// fields must be selected from it in the same way.
func (e *Expression) Rewritten(rewrite func(Reading) (text string, fields int)) string {
	return exactTextOf(e.rewritten(e.tree, rewrite))
}

func (e *Expression) rewritten(n *node, rewrite func(Reading) (string, int)) *node {
	if reading, ok := e.readingOf(n); ok {
		text, fields := rewrite(reading)
		if text == "" {
			return n
		}
		replaced := &node{kind: textNode, name: text}
		if reading.IsOptional {
			if fields == len(reading.Fields) {
				return &node{kind: textNode, name: "optional.of(" + text + ")"}
			}
			last := *n
			last.args = []*node{selected(replaced, reading.Fields[fields:len(reading.Fields)-1]), n.args[1]}
			return &last
		}
		replaced = selected(replaced, reading.Fields[fields:])
		replaced.test = reading.IsTest && fields < len(reading.Fields)
		return replaced
	}
	duplicate := *n
	if n.target != nil {
		duplicate.target = e.rewritten(n.target, rewrite)
	}
	duplicate.args = make([]*node, 0, len(n.args))
	for _, arg := range n.args {
		duplicate.args = append(duplicate.args, e.rewritten(arg, rewrite))
	}
	return &duplicate
}

func selected(n *node, fields []string) *node {
	for _, field := range fields {
		n = &node{kind: selectNode, name: field, target: n}
	}
	return n
}

// readingOf returns what a node reads if it is a variable of the environment or a selection from one. Macros bind no variable with
// the name of one of the environment.
func (e *Expression) readingOf(n *node) (Reading, bool) {
	switch {
	case n.kind == variableNode && e.compiler.environment.Declares(n.name):
		return Reading{Variable: cel.Variable(n.name)}, true
	case n.kind == callNode && n.name == operators.OptSelect:
		reading, ok := e.readingOf(n.args[0])
		reading.Fields = append(reading.Fields, string(n.args[1].value.(types.String)))
		reading.IsOptional = true
		return reading, ok && n.args[0].kind != callNode
	case n.kind != selectNode || n.target.kind == callNode:
		return Reading{}, false
	}
	reading, ok := e.readingOf(n.target)
	reading.Fields = append(reading.Fields, n.name)
	reading.IsTest = n.test
	return reading, ok
}

// quiet are the operators and functions whose errors quote no operand, if the index of an index operator is a constant.
var quiet = comparing.Union(sets.New(
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate, operators.OptIndex,
	"optional.ofNonZeroValue", "type", "isSorted", "sum", "min", "max", "isIP", "isCIDR", "isURL", "isQuantity",
	"group", "resource", "subresource", "namespace", "name", "path", "check", "allowed", "serviceAccount",
))

// MayQuote returns the name of an operator or a function in the expression whose error may quote a value that depends on one of the
// variables, or an empty string if there is none.
func (e *Expression) MayQuote(variables ...cel.Variable) string {
	return mayQuote(e.tree, namesOf(variables))
}

func mayQuote(n *node, secret sets.Set[string]) string {
	switch {
	case !n.dependsOn(secret):
		return ""
	case n.kind == callNode && n.name == operators.Index:
		//guard:rewritten-index-error
		if n.args[1].dependsOn(secret) {
			return "[]"
		}
	case n.kind == callNode && n.name == "matches":
		//guard:rewritten-patterns
		if pattern := n.args[len(n.args)-1]; pattern.dependsOn(secret) {
			return n.name
		}
	//guard:rewritten-functions
	case n.kind == callNode && !quiet.Has(n.name):
		return n.name
	//guard:rewritten-keys-maps
	case n.kind == mapNode:
		return "{}" // an error quotes a key that is there twice
	case n.kind == macroNode && n.name == "transformMapEntry":
		return n.name
	}
	if n.target != nil {
		if name := mayQuote(n.target, secret); name != "" {
			return name
		}
	}
	inner := within(n, secret)
	for _, arg := range n.args {
		if name := mayQuote(arg, inner); name != "" {
			return name
		}
	}
	return ""
}

// isText reports whether a text is one identifier or a chain of selections, which need no parentheses.
//
//guard:rewritten-parentheses
func isText(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.'
	})
}

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
