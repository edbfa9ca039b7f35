/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"errors"
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
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
	// omittedNode stands for a part of a residual whose text would be longer than the bound of a condition.
	// A residual with such a node has no text.
	omittedNode
	// textNode stands for an expression of another environment, whose text is its name; see Expression.Rewritten.
	textNode
)

// node is a part of an expression as it was written: macros are not expanded. Residuals also consist of nodes;
// the new nodes in them have no checked expression.
type node struct {
	kind nodeKind
	// test makes a selection a test: has(target.name).
	test bool
	// signature describes the function of a call.
	signature
	// changed says that the type of a residual may differ from typ, because a part of it has
	// become dyn.
	changed bool
	// id is the index of the checked expression in source.exprs.
	id int32
	// typ is the type of the node that the checker found.
	typ *types.Type
	// name is the name of a variable, field, function or macro.
	name string
	// value is the value of a constant.
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
	free sets.Set[string]
}

// parts yields the target, if there is one, and the arguments.
func (n *node) parts(yield func(*node) bool) {
	//guard:parts-targets
	if n.target != nil && !yield(n.target) {
		return
	}
	//guard:parts-arguments
	for _, arg := range n.args {
		if !yield(arg) {
			return
		}
	}
}

// all yields the node and everything in it, each node before its parts.
func (n *node) all(yield func(*node) bool) { n.walk(yield) }

// walk is all. It returns false if yield has.
func (n *node) walk(yield func(*node) bool) bool {
	if !yield(n) {
		return false
	}
	for part := range n.parts {
		if !part.walk(yield) {
			return false
		}
	}
	return true
}

// dependsOn reports whether the value depends on one of some variables.
func (n *node) dependsOn(variables sets.Set[string]) bool {
	return variables.HasAny(n.free.UnsortedList()...)
}

// macros are the macros that residuals may contain, by the number of their arguments. The values are how many of the first arguments are names of
// variables that the macro binds. The rest are bodies, in which it binds them. An expression with any other macro is
// refused, because it is unknown which variables it binds. `has` is a selection here. sortBy is left out,
// because it panics if an element is an error, which ends the evaluation even where && or || would ignore
// the result.
var macros = map[string]int{
	"all:2": 1, "exists:2": 1, "exists_one:2": 1, "map:2": 1, "map:3": 1, "filter:2": 1, "optMap:2": 1, "optFlatMap:2": 1,
	"all:3": 2, "exists:3": 2, "existsOne:3": 2, "exists_one:3": 2,
	"transformList:3": 2, "transformList:4": 2, "transformMap:3": 2, "transformMap:4": 2, "transformMapEntry:3": 2, "transformMapEntry:4": 2,
}

// maxNodes bounds the nodes of an expression in which named expressions have been put. An expression of ten thousand bytes
// without named expressions has fewer. So many nodes can be walked for each request.
const maxNodes = 8192

var (
	errTooLarge = fmt.Errorf("expression %w: it has more than %d parts", cel.ErrCompile, maxNodes)
	// Bytes as the key of a map make cel-go panic, which ends the evaluation even where && or || would
	// ignore the result. JSON has no bytes.
	errBytes  = errors.New("bytes are not supported")
	errShadow = errors.New("a macro must not bind a variable that has the name of another")
)

// treeBuilder makes the nodes for a checked expression.
type treeBuilder struct {
	checked *ast.AST
	// byID finds the checked form of the unchecked arguments of macro calls.
	byID     map[int64]ast.Expr
	compiler *Compiler
	// exprs are the checked expressions of the nodes, macros expanded, by id.
	exprs []ast.Expr
	// sets are the interned sets of variables of the nodes.
	sets []sets.Set[string]
}

// source is a checked expression and its tree. Checking the same text again gives an equal source.
type source struct {
	checked *celgo.Ast
	exprs   []ast.Expr
	tree    *node
}

func buildTree(checked *celgo.Ast, compiler *Compiler) (*source, error) {
	native := checked.NativeRep()
	b := &treeBuilder{checked: native, byID: map[int64]ast.Expr{}, compiler: compiler}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) { b.byID[e.ID()] = e }))
	tree, err := b.build(native.Expr(), nil)
	if err != nil {
		return nil, err
	}
	return &source{checked: checked, exprs: b.exprs, tree: tree}, nil
}

// union returns the variables of both sets.
func (b *treeBuilder) union(a, c sets.Set[string]) sets.Set[string] {
	switch {
	case a.IsSuperset(c):
		return a
	case c.IsSuperset(a):
		return c
	}
	return b.intern(a.Union(c))
}

// intern returns the one copy of a set that all nodes share.
func (b *treeBuilder) intern(set sets.Set[string]) sets.Set[string] {
	for _, other := range b.sets {
		if set.Equal(other) {
			return other
		}
	}
	b.sets = append(b.sets, set)
	return set
}

// build returns the node for an expression and its parts. Bound are the variables of the macros around it. It returns an error
// if the expression is too large or has a part that is not supported.
func (b *treeBuilder) build(e ast.Expr, bound sets.Set[string]) (*node, error) {
	if len(b.exprs) == maxNodes {
		return nil, errTooLarge
	}
	checked, ok := b.byID[e.ID()]
	if !ok {
		return nil, fmt.Errorf("expression %w: a part of a macro was lost", cel.ErrCompile)
	}
	n := &node{id: int32(len(b.exprs)), typ: b.checked.GetType(e.ID())}
	b.exprs = append(b.exprs, checked)
	if n.typ.Kind() == types.BytesKind {
		return nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, errBytes)
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
		if b.compiler.environment.Declares(n.name) || bound.Has(n.name) {
			n.free = b.intern(sets.New(n.name))
		}
		return n, nil // otherwise it is the name of a type
	case ast.SelectKind:
		s := checked.AsSelect()
		n.kind, n.name, n.test = selectNode, s.FieldName(), s.IsTestOnly()
		return n, b.children(n, bound, s.Operand())
	case ast.CallKind:
		c := checked.AsCall()
		n.kind, n.name, n.signature = callNode, c.FunctionName(), b.compiler.signatures[c.FunctionName()]
		if c.IsMemberFunction() {
			return n, b.children(n, bound, c.Target(), c.Args()...)
		}
		return n, b.children(n, bound, nil, c.Args()...)
	case ast.ListKind:
		n.kind = listNode
		for _, i := range checked.AsList().OptionalIndices() {
			n.mark(int(i))
		}
		return n, b.children(n, bound, nil, guard.Elements(checked)...)
	case ast.MapKind:
		n.kind = mapNode
		for i, entry := range checked.AsMap().Entries() {
			if entry.AsMapEntry().IsOptional() {
				n.mark(i)
			}
		}
		return n, b.children(n, bound, nil, guard.Elements(checked)...)
	default:
		return nil, fmt.Errorf("expression %w: messages and comprehensions without a macro are not supported", cel.ErrCompile)
	}
}

func (n *node) mark(i int) {
	if n.optional == nil {
		n.optional = map[int]bool{}
	}
	n.optional[i] = true
}

func (b *treeBuilder) children(n *node, bound sets.Set[string], target ast.Expr, args ...ast.Expr) (err error) {
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

func (b *treeBuilder) buildMacro(n *node, call ast.CallExpr, bound sets.Set[string]) (err error) {
	binders, ok := macros[fmt.Sprintf("%s:%d", call.FunctionName(), len(call.Args()))]
	if !ok || !call.IsMemberFunction() {
		return fmt.Errorf("expression %w: the macro %s is not supported", cel.ErrCompile, call.FunctionName())
	}
	n.kind, n.name = macroNode, call.FunctionName()
	if n.target, err = b.build(call.Target(), bound); err != nil {
		return err
	}
	n.free = n.target.free

	inner := bound.Clone()
	for _, binder := range call.Args()[:binders] {
		name := binder.AsIdent()
		// A body that is moved, or whose variables are replaced, must mean the same.
		if b.compiler.environment.Declares(name) || inner.Has(name) || name == string(cel.Variables) {
			return fmt.Errorf("expression %w: %w: %q", cel.ErrCompile, errShadow, name)
		}
		n.binders = append(n.binders, name)
		inner.Insert(name)
	}
	for _, body := range call.Args()[binders:] {
		child, err := b.build(body, inner)
		if err != nil {
			return err
		}
		n.args = append(n.args, child)
		n.free = b.union(n.free, b.intern(child.free.Difference(sets.New(n.binders...))))
	}
	return nil
}

// isBool reports whether the value is known to be a bool or an error. It does not use the type that the checker found, which may be
// inferred from the surroundings of the node.
func (n *node) isBool() bool {
	switch n.kind {
	case constantNode:
		return n.value.Type() == types.BoolType
	case selectNode:
		return n.test
	case callNode:
		//guard:bool-both-branches
		return n.name == operators.LogicalAnd || n.name == operators.LogicalOr || (n.result != nil && n.result.Kind() == types.BoolKind) ||
			(n.name == operators.Conditional && n.args[1].isBool() && n.args[2].isBool())
	case macroNode:
		return n.name == operators.All || n.name == operators.Exists || n.name == operators.ExistsOne || n.name == "existsOne"
	default:
		return false
	}
}

// signature describes a function.
type signature struct {
	// result is the type of the result if all overloads have the same, or nil.
	result *types.Type
	// overloaded says that the function has several implementations. The checker chooses one by the
	// types of the arguments. The evaluation tries no other implementation, even if a value has another
	// type than the checker has inferred.
	overloaded bool
}

func signaturesOf(env *celgo.Env) map[string]signature {
	signatures := map[string]signature{}
	for name, declaration := range env.Functions() {
		overloads := declaration.OverloadDecls()
		s := signature{overloaded: len(overloads) > 1 && !declaration.HasSingletonBinding()}
		for i, overload := range overloads {
			result := overload.ResultType()
			//guard:results-every-overload
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

// isConcrete reports whether a type contains no dyn, no type and no type parameter.
func isConcrete(t *types.Type) bool {
	switch t.Kind() {
	case types.DynKind, types.TypeParamKind, types.TypeKind:
		return false
	default:
		return !slices.ContainsFunc(t.Parameters(), func(p *types.Type) bool { return !isConcrete(p) })
	}
}
