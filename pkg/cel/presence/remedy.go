/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package presence

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// tree finds the expressions in a checked expression.
type tree struct {
	root ast.NavigableExpr
	info *ast.SourceInfo
	byID map[int64]ast.NavigableExpr
}

func newTree(checked *ast.AST) *tree {
	t := &tree{root: ast.NavigateAST(checked), info: checked.SourceInfo(), byID: map[int64]ast.NavigableExpr{}}
	for _, e := range ast.MatchDescendants(t.root, ast.AllMatcher()) {
		t.byID[e.ID()] = e
	}
	return t
}

// memberOf returns the expression whose member e accesses, and how the member is written as an optional.
func (t *tree) memberOf(e ast.Expr) (of ast.Expr, step string, isOptional bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), optionalField(e.AsSelect().FieldName()), false
	case ast.CallKind:
		c := e.AsCall()
		switch c.FunctionName() {
		case operators.OptSelect:
			name, _ := c.Args()[1].AsLiteral().(types.String)
			return c.Args()[0], optionalField(string(name)), true
		case operators.Index, operators.OptIndex:
			return c.Args()[0], "[?" + t.textOf(c.Args()[1]) + "]", c.FunctionName() == operators.OptIndex
		}
	default:
	}
	return nil, "", false
}

func optionalField(name string) string {
	if !identifier.MatchString(name) {
		name = "`" + name + "`"
	}
	return ".?" + name
}

// textOf returns the text of an expression.
func (t *tree) textOf(e ast.Expr) string {
	text, err := parser.Unparse(e, t.info)
	if err != nil {
		return "…"
	}
	return text
}

// operand returns the text of an expression before a member: with parentheses if it is an operation.
func (t *tree) operand(e ast.Expr) string {
	text := t.textOf(e)
	if e.Kind() == ast.CallKind && !e.AsCall().IsMemberFunction() {
		if symbol, isOperator := operators.FindReverse(e.AsCall().FunctionName()); isOperator && symbol != "" || e.AsCall().FunctionName() == operators.Conditional {
			return "(" + text + ")"
		}
	}
	return text
}

// top returns the last access of the chain in which an expression is.
func (t *tree) top(id int64) ast.NavigableExpr {
	e := t.byID[id]
	for {
		parent, ok := e.Parent()
		if !ok {
			return e
		}
		of, _, _ := t.memberOf(parent)
		if of == nil || of.ID() != e.ID() {
			return e
		}
		e = parent
	}
}

// remedy returns what can be written instead of the chain of an access that fails, or before it.
func (t *tree) remedy(m missing) string {
	failed, top := t.byID[m.id], t.top(m.id)
	zero := zeroOf(top)
	of, _, _ := t.memberOf(failed)
	switch {
	case m.isNull && (m.place == object || m.place == oldObject):
		return m.place + " != null && …"
	case m.isArgument:
		return t.textOf(failed) + " != null && …"
	case of == nil && zero != "": // the function value of an optional
		return t.textOf(failed.AsCall().Target()) + ".orValue(" + zero + ")"
	case of == nil:
		return t.textOf(failed.AsCall().Target()) + ".hasValue() && …"
	}
	end := ".hasValue() && …"
	switch _, _, isOptional := t.memberOf(top); {
	case top.Kind() == ast.SelectKind && top.AsSelect().IsTestOnly():
		end = ".hasValue()"
	case isOptional:
		end = ""
	case zero != "":
		end = ".orValue(" + zero + ")"
	}
	for e := ast.Expr(top); ; {
		inner, step, _ := t.memberOf(e)
		if end = step + end; e.ID() == failed.ID() {
			return t.operand(of) + end
		}
		e = inner
	}
}

var zeros = map[types.Kind]string{
	types.StringKind: `""`, types.IntKind: "0", types.UintKind: "0u", types.DoubleKind: "0.0", types.BoolKind: "false", types.ListKind: "[]", types.MapKind: "{}", types.NullTypeKind: "null",
}

// forZeros are the functions for whose arguments an empty value is as good as any. Others, such as quantity, fail.
var forZeros = map[string]bool{
	operators.Equals: true, operators.NotEquals: true, operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.Conditional: true, operators.In: true, operators.Add: true,
	operators.NotStrictlyFalse: true, "size": true, "startsWith": true, "endsWith": true, "contains": true, "matches": true,
}

// zeroOf returns an empty value that can replace an expression, or "" if there is none.
func zeroOf(e ast.NavigableExpr) string {
	kind := e.Type().Kind()
	parent, ok := e.Parent()
	if !ok || parent.Kind() != ast.CallKind {
		return zeros[kind]
	}
	call := parent.AsCall()
	isBool := slices.Contains([]string{operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot}, call.FunctionName())
	switch {
	case call.FunctionName() == "value" && call.IsMemberFunction():
		return zeros[kind]
	case !forZeros[call.FunctionName()]:
		return ""
	case isBool && kind == types.DynKind:
		return zeros[types.BoolKind]
	}
	others := parent.Children()
	if call.FunctionName() == operators.Conditional {
		others = others[1:] // the condition
	}
	for _, other := range others {
		if of := other.Type().Kind(); other.ID() != e.ID() && (of == types.NullTypeKind || kind == types.DynKind) && call.FunctionName() != operators.In {
			return zeros[of]
		}
	}
	return zeros[kind]
}

// surprises returns the parts of each expression whose failure is a surprise if the condition allows.
func surprises(expressions []Expression, trees []*tree) map[part]bool {
	found := map[part]bool{}
	var walk func(i int, e ast.NavigableExpr, is bool)
	walk = func(i int, e ast.NavigableExpr, is bool) {
		if was, isSeen := found[part{i, e.ID()}]; isSeen && (was || !is) {
			return
		}
		found[part{i, e.ID()}] = is
		if e.Kind() == ast.IdentKind {
			named, _ := strings.CutPrefix(e.AsIdent(), variablesPrefix)
			for j := range expressions[:i] {
				if expressions[j].Name == named && named != e.AsIdent() {
					walk(j, trees[j].root, is)
				}
			}
		}
		for n, child := range e.Children() {
			inner := is
			if e.Kind() == ast.CallKind {
				switch e.AsCall().FunctionName() {
				case operators.LogicalNot, operators.NotEquals:
					inner = true
				case operators.LogicalOr:
					inner = inner || n == 0
				}
			}
			walk(i, child, inner)
		}
	}
	last := len(expressions) - 1
	walk(last, trees[last].root, false)
	return found
}
