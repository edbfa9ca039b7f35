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
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// ForRequests returns one expression for each element of requests, in which the given fields of the variable request are
// replaced by the given values. A key of the map is the name of a field. All other fields of request stay in the expression.
// The results are for finding mistakes in policies, and decide no request. If it takes longer to compile all of them than to
// compile one policy of the largest allowed size, the error wraps cel.ErrBudget.
func (e *Expression) ForRequests(requests []map[string]string) (expressions []*Expression, err error) {
	defer engine.Recover(&err)
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
	is := func(n *syntax.Node) bool {
		for _, field := range slices.Backward(fields) {
			if n.Kind != syntax.SelectNode || n.IsTest || n.Name != field {
				return false
			}
			n = n.Target
		}
		return n.Kind == syntax.VariableNode && n.Name == string(v) && len(n.Free) > 0
	}
	for n := range e.tree.All {
		if n.Kind != syntax.CallNode || n.Name != operators.Equals && n.Name != operators.NotEquals && n.Name != operators.In {
			continue
		}
		switch left, right := n.Args[0], n.Args[1]; {
		case is(left):
			addTexts(right, &texts)
		case is(right) && n.Name != operators.In:
			addTexts(left, &texts)
		}
	}
	return texts
}

// addTexts adds a constant string, or the constant strings in a list literal, to texts, unless they are there already.
func addTexts(n *syntax.Node, texts *[]string) {
	switch n.Kind {
	case syntax.ConstantNode:
		if text, ok := n.Value.(types.String); ok && !slices.Contains(*texts, string(text)) {
			*texts = append(*texts, string(text))
		}
	case syntax.ListNode:
		for _, element := range n.Args {
			addTexts(element, texts)
		}
	default:
	}
}

// ReadsField reports whether the value of the expression may depend on a field of object or of oldObject, which is reached by selecting fields
// one after the other. It does not know what becomes of a whole object, such as an element of [object, oldObject].
func (e *Expression) ReadsField(fields ...string) (reads bool) {
	e.tree.EachRead(func(variable *syntax.Node, path []string) {
		isObject := variable.Name == string(cel.Object) || variable.Name == string(cel.OldObject)
		shared := min(len(path), len(fields))
		reads = reads || isObject && shared > 0 && slices.Equal(path[:shared], fields[:shared])
	})
	return reads
}

// ComparedLabelValues returns the lists of constant strings with which the expression compares the values of a requirement of the label
// selector of the request by == or !=. Each list is returned once, in the order in which they are written.
func (e *Expression) ComparedLabelValues() [][]string { return e.comparedValues("labelSelector") }

// ComparedFieldValues is ComparedLabelValues for the field selector.
func (e *Expression) ComparedFieldValues() [][]string { return e.comparedValues("fieldSelector") }

func (e *Expression) comparedValues(selector string) (lists [][]string) {
	isRequirements := func(n *syntax.Node) bool { return n.Selects(cel.Request, selector, "requirements") }
	for n := range e.tree.All {
		if n.Kind != syntax.MacroNode || !isRequirements(n.Target) {
			lists = addComparedValues(lists, n, func(of *syntax.Node) bool {
				return of.Kind == syntax.CallNode && of.Name == operators.Index && isRequirements(of.Args[0])
			})
			continue
		}
		requirement := n.Binders[len(n.Binders)-1]
		for _, body := range n.Args {
			for part := range body.All {
				lists = addComparedValues(lists, part, func(of *syntax.Node) bool { return of.Kind == syntax.VariableNode && of.Name == requirement })
			}
		}
	}
	return lists
}

// addComparedValues adds the list of constants with which a node compares the values of a requirement.
func addComparedValues(lists [][]string, n *syntax.Node, isRequirement func(*syntax.Node) bool) [][]string {
	if n.Kind != syntax.CallNode || n.Name != operators.Equals && n.Name != operators.NotEquals {
		return lists
	}
	for i, arg := range n.Args {
		if arg.Kind != syntax.SelectNode || arg.IsTest || arg.Name != "values" || !isRequirement(arg.Target) {
			continue
		}
		texts, ok := n.Args[1-i].ConstantTexts()
		if ok && !slices.ContainsFunc(lists, func(list []string) bool { return slices.Equal(list, texts) }) {
			lists = append(lists, texts)
		}
	}
	return lists
}
