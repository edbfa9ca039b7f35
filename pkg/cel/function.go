/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// Type is a type of CEL.
type Type = cel.Type

// The types for the variables and the result of a Signature.
var (
	BoolType    = cel.BoolType
	StringType  = cel.StringType
	DynamicType = cel.DynType
)

// Signature has the variables, the result type and the cost limit of expressions that are not conditions, such as
// those of FieldPermissionMappings.
type Signature struct {
	// Variables are the variables that the expressions may read.
	Variables map[Variable]*Type
	// Result is the type that every expression must have.
	Result *Type
	// CostLimit bounds one evaluation, in the units of the constant CostLimit.
	CostLimit uint64
}

// FunctionCompiler compiles expressions with one signature. They can use the same CEL functions as conditions, within the
// same bounds, but only the variables of the signature. It is safe for concurrent use.
type FunctionCompiler struct {
	engine    *engine.Engine
	signature Signature
}

// NewFunctionCompiler makes a FunctionCompiler.
func NewFunctionCompiler(signature Signature) (*FunctionCompiler, error) {
	env, err := newEnv(nil, conditionTypes, signature.Variables)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(env, signature.CostLimit)
	if err != nil {
		return nil, err
	}
	return &FunctionCompiler{engine: e, signature: signature}, nil
}

// Function is a compiled expression. It is immutable and safe for concurrent use.
type Function struct {
	compiler     *FunctionCompiler
	instructions *engine.Instructions
}

// Compile compiles an expression, and charges the work to the budget. Errors wrap ErrCompile and show the place of the
// mistake. They also wrap ErrBudget if the budget is spent.
func (c *FunctionCompiler) Compile(text string, budget *Budget) (f *Function, err error) {
	defer engine.Recover(&err)
	if err := CheckText(text, c.engine.Guard, budget); err != nil {
		return nil, err
	}
	checked, err := checkWithin(budget, c.engine.Env, c.engine.Guard, text)
	if err != nil {
		return nil, fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	planned, err := planResult(c.engine, checked, c.signature.Result)
	if err != nil {
		return nil, err
	}
	return &Function{compiler: c, instructions: planned}, nil
}

// Call evaluates the function within its cost limit and until ctx ends. The result is a Go value of
// the type in the signature. Errors wrap ErrCost or ErrEvaluation, and may quote values.
func (f *Function) Call(ctx context.Context, values Values) (any, error) {
	result, _, err := evaluate(ctx, f.compiler.engine, f.instructions, values, f.compiler.signature.CostLimit)
	if err != nil {
		return nil, err
	}
	return result.Value(), nil
}
