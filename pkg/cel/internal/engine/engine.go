/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// Engine plans and evaluates the expressions of one environment. It is immutable and safe for
// concurrent use.
//
// A cel.Program has a table of all functions and other data that are several times as large as the
// expression of a policy. The engine has one program for each cost limit, which runs the instructions
// of any expression. Only the instructions of an expression are kept.
type Engine struct {
	// Env is the environment in which expressions are parsed and checked.
	Env *cel.Env
	// Guard bounds the expressions.
	Guard *guard.Guard
	// programs are in the order of their limits.
	programs []limitedProgram
}

// limitedProgram is a program that stops an evaluation when it has cost more than a limit.
type limitedProgram struct {
	cel.Program
	limit uint64
}

// Instructions are a planned expression. They are immutable and safe for concurrent use.
type Instructions struct {
	interpreter.InterpretableV2
	// interruptible says that the expression has macros, or calls that can take long, between which an
	// evaluation can end. An evaluation of an expression without them does not look at its context.
	interruptible bool
}

// New makes an engine whose evaluations can have the given cost limits, from the smallest to the
// largest.
func New(env *cel.Env, limits ...uint64) (*Engine, error) {
	g, err := guard.New(env)
	if err != nil {
		return nil, err
	}
	placeholder, err := Check(env, g, "true")
	if err != nil {
		return nil, fmt.Errorf("building the CEL evaluator: %w", err)
	}
	e := &Engine{Env: env, Guard: g}
	for _, limit := range limits {
		program, err := env.Program(placeholder, append(g.Options(), cel.CustomDecoratorV2(withDispatcher), cel.CostLimit(limit))...)
		if err != nil {
			return nil, fmt.Errorf("building the CEL evaluator: %w", err)
		}
		e.programs = append(e.programs, limitedProgram{Program: program, limit: limit})
	}
	return e, nil
}

// within returns the program with the smallest limit that is not below the given one, or the one
// with the largest limit.
func (e *Engine) within(limit uint64) cel.Program {
	for _, p := range e.programs {
		if limit <= p.limit {
			return p.Program
		}
	}
	return e.programs[len(e.programs)-1].Program
}

// Plan returns instructions for each of exprs, which are parts of a checked expression. Errors wrap ErrCompile.
func (e *Engine) Plan(checked *ast.AST, exprs []ast.Expr) (planned []*Instructions, err error) {
	defer func() {
		if r := recover(); r != nil {
			planned, err = nil, fmt.Errorf("expression %w: the planner failed", ErrCompile)
		}
	}()
	id := ast.MaxID(checked) + 1
	charged := guard.ChargeKeys(exprs, id+1)
	list := ast.NewExprFactory().NewList(id, charged, nil)
	var elements []interpreter.InterpretableV2
	capture := func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if all, ok := i.(interpreter.InterpretableConstructor); ok && i.ID() == id {
			elements = all.InitVals()
		}
		return i, nil
	}
	all := ast.NewCheckedAST(ast.NewAST(list, checked.SourceInfo()), checked.TypeMap(), checked.ReferenceMap())
	// The observers of costs are put around each instruction before those around it are made.
	options := append(e.Guard.OptionsFor(charged), cel.CustomDecoratorV2(capture), cel.CostTrackerOptions(forget))
	if _, err := e.Env.PlanProgram(all, options...); err != nil {
		return nil, fmt.Errorf("expression %w: %s", ErrCompile, Shorten(err.Error()))
	}
	if len(elements) != len(exprs) {
		return nil, fmt.Errorf("expression %w: the planner failed", ErrCompile)
	}
	for i, element := range elements {
		planned = append(planned, &Instructions{InterpretableV2: element, interruptible: guard.CanBeInterrupted(exprs[i])})
	}
	return planned, nil
}

// forget empties the cost tracker of a program that only plans instructions and is never run. The instructions
// use the cost tracker of the program that runs them, but would keep this one in memory.
func forget(tracker *interpreter.CostTracker) error {
	*tracker = interpreter.CostTracker{}
	return nil
}

// Eval evaluates instructions within the smallest limit of the engine that is not below the given
// one, or within the largest. It returns the cost also if the evaluation fails.
func (e *Engine) Eval(ctx context.Context, i *Instructions, values interpreter.Activation, limit uint64) (value ref.Val, cost uint64, err error) {
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

// evaluation has the values of variables, and the instructions that a program of the engine runs with them.
type evaluation struct {
	interpreter.Activation
	instructions *Instructions
}

// dispatcher replaces the instruction of the placeholder in a program: it runs the instructions in the evaluation.
type dispatcher struct {
	interpreter.InterpretableV2
}

func withDispatcher(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	return dispatcher{i}, nil
}

func (dispatcher) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	e, ok := frame.Activation.(evaluation)
	if !ok {
		return types.NewErr("there is nothing to evaluate")
	}
	return e.instructions.Exec(frame)
}

func (d dispatcher) Eval(vars interpreter.Activation) ref.Val {
	return d.Exec(interpreter.AsFrame(vars))
}

var (
	// ErrCompile is wrapped by every error that says why an expression cannot be used.
	ErrCompile = errors.New("does not compile")
	// ErrCost says that an evaluation exceeded its cost limit.
	ErrCost = errors.New("cost limit exceeded")
	// ErrEvaluation is wrapped by every other error of an evaluation.
	ErrEvaluation = errors.New("evaluation failed")
)

// Failure is the error of an evaluation. Text comes from the CEL library, which quotes values of the
// data. It wraps ErrEvaluation.
type Failure struct {
	Text string
	// Key is the key that is missing, if it is a name that the expression has. Otherwise it is empty.
	Key string
}

func (f *Failure) Error() string { return ErrEvaluation.Error() + ": " + f.Text }

// Unwrap returns ErrEvaluation.
func (f *Failure) Unwrap() error { return ErrEvaluation }
