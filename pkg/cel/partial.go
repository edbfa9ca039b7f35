/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Outcome is what an expression comes to when some of its variables are known: true,
// false, an error, or a residual over those that are not.
type Outcome struct {
	decided  bool
	value    bool
	err      error
	residual *Residual
	cost     uint64
	stopped  bool
}

// Cost returns what the partial evaluation cost, in the units of CostLimit.
func (o Outcome) Cost() uint64 { return o.cost }

// IsTrue reports whether the expression is true whatever the unknown variables are.
func (o Outcome) IsTrue() bool { return o.decided && o.err == nil && o.value }

// IsFalse reports whether the expression is false whatever the unknown variables are.
func (o Outcome) IsFalse() bool { return o.decided && o.err == nil && !o.value }

// Err returns the error that the expression ends in whatever the unknown variables are.
func (o Outcome) Err() error { return o.err }

// Stopped reports whether the error is of the partial evaluation only, which exceeded a bound:
// the expression may have a value when all variables are known.
func (o Outcome) Stopped() bool { return o.stopped }

// Residual returns what remains, or nil if the expression is decided.
func (o Outcome) Residual() *Residual { return o.residual }

// Residual is an expression over unknown variables only. Its text is made when it is
// asked for: enforcement in the same process does not need it.
type Residual struct {
	tree     *node
	compiler *Compiler
	once     sync.Once
	text     string
	cost     uint64
	err      error
}

// Text returns the residual as source text. It compiles in the environment of
// conditions; one that does not, or that is longer than MaxExpressionBytes, is an error, and
// the caller must fail closed. A text that is too long is not made.
func (r *Residual) Text() (string, error) {
	r.once.Do(func() {
		text, ok := boundedTextOf(r.tree, MaxExpressionBytes)
		err := errTooLong
		if ok {
			_, r.cost, err = r.compiler.CompileWithCost(text)
		}
		if err != nil {
			text, err = "", fmt.Errorf("the residual cannot be expressed: %w", err)
		}
		r.text, r.err = text, err
	})
	return r.text, r.err
}

// TextCost returns what it costs to make and compile the text, in the units of CostLimit.
func (r *Residual) TextCost() uint64 {
	_, _ = r.Text()
	return r.cost
}

// part is what a step came to: a value, which may be an error, or a residual.
type part struct {
	value ref.Val
	// tree is the residual, or a value as the author wrote it.
	tree *node
	// step and bindings are what made a value, for the case that it has no literal.
	step     *step
	bindings *bindings
}

func (p part) isValue() bool { return p.value != nil }

func (p part) isError() bool { return p.value != nil && types.IsError(p.value) }

// partialEvaluation is one evaluation of a plan.
type partialEvaluation struct {
	//nolint:containedctx // lives for one evaluation
	ctx    context.Context
	plan   *Plan
	values Values
	// spent is what the evaluation has cost, and bound what it may cost. limit is the same, or
	// less during an attempt.
	spent, limit, bound uint64
	// retyped are the variables of the macros around that have become dyn.
	retyped []string
	// stopped ends the evaluation: what it says is no error that an || may absorb.
	stopped error
}

const (
	// stepCost is what a step of a partial evaluation costs besides what it evaluates.
	stepCost = 30
	// writeCost is what it costs to write down a part of a value, and bytesPerUnit how many bytes
	// that are written, or counted, cost one unit, as they do where CEL looks at a string.
	writeCost    = 10
	bytesPerUnit = 10
	// decomposeCost is what it costs to plan and evaluate the operands of a value without a
	// literal: a program may have to be planned.
	decomposeCost = 1000
	// maxClosedBytes bounds what is compiled to evaluate a residual without variables. Checking the
	// types of a longer text can cost more than most evaluations.
	maxClosedBytes = 1024
)

// spend charges a cost and reports whether the evaluation may go on.
func (e *partialEvaluation) spend(cost uint64) bool {
	if e.stopped != nil {
		return false
	}
	switch e.spent += cost; {
	case e.spent > e.bound:
		e.stopped = fmt.Errorf("%w: more than %d", ErrCost, e.bound)
	case e.spent > e.limit:
		e.stopped = errAttempt
	}
	if err := e.ctx.Err(); e.stopped == nil && err != nil {
		e.stopped = fmt.Errorf("%w: %w", ErrEvaluation, err)
	}
	return e.stopped == nil
}

func (e *partialEvaluation) stop() part { return part{value: types.WrapErr(e.stopped)} }

// activation gives known parts their variables.
func (e *partialEvaluation) activation(b *bindings) interpreter.Activation {
	if b == nil {
		return e.values
	}
	return activation{values: e.values, bindings: b}
}

type activation struct {
	values   Values
	bindings *bindings
}

var _ interpreter.Activation = activation{}

func (a activation) ResolveName(name string) (any, bool) {
	if value, ok := a.bindings.find(name); ok {
		return value, true
	}
	return a.values.ResolveName(name)
}

func (a activation) Parent() interpreter.Activation { return nil }

// Eval evaluates the expression as far as the values of the known variables allow. Data
// from requests are values here: nothing that they contain can become syntax.
func (p *Plan) Eval(ctx context.Context, values Values) Outcome {
	return p.EvalWithin(ctx, values, CostLimit)
}

// EvalWithin is Eval with a limit of its own, which is at most CostLimit. What is over the limit
// is an error that wraps ErrCost. It may be found out only after NamespacedAuthorizationBudget or
// CostLimit, whichever is the next above it.
func (p *Plan) EvalWithin(ctx context.Context, values Values, limit uint64) (outcome Outcome) {
	defer func() {
		if r := recover(); r != nil {
			outcome = Outcome{decided: true, stopped: true, err: fmt.Errorf("%w: the evaluator failed", ErrEvaluation)}
		}
	}()
	e := &partialEvaluation{ctx: ctx, plan: p, values: values, limit: min(limit, CostLimit), bound: min(limit, CostLimit)}
	defer func() { outcome.cost = e.spent }()
	result := e.eval(p.root, nil)
	if !result.isValue() {
		result = e.close(result)
	}
	if e.stopped != nil {
		return Outcome{decided: true, stopped: true, err: e.stopped}
	}
	if !result.isValue() {
		tree := result.tree
		if tree.changed { // a residual must be a bool to the checker
			tree = conjunction(literal(types.True, types.BoolType), tree)
		}
		return Outcome{residual: &Residual{tree: tree, compiler: p.expression.compiler.residuals}}
	}
	switch v := result.value.(type) {
	case types.Bool:
		return Outcome{decided: true, value: bool(v)}
	case *types.Err:
		return Outcome{decided: true, err: &failure{shorten(v.Error())}}
	default:
		return Outcome{decided: true, err: fmt.Errorf("%w: the value is not a bool", ErrEvaluation)}
	}
}

func (e *partialEvaluation) eval(s *step, b *bindings) part {
	if !e.spend(stepCost * max(s.kept, 1)) {
		return e.stop()
	}
	switch {
	case s.kept > 0:
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
		if slices.Contains(e.retyped, s.name) {
			return part{tree: opaque(s.node)}
		}
		return part{tree: s.node}
	}
}

// evalKnown runs the program of a part of which everything is known.
func (e *partialEvaluation) evalKnown(s *step, b *bindings) part {
	if len(s.free) == 0 && s.kind == constantNode {
		return part{value: s.value, tree: s.node}
	}
	value, cost, err := e.plan.expression.compiler.engine.eval(e.ctx, s.known, e.activation(b), e.limit-min(e.spent, e.limit))
	switch {
	case !e.spend(cost):
		return e.stop()
	case err != nil:
		return part{value: types.NewErr("%s", err.Error())}
	case len(s.free) == 0 && !hasInferredTypes(s.node):
		return part{value: value, tree: s.node} // a constant of the policy stays as it was written
	}
	return part{value: value, step: s, bindings: b}
}

func (e *partialEvaluation) evalSelect(s *step, b *bindings) part {
	target := e.eval(s.target, b)
	if target.isError() {
		return target
	}
	result := *s.node
	result.target = e.operand(target, s.target.node)
	result.changed = result.target.changed && !s.test
	return part{tree: &result}
}

// lazy are the functions, besides those of logic, that do not evaluate all of their
// operands: an error in an operand is not yet an error of theirs. An index is not looked at
// if what it is to be found in is an optional that is none.
var lazy = map[string]bool{
	operators.Index: true, operators.OptIndex: true, operators.In: true, "or": true, "orValue": true,
}

func (e *partialEvaluation) evalCall(s *step, b *bindings) part {
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
		if target.isError() && !lazy[s.name] {
			return target
		}
		result.target = e.argument(s, -1, target)
		result.changed = result.target.changed
	}
	for i, arg := range s.args {
		p := e.eval(arg, b)
		if p.isError() && !lazy[s.name] {
			return p
		}
		operand := e.argument(s, i, p)
		result.args = append(result.args, operand)
		result.changed = result.changed || operand.changed
	}
	if s.isBool() || s.result != nil {
		result.changed = false
	} else if result.changed {
		return part{tree: opaque(&result)} // with other operands the checker may infer another type
	}
	return part{tree: &result}
}

// argument writes a part down as an argument of a call, or as its receiver, which is
// number -1.
func (e *partialEvaluation) argument(call *step, number int, p part) *node {
	original := call.target
	if number >= 0 {
		original = call.args[number]
	}
	// The planner makes `in []` false, whatever the left side is, and a set of constants.
	if call.name == operators.In && number == 1 && len(original.free) == 0 && !p.isError() {
		return original.node
	}
	operand := e.operand(p, original.node)
	if isSubstituted(p, original) {
		operand = hide(call.name, number, operand)
	}
	if call.overloaded {
		operand = typed(operand, original.typ)
	}
	return operand
}

// evalLogic evaluates && and ||, of which short decides, whatever else the operands are:
// an error on one side does not matter then. A value that is no bool is an error.
func (e *partialEvaluation) evalLogic(s *step, b *bindings, short types.Bool) part {
	var (
		remaining []*node
		failure   ref.Val
	)
	for _, operand := range s.args {
		p := e.eval(operand, b)
		if !p.isValue() && isLogic(p.tree) {
			p = e.close(p)
		}
		switch {
		case !p.isValue():
			remaining = append(remaining, p.tree)
		case p.value == short:
			return part{value: short}
		case p.value == !short:
		case failure == nil && p.isError():
			failure = p.value
		case failure == nil:
			failure = types.NewErr("no such overload")
		}
	}
	if len(remaining) == 0 {
		if failure != nil {
			return part{value: failure}
		}
		return part{value: !short}
	}
	if failure != nil {
		remaining = append(remaining, errorTerm())
	} else if only := remaining[0]; len(remaining) == 1 {
		if only.isBool() {
			return part{tree: only}
		}
		remaining = append([]*node{literal(!short, types.BoolType)}, only) // keeps what is no bool an error
	}
	return part{tree: fold(s.name, remaining)}
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

func conjunction(operands ...*node) *node { return fold(operators.LogicalAnd, operands) }

func (e *partialEvaluation) evalConditional(s *step, b *bindings) part {
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
	result.changed = result.args[1].changed || result.args[2].changed
	return part{tree: &result}
}

// branch evaluates the branch that is taken. Where the branches are of different types,
// the checker knows the whole as dyn, and it must stay so. What a macro binds may have got
// its type from the other branch.
func (e *partialEvaluation) branch(s, taken *step, b *bindings) part {
	p := e.eval(taken, b)
	if p.tree != nil && !p.isError() && (!taken.typ.IsExactType(s.typ) || e.isBinder(p.tree)) {
		p.tree = opaque(p.tree)
	}
	return p
}

// isBinder reports whether a node is a variable that a macro binds.
func (e *partialEvaluation) isBinder(n *node) bool {
	return n.kind == variableNode && !e.plan.expression.compiler.variables[n.name]
}

// evalAggregate evaluates a list or a map with unknown elements.
func (e *partialEvaluation) evalAggregate(s *step, b *bindings) part {
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
	if result.changed { // the checker wants elements of one type; all of them become dyn
		for i, arg := range result.args {
			switch {
			case s.kind == listNode && result.optional[i], s.kind == mapNode && i%2 == 1 && result.optional[i/2]:
				result.args[i] = optionalOf(arg)
			default:
				result.args[i] = opaque(arg)
			}
		}
	}
	return part{tree: &result}
}

// optionalOf keeps an element with a question mark an optional to the checker, which
// panics at one that is dyn, and to the evaluation, to which anything else is an error.
func optionalOf(n *node) *node {
	none := function("optional.none", types.NewOptionalType(types.DynType))
	return &node{kind: callNode, name: "or", typ: none.typ, target: none, args: []*node{opaque(n)}}
}

// close evaluates a residual in which no variable is left, such as one whose unknown
// branch was not taken. It may leave the residual open: the residual has the same value when it is
// evaluated with the others. Compiling is paid for, since each element of an unrolled macro may need
// it, and the program is not kept: the texts contain values of the request, so that they would
// displace the programs of conditions.
func (e *partialEvaluation) close(p part) part {
	if dependsOnVariables(p.tree) {
		return p
	}
	text, ok := boundedTextOf(p.tree, maxClosedBytes)
	if !ok {
		if !e.spend(maxClosedBytes / bytesPerUnit) {
			return e.stop()
		}
		return p
	}
	if !e.spend(compileCost(text)) {
		return e.stop()
	}
	compiled := e.plan.expression.compiler.residuals.compile(text)
	if !e.spend(compiled.cost - compileCost(text)) {
		return e.stop()
	}
	if compiled.err != nil {
		return p
	}
	value, cost, err := compiled.program.Eval(e.ctx, Values{})
	switch {
	case !e.spend(cost):
		return e.stop()
	case err != nil:
		return part{value: types.NewErr("%s", err.Error())}
	}
	return part{value: types.Bool(value)}
}

func dependsOnVariables(n *node) bool {
	if n.kind == variableNode {
		return len(n.free) > 0 // the name of a type is constant
	}
	if n.target != nil && dependsOnVariables(n.target) {
		return true
	}
	for _, arg := range n.args {
		if dependsOnVariables(arg) {
			return true
		}
	}
	return false
}
