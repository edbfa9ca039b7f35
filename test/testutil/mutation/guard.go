/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// prefix begins a marker: a comment on a line of its own before a guard, such as //guard:expired.
const prefix = "//guard:"

// Guard is a place in the code without which a decision would be too open: the statement, case, function or element after its marker.
type Guard struct {
	// Name is unique in the module.
	Name string
	// File is the path of the source, and Line the line of the marker.
	File string
	Line int

	source []byte
	files  *token.FileSet
	node   ast.Node
}

// collect adds the guards of a file. It returns an error for a name that occurs twice, and for a marker with nothing after it.
func collect(path string, source []byte, guards map[string]*Guard) error {
	if !bytes.Contains(source, []byte(prefix)) {
		return nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, comments := range file.Comments {
		for _, comment := range comments.List {
			name, ok := strings.CutPrefix(comment.Text, prefix)
			if !ok {
				continue
			}
			g := &Guard{Name: name, File: path, Line: files.Position(comment.Pos()).Line, source: source, files: files, node: after(file, comment.End())}
			if other, ok := guards[name]; ok {
				return fmt.Errorf("%s:%d and %s:%d have the same guard %q", other.File, other.Line, path, g.Line, name)
			}
			if g.node == nil {
				return fmt.Errorf("%s:%d: nothing follows the guard %q", path, g.Line, name)
			}
			guards[name] = g
		}
	}
	return nil
}

// after returns the outermost node that begins first after a position. It returns nil if there is none.
func after(file *ast.File, pos token.Pos) (found ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.File, *ast.Comment, *ast.CommentGroup:
			return true
		}
		if n.Pos() > pos && (found == nil || n.Pos() < found.Pos()) {
			found = n
		}
		return n.End() > pos
	})
	return found
}

// headers returns the expressions that belong to a node itself, and not to the statements in it. A function of one statement has the
// expressions of that one.
func headers(n ast.Node) (expressions []ast.Node) {
	add := func(nodes ...ast.Node) {
		for _, n := range nodes {
			if n != nil {
				expressions = append(expressions, n)
			}
		}
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		if n.Init != nil {
			add(n.Init)
		}
		add(n.Cond)
	case *ast.ForStmt:
		if n.Init != nil {
			add(n.Init)
		}
		if n.Cond != nil {
			add(n.Cond)
		}
	case *ast.RangeStmt:
		add(n.X)
	case *ast.CaseClause:
		for _, e := range n.List {
			add(e)
		}
	case *ast.SwitchStmt:
		if n.Init != nil {
			add(n.Init)
		}
		if n.Tag != nil {
			add(n.Tag)
		}
	case *ast.FuncDecl:
		if n.Body != nil && len(n.Body.List) == 1 {
			return headers(n.Body.List[0])
		}
	case *ast.BlockStmt:
	default:
		add(n)
	}
	return expressions
}

// inspect calls visit for each node in the headers of a node, in the order of the source. It leaves out the statements of function literals.
func inspect(n ast.Node, visit func(ast.Node)) {
	for _, header := range headers(n) {
		ast.Inspect(header, func(n ast.Node) bool {
			if _, ok := n.(*ast.BlockStmt); ok || n == nil {
				return false
			}
			visit(n)
			return true
		})
	}
}

// operands returns the operands of all chains of && and || in the headers of a node, in the order of the source, with the operator of each.
func operands(n ast.Node) (found []operand) {
	isLogic := func(e ast.Expr, op token.Token) bool {
		b, ok := e.(*ast.BinaryExpr)
		return ok && b.Op == op
	}
	var flatten func(e ast.Expr, op token.Token)
	flatten = func(e ast.Expr, op token.Token) {
		if isLogic(e, op) {
			b := e.(*ast.BinaryExpr) //nolint:forcetypeassert // isLogic has checked it
			flatten(b.X, op)
			flatten(b.Y, op)
			return
		}
		found = append(found, operand{e, op})
	}
	inner := map[ast.Expr]bool{}
	inspect(n, func(n ast.Node) {
		b, ok := n.(*ast.BinaryExpr)
		if !ok || b.Op != token.LAND && b.Op != token.LOR {
			return
		}
		if !inner[b] {
			flatten(b, b.Op)
		}
		for _, e := range []ast.Expr{b.X, b.Y} {
			if isLogic(e, b.Op) {
				inner[e] = true
			}
		}
	})
	slices.SortStableFunc(found, func(a, b operand) int { return int(a.Pos() - b.Pos()) })
	return found
}

// operand is an operand of && or ||.
type operand struct {
	ast.Expr
	op token.Token
}
