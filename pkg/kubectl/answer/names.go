/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package answer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// minRepeated is the length from which a part that occurs several times gets a name.
const minRepeated = 24

// Named returns a long condition with names in place of parts of it, and then a line for each name: the variables of its policy, and without them x1, x2 and so on
// for parts that occur several times. Calls of dyn, which only change types, are left out. If the condition is shorter than width or does not parse, the
// only line is its text.
//
//	object.spec.x == "a" && object.spec.x != oldObject.spec.x     variables.x == "a" && variables.x != oldObject.spec.x
//	                                                              variables.x = object.spec.x
func Named(condition string, variables []policyv1alpha1.Variable, width int) []string {
	if len(condition) <= width {
		return []string{condition}
	}
	n := &namer{factory: ast.NewExprFactory()}
	tree, ok := n.parse(condition)
	if !ok {
		return []string{condition}
	}
	n.define(variables)
	if len(n.names) == 0 {
		n.defineRepeated(tree)
	}
	lines := []string{n.text(n.replaced(tree, -1))}
	for i := len(n.names) - 1; i >= 0; i-- { // a variable refers to those before it
		if n.names[i].isUsed {
			lines = slices.Insert(lines, 1, n.names[i].name+" = "+n.text(n.replaced(n.names[i].tree, i)))
		}
	}
	return lines
}

// named is a part of a condition with a name.
type named struct {
	name, text string
	tree       ast.Expr
	isUsed     bool
}

type namer struct {
	factory ast.ExprFactory
	names   []*named
}

// parse parses an expression, with macros as calls and without calls of dyn.
func (n *namer) parse(text string) (ast.Expr, bool) {
	tree, ok := parse(text)
	if !ok {
		return nil, false
	}
	expression := tree.Expr()
	ast.PostOrderVisit(expression, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "dyn" && len(e.AsCall().Args()) == 1 {
			e.SetKindCase(e.AsCall().Args()[0])
		}
	}))
	return expression, true
}

func (n *namer) text(e ast.Expr) string {
	text, _ := parser.Unparse(e, nil, parser.WrapOnColumn(math.MaxInt)) // empty after an error
	return text
}

func (n *namer) texts(terms []ast.Expr) []string {
	texts := make([]string, len(terms))
	for i, term := range terms {
		texts[i] = n.text(term)
	}
	return texts
}

// add gives a part a name.
func (n *namer) add(name string, tree ast.Expr) {
	if text := n.text(tree); text != "" {
		n.names = append(n.names, &named{name: name, tree: tree, text: text})
	}
}

// define gives the variables of a policy their names. A condition has their expressions in place of them.
func (n *namer) define(variables []policyv1alpha1.Variable) {
	inlined := map[string]ast.Expr{}
	for _, v := range variables {
		tree, ok := n.parse(v.Expression)
		if !ok {
			return
		}
		ast.PostOrderVisit(tree, ast.NewExprVisitor(func(e ast.Expr) {
			if name, ok := strings.CutPrefix(n.text(e), "variables."); ok && inlined[name] != nil {
				e.SetKindCase(n.factory.CopyExpr(inlined[name]))
			}
		}))
		inlined[v.Name] = tree
		n.add("variables."+v.Name, tree)
	}
}

// defineRepeated gives names to parts that occur several times, the longest first. Parts that read a variable of a macro get none.
func (n *namer) defineRepeated(tree ast.Expr) {
	count, parts, bound := map[string]int{}, map[string]ast.Expr{}, map[string]bool{"": false}
	each := func(e ast.Expr, do func(ast.Expr)) { ast.PreOrderVisit(e, ast.NewExprVisitor(do)) }
	each(tree, func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() {
			for _, a := range e.AsCall().Args() {
				bound[a.AsIdent()] = a.AsIdent() != ""
			}
		}
	})
	var texts []string
	each(tree, func(e ast.Expr) {
		reads := false
		each(e, func(inner ast.Expr) { reads = reads || bound[inner.AsIdent()] })
		if text := n.text(e); len(text) >= minRepeated && !reads && e.Kind() != ast.LiteralKind && e.Kind() != ast.IdentKind {
			if count[text]++; count[text] == 2 {
				texts = append(texts, text)
			}
			parts[text] = e
		}
	})
	slices.SortStableFunc(texts, func(a, b string) int { return len(a) - len(b) }) // a part comes before those that it is in
	for i, text := range texts {
		n.add(fmt.Sprintf("x%d", i+1), parts[text])
	}
}

// replaced returns an expression with names in place of parts. below is the index of the name that it defines, which only those before can replace, or -1.
func (n *namer) replaced(tree ast.Expr, below int) ast.Expr {
	names := n.names
	if below >= 0 {
		names = n.names[:below]
	}
	tree = n.factory.CopyExpr(tree)
	ast.PreOrderVisit(tree, ast.NewExprVisitor(func(e ast.Expr) {
		text := n.text(e)
		for _, name := range slices.Backward(names) {
			if name.text == text && e.Kind() != ast.LiteralKind && e.Kind() != ast.IdentKind {
				e.SetKindCase(n.use(name))
				return
			}
		}
		if e.Kind() == ast.CallKind {
			n.join(e, names)
		}
	}))
	return tree
}

func (n *namer) use(name *named) ast.Expr {
	name.isUsed = true
	if of, field, ok := strings.Cut(name.name, "."); ok {
		return n.factory.NewSelect(0, n.factory.NewIdent(0, of), field)
	}
	return n.factory.NewIdent(0, name.name)
}

// join puts names in place of some terms that follow each other, in a part that joins terms by an operator.
func (n *namer) join(e ast.Expr, names []*named) {
	operator := e.AsCall().FunctionName()
	if operator != operators.LogicalAnd && operator != operators.LogicalOr {
		return
	}
	terms := termsOf(e, operator)
	texts := n.texts(terms)
	for _, name := range slices.Backward(names) {
		part := n.texts(termsOf(name.tree, operator))
		for i := 0; len(part) > 1 && i+len(part) <= len(terms); i++ {
			if slices.Equal(texts[i:i+len(part)], part) {
				terms = slices.Replace(terms, i, i+len(part), n.use(name))
				texts = slices.Replace(texts, i, i+len(part), name.name)
			}
		}
	}
	joined := terms[0]
	for _, term := range terms[1:] {
		joined = n.factory.NewCall(0, operator, joined, term)
	}
	e.SetKindCase(joined)
}
