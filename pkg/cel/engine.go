/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// engine plans and evaluates expressions of one environment. Every cel.Program has a table
// of all functions, and much else, which is several times what a policy says. The engine
// has few programs, one for each limit, which evaluate whatever instructions they are given; of
// what is planned only the instructions are kept.
type engine struct {
	env   *cel.Env
	guard *guard
	// programs are in the order of their limits.
	programs []limitedProgram
}

// limitedProgram is a program that stops an evaluation when it has cost more than a limit.
type limitedProgram struct {
	cel.Program
	limit uint64
}

// limits are the limits that an evaluation can have, from the smallest.
var limits = []uint64{NamespacedAuthorizationBudget, CostLimit}

// instructions are a planned expression.
type instructions struct {
	interpreter.InterpretableV2
	// interruptible says that it has macros, or calls that can take long, between which an
	// evaluation can end. An evaluation that has neither needs no context of its own.
	interruptible bool
}

func newEngine(env *cel.Env) (*engine, error) { return newLimitedEngine(env, limits...) }

// newLimitedEngine makes an engine whose evaluations can have the given limits, from the smallest.
func newLimitedEngine(env *cel.Env, limits ...uint64) (*engine, error) {
	g, err := newGuard(env)
	if err != nil {
		return nil, err
	}
	placeholder, err := check(env, g, "true")
	if err != nil {
		return nil, fmt.Errorf("building the CEL evaluator: %w", err)
	}
	e := &engine{env: env, guard: g}
	for _, limit := range limits {
		program, err := env.Program(placeholder, append(g.options(), cel.CustomDecoratorV2(enter), cel.CostLimit(limit))...)
		if err != nil {
			return nil, fmt.Errorf("building the CEL evaluator: %w", err)
		}
		e.programs = append(e.programs, limitedProgram{Program: program, limit: limit})
	}
	return e, nil
}

// within returns the program with the smallest limit that is not below the given one, or the one
// with the largest limit.
func (e *engine) within(limit uint64) cel.Program {
	for _, p := range e.programs {
		if limit <= p.limit {
			return p
		}
	}
	return e.programs[len(e.programs)-1]
}

// plan plans expressions that have been checked together.
func (e *engine) plan(checked *ast.AST, exprs []ast.Expr) (planned []*instructions, err error) {
	defer func() {
		if r := recover(); r != nil {
			planned, err = nil, fmt.Errorf("expression %w: the planner failed", ErrCompile)
		}
	}()
	id := ast.MaxID(checked) + 1
	list := ast.NewExprFactory().NewList(id, exprs, nil)
	var elements []interpreter.InterpretableV2
	capture := func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if all, ok := i.(interpreter.InterpretableConstructor); ok && i.ID() == id {
			elements = all.InitVals()
		}
		return i, nil
	}
	all := ast.NewCheckedAST(ast.NewAST(list, checked.SourceInfo()), checked.TypeMap(), checked.ReferenceMap())
	// The observers of costs are put around each instruction before those around it are made.
	options := append(e.guard.optionsFor(exprs), cel.CustomDecoratorV2(capture), cel.CostTrackerOptions(forget))
	if _, err := e.env.PlanProgram(all, options...); err != nil {
		return nil, fmt.Errorf("expression %w: %s", ErrCompile, shorten(err.Error()))
	}
	if len(elements) != len(exprs) {
		return nil, fmt.Errorf("expression %w: the planner failed", ErrCompile)
	}
	for i, element := range elements {
		planned = append(planned, &instructions{InterpretableV2: element, interruptible: canBeInterrupted(exprs[i])})
	}
	return planned, nil
}

// forget empties the cost tracker of a program that is never run: the observers in its
// instructions use the one of the program that runs them, but would keep it.
func forget(tracker *interpreter.CostTracker) error {
	*tracker = interpreter.CostTracker{}
	return nil
}

// eval evaluates instructions. It stops, with an error, not before they have cost limit, and not
// after the largest limit of the engine: within decides which of the limits applies.
func (e *engine) eval(ctx context.Context, i *instructions, values interpreter.Activation, limit uint64) (value ref.Val, cost uint64, err error) {
	var (
		program = e.within(limit)
		details *cel.EvalDetails
		input   = evaluation{Activation: values, instructions: i}
	)
	if i.interruptible {
		value, details, err = program.ContextEval(ctx, input)
	} else {
		value, details, err = program.Eval(input)
	}
	if actual := details.ActualCost(); actual != nil {
		cost = *actual
	}
	return value, cost, err
}

// evaluation brings the program of an engine what it is to evaluate.
type evaluation struct {
	interpreter.Activation
	instructions *instructions
}

// entrance stands where the placeholder stood.
type entrance struct {
	interpreter.InterpretableV2
}

func enter(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	return entrance{i}, nil
}

func (entrance) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	e, ok := frame.Activation.(evaluation)
	if !ok {
		return types.NewErr("there is nothing to evaluate")
	}
	return e.instructions.Exec(frame)
}

func (e entrance) Eval(vars interpreter.Activation) ref.Val { return e.Exec(interpreter.AsFrame(vars)) }
