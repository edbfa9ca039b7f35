/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

type nodeKind uint8

const (
	constantNode nodeKind = iota
	variableNode
	selectNode
	callNode
	listNode
	mapNode
	macroNode
	// omittedNode stands for a part of a residual whose text would be longer than a condition
	// may be. The residual has no text then.
	omittedNode
)

// node is an expression as it was written: macros are not expanded. Residuals are made of
// nodes too; those have no expr.
type node struct {
	kind nodeKind
	// test makes a selection a test: has(target.name).
	test bool
	// signature is that of a function.
	signature
	// changed says that the type of a residual may differ from typ: something in it has
	// become dyn.
	changed bool
	// id is the place of the checked expression in the source.
	id int32
	// typ is the type that the checker found.
	typ *types.Type
	// name is that of a variable, field, function or macro.
	name string
	// value is that of a constant.
	value ref.Val
	// target is the operand of a selection, the receiver of a call, the range of a macro.
	// It is nil for functions without receiver.
	target *node
	// args are the arguments of a call, the elements of a list, the keys and values of a
	// map in turn, or the bodies of a macro.
	args []*node
	// optional marks the elements of a list, or the entries of a map, with a question mark.
	optional map[int]bool
	// binders are the variables that a macro binds in its bodies.
	binders []string
	// free are the variables that the value depends on. Nodes share them: it must not be
	// changed.
	free map[string]bool
}

// macroShape says where a macro binds variables: its first arguments are their names,
// the rest are bodies.
type macroShape struct {
	binders int
	bodies  int
}

// macros are the macros that residuals may contain. An expression with any other macro is
// refused: what it binds is not known. `has` is no macro to us but a kind of selection.
// sortBy is left out since it panics where an element is an error, which ends the
// evaluation even where && or || would not look at the result.
var macros = map[string]macroShape{
	"all:2": {1, 1}, "exists:2": {1, 1}, "exists_one:2": {1, 1},
	"map:2": {1, 1}, "map:3": {1, 2}, "filter:2": {1, 1},
	"optMap:2": {1, 1}, "optFlatMap:2": {1, 1},
	"all:3": {2, 1}, "exists:3": {2, 1}, "existsOne:3": {2, 1}, "exists_one:3": {2, 1},
	"transformList:3": {2, 1}, "transformList:4": {2, 2},
	"transformMap:3": {2, 1}, "transformMap:4": {2, 2},
	"transformMapEntry:3": {2, 1}, "transformMapEntry:4": {2, 2},
}

// maxNodes bounds an expression after its variables have been put in. It is more than
// ten thousand bytes can say, and little enough to walk for each request.
const maxNodes = 8192

var (
	errTooLarge = fmt.Errorf("expression %w: it has more than %d parts", ErrCompile, maxNodes)
	// Bytes as the key of a map make cel-go panic, which ends the evaluation even where &&
	// or || would not look at the result. Nothing in JSON is bytes.
	errBytes  = errors.New("bytes are not supported")
	errShadow = errors.New("a macro must not bind a variable that has the name of another")
)

// treeBuilder makes nodes of a checked expression.
type treeBuilder struct {
	checked *ast.AST
	// byID finds the checked form of what macro calls hold unchecked.
	byID       map[int64]ast.Expr
	variables  map[string]bool
	signatures map[string]signature
	// exprs are the checked expressions of the nodes, macros expanded, by id.
	exprs []ast.Expr
	// sets are the sets of variables that nodes have, each once.
	sets []map[string]bool
}

// source is what a tree was made of: the same text always makes the same.
type source struct {
	checked *cel.Ast
	exprs   []ast.Expr
	tree    *node
}

func buildTree(checked *cel.Ast, variables map[string]bool, signatures map[string]signature) (*source, error) {
	native := checked.NativeRep()
	b := &treeBuilder{checked: native, byID: map[int64]ast.Expr{}, variables: variables, signatures: signatures}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) { b.byID[e.ID()] = e }))
	tree, err := b.build(native.Expr(), map[string]bool{})
	if err != nil {
		return nil, err
	}
	return &source{checked: checked, exprs: b.exprs, tree: tree}, nil
}

// union returns the variables of both.
func (b *treeBuilder) union(a, c map[string]bool) map[string]bool {
	switch {
	case includes(a, c):
		return a
	case includes(c, a):
		return c
	}
	result := maps.Clone(a)
	maps.Copy(result, c)
	return b.once(result)
}

// once returns the set of which there is one only.
func (b *treeBuilder) once(set map[string]bool) map[string]bool {
	for _, other := range b.sets {
		if maps.Equal(set, other) {
			return other
		}
	}
	b.sets = append(b.sets, set)
	return set
}

func includes(a, b map[string]bool) bool {
	for name := range b {
		if !a[name] {
			return false
		}
	}
	return true
}

// build makes a node. Bound are the variables of the macros around it.
func (b *treeBuilder) build(e ast.Expr, bound map[string]bool) (*node, error) {
	if len(b.exprs) == maxNodes {
		return nil, errTooLarge
	}
	checked, ok := b.byID[e.ID()]
	if !ok {
		return nil, fmt.Errorf("expression %w: a part of a macro was lost", ErrCompile)
	}
	n := &node{id: int32(len(b.exprs)), typ: b.checked.GetType(e.ID())}
	b.exprs = append(b.exprs, checked)
	if n.typ.Kind() == types.BytesKind {
		return nil, fmt.Errorf("expression %w: %w", ErrCompile, errBytes)
	}
	if call, ok := b.checked.SourceInfo().GetMacroCall(e.ID()); ok && call.AsCall().FunctionName() != operators.Has {
		return n, b.buildMacro(n, call.AsCall(), bound)
	}
	switch checked.Kind() {
	case ast.LiteralKind:
		n.kind, n.value = constantNode, checked.AsLiteral()
		return n, nil
	case ast.IdentKind:
		n.kind, n.name = variableNode, checked.AsIdent()
		if b.variables[n.name] || bound[n.name] {
			n.free = b.once(map[string]bool{n.name: true})
		}
		return n, nil // otherwise it is the name of a type
	case ast.SelectKind:
		s := checked.AsSelect()
		n.kind, n.name, n.test = selectNode, s.FieldName(), s.IsTestOnly()
		return n, b.children(n, bound, s.Operand())
	case ast.CallKind:
		c := checked.AsCall()
		n.kind, n.name, n.signature = callNode, c.FunctionName(), b.signatures[c.FunctionName()]
		if c.IsMemberFunction() {
			return n, b.children(n, bound, c.Target(), c.Args()...)
		}
		return n, b.children(n, bound, nil, c.Args()...)
	case ast.ListKind:
		l := checked.AsList()
		n.kind = listNode
		for _, i := range l.OptionalIndices() {
			n.mark(int(i))
		}
		return n, b.children(n, bound, nil, l.Elements()...)
	case ast.MapKind:
		n.kind = mapNode
		var parts []ast.Expr
		for i, entry := range checked.AsMap().Entries() {
			e := entry.AsMapEntry()
			if e.IsOptional() {
				n.mark(i)
			}
			parts = append(parts, e.Key(), e.Value())
		}
		return n, b.children(n, bound, nil, parts...)
	default:
		return nil, fmt.Errorf("expression %w: messages and comprehensions without a macro are not supported", ErrCompile)
	}
}

func (n *node) mark(i int) {
	if n.optional == nil {
		n.optional = map[int]bool{}
	}
	n.optional[i] = true
}

func (b *treeBuilder) children(n *node, bound map[string]bool, target ast.Expr, args ...ast.Expr) (err error) {
	if target != nil {
		if n.target, err = b.build(target, bound); err != nil {
			return err
		}
		n.free = n.target.free
	}
	n.args = make([]*node, 0, len(args))
	for _, arg := range args {
		child, err := b.build(arg, bound)
		if err != nil {
			return err
		}
		n.args = append(n.args, child)
		n.free = b.union(n.free, child.free)
	}
	return nil
}

func (b *treeBuilder) buildMacro(n *node, call ast.CallExpr, bound map[string]bool) (err error) {
	shape, ok := macros[fmt.Sprintf("%s:%d", call.FunctionName(), len(call.Args()))]
	if !ok || !call.IsMemberFunction() {
		return fmt.Errorf("expression %w: the macro %s is not supported", ErrCompile, call.FunctionName())
	}
	n.kind, n.name = macroNode, call.FunctionName()
	if n.target, err = b.build(call.Target(), bound); err != nil {
		return err
	}
	n.free = n.target.free

	inner := maps.Clone(bound)
	for _, binder := range call.Args()[:shape.binders] {
		name := binder.AsIdent()
		// A body that is moved, or whose variables are replaced, must mean the same.
		if b.variables[name] || inner[name] || name == variablesName {
			return fmt.Errorf("expression %w: %w: %q", ErrCompile, errShadow, name)
		}
		n.binders = append(n.binders, name)
		inner[name] = true
	}
	for _, body := range call.Args()[shape.binders:] {
		child, err := b.build(body, inner)
		if err != nil {
			return err
		}
		n.args = append(n.args, child)
		outer := child.free
		if slices.ContainsFunc(n.binders, func(name string) bool { return outer[name] }) {
			outer = maps.Clone(outer)
			maps.DeleteFunc(outer, func(name string, _ bool) bool { return slices.Contains(n.binders, name) })
			outer = b.once(outer)
		}
		n.free = b.union(n.free, outer)
	}
	return nil
}

// isBool reports whether the value can be nothing but a bool or an error. The type that
// the checker found does not tell: it may have been inferred from where the node stood.
func (n *node) isBool() bool {
	switch n.kind {
	case constantNode:
		return n.value.Type() == types.BoolType
	case selectNode:
		return n.test
	case callNode:
		return n.name == operators.LogicalAnd || n.name == operators.LogicalOr || (n.result != nil && n.result.Kind() == types.BoolKind) ||
			(n.name == operators.Conditional && n.args[1].isBool() && n.args[2].isBool())
	case macroNode:
		return n.name == operators.All || n.name == operators.Exists || n.name == operators.ExistsOne || n.name == "existsOne"
	default:
		return false
	}
}

// signature is what is the same in all calls of a function.
type signature struct {
	// result is the type that it yields in every overload, whatever its arguments are, if
	// that is one.
	result *types.Type
	// overloaded says that it has several implementations, among which the checker chooses
	// by the types of its arguments. The others are not tried, even where a value turns out
	// to be of their type and not of that which the checker has inferred.
	overloaded bool
}

func signaturesOf(env *cel.Env) map[string]signature {
	signatures := map[string]signature{}
	for name, declaration := range env.Functions() {
		overloads := declaration.OverloadDecls()
		s := signature{overloaded: len(overloads) > 1 && !declaration.HasSingletonBinding()}
		for i, overload := range overloads {
			result := overload.ResultType()
			if i > 0 && (s.result == nil || !s.result.IsExactType(result)) || !isConcrete(result) {
				s.result = nil
				break
			}
			s.result = result
		}
		signatures[name] = s
	}
	return signatures
}

// isConcrete reports whether a type leaves nothing open.
func isConcrete(t *types.Type) bool {
	switch t.Kind() {
	case types.DynKind, types.TypeParamKind, types.TypeKind:
		return false
	default:
		return !slices.ContainsFunc(t.Parameters(), func(p *types.Type) bool { return !isConcrete(p) })
	}
}
