/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
	// program evaluates the node, if all that it depends on is known, when asked for the
	// part known, which is -1 otherwise. The steps of a plan share it.
	program cel.Program
	known   int
	target  *step
	args    []*step
	// unrolled are the bodies of an all or exists over a known range, for an element.
	unrolled []*step
}

// Plan evaluates an expression of which some variables are known. It is immutable and
// safe for concurrent use.
type Plan struct {
	root     *step
	compiler *PartialCompiler
	checked  *ast.AST
	// parts are the steps of nodes whose values turned out to have no literal, by the
	// step that made the value. Few expressions have any.
	parts sync.Map
}

// selectorName is the variable by which the program of a plan is told what to evaluate.
// No expression can contain it.
const selectorName = "@part"

// planner makes a plan. One program for all known parts costs a fraction of one for each.
type planner struct {
	compiler *PartialCompiler
	checked  *ast.AST
	known    []*step
	// literals says that only what has a literal is evaluated.
	literals bool
}

// newPlan decides which parts of a tree are known if the given variables are.
func newPlan(c *PartialCompiler, checked *ast.AST, tree *node, known map[string]bool) (*Plan, error) {
	p := &planner{compiler: c, checked: checked}
	plan := &Plan{root: p.plan(tree, known), compiler: c, checked: checked}
	return plan, p.finish()
}

// decomposed returns the step that evaluates the operands of a node of which everything
// is known, rather than the node. It is planned when it is first asked for.
func (plan *Plan) decomposed(s *step) (*step, error) {
	if made, ok := plan.parts.Load(s); ok {
		return made.(*step), nil
	}
	p := &planner{compiler: plan.compiler, checked: plan.checked, literals: true}
	result := p.planOperands(s.node, s.free)
	if err := p.finish(); err != nil {
		return nil, err
	}
	made, _ := plan.parts.LoadOrStore(s, result)
	return made.(*step), nil
}

func (p *planner) plan(n *node, known map[string]bool) *step {
	if isKnown(n, known) && (!p.literals || n.kind == variableNode || hasLiteral(n.typ)) {
		s := &step{node: n, known: len(p.known)}
		p.known = append(p.known, s)
		return s
	}
	return p.planOperands(n, known)
}

func (p *planner) planOperands(n *node, known map[string]bool) *step {
	s := &step{node: n, known: -1}
	if n.target != nil {
		s.target = p.plan(n.target, known)
	}
	for _, arg := range n.args {
		s.args = append(s.args, p.plan(arg, known))
	}
	if n.kind == macroNode && isQuantifier(n.name) && s.target.known >= 0 {
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

func isKnown(n *node, known map[string]bool) bool {
	for name := range n.free {
		if !known[name] {
			return false
		}
	}
	return true
}

func isQuantifier(name string) bool { return name == operators.All || name == operators.Exists }

// hasLiteral reports whether every value of a type can be written down, as far as the
// checker knows. A dyn may hold anything.
func hasLiteral(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind,
		types.NullTypeKind, types.DurationKind, types.TimestampKind:
		return true
	case types.ListKind, types.MapKind:
		return !slices.ContainsFunc(t.Parameters(), func(parameter *types.Type) bool { return !hasLiteral(parameter) })
	case types.StructKind:
		return strings.HasPrefix(t.TypeName(), typePrefix) // data of ours, which are maps
	default:
		return false
	}
}

// finish plans the program of all known parts: @part == 0 ? first : @part == 1 ? …, and so on.
func (p *planner) finish() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("expression %w: the planner failed", ErrCompile)
		}
	}()
	if len(p.known) == 0 {
		return nil
	}
	factory := ast.NewExprFactory()
	id := ast.MaxID(p.checked)
	next := func() int64 { id++; return id }
	chosen := p.known[len(p.known)-1].expr
	for i := len(p.known) - 2; i >= 0; i-- {
		condition := factory.NewCall(next(), operators.Equals, factory.NewIdent(next(), selectorName), factory.NewLiteral(next(), types.Int(i)))
		chosen = factory.NewCall(next(), operators.Conditional, condition, p.known[i].expr, chosen)
	}
	info := ast.CopySourceInfo(p.checked.SourceInfo())
	combined := ast.NewCheckedAST(ast.NewAST(chosen, info), p.checked.TypeMap(), p.checked.ReferenceMap())
	program, err := p.compiler.env.PlanProgram(combined, p.compiler.guard.options()...)
	if err != nil {
		return fmt.Errorf("expression %w: %s", ErrCompile, shorten(err.Error()))
	}
	for _, s := range p.known {
		s.program = program
	}
	return nil
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
