/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"
	"maps"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// step is a node as it is evaluated in part, once it is decided which variables are
// known.
type step struct {
	*node
	// known is the index of the program that evaluates the node, if all that it depends
	// on is known; -1 otherwise.
	known  int
	target *step
	args   []*step
	// unrolled are the bodies of an all or exists over a known range, for an element.
	unrolled []*step
	// parts are the operands of a known node, for the case that its value has no literal.
	parts *step
}

// Plan evaluates an expression of which some variables are known. It is immutable and
// safe for concurrent use.
type Plan struct {
	root *step
	// knowns evaluates all known parts: which one, the variable selectorName says. One
	// program for all of them costs a fraction of one for each.
	knowns   cel.Program
	compiler *Compiler
}

// selectorName is the variable by which knowns is told what to evaluate. No expression
// can contain it.
const selectorName = "@part"

// planner makes a plan.
type planner struct {
	compiler *PartialCompiler
	checked  *ast.AST
	parts    []ast.Expr
}

// newPlan decides which parts of a tree are known if the given variables are.
func newPlan(c *PartialCompiler, checked *ast.AST, tree *node, known map[string]bool) (*Plan, error) {
	p := &planner{compiler: c, checked: checked}
	plan := &Plan{root: p.plan(tree, known), compiler: c.residuals}
	if len(p.parts) == 0 {
		return plan, nil
	}
	var err error
	plan.knowns, err = p.program()
	return plan, err
}

func (p *planner) plan(n *node, known map[string]bool) *step {
	s := &step{node: n, known: -1}
	if isKnown(n, known) {
		s.known = len(p.parts)
		p.parts = append(p.parts, n.expr)
		if n.kind == callNode && !hasLiteral(n.typ) {
			s.parts = &step{node: n, known: -1}
			p.planOperands(s.parts, known)
		}
		return s
	}
	p.planOperands(s, known)
	if n.kind == macroNode && isQuantifier(n.name) && isKnown(n.target, known) {
		inner := maps.Clone(known)
		for _, binder := range n.binders {
			inner[binder] = true
		}
		for _, body := range n.args {
			s.unrolled = append(s.unrolled, p.plan(body, inner))
		}
	}
	return s
}

func (p *planner) planOperands(s *step, known map[string]bool) {
	if s.node.target != nil {
		s.target = p.plan(s.node.target, known)
	}
	for _, arg := range s.node.args {
		s.args = append(s.args, p.plan(arg, known))
	}
}

func isKnown(n *node, known map[string]bool) bool {
	for name := range n.free {
		if !known[name] {
			return false
		}
	}
	return true
}

func isQuantifier(name string) bool { return name == operators.All || name == operators.Exists }

// hasLiteral reports whether every value of a type can be written down. A dyn may hold
// anything.
func hasLiteral(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind,
		types.NullTypeKind, types.DurationKind, types.TimestampKind:
		return true
	case types.ListKind, types.MapKind:
		for _, parameter := range t.Parameters() {
			if !hasLiteral(parameter) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// program plans one program for all known parts: @part == 0 ? first : @part == 1 ? …, and so on.
func (p *planner) program() (program cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			program, err = nil, fmt.Errorf("expression %w: the planner failed", ErrCompile)
		}
	}()
	factory := ast.NewExprFactory()
	id := ast.MaxID(p.checked)
	next := func() int64 { id++; return id }
	chosen := p.parts[len(p.parts)-1]
	for i := len(p.parts) - 2; i >= 0; i-- {
		condition := factory.NewCall(next(), operators.Equals, factory.NewIdent(next(), selectorName), factory.NewLiteral(next(), types.Int(i)))
		chosen = factory.NewCall(next(), operators.Conditional, condition, p.parts[i], chosen)
	}
	info := ast.CopySourceInfo(p.checked.SourceInfo())
	combined := ast.NewCheckedAST(ast.NewAST(chosen, info), p.checked.TypeMap(), p.checked.ReferenceMap())
	program, err = p.compiler.env.PlanProgram(combined, p.compiler.guard.options()...)
	if err != nil {
		return nil, fmt.Errorf("expression %w: %s", ErrCompile, shorten(err.Error()))
	}
	return program, nil
}

// bindings are the values of known variables, those of macros in front.
type bindings struct {
	values ref.Val
	name   string
	parent *bindings
}

func (b *bindings) find(name string) (any, bool) {
	for ; b != nil; b = b.parent {
		if b.name == name {
			return b.values, true
		}
	}
	return nil, false
}
