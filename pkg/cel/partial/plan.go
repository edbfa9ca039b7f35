/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// step is a node of a plan: a node of the tree, and how it is evaluated when certain variables are known.
type step struct {
	*syntax.Node
	// known evaluates the node if it depends on known variables only. Otherwise it is nil.
	known *engine.Instructions
	// unchanged is the number of steps in a node that is its own residual, because it only applies functions to
	// unknown variables and literals. It is 0 for all other nodes.
	unchanged uint64
	target    *step
	args      []*step
	// unrolled are the bodies of all or exists over a known range, planned for one element.
	unrolled []*step
}

// Plan evaluates an expression while certain variables are known. It is immutable and safe for concurrent
// use.
type Plan struct {
	root       *step
	expression *Expression
	// parts caches the results of decomposed, by the step whose value had no literal. Few expressions have
	// such values.
	parts sync.Map
}

// planner makes a plan.
type planner struct {
	expression *Expression
	known      []*step
	// literals says that only nodes whose values have literals are evaluated.
	literals bool
}

// PlanPart is Plan for a node of the tree of the expression.
func (e *Expression) PlanPart(n *syntax.Node, known ...cel.Variable) (*Plan, error) {
	p := &planner{expression: e}
	plan := &Plan{root: p.plan(n, namesOf(known)), expression: e}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return plan, nil
}

// decomposed returns a step for a known node that evaluates its operands instead of the node. It is planned
// at its first use.
func (plan *Plan) decomposed(s *step) (*step, error) {
	if stored, ok := plan.parts.Load(s); ok {
		return stored.(*step), nil
	}
	p := &planner{expression: plan.expression, literals: true}
	result := p.planOperands(s.Node, s.Free)
	if err := p.finish(); err != nil {
		return nil, err
	}
	stored, _ := plan.parts.LoadOrStore(s, result)
	return stored.(*step), nil
}

func (p *planner) plan(n *syntax.Node, known sets.Set[string]) *step {
	if p.isKnown(n, known) {
		s := &step{Node: n}
		p.known = append(p.known, s)
		return s
	}
	return p.planOperands(n, known)
}

func (p *planner) planOperands(n *syntax.Node, known sets.Set[string]) *step {
	s := &step{Node: n}
	if n.Target != nil {
		s.target = p.plan(n.Target, known)
	}
	for _, arg := range n.Args {
		s.args = append(s.args, p.plan(arg, known))
	}
	s.unchanged = p.unchanged(s)
	if n.Kind == syntax.MacroNode && (n.Name == operators.All || n.Name == operators.Exists) && p.isKnown(n.Target, known) {
		inner := known.Union(sets.New(n.Binders...))
		for _, body := range n.Args {
			s.unrolled = append(s.unrolled, p.plan(body, inner))
		}
	}
	return s
}

// unchanged returns the number of steps in a step if its evaluation would return a copy of its node, because
// the node only applies functions to unknown variables and literals. Otherwise it returns 0.
func (p *planner) unchanged(s *step) uint64 {
	switch {
	case s.Kind == syntax.VariableNode && p.expression.compiler.environment.Declares(s.Name):
		return 1
	case s.Kind == syntax.SelectNode, s.Kind == syntax.CallNode && !hasRules[s.Name]:
	default:
		return 0
	}
	steps := uint64(1)
	operands := s.args
	if s.target != nil {
		operands = append([]*step{s.target}, operands...)
	}
	for _, operand := range operands {
		switch {
		case operand.Kind == syntax.ConstantNode:
			steps++
		case operand.unchanged == 0:
			return 0
		default:
			steps += operand.unchanged
		}
	}
	return steps
}

// hasRules are the functions for which this package has evaluation rules of their own.
var hasRules = map[string]bool{
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.Conditional: true, "or": true, "orValue": true,
}

// isKnown reports whether a node is evaluated as a whole: it depends on known variables only, and, if literals is set, it is a
// variable or its values have literals.
func (p *planner) isKnown(n *syntax.Node, known sets.Set[string]) bool {
	if p.literals && n.Kind != syntax.VariableNode && !hasLiteral(n.Type) {
		return false
	}
	return known.IsSuperset(n.Free)
}

// hasLiteral reports whether every value of a type can be written as a literal. It returns false for dyn, because a dyn may
// hold a value of any type.
func hasLiteral(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind,
		types.NullTypeKind, types.DurationKind, types.TimestampKind:
		return true
	case types.ListKind, types.MapKind:
		return !slices.ContainsFunc(t.Parameters(), func(parameter *types.Type) bool { return !hasLiteral(parameter) })
	case types.StructKind:
		return strings.HasPrefix(t.TypeName(), cel.TypePrefix) // data of ours, which are maps
	default:
		return false
	}
}

// finish sets the instructions of all known steps.
func (p *planner) finish() error {
	nodes := make([]*syntax.Node, 0, len(p.known))
	for _, s := range p.known {
		nodes = append(nodes, s.Node)
	}
	planned, err := p.expression.Instructions(nodes...)
	if err != nil {
		return err
	}
	for i, s := range p.known {
		s.known = planned[i]
	}
	return nil
}

// EvalPart evaluates a node of the tree of the expression. It returns the cost also if the evaluation fails. The evaluation may go on until it has
// cost cel.ExplanationBudget, cel.NamespacedAuthorizationBudget or cel.CostLimit, whichever is next above the limit.
func (e *Expression) EvalPart(ctx context.Context, n *syntax.Node, values interpreter.Activation, limit uint64) (value cel.Value, cost uint64, err error) {
	planned, err := e.Instructions(n)
	if err != nil {
		return nil, 0, err
	}
	return e.compiler.engine.Eval(ctx, planned[0], values, limit)
}

// Instructions returns the instructions of nodes of the tree. The expression keeps the instructions of every node: Instructions plans the others
// together.
func (e *Expression) Instructions(nodes ...*syntax.Node) ([]*engine.Instructions, error) {
	all, missing := e.plannedBefore(nodes)
	if len(missing) == 0 {
		return all, nil
	}
	from, err := e.source()
	if err != nil {
		return nil, err
	}
	exprs := make([]ast.Expr, 0, len(missing))
	for _, i := range missing {
		exprs = append(exprs, from.ExprOf(nodes[i]))
	}
	planned, err := e.compiler.engine.Plan(from.Checked.NativeRep(), exprs)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for j, i := range missing {
		all[i], e.planned[nodes[i]] = planned[j], planned[j]
	}
	return all, nil
}

// plannedBefore returns the instructions of the nodes that have been planned, in the order of all nodes, and the numbers of all other nodes.
func (e *Expression) plannedBefore(nodes []*syntax.Node) (planned []*engine.Instructions, missing []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, n := range nodes {
		if planned = append(planned, e.planned[n]); planned[i] == nil {
			missing = append(missing, i)
		}
	}
	return planned, missing
}

// bindings is a linked list of the variables of macros with their values, the innermost first.
type bindings struct {
	name   string
	value  cel.Value
	parent *bindings
}
