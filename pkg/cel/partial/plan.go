/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// step is a node of a plan: a node of the tree, and how it is evaluated when certain variables are known.
type step struct {
	*node
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

// newPlan returns the plan of an expression for the given known variables.
func newPlan(e *Expression, known map[string]bool) (*Plan, error) {
	p := &planner{expression: e}
	plan := &Plan{root: p.plan(e.tree, known), expression: e}
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
	result := p.planOperands(s.node, s.free)
	if err := p.finish(); err != nil {
		return nil, err
	}
	stored, _ := plan.parts.LoadOrStore(s, result)
	return stored.(*step), nil
}

func (p *planner) plan(n *node, known map[string]bool) *step {
	if p.isKnown(n, known) {
		s := &step{node: n}
		p.known = append(p.known, s)
		return s
	}
	return p.planOperands(n, known)
}

func (p *planner) planOperands(n *node, known map[string]bool) *step {
	s := &step{node: n}
	if n.target != nil {
		s.target = p.plan(n.target, known)
	}
	for _, arg := range n.args {
		s.args = append(s.args, p.plan(arg, known))
	}
	s.unchanged = p.unchanged(s)
	if n.kind == macroNode && isQuantifier(n.name) && p.isKnown(n.target, known) {
		//guard:plan-binders-end-their-macro
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

// unchanged returns the number of steps in a step if its evaluation would return a copy of its node, because
// the node only applies functions to unknown variables and literals. Otherwise it returns 0.
func (p *planner) unchanged(s *step) uint64 {
	switch {
	case s.kind == variableNode && p.expression.compiler.environment.Declares(s.name):
		return 1
	case s.kind == selectNode, s.kind == callNode && !hasRules[s.name]:
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
		case operand.kind == constantNode:
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
func (p *planner) isKnown(n *node, known map[string]bool) bool {
	if p.literals && n.kind != variableNode && !hasLiteral(n.typ) {
		return false
	}
	for name := range n.free {
		if !known[name] {
			return false
		}
	}
	return true
}

func isQuantifier(name string) bool { return name == operators.All || name == operators.Exists }

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

// finish sets the instructions of all known steps. The expression keeps the instructions of every node that an earlier plan
// has planned, and finish uses these. It makes the instructions of all other nodes.
func (p *planner) finish() error {
	missing := p.expression.assign(p.known)
	if len(missing) == 0 {
		return nil
	}
	from, err := p.expression.source()
	if err != nil {
		return err
	}
	exprs := make([]ast.Expr, 0, len(missing))
	for _, s := range missing {
		exprs = append(exprs, from.exprs[s.id])
	}
	planned, err := p.expression.compiler.engine.Plan(from.checked.NativeRep(), exprs)
	if err != nil {
		return err
	}
	for i, s := range missing {
		s.known = planned[i]
	}
	p.expression.storeInstructions(missing)
	return nil
}

// assign sets the instructions of the steps whose nodes have been planned before, and returns all other steps.
func (e *Expression) assign(steps []*step) (missing []*step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range steps {
		if s.known = e.planned[s.node]; s.known == nil {
			missing = append(missing, s)
		}
	}
	return missing
}

func (e *Expression) storeInstructions(steps []*step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range steps {
		e.planned[s.node] = s.known
	}
}

// bindings is a linked list of the values of the variables of macros, the innermost first.
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
