/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"maps"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/pkg/suggestion"
)

// maxInlinedBytes bounds an expression with all named expressions in it: a name, or a text, of some kilobytes may be in them thousands of times.
const maxInlinedBytes = 16 * cel.MaxExpressionBytes

var errInlined = fmt.Errorf("expression %w: it has more than %d bytes with the variables that it refers to", cel.ErrCompile, maxInlinedBytes)

// maxNamesShown bounds the variables that an error lists.
const maxNamesShown = 8

// inliner replaces variables.NAME by the named expression, and calls of unchanged by what they stand for. The replacement never changes which variable a name stands for:
// macros must not bind the names of variables, nor any other name that a named expression reads, and a variable that a macro in
// a named expression binds is renamed if a macro around the reference binds the same name.
type inliner struct {
	defined map[string]*ast.AST
	// sizes are the numbers of bytes of the named expressions, with those that they refer to.
	sizes map[string]int
	// parse parses the expression that a call of unchanged stands for.
	parse func(text string) (*celgo.Ast, error)
	// fields are the values of fields of request.
	fields map[string]string
	// budget is for all expressions together.
	budget *guard.Budget
}

// inline replaces the references in an expression. It returns the number of bytes of the result, about, for the size of the expression as it is.
func (in *inliner) inline(native *ast.AST, size int) (int, error) {
	next := ast.MaxID(native)
	type found struct {
		expr  ast.Expr
		scope []string
	}
	var references []found
	count := 0
	names := sets.New[string]()
	walkScoped(ast.NavigateAST(native), nil, func(e ast.Expr, scope []string) {
		count++
		addNames(e, names)
		if _, ok := reference(e); ok || isUnchanged(e) {
			references = append(references, found{e, scope})
		}
	})
	for _, r := range references {
		definition, bytes, err := in.definition(r.expr)
		if err != nil {
			return 0, err
		}
		count += len(definition.IDs())
		size += bytes
		switch {
		case count > syntax.MaxNodes:
			return 0, syntax.ErrTooLarge
		//guard:inlined-bytes
		case size > maxInlinedBytes:
			return 0, errInlined
		}
		definition, err = renamed(definition, r.scope, names)
		if err != nil {
			return 0, err
		}
		next = in.replace(native, r.expr, definition, next)
	}
	return size, nil
}

// definition returns the expression for which a reference, or a call of unchanged, stands, and its size in bytes.
func (in *inliner) definition(e ast.Expr) (definition *ast.AST, size int, err error) {
	if isUnchanged(e) {
		paths, err := cel.UnchangedPaths(e.AsCall().Args())
		if err != nil {
			return nil, 0, err
		}
		text := cel.UnchangedText(paths)
		parsed, err := in.parse(text)
		return parsed.NativeRep(), len(text), err
	}
	name, _ := reference(e)
	definition, ok := in.defined[name]
	if !ok {
		return nil, 0, fmt.Errorf("expression %w: undeclared reference to %q%s", cel.ErrCompile, string(cel.Variables)+"."+name, in.declared(name))
	}
	return definition, in.sizes[name], nil
}

func isUnchanged(e ast.Expr) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == cel.UnchangedFunction && !e.AsCall().IsMemberFunction()
}

// declared returns a hint for an undeclared name: similar names, or else the names that are declared.
func (in *inliner) declared(name string) string {
	const rule = "variables may refer to those before them only"
	if len(in.defined) == 0 {
		return "; " + rule
	}
	names := slices.Sorted(maps.Keys(in.defined))
	if near := suggestion.DidYouMean(name, names); near != "" {
		return near
	}
	return "; there are " + suggestion.Quoted(names[:min(len(names), maxNamesShown)], "and") + "; " + rule
}

// reference returns NAME if an expression is variables.NAME, and false for every other expression.
func reference(e ast.Expr) (string, bool) {
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() {
		return "", false
	}
	operand := e.AsSelect().Operand()
	if operand.Kind() != ast.IdentKind || operand.AsIdent() != string(cel.Variables) {
		return "", false
	}
	return e.AsSelect().FieldName(), true
}

// replace replaces an expression in native by a copy of a definition, which gets new IDs, also in its macros. It returns the
// highest ID.
func (in *inliner) replace(native *ast.AST, e ast.Expr, duplicate *ast.AST, next int64) int64 {
	ids := map[int64]int64{}
	renumber := func(old int64) int64 {
		if id, ok := ids[old]; ok {
			return id
		}
		next++
		ids[old] = next
		return next
	}
	root := duplicate.Expr().ID()
	duplicate.Expr().RenumberIDs(renumber)
	for id, call := range duplicate.SourceInfo().MacroCalls() {
		call.RenumberIDs(renumber)
		if id == root {
			// The expression keeps its own ID.
			native.SourceInfo().SetMacroCall(e.ID(), call)
			continue
		}
		native.SourceInfo().SetMacroCall(renumber(id), call)
	}
	e.SetKindCase(duplicate.Expr())
	return next
}

// renamed returns a copy of a definition in which no macro binds a name of a scope. It returns an error if the definition reads
// a name of the scope that it does not bind.
func renamed(definition *ast.AST, scope []string, names sets.Set[string]) (*ast.AST, error) {
	duplicate := ast.Copy(definition)
	if len(scope) == 0 {
		return duplicate, nil
	}
	bound, free, all := sets.New[string](), sets.New[string](), sets.New[string]()
	walkScoped(ast.NavigateAST(duplicate), nil, func(e ast.Expr, inner []string) {
		addNames(e, all)
		switch {
		case e.Kind() == ast.ComprehensionKind:
			bound.Insert(bindersOf(e.AsComprehension())...)
		case e.Kind() == ast.IdentKind && !slices.Contains(inner, e.AsIdent()):
			free.Insert(e.AsIdent())
		}
	})
	for _, name := range scope {
		if free.Has(name) {
			return nil, fmt.Errorf("expression %w: %w: %q", cel.ErrCompile, syntax.ErrShadow, name)
		}
		if !bound.Has(name) {
			continue
		}
		fresh := name
		for i := 2; names.Has(fresh) || all.Has(fresh); i++ {
			fresh = fmt.Sprintf("%s%d", name, i)
		}
		names.Insert(fresh)
		rename(duplicate, name, fresh)
	}
	return duplicate, nil
}

// rename renames a variable that macros bind, in the whole tree.
func rename(tree *ast.AST, name, fresh string) {
	factory := ast.NewExprFactory()
	other := func(old string) string {
		if old == name {
			return fresh
		}
		return old
	}
	visitor := ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if e.AsIdent() == name {
				e.SetKindCase(factory.NewIdent(e.ID(), fresh))
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			e.SetKindCase(factory.NewComprehensionTwoVar(e.ID(), c.IterRange(), other(c.IterVar()), other(c.IterVar2()), other(c.AccuVar()),
				c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()))
		default:
		}
	})
	ast.PostOrderVisit(tree.Expr(), visitor)
	for _, call := range tree.SourceInfo().MacroCalls() {
		ast.PostOrderVisit(call, visitor)
	}
}

// bindersOf returns the names of the variables that a macro binds, without those that the macro itself invents.
func bindersOf(c ast.ComprehensionExpr) []string {
	var names []string
	for _, name := range []string{c.IterVar(), c.IterVar2(), c.AccuVar()} {
		if syntax.IsIdentifier(name) && name != "__result__" {
			names = append(names, name)
		}
	}
	return names
}

func addNames(e ast.Expr, names sets.Set[string]) {
	switch e.Kind() {
	case ast.IdentKind:
		names.Insert(e.AsIdent())
	case ast.ComprehensionKind:
		names.Insert(bindersOf(e.AsComprehension())...)
	default:
	}
}

// walkScoped calls visit for an expression and all its parts, each with the names that the macros around it bind.
func walkScoped(e ast.NavigableExpr, scope []string, visit func(e ast.Expr, scope []string)) {
	visit(e, scope)
	inner := scope
	if e.Kind() == ast.ComprehensionKind {
		inner = append(slices.Clone(scope), bindersOf(e.AsComprehension())...)
	}
	for i, child := range e.Children() {
		if e.Kind() == ast.ComprehensionKind && i < 2 { // the range, and the first value of the accumulator
			walkScoped(child, scope, visit)
		} else {
			walkScoped(child, inner, visit)
		}
	}
}
