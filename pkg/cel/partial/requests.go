/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// ForRequests returns one expression for each element of requests, in which the given fields of the variable request are
// replaced by the given values. A key of the map is the name of a field. All other fields of request stay in the expression.
// The results are for finding mistakes in policies, and decide no request. If it takes longer to compile all of them than to
// compile one policy of the largest allowed size, the error wraps cel.ErrBudget.
func (e *Expression) ForRequests(requests []map[string]string) (expressions []*Expression, err error) {
	defer func() {
		if r := recover(); r != nil {
			expressions, err = nil, cel.ErrCompile
		}
	}()
	budget := guard.NewBudget(1)
	for _, fields := range requests {
		compiled := e.compiled
		compiled.fields = fields
		checked, err := e.compiler.check(compiled, budget)
		if err != nil {
			return nil, err
		}
		specialized, err := e.compiler.expression(compiled, checked)
		if err != nil {
			return nil, err
		}
		expressions = append(expressions, specialized)
	}
	return expressions, nil
}

// setFields replaces the selections of the fields of request that are in in.fields by their values.
func (in *inliner) setFields(native *ast.AST) {
	if len(in.fields) == 0 {
		return
	}
	factory := ast.NewExprFactory()
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() {
			return
		}
		operand := e.AsSelect().Operand()
		if value, ok := in.fields[e.AsSelect().FieldName()]; ok && operand.Kind() == ast.IdentKind && operand.AsIdent() == string(cel.Request) {
			e.SetKindCase(factory.NewLiteral(e.ID(), types.String(value)))
		}
	}))
}

// ComparedTexts returns the constant strings with which the expression compares a variable, or a field of the variable, by ==,
// != or in. The field is the one that is reached by selecting fields one after the other. Each string is returned once, in the
// order in which they are written.
func (e *Expression) ComparedTexts(v cel.Variable, fields ...string) []string {
	var texts []string
	is := func(n *node) bool {
		for _, field := range slices.Backward(fields) {
			if n.kind != selectNode || n.test || n.name != field {
				return false
			}
			n = n.target
		}
		return n.kind == variableNode && n.name == string(v) && len(n.free) > 0
	}
	for n := range e.tree.all {
		if n.kind != callNode || n.name != operators.Equals && n.name != operators.NotEquals && n.name != operators.In {
			continue
		}
		switch left, right := n.args[0], n.args[1]; {
		case is(left):
			addTexts(right, &texts)
		case is(right) && n.name != operators.In:
			addTexts(left, &texts)
		}
	}
	return texts
}

// addTexts adds a constant string, or the constant strings in a list literal, to texts, unless they are there already.
func addTexts(n *node, texts *[]string) {
	switch n.kind {
	case constantNode:
		if text, ok := n.value.(types.String); ok && !slices.Contains(*texts, string(text)) {
			*texts = append(*texts, string(text))
		}
	case listNode:
		for _, element := range n.args {
			addTexts(element, texts)
		}
	default:
	}
}

// ReadsField reports whether the value of the expression may depend on a field of object or of oldObject, which is reached by selecting fields
// one after the other. It does not know what becomes of a whole object, such as an element of [object, oldObject].
func (e *Expression) ReadsField(fields ...string) bool { return readsField(e.tree, fields) }

func readsField(n *node, fields []string) bool {
	if root, path, ok := pathOf(n); ok && (root == cel.Object || root == cel.OldObject) {
		shared := min(len(path), len(fields))
		return shared > 0 && slices.Equal(path[:shared], fields[:shared])
	}
	return n.target != nil && readsField(n.target, fields) || slices.ContainsFunc(n.args, func(arg *node) bool { return readsField(arg, fields) })
}

// ComparedLabelValues returns the lists of constant strings with which the expression compares the values of a requirement of the label
// selector of the request by == or !=. Each list is returned once, in the order in which they are written.
func (e *Expression) ComparedLabelValues() [][]string { return e.comparedValues(labelSelector) }

// ComparedFieldValues is ComparedLabelValues for the field selector.
func (e *Expression) ComparedFieldValues() [][]string { return e.comparedValues(fieldSelector) }

func (e *Expression) comparedValues(selector string) [][]string {
	f := &valuesFinder{selector: selector}
	f.find(e.tree, nil)
	return f.lists
}

// valuesFinder finds the lists with which the values of requirements of a selector are compared.
type valuesFinder struct {
	selector string
	lists    [][]string
}

// find adds the lists in an expression. requirements are the variables that stand for a requirement in it.
func (f *valuesFinder) find(n *node, requirements []string) {
	if n.kind == callNode && (n.name == operators.Equals || n.name == operators.NotEquals) {
		for i, arg := range n.args {
			if f.isValues(arg, requirements) {
				f.add(n.args[1-i])
			}
		}
	}
	if n.target != nil {
		f.find(n.target, requirements)
	}
	if n.kind == macroNode && len(n.binders) > 0 && isRequirements(n.target, f.selector) {
		requirements = append(slices.Clone(requirements), n.binders[len(n.binders)-1])
	}
	for _, arg := range n.args {
		f.find(arg, requirements)
	}
}

// isValues reports whether an expression is the values of a requirement.
func (f *valuesFinder) isValues(n *node, requirements []string) bool {
	if n.kind != selectNode || n.test || n.name != "values" {
		return false
	}
	of := n.target
	return of.kind == variableNode && slices.Contains(requirements, of.name) ||
		of.kind == callNode && of.name == operators.Index && len(of.args) == 2 && isRequirements(of.args[0], f.selector)
}

func (f *valuesFinder) add(n *node) {
	texts, ok := constantTexts(n)
	isThere := func(list []string) bool { return slices.Equal(list, texts) }
	if ok && !slices.ContainsFunc(f.lists, isThere) {
		f.lists = append(f.lists, texts)
	}
}
