/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// part is the result of evaluating a step: a value, which may be an error, or a residual.
type part struct {
	value ref.Val
	// tree is the residual, or a value as the author wrote it.
	tree *syntax.Node
	// step and bindings are the origin of a value, which is needed if the value has no literal.
	step     *step
	bindings *bindings
}

func (p part) isValue() bool { return p.value != nil }

func (p part) isError() bool { return p.value != nil && types.IsError(p.value) }

// evaluation is one evaluation of a plan.
type evaluation struct {
	//nolint:containedctx // lives for one evaluation
	ctx    context.Context
	plan   *Plan
	values cel.Values
	// spent is the cost of the evaluation so far, and bound its limit. limit is bound, or less during
	// an attempt.
	spent, limit, bound uint64
	// retyped are the variables of the enclosing macros that have become dyn.
	retyped []string
	// stopped is the error that ends the evaluation. Unlike an error that is a value, || cannot absorb it.
	stopped error
}

const (
	// stepCost is the cost of a step, without the evaluation of its program.
	stepCost = 30
	// writeCost is the cost of writing a part of a value, without its bytes (guard.BytesPerUnit).
	writeCost = 10
	// decomposeCost is the cost of planning and evaluating the operands of a value without a literal:
	// a program may have to be planned.
	decomposeCost = 1000
	// maxClosedBytes bounds a residual without variables that is compiled and evaluated at once.
	// Checking the types of a longer text can cost more than most evaluations.
	maxClosedBytes = 1024
)

// spend charges a cost and reports whether the evaluation may go on.
func (e *evaluation) spend(cost uint64) bool {
	if e.stopped != nil {
		return false
	}
	switch e.spent += cost; {
	case e.spent > e.bound:
		e.stopped = fmt.Errorf("%w: more than %d", cel.ErrCost, e.bound)
	case e.spent > e.limit:
		e.stopped = errAttempt
	}
	if err := e.ctx.Err(); e.stopped == nil && err != nil {
		e.stopped = fmt.Errorf("%w: %w", cel.ErrEvaluation, err)
	}
	return e.stopped == nil
}

func (e *evaluation) stop() part { return part{value: types.WrapErr(e.stopped)} }

// activation has the values of the known variables and of the variables of macros.
type activation struct {
	cel.Values
	bindings *bindings
}

var _ interpreter.Activation = activation{}

func (a activation) ResolveName(name string) (any, bool) {
	for b := a.bindings; b != nil; b = b.parent {
		if b.name == name {
			return b.value, true
		}
	}
	return a.Values.ResolveName(name)
}

// Eval evaluates the expression as far as the values of the known variables allow, within cel.CostLimit. No part of a value
// can become syntax of the residual.
func (p *Plan) Eval(ctx context.Context, values cel.Values) Result {
	return p.EvalWithin(ctx, values, cel.CostLimit)
}

// EvalWithin is Eval with another limit; a limit over cel.CostLimit counts as cel.CostLimit. An evaluation that costs more
// than the limit is an error that wraps cel.ErrCost. The evaluation of a known part may go on until it has cost
// cel.ExplanationBudget, cel.NamespacedAuthorizationBudget or cel.CostLimit, whichever is next above what is left.
func (p *Plan) EvalWithin(ctx context.Context, values cel.Values, limit uint64) (result Result) {
	defer func() {
		if r := recover(); r != nil {
			result = Result{decided: true, stopped: true, err: fmt.Errorf("%w: the evaluator failed", cel.ErrEvaluation)}
		}
	}()
	e := &evaluation{ctx: ctx, plan: p, values: values, limit: min(limit, cel.CostLimit), bound: min(limit, cel.CostLimit)}
	defer func() { result.cost = e.spent }()
	root := e.eval(p.root, nil)
	if !root.isValue() {
		root = e.close(root)
	}
	if e.stopped != nil {
		return Result{decided: true, stopped: true, err: e.stopped}
	}
	if !root.isValue() {
		tree := root.tree
		//guard:root-has-become-dyn
		if tree.IsChanged { // a residual must be a bool to the checker
			tree = syntax.Fold(operators.LogicalAnd, []*syntax.Node{syntax.Literal(types.True, types.BoolType), tree})
		}
		return Result{residual: &Residual{tree: tree, compiler: p.expression.compiler.residuals}}
	}
	switch v := root.value.(type) {
	case types.Bool:
		return Result{decided: true, value: bool(v)}
	case *types.Err:
		return Result{decided: true, err: p.expression.program.Failure(v)}
	default:
		return Result{decided: true, err: fmt.Errorf("%w: the value is not a bool", cel.ErrEvaluation)}
	}
}

func (e *evaluation) eval(s *step, b *bindings) part {
	if !e.spend(stepCost * max(s.unchanged, 1)) {
		return e.stop()
	}
	switch {
	case s.unchanged > 0:
		return part{tree: s.Node}
	case s.known != nil:
		return e.evalKnown(s, b)
	}
	switch s.Kind {
	case syntax.SelectNode:
		return e.evalSelect(s, b)
	case syntax.CallNode:
		return e.evalCall(s, b)
	case syntax.ListNode, syntax.MapNode:
		return e.evalAggregate(s, b)
	case syntax.MacroNode:
		return e.evalMacro(s, b)
	default:
		//guard:variable-has-become-dyn
		if slices.Contains(e.retyped, s.Name) {
			return part{tree: syntax.AsDyn(s.Node)}
		}
		return part{tree: s.Node}
	}
}

// evalKnown runs the program of a step that depends on known variables only.
func (e *evaluation) evalKnown(s *step, b *bindings) part {
	if len(s.Free) == 0 && s.Kind == syntax.ConstantNode {
		return part{value: s.Value, tree: s.Node}
	}
	value, cost, err := e.plan.expression.compiler.engine.Eval(e.ctx, s.known, activation{e.values, b}, e.limit-min(e.spent, e.limit))
	switch {
	case !e.spend(cost):
		return e.stop()
	case err != nil:
		return part{value: types.NewErr("%s", err.Error())}
	//guard:constants-inferred-type
	case len(s.Free) == 0 && !hasInferredTypes(s.Node):
		return part{value: value, tree: s.Node} // a constant of the policy stays as it was written
	}
	return part{value: value, step: s, bindings: b}
}

func (e *evaluation) evalSelect(s *step, b *bindings) part {
	target := e.eval(s.target, b)
	if target.isError() {
		return target
	}
	result := *s.Node
	result.Target = e.operand(target, s.target.Node)
	//guard:select-changed
	result.IsChanged = result.Target.IsChanged && !s.IsTest
	return part{tree: &result}
}

// nonStrict are the functions, apart from the logical operators, that may have a value although an
// operand is an error. For example, indexing optional.none() does not evaluate the index.
//
//guard:lazy-index
var nonStrict = map[string]bool{
	operators.Index: true, operators.OptIndex: true, operators.In: true, "or": true, "orValue": true,
}

func (e *evaluation) evalCall(s *step, b *bindings) part {
	switch s.Name {
	case operators.LogicalAnd:
		return e.evalLogic(s, b, types.False)
	case operators.LogicalOr:
		return e.evalLogic(s, b, types.True)
	case operators.Conditional:
		return e.evalConditional(s, b)
	}
	result := *s.Node
	result.Args = nil
	if s.target != nil {
		target := e.eval(s.target, b)
		if target.isError() && !nonStrict[s.Name] {
			return target
		}
		result.Target = e.argument(s, -1, target)
		//guard:call-changed-receiver
		result.IsChanged = result.Target.IsChanged
	}
	for i, arg := range s.args {
		p := e.eval(arg, b)
		if p.isError() && !nonStrict[s.Name] {
			return p
		}
		operand := e.argument(s, i, p)
		result.Args = append(result.Args, operand)
		//guard:call-changed-argument
		result.IsChanged = result.IsChanged || operand.IsChanged
	}
	if s.IsBool() || s.Result != nil {
		result.IsChanged = false
	} else if result.IsChanged {
		//guard:call-changed-dyn
		return part{tree: syntax.AsDyn(&result)} // with other operands the checker may infer another type
	}
	return part{tree: &result}
}

// argument returns the node of a part that is an argument of a call, or its receiver, which has number -1.
func (e *evaluation) argument(call *step, number int, p part) *syntax.Node {
	original := call.target
	if number >= 0 {
		original = call.args[number]
	}
	// The planner makes `in []` false, whatever the left side is, and a set of constants.
	//guard:call-constants
	if call.Name == operators.In && number == 1 && len(original.Free) == 0 && !p.isError() {
		return original.Node
	}
	operand := e.operand(p, original.Node)
	if isSubstituted(p, original) {
		//guard:call-hidden-arguments
		operand = hideFromPlanner(call.Name, number, operand)
	}
	//guard:call-overload-stays-same
	if call.IsOverloaded {
		operand = syntax.RestoreType(operand, original.Type)
	}
	return operand
}

// evalLogic evaluates && and ||. An operand with the value short, which is false for && and true for ||, decides, even if
// another operand is an error. An operand that is not a bool is an error.
func (e *evaluation) evalLogic(s *step, b *bindings, short types.Bool) part {
	j := junction{operator: s.Name, short: short}
	for _, operand := range s.args {
		p := e.eval(operand, b)
		if !p.isValue() && p.tree.IsLogic() {
			p = e.close(p)
		}
		if j.isDecidedBy(p) {
			return part{value: j.short}
		}
	}
	return j.result()
}

// junction joins operands by && or ||, whose operator it has.
type junction struct {
	operator string
	// short is the value that decides: false for &&, and true for ||.
	short types.Bool
	// remaining are the residuals of operands, and failure is the first error.
	remaining []*syntax.Node
	failure   ref.Val
}

// isDecidedBy reports whether an operand decides, and otherwise adds it.
func (j *junction) isDecidedBy(p part) bool {
	switch {
	case !p.isValue():
		j.remaining = append(j.remaining, p.tree)
	case p.value == j.short:
		return true
	case p.value == !j.short:
	case j.failure == nil && p.isError():
		j.failure = p.value
	case j.failure == nil:
		//guard:logic-value-no-bool
		j.failure = types.NewErr("no such overload")
	}
	return false
}

// result returns the result if no operand decides.
func (j *junction) result() part {
	switch {
	case len(j.remaining) == 0 && j.failure != nil:
		return part{value: j.failure}
	case len(j.remaining) == 0:
		return part{value: !j.short}
	case j.failure != nil:
		//guard:logic-error
		j.remaining = append(j.remaining, syntax.ErrorTerm())
	//guard:logic-may-no-bool
	case len(j.remaining) == 1 && !j.remaining[0].IsBool():
		j.remaining = append([]*syntax.Node{syntax.Literal(!j.short, types.BoolType)}, j.remaining...) // keeps what is no bool an error
	}
	return part{tree: syntax.Fold(j.operator, j.remaining)}
}

func (e *evaluation) evalConditional(s *step, b *bindings) part {
	condition := e.eval(s.args[0], b)
	if condition.isValue() {
		switch condition.value {
		case types.True:
			return e.branch(s, s.args[1], b)
		case types.False:
			return e.branch(s, s.args[2], b)
		}
		if condition.isError() {
			return condition
		}
		return part{value: types.NewErr("no such overload")}
	}
	result := *s.Node
	result.Args = []*syntax.Node{condition.tree, e.operand(e.eval(s.args[1], b), s.args[1].Node), e.operand(e.eval(s.args[2], b), s.args[2].Node)}
	//guard:conditional-changed
	result.IsChanged = result.Args[1].IsChanged || result.Args[2].IsChanged
	return part{tree: &result}
}

// branch evaluates the branch of a conditional that is taken, which replaces the conditional. If the branches have different
// types, the checker takes the conditional for dyn, so the result is made dyn. It is also made dyn if it is a variable of a
// macro, whose type the checker may have inferred from the other branch.
func (e *evaluation) branch(s, taken *step, b *bindings) part {
	p := e.eval(taken, b)
	//guard:branch-another-type
	if p.tree != nil && !p.isError() && (!taken.Type.IsExactType(s.Type) || e.isBinder(p.tree)) {
		p.tree = syntax.AsDyn(p.tree)
	}
	return p
}

// isBinder reports whether a node is a variable that a macro binds.
func (e *evaluation) isBinder(n *syntax.Node) bool {
	return n.Kind == syntax.VariableNode && !e.plan.expression.compiler.environment.Declares(n.Name)
}

// evalAggregate evaluates a list or a map with unknown elements.
func (e *evaluation) evalAggregate(s *step, b *bindings) part {
	result := *s.Node
	result.Args = nil
	for _, arg := range s.args {
		p := e.eval(arg, b)
		if p.isError() {
			return p
		}
		operand := e.operand(p, arg.Node)
		result.IsChanged = result.IsChanged || operand.IsChanged
		result.Args = append(result.Args, operand)
	}
	//guard:aggregate-changed
	if result.IsChanged { // the checker wants elements of one type; all of them become dyn
		for i, arg := range result.Args {
			switch {
			case s.Kind == syntax.ListNode && result.Optional[i], s.Kind == syntax.MapNode && i%2 == 1 && result.Optional[i/2]:
				//guard:aggregate-optional-elements-stay-optional
				result.Args[i] = optionalOf(arg)
			default:
				result.Args[i] = syntax.AsDyn(arg)
			}
		}
	}
	return part{tree: &result}
}

// optionalOf makes an optional of an element with a question mark. The checker panics if such an element
// is dyn, and the evaluation fails if it is anything but an optional.
func optionalOf(n *syntax.Node) *syntax.Node {
	none := syntax.Function("optional.none", types.NewOptionalType(types.DynType))
	return &syntax.Node{Kind: syntax.CallNode, Name: "or", Type: none.Type, Target: none, Args: []*syntax.Node{syntax.AsDyn(n)}}
}

// close evaluates a residual without variables, for example after an unknown branch was not taken. It may
// return the residual unchanged, which then has the same value when it is evaluated later. The cost of
// compiling is charged, because each element of an unrolled macro may need it. The program is not cached:
// the text contains values of the request, and would displace the programs of conditions.
func (e *evaluation) close(p part) part {
	if dependsOnVariables(p.tree) {
		return p
	}
	text, ok := p.tree.BoundedText(maxClosedBytes)
	if !ok {
		if !e.spend(maxClosedBytes / guard.BytesPerUnit) {
			return e.stop()
		}
		return p
	}
	if !e.spend(guard.CompileCost(text)) {
		return e.stop()
	}
	program, cost, err := e.plan.expression.compiler.residuals.CompileUncached(text)
	if !e.spend(cost - guard.CompileCost(text)) {
		return e.stop()
	}
	if err != nil {
		return p
	}
	value, cost, err := program.Eval(e.ctx, cel.Values{})
	switch {
	case !e.spend(cost):
		return e.stop()
	case err != nil:
		return part{value: types.NewErr("%s", err.Error())}
	}
	return part{value: types.Bool(value)}
}

func dependsOnVariables(n *syntax.Node) bool {
	for part := range n.All {
		if part.Kind == syntax.VariableNode && len(part.Free) > 0 { // the name of a type is constant
			return true
		}
	}
	return false
}
