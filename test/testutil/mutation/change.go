/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mutation

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Change is a mutation of a guard. If it can apply to several places in the guard, the number of the place follows, such as without:2. Places
// are numbered from 1 in the order of the source.
type Change string

// The changes.
const (
	// Never makes the condition of an if, for or case false, ends a range before its first element, and makes a function return zero values.
	Never = "never"
	// Always makes the condition of an if, for or case true, and makes a function return true.
	Always = "always"
	// Without takes an operand from a chain of && or ||.
	Without = "without"
	// Skip leaves out a statement, or an element of a list.
	Skip = "skip"
	// Flip replaces == by !=, < by <=, > by >=, && by ||, each the other way round, and !x by x.
	Flip = "flip"
	// Not negates a value that is returned, assigned or passed.
	Not = "not"
	// Zero replaces a value that is returned, assigned or passed by the zero value of its type.
	Zero = "zero"
	// Unwrap replaces a call by its first argument, or by its receiver if it has none.
	Unwrap = "unwrap"
	// Omit leaves out an argument of a call, or an element of a literal.
	Omit = "omit"
)

// edit replaces a part of a file. An edit that only inserts text can be made beside the edits of other mutants.
type edit struct {
	from, to token.Pos
	text     string
	// width orders edits at one position: what encloses more is outside. closes says that the edit is behind what it encloses.
	width  int
	closes bool
}

func insert(at token.Pos, text string) edit { return edit{from: at, to: at, text: text} }

// enclose inserts text before and behind a node.
func enclose(n ast.Node, before, behind string) []edit {
	width := 2 * int(n.End()-n.Pos())
	if _, ok := n.(ast.Stmt); ok { // it is outside an expression of the same length
		width++
	}
	return []edit{{from: n.Pos(), to: n.Pos(), text: before, width: width}, {from: n.End(), to: n.End(), text: behind, width: width, closes: true}}
}

// isInsertion reports whether edits only insert text.
func isInsertion(edits []edit) bool {
	return !slices.ContainsFunc(edits, func(e edit) bool { return e.from != e.to })
}

// outsideIn orders edits by their position. At one position, what ends there comes before what begins there, the narrower end and the wider
// beginning first.
func outsideIn(a, b edit) int {
	switch {
	case a.from != b.from:
		return int(a.from - b.from)
	case a.closes != b.closes:
		if a.closes {
			return -1
		}
		return 1
	case a.closes:
		return a.width - b.width
	}
	return b.width - a.width
}

// edited returns the content of a file after edits.
func edited(files *token.FileSet, source []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, outsideIn)
	var content []byte
	at := 0
	for _, e := range edits {
		from, to := files.Position(e.from).Offset, files.Position(e.to).Offset
		content = append(append(content, source[at:from]...), e.text...)
		at = to
	}
	return append(content, source[at:]...)
}

// edits returns the edits of a change, which takes effect while the expression on is true.
func (g *Guard) edits(change Change, on string) ([]edit, error) {
	name, digits, _ := strings.Cut(string(change), ":")
	number := 1
	if digits != "" {
		var err error
		if number, err = strconv.Atoi(digits); err != nil {
			return nil, fmt.Errorf("change %q: %w", change, err)
		}
	}
	places, ok := changes[name]
	if !ok {
		return nil, fmt.Errorf("there is no change %q", name)
	}
	all := places(g, on)
	if number < 1 || number > len(all) || digits == "" && len(all) > 1 {
		return nil, fmt.Errorf("%s:%d: the guard has %d places for %q", g.File, g.Line, len(all), change)
	}
	return all[number-1], nil
}

// changes return the edits for each place to which a change applies.
var changes = map[string]func(g *Guard, on string) [][]edit{
	Never: (*Guard).never, Always: (*Guard).always, Without: (*Guard).withoutOperand, Skip: (*Guard).skipped,
	Flip: (*Guard).flipped, Not: (*Guard).negated, Zero: (*Guard).zeroed, Unwrap: (*Guard).unwrapped, Omit: (*Guard).omitted,
}

func (g *Guard) never(on string) (places [][]edit) {
	switch n := g.node.(type) {
	case *ast.RangeStmt:
		return [][]edit{{insert(n.Body.Lbrace+1, "if "+on+" { break };")}}
	case *ast.FuncDecl:
		return [][]edit{{insert(n.Body.Lbrace+1, "if "+on+" {"+g.zeroResults(n.Type)+"};")}}
	}
	for _, condition := range g.conditions() {
		places = append(places, enclose(condition, "!("+on+") && (", ")"))
	}
	return places
}

func (g *Guard) always(on string) (places [][]edit) {
	if n, ok := g.node.(*ast.FuncDecl); ok {
		if n.Type.Results == nil || len(n.Type.Results.List) != 1 {
			return nil
		}
		return [][]edit{{insert(n.Body.Lbrace+1, "if "+on+" { return true };")}}
	}
	for _, condition := range g.conditions() {
		places = append(places, enclose(condition, on+" || (", ")"))
	}
	return places
}

// conditions returns the conditions of a statement.
func (g *Guard) conditions() []ast.Expr {
	switch n := g.node.(type) {
	case *ast.IfStmt:
		return []ast.Expr{n.Cond}
	case *ast.ForStmt:
		if n.Cond != nil {
			return []ast.Expr{n.Cond}
		}
	case *ast.CaseClause:
		return n.List
	}
	return nil
}

// zeroResults returns statements that return the zero values of the results of a function.
func (g *Guard) zeroResults(f *ast.FuncType) string {
	var declared, names []string
	if f.Results != nil {
		for _, field := range f.Results.List {
			for range max(1, len(field.Names)) {
				name := fmt.Sprintf("mutant%d", len(names))
				names = append(names, name)
				declared = append(declared, fmt.Sprintf("var %s %s;", name, g.text(field.Type)))
			}
		}
	}
	return strings.Join(declared, "") + "return " + strings.Join(names, ",")
}

func (g *Guard) text(n ast.Node) string {
	return string(g.source[g.files.Position(n.Pos()).Offset:g.files.Position(n.End()).Offset])
}

func (g *Guard) withoutOperand(on string) (places [][]edit) {
	for _, o := range operands(g.node) {
		neutral := "(" + on + " || ("
		if o.op == token.LOR {
			neutral = "(!(" + on + ") && ("
		}
		places = append(places, enclose(o, neutral, "))"))
	}
	return places
}

func (g *Guard) skipped(on string) [][]edit {
	switch n := g.node.(type) {
	case *ast.IfStmt:
		return [][]edit{enclose(n, "if "+on+" {} else {", "}")}
	case *ast.CaseClause, *ast.FuncDecl:
		return nil
	case ast.Stmt:
		return [][]edit{enclose(n, "if "+on+" {} else {", "}")}
	case ast.Expr:
		return [][]edit{{{from: n.Pos(), to: g.behind(n)}}}
	}
	return nil
}

// behind returns the position after a node, and after a comma that follows it.
func (g *Guard) behind(n ast.Node) token.Pos {
	at := g.files.Position(n.End()).Offset
	if rest := strings.TrimLeft(string(g.source[at:]), " \t\n"); strings.HasPrefix(rest, ",") {
		return n.End() + token.Pos(len(g.source)-at-len(rest)+1)
	}
	return n.End()
}

// opposites are the operators that flip exchanges, but for those that it negates.
var opposites = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND,
}

func (g *Guard) flipped(on string) (places [][]edit) {
	inspect(g.node, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				places = append(places, enclose(n, "("+on+" != (", "))"))
			} else if opposite, ok := opposites[n.Op]; ok {
				places = append(places, []edit{{from: n.OpPos, to: n.OpPos + token.Pos(len(n.Op.String())), text: opposite.String()}})
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				places = append(places, enclose(n, "("+on+" != (", "))"))
			}
		}
	})
	return inOrder(places)
}

func inOrder(places [][]edit) [][]edit {
	slices.SortStableFunc(places, func(a, b []edit) int { return int(a[0].from - b[0].from) })
	return places
}

// values returns the values that a guard returns, assigns or passes.
func (g *Guard) values() (values []ast.Expr) {
	inspect(g.node, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.ReturnStmt:
			values = append(values, n.Results...)
		case *ast.AssignStmt:
			values = append(values, n.Rhs...)
		case *ast.ValueSpec:
			values = append(values, n.Values...)
		case *ast.CallExpr:
			values = append(values, n.Args...)
		case *ast.KeyValueExpr:
			values = append(values, n.Value)
		}
	})
	slices.SortStableFunc(values, func(a, b ast.Expr) int { return int(a.Pos() - b.Pos()) })
	return values
}

func (g *Guard) negated(on string) (places [][]edit) {
	for _, v := range g.values() {
		places = append(places, enclose(v, "("+on+" != (", "))"))
	}
	return places
}

func (g *Guard) zeroed(on string) (places [][]edit) {
	for _, v := range g.values() {
		places = append(places, enclose(v, "mutantZero("+on+", ", ")"))
	}
	return places
}

func (g *Guard) unwrapped(on string) (places [][]edit) {
	inspect(g.node, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		var kept ast.Expr
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
			kept = selector.X
		}
		if len(call.Args) > 0 {
			kept = call.Args[0]
		}
		if kept != nil {
			places = append(places, enclose(call, "mutantOr("+on+", "+g.text(kept)+", ", ")"))
		}
	})
	return inOrder(places)
}

func (g *Guard) omitted(string) (places [][]edit) {
	omit := func(elements []ast.Expr) {
		for _, e := range elements {
			places = append(places, []edit{{from: e.Pos(), to: g.behind(e)}})
		}
	}
	inspect(g.node, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			omit(n.Args)
		case *ast.CompositeLit:
			omit(n.Elts)
		}
	})
	return inOrder(places)
}
