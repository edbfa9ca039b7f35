/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// parenthesized writes a parsed expression with all calls in prefix form, so that nothing about its nesting is left open.
func parenthesized(e ast.Expr) string {
	all := func(exprs ...ast.Expr) string {
		parts := make([]string, 0, len(exprs))
		for _, e := range exprs {
			parts = append(parts, parenthesized(e))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return fmt.Sprintf("%v:%v", e.AsLiteral().Value(), e.AsLiteral().Type())
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		return fmt.Sprintf("select%t%s%s", e.AsSelect().IsTestOnly(), e.AsSelect().FieldName(), all(e.AsSelect().Operand()))
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			return e.AsCall().FunctionName() + "." + all(append([]ast.Expr{e.AsCall().Target()}, e.AsCall().Args()...)...)
		}
		return e.AsCall().FunctionName() + all(e.AsCall().Args()...)
	case ast.ListKind:
		return "list" + all(e.AsList().Elements()...)
	case ast.MapKind:
		var parts []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return "map" + all(parts...)
	case ast.ComprehensionKind: // of a macro map with one body, whose element is added to a list
		c := e.AsComprehension()
		return "macro" + all(c.IterRange(), c.LoopStep().AsCall().Args()[1].AsList().Elements()[0])
	default:
		return "?"
	}
}

// parenthesizedNode writes a node as parenthesized writes what it is to be read as.
func parenthesizedNode(n *node) string {
	all := func(nodes ...*node) string {
		parts := make([]string, 0, len(nodes))
		for _, n := range nodes {
			parts = append(parts, parenthesizedNode(n))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	switch n.kind {
	case constantNode:
		return fmt.Sprintf("%v:%v", n.value.Value(), n.value.Type())
	case variableNode:
		return n.name
	case selectNode:
		return fmt.Sprintf("select%t%s%s", n.test, n.name, all(n.target))
	case callNode:
		if n.target != nil {
			return n.name + "." + all(append([]*node{n.target}, n.args...)...)
		}
		return n.name + all(n.args...)
	case listNode:
		return "list" + all(n.args...)
	case mapNode:
		return "map" + all(n.args...)
	case macroNode:
		return "macro" + all(n.target, n.args[0])
	default:
		return types.ErrType.TypeName()
	}
}
