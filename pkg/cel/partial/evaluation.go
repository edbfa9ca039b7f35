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
)

// part is the result of evaluating a step: a value, which may be an error, or a residual.
type part struct {
	value ref.Val
	// tree is the residual, or a value as the author wrote it.
	tree *node
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
	if bound := a.bindings.find(name); bound != nil {
		return bound.Value, true
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
		if tree.changed { // a residual must be a bool to the checker
			tree = fold(operators.LogicalAnd, []*node{literal(types.True, types.BoolType), tree})
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
		return part{tree: s.node}
	case s.known != nil:
		return e.evalKnown(s, b)
	}
	switch s.kind {
	case selectNode:
		return e.evalSelect(s, b)
	case callNode:
		return e.evalCall(s, b)
	case listNode, mapNode:
		return e.evalAggregate(s, b)
	case macroNode:
		return e.evalMacro(s, b)
	default:
		//guard:variable-has-become-dyn
		if slices.Contains(e.retyped, s.name) {
			return part{tree: asDyn(s.node)}
		}
		return part{tree: s.node}
	}
}

// evalKnown runs the program of a step that depends on known variables only.
func (e *evaluation) evalKnown(s *step, b *bindings) part {
	if len(s.free) == 0 && s.kind == constantNode {
		return part{value: s.value, tree: s.node}
	}
	value, cost, err := e.plan.expression.compiler.engine.Eval(e.ctx, s.known, activation{e.values, b}, e.limit-min(e.spent, e.limit))
	switch {
	case !e.spend(cost):
		return e.stop()
	case err != nil:
		return part{value: types.NewErr("%s", err.Error())}
	//guard:constants-inferred-type
	case len(s.free) == 0 && !hasInferredTypes(s.node):
		return part{value: value, tree: s.node} // a constant of the policy stays as it was written
	}
	return part{value: value, step: s, bindings: b}
}

func (e *evaluation) evalSelect(s *step, b *bindings) part {
	target := e.eval(s.target, b)
	if target.isError() {
		return target
	}
	result := *s.node
	result.target = e.operand(target, s.target.node)
	//guard:select-changed
	result.changed = result.target.changed && !s.test
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
	switch s.name {
	case operators.LogicalAnd:
		return e.evalLogic(s, b, types.False)
	case operators.LogicalOr:
		return e.evalLogic(s, b, types.True)
	case operators.Conditional:
		return e.evalConditional(s, b)
	}
	result := *s.node
	result.args = nil
	if s.target != nil {
		target := e.eval(s.target, b)
		if target.isError() && !nonStrict[s.name] {
			return target
		}
		result.target = e.argument(s, -1, target)
		//guard:call-changed-receiver
		result.changed = result.target.changed
	}
	for i, arg := range s.args {
		p := e.eval(arg, b)
		if p.isError() && !nonStrict[s.name] {
			return p
		}
		operand := e.argument(s, i, p)
		result.args = append(result.args, operand)
		//guard:call-changed-argument
		result.changed = result.changed || operand.changed
	}
	if s.isBool() || s.result != nil {
		result.changed = false
	} else if result.changed {
		//guard:call-changed-dyn
		return part{tree: asDyn(&result)} // with other operands the checker may infer another type
	}
	return part{tree: &result}
}

// argument returns the node of a part that is an argument of a call, or its receiver, which has number -1.
func (e *evaluation) argument(call *step, number int, p part) *node {
	original := call.target
	if number >= 0 {
		original = call.args[number]
	}
	// The planner makes `in []` false, whatever the left side is, and a set of constants.
	//guard:call-constants
	if call.name == operators.In && number == 1 && len(original.free) == 0 && !p.isError() {
		return original.node
	}
	operand := e.operand(p, original.node)
	if isSubstituted(p, original) {
		//guard:call-hidden-arguments
		operand = hideFromPlanner(call.name, number, operand)
	}
	//guard:call-overload-stays-same
	if call.overloaded {
		operand = restoreType(operand, original.typ)
	}
	return operand
}

// evalLogic evaluates && and ||. An operand with the value short, which is false for && and true for ||, decides, even if
// another operand is an error. An operand that is not a bool is an error.
func (e *evaluation) evalLogic(s *step, b *bindings, short types.Bool) part {
	j := junction{operator: s.name, short: short}
	for _, operand := range s.args {
		p := e.eval(operand, b)
		if !p.isValue() && isLogic(p.tree) {
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
	remaining []*node
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
		j.remaining = append(j.remaining, errorTerm())
	//guard:logic-may-no-bool
	case len(j.remaining) == 1 && !j.remaining[0].isBool():
		j.remaining = append([]*node{literal(!j.short, types.BoolType)}, j.remaining...) // keeps what is no bool an error
	}
	return part{tree: fold(j.operator, j.remaining)}
}

func isLogic(n *node) bool {
	return n.kind == callNode && (n.name == operators.LogicalAnd || n.name == operators.LogicalOr)
}

func fold(operator string, operands []*node) *node {
	result := operands[0]
	for _, operand := range operands[1:] {
		result = function(operator, types.BoolType, result, operand)
	}
	return result
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
	result := *s.node
	result.args = []*node{condition.tree, e.operand(e.eval(s.args[1], b), s.args[1].node), e.operand(e.eval(s.args[2], b), s.args[2].node)}
	//guard:conditional-changed
	result.changed = result.args[1].changed || result.args[2].changed
	return part{tree: &result}
}

// branch evaluates the branch of a conditional that is taken, which replaces the conditional. If the branches have different
// types, the checker takes the conditional for dyn, so the result is made dyn. It is also made dyn if it is a variable of a
// macro, whose type the checker may have inferred from the other branch.
func (e *evaluation) branch(s, taken *step, b *bindings) part {
	p := e.eval(taken, b)
	//guard:branch-another-type
	if p.tree != nil && !p.isError() && (!taken.typ.IsExactType(s.typ) || e.isBinder(p.tree)) {
		p.tree = asDyn(p.tree)
	}
	return p
}

// isBinder reports whether a node is a variable that a macro binds.
func (e *evaluation) isBinder(n *node) bool {
	return n.kind == variableNode && !e.plan.expression.compiler.environment.Declares(n.name)
}

// evalAggregate evaluates a list or a map with unknown elements.
func (e *evaluation) evalAggregate(s *step, b *bindings) part {
	result := *s.node
	result.args = nil
	for _, arg := range s.args {
		p := e.eval(arg, b)
		if p.isError() {
			return p
		}
		operand := e.operand(p, arg.node)
		result.changed = result.changed || operand.changed
		result.args = append(result.args, operand)
	}
	//guard:aggregate-changed
	if result.changed { // the checker wants elements of one type; all of them become dyn
		for i, arg := range result.args {
			switch {
			case s.kind == listNode && result.optional[i], s.kind == mapNode && i%2 == 1 && result.optional[i/2]:
				//guard:aggregate-optional-elements-stay-optional
				result.args[i] = optionalOf(arg)
			default:
				result.args[i] = asDyn(arg)
			}
		}
	}
	return part{tree: &result}
}

// optionalOf makes an optional of an element with a question mark. The checker panics if such an element
// is dyn, and the evaluation fails if it is anything but an optional.
func optionalOf(n *node) *node {
	none := function("optional.none", types.NewOptionalType(types.DynType))
	return &node{kind: callNode, name: "or", typ: none.typ, target: none, args: []*node{asDyn(n)}}
}

// close evaluates a residual without variables, for example after an unknown branch was not taken. It may
// return the residual unchanged, which then has the same value when it is evaluated later. The cost of
// compiling is charged, because each element of an unrolled macro may need it. The program is not cached:
// the text contains values of the request, and would displace the programs of conditions.
func (e *evaluation) close(p part) part {
	if dependsOnVariables(p.tree) {
		return p
	}
	text, ok := boundedTextOf(p.tree, maxClosedBytes)
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

func dependsOnVariables(n *node) bool {
	for part := range n.all {
		if part.kind == variableNode && len(part.free) > 0 { // the name of a type is constant
			return true
		}
	}
	return false
}
