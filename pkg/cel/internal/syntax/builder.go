/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
	"errors"
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// macros are the macros that trees may contain, by the number of their arguments. The values are how many of the first arguments are names of
// variables that the macro binds. The rest are bodies, in which it binds them. An expression with any other macro is
// refused, because it is unknown which variables it binds. `has` is a selection here. sortBy is left out,
// because it panics if an element is an error, which ends the evaluation even where && or || would ignore
// the result.
var macros = map[string]int{
	"all:2": 1, "exists:2": 1, "exists_one:2": 1, "map:2": 1, "map:3": 1, "filter:2": 1, "optMap:2": 1, "optFlatMap:2": 1,
	"all:3": 2, "exists:3": 2, "existsOne:3": 2, "exists_one:3": 2,
	"transformList:3": 2, "transformList:4": 2, "transformMap:3": 2, "transformMap:4": 2, "transformMapEntry:3": 2, "transformMapEntry:4": 2,
}

// MaxNodes bounds the nodes of an expression in which named expressions have been put. An expression of ten thousand bytes
// without named expressions has fewer. So many nodes can be walked for each request.
const MaxNodes = 8192

var (
	// ErrTooLarge says that an expression has more than MaxNodes nodes. It wraps cel.ErrCompile.
	ErrTooLarge = fmt.Errorf("expression %w: it has more than %d parts", cel.ErrCompile, MaxNodes)
	// Bytes as the key of a map make cel-go panic, which ends the evaluation even where && or || would
	// ignore the result. JSON has no bytes.
	errBytes = errors.New("bytes are not supported")
	// ErrShadow says that two variables of an expression have the same name where both can be read.
	ErrShadow = errors.New("a macro must not bind a variable that has the name of another")
)

// Builder builds the trees of the checked expressions of one environment. It is immutable and safe for concurrent use.
type Builder struct {
	environment *cel.Environment
	signatures  map[string]Signature
}

// NewBuilder makes a builder for an environment.
func NewBuilder(environment *cel.Environment) *Builder {
	return &Builder{environment: environment, signatures: signaturesOf(environment.Engine().Env)}
}

// treeBuilder makes the nodes for a checked expression.
type treeBuilder struct {
	*Builder
	checked *ast.AST
	// byID finds the checked form of the unchecked arguments of macro calls.
	byID map[int64]ast.Expr
	// exprs become Source.exprs.
	exprs []ast.Expr
	// sets are the interned sets of variables of the nodes.
	sets []sets.Set[string]
}

// Source is a checked expression and its tree. Checking the same text again gives an equal source.
type Source struct {
	Checked *celgo.Ast
	Tree    *Node
	// exprs are the checked expressions of the nodes, by their ids.
	exprs []ast.Expr
}

// ExprOf returns the checked expression of a node of the tree, with its macros expanded.
func (s *Source) ExprOf(n *Node) ast.Expr { return s.exprs[n.id] }

// Build returns the tree of a checked expression, whose macro calls must have been tracked. It returns an error if the expression is too large or has a
// part that is not supported.
func (b *Builder) Build(checked *celgo.Ast) (*Source, error) {
	native := checked.NativeRep()
	t := &treeBuilder{Builder: b, checked: native, byID: map[int64]ast.Expr{}}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) { t.byID[e.ID()] = e }))
	tree, err := t.node(native.Expr(), nil)
	if err != nil {
		return nil, err
	}
	return &Source{Checked: checked, Tree: tree, exprs: t.exprs}, nil
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

// Node returns the node for an expression and its parts. Bound are the variables of the macros around it.
func (b *treeBuilder) node(e ast.Expr, bound sets.Set[string]) (*Node, error) {
	if len(b.exprs) == MaxNodes {
		return nil, ErrTooLarge
	}
	checked, ok := b.byID[e.ID()]
	if !ok {
		return nil, fmt.Errorf("expression %w: a part of a macro was lost", cel.ErrCompile)
	}
	n := &Node{id: int32(len(b.exprs)), Type: b.checked.GetType(e.ID())}
	b.exprs = append(b.exprs, checked)
	if n.Type.Kind() == types.BytesKind {
		return nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, errBytes)
	}
	if call, ok := b.checked.SourceInfo().GetMacroCall(e.ID()); ok && call.AsCall().FunctionName() != operators.Has {
		return n, b.buildMacro(n, call.AsCall(), bound)
	}
	switch checked.Kind() {
	case ast.LiteralKind:
		n.Kind, n.Value = ConstantNode, checked.AsLiteral()
		return n, nil
	case ast.IdentKind:
		n.Kind, n.Name = VariableNode, checked.AsIdent()
		if b.environment.Declares(n.Name) || bound.Has(n.Name) {
			n.Free = b.intern(sets.New(n.Name))
		}
		return n, nil // otherwise it is the name of a type
	case ast.SelectKind:
		s := checked.AsSelect()
		n.Kind, n.Name, n.IsTest = SelectNode, s.FieldName(), s.IsTestOnly()
		return n, b.children(n, bound, s.Operand())
	case ast.CallKind:
		c := checked.AsCall()
		n.Kind, n.Name, n.Signature = CallNode, c.FunctionName(), b.signatures[c.FunctionName()]
		if c.IsMemberFunction() {
			return n, b.children(n, bound, c.Target(), c.Args()...)
		}
		return n, b.children(n, bound, nil, c.Args()...)
	case ast.ListKind:
		n.Kind = ListNode
		for _, i := range checked.AsList().OptionalIndices() {
			n.mark(int(i))
		}
		return n, b.children(n, bound, nil, guard.Elements(checked)...)
	case ast.MapKind:
		n.Kind = MapNode
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

func (b *treeBuilder) children(n *Node, bound sets.Set[string], target ast.Expr, args ...ast.Expr) (err error) {
	if target != nil {
		if n.Target, err = b.node(target, bound); err != nil {
			return err
		}
		n.Free = n.Target.Free
	}
	n.Args = make([]*Node, 0, len(args))
	for _, arg := range args {
		child, err := b.node(arg, bound)
		if err != nil {
			return err
		}
		n.Args = append(n.Args, child)
		n.Free = b.union(n.Free, child.Free)
	}
	return nil
}

func (b *treeBuilder) buildMacro(n *Node, call ast.CallExpr, bound sets.Set[string]) (err error) {
	binders, ok := macros[fmt.Sprintf("%s:%d", call.FunctionName(), len(call.Args()))]
	if !ok || !call.IsMemberFunction() {
		return fmt.Errorf("expression %w: the macro %s is not supported", cel.ErrCompile, call.FunctionName())
	}
	n.Kind, n.Name = MacroNode, call.FunctionName()
	if n.Target, err = b.node(call.Target(), bound); err != nil {
		return err
	}
	n.Free = n.Target.Free

	inner := bound.Clone()
	for _, binder := range call.Args()[:binders] {
		name := binder.AsIdent()
		// A body that is moved, or whose variables are replaced, must mean the same.
		if b.environment.Declares(name) || inner.Has(name) || name == string(cel.Variables) {
			return fmt.Errorf("expression %w: %w: %q", cel.ErrCompile, ErrShadow, name)
		}
		n.Binders = append(n.Binders, name)
		inner.Insert(name)
	}
	for _, body := range call.Args()[binders:] {
		child, err := b.node(body, inner)
		if err != nil {
			return err
		}
		n.Args = append(n.Args, child)
		n.Free = b.union(n.Free, b.intern(child.Free.Difference(sets.New(n.Binders...))))
	}
	return nil
}

// Signature describes a function.
type Signature struct {
	// Result is the type of the result if all overloads have the same, or nil.
	Result *types.Type
	// IsOverloaded says that the function has several implementations. The checker chooses one by the
	// types of the arguments. The evaluation tries no other implementation, even if a value has another
	// type than the checker has inferred.
	IsOverloaded bool
}

func signaturesOf(env *celgo.Env) map[string]Signature {
	signatures := map[string]Signature{}
	for name, declaration := range env.Functions() {
		overloads := declaration.OverloadDecls()
		s := Signature{IsOverloaded: len(overloads) > 1 && !declaration.HasSingletonBinding()}
		for i, overload := range overloads {
			result := overload.ResultType()
			//guard:results-every-overload
			if i > 0 && (s.Result == nil || !s.Result.IsExactType(result)) || !isConcrete(result) {
				s.Result = nil
				break
			}
			s.Result = result
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
