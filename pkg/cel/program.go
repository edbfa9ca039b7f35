/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	engine       *engine.Engine
	instructions *engine.Instructions
	reads        map[Variable]bool
	// keys are the keys that the expression reads by their names. It is nil if the expression also reads keys that come from data.
	keys map[string]bool
}

// Program returns a program for a checked expression, which must yield a bool. Errors wrap ErrCompile.
func (e *Environment) Program(checked *cel.Ast) (*Program, error) {
	planned, err := planResult(e.engine, checked, cel.BoolType)
	if err != nil {
		return nil, err
	}
	return &Program{engine: e.engine, instructions: planned, reads: e.variablesOf(checked.NativeRep()), keys: e.keysOf(checked.NativeRep())}, nil
}

// keysOf returns the keys that an expression reads by their names, or nil if it also reads others: an error must not quote what comes from data. A
// literal in a condition may come from data, because partial evaluation makes literals of values. In a policy it is from the author.
func (e *Environment) keysOf(checked *ast.AST) map[string]bool {
	keys, isSure := map[string]bool{}, true
	ast.PostOrderVisit(checked.Expr(), ast.NewExprVisitor(func(part ast.Expr) {
		switch {
		case part.Kind() == ast.SelectKind:
			keys[part.AsSelect().FieldName()] = true
		case part.Kind() == ast.CallKind && part.AsCall().FunctionName() == operators.Index:
			index := part.AsCall().Args()[1]
			//guard:cel-keys-of-authors
			if index.Kind() != ast.LiteralKind || !e.variables[string(Request)] {
				isSure = false
				return
			}
			keys[fmt.Sprint(index.AsLiteral().Value())] = true
		}
	}))
	if !isSure {
		return nil
	}
	return keys
}

// Failure returns an error of an evaluation of the program, or of a part of it.
func (p *Program) Failure(err error) *engine.Failure {
	failure := &engine.Failure{Text: engine.Shorten(err.Error())}
	if key, ok := strings.CutPrefix(failure.Text, missingKey+": "); ok && p.keys[key] {
		failure.Key = key
	}
	return failure
}

// planResult plans an expression. It returns an error if the expression does not yield the type result.
func planResult(e *engine.Engine, checked *cel.Ast, result *cel.Type) (*engine.Instructions, error) {
	if !checked.OutputType().IsExactType(result) {
		return nil, fmt.Errorf("expression %w: it must yield %s, but yields %s", ErrCompile, result, checked.OutputType())
	}
	native := checked.NativeRep()
	planned, err := e.Plan(native, []ast.Expr{native.Expr()})
	if err != nil {
		return nil, err
	}
	return planned[0], nil
}

// variablesOf returns the variables of the environment that an expression may read. A variable of a macro with the same
// name counts as the variable of the environment, so the result may have a variable that the expression does not read.
func (e *Environment) variablesOf(checked *ast.AST) map[Variable]bool {
	reads := map[Variable]bool{}
	for _, reference := range checked.ReferenceMap() {
		if e.variables[reference.Name] {
			reads[Variable(reference.Name)] = true
		}
	}
	return reads
}

// Instructions returns the planned expression.
func (p *Program) Instructions() *engine.Instructions { return p.instructions }

// Reads reports whether the value of the expression may depend on the variable.
func (p *Program) Reads(v Variable) bool { return p.reads[v] }

// ReadsOnly reports whether the value of the expression depends on no other variables than the given ones.
func (p *Program) ReadsOnly(variables ...Variable) bool {
	for other, reads := range p.reads {
		if reads && !slices.Contains(variables, other) {
			return false
		}
	}
	return true
}

// Values has the values of variables. A variable that is not in it is unknown, and
// reading it is an error. A value is either data as decoded from JSON (map[string]any, []any,
// string, int64, float64, bool, nil) or a CEL value.
type Values map[Variable]any

var _ interpreter.Activation = Values(nil)

// ResolveName implements the interface through which CEL reads variables.
func (v Values) ResolveName(name string) (any, bool) {
	value, ok := v[Variable(name)]
	return value, ok
}

// Parent implements the interface through which CEL reads variables.
func (v Values) Parent() interpreter.Activation { return nil }

var (
	// ErrCost says that an evaluation exceeded its cost limit.
	ErrCost = engine.ErrCost
	// ErrEvaluation is wrapped by every other error of an evaluation.
	ErrEvaluation = engine.ErrEvaluation
)

// Eval evaluates the program within CostLimit and until ctx ends. It also returns the cost of the evaluation, even if the
// evaluation fails. Errors wrap ErrCost or ErrEvaluation.
func (p *Program) Eval(ctx context.Context, values Values) (result bool, cost uint64, err error) {
	return p.EvalActivation(ctx, values)
}

// EvalActivation is Eval for values that are not in a map.
func (p *Program) EvalActivation(ctx context.Context, values interpreter.Activation) (result bool, cost uint64, err error) {
	value, cost, err := evaluate(ctx, p.engine, p.instructions, values, CostLimit)
	if failed, ok := err.(*engine.Failure); ok { //nolint:errorlint // as evaluate returns it
		return false, cost, p.Failure(errors.New(failed.Text))
	}
	if err != nil {
		return false, cost, err
	}
	b, ok := value.(types.Bool)
	if !ok {
		return false, cost, fmt.Errorf("%w: the value is not a bool", ErrEvaluation)
	}
	return bool(b), cost, nil
}

// evaluate evaluates instructions within a limit and until ctx ends. Errors wrap ErrCost or ErrEvaluation.
func evaluate(ctx context.Context, e *engine.Engine, i *engine.Instructions, values interpreter.Activation, limit uint64) (value ref.Val, cost uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = nil, fmt.Errorf("%w: the evaluator failed", ErrEvaluation)
		}
	}()
	if ctx.Err() != nil { // a simple expression does not look at it while it is evaluated
		return nil, 0, fmt.Errorf("%w: %w", ErrEvaluation, ctx.Err())
	}
	value, cost, err = e.Eval(ctx, i, values, limit)
	switch {
	case ctx.Err() != nil: // also where an || has absorbed the error of a macro
		return nil, cost, fmt.Errorf("%w: %w", ErrEvaluation, ctx.Err())
	case err != nil && cost > limit:
		return nil, cost, fmt.Errorf("%w: more than %d", ErrCost, limit)
	case err != nil:
		return nil, cost, &engine.Failure{Text: engine.Shorten(err.Error())}
	}
	return value, cost, nil
}
