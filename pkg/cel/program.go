/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	engine       *engine
	instructions *instructions
	reads        map[Variable]bool
}

// Reads reports whether the value may depend on the variable.
func (p *Program) Reads(v Variable) bool { return p.reads[v] }

// ReadsOnly reports whether the value depends on no other variable.
func (p *Program) ReadsOnly(v Variable) bool {
	for other, reads := range p.reads {
		if reads && other != v {
			return false
		}
	}
	return true
}

// Values holds what the variables are. A variable that is not in it is unknown, and
// reading it is an error. Values are what JSON decodes to (map[string]any, []any,
// string, int64, float64, bool, nil) or CEL values.
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
	ErrCost = errors.New("cost limit exceeded")
	// ErrEvaluation is wrapped by every other error of an evaluation.
	ErrEvaluation = errors.New("evaluation failed")
)

// Eval evaluates the program within CostLimit and until ctx ends. It returns what the
// evaluation cost, also when it fails.
func (p *Program) Eval(ctx context.Context, values Values) (result bool, cost uint64, err error) {
	return p.eval(ctx, values)
}

func (p *Program) eval(ctx context.Context, values interpreter.Activation) (result bool, cost uint64, err error) {
	value, cost, err := p.engine.result(ctx, p.instructions, values, CostLimit)
	if err != nil {
		return false, cost, err
	}
	b, ok := value.(types.Bool)
	if !ok {
		return false, cost, fmt.Errorf("%w: the value is not a bool", ErrEvaluation)
	}
	return bool(b), cost, nil
}

// result evaluates instructions within one of the limits of the engine and until ctx ends. Errors wrap
// ErrCost or ErrEvaluation.
func (e *engine) result(ctx context.Context, i *instructions, values interpreter.Activation, limit uint64) (value ref.Val, cost uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = nil, fmt.Errorf("%w: the evaluator failed", ErrEvaluation)
		}
	}()
	if ctx.Err() != nil { // a simple expression does not look at it while it is evaluated
		return nil, 0, fmt.Errorf("%w: %w", ErrEvaluation, ctx.Err())
	}
	value, cost, err = e.eval(ctx, i, values, limit)
	switch {
	case ctx.Err() != nil: // also where an || has absorbed the error of a macro
		return nil, cost, fmt.Errorf("%w: %w", ErrEvaluation, ctx.Err())
	case err != nil && cost > limit:
		return nil, cost, fmt.Errorf("%w: more than %d", ErrCost, limit)
	case err != nil:
		return nil, cost, &failure{shorten(err.Error())}
	}
	return value, cost, nil
}
