/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// VariableError says which variable of CompileWithVariables cannot be used.
type VariableError struct {
	// Index is its place among the variables, and Name its name.
	Index int
	Name  string
	// Err wraps cel.ErrCompile.
	Err error
}

// Error names the variable.
func (e *VariableError) Error() string { return fmt.Sprintf("variable %q: %s", e.Name, e.Err) }

// Unwrap returns Err.
func (e *VariableError) Unwrap() error { return e.Err }

// CompileWithVariables compiles an expression that yields a bool and may refer to named expressions. Each
// of them may refer to earlier ones. A name is replaced by its expression, which is evaluated only where it
// is needed, and whose error is an error there. Errors wrap cel.ErrCompile. The error about a variable is a
// VariableError, and the error beyond the budget of all expressions together wraps cel.ErrBudget.
func (c *Compiler) CompileWithVariables(variables []cel.NamedExpression, text string) (*Expression, error) {
	expression, _, err := c.CompileWithCost(variables, text)
	return expression, err
}

// CompileWithCost is CompileWithVariables. It also returns what compiling costs, in the units of cel.CostLimit. An expression
// that does not compile costs what was compiled until then.
func (c *Compiler) CompileWithCost(variables []cel.NamedExpression, text string) (expression *Expression, cost uint64, err error) {
	budget := guard.NewBudget(1)
	defer func() {
		if r := recover(); r != nil {
			expression, err = nil, fmt.Errorf("expression %w: the compiler failed", cel.ErrCompile)
		}
		cost = budget.Cost()
	}()
	compiled := expressions{variables: slices.Clone(variables), text: text}
	checked, err := c.check(compiled, budget)
	if err != nil {
		return nil, 0, err
	}
	expression, err = c.expression(compiled, checked)
	return expression, 0, err
}

// expressions are an expression and the named expressions that it may refer to.
type expressions struct {
	variables []cel.NamedExpression
	text      string
	// fields are the fields of request that have one value only; see ForRequests.
	fields map[string]string
}

// check parses and checks an expression with its named expressions put in.
func (c *Compiler) check(all expressions, budget *guard.Budget) (checked *celgo.Ast, err error) {
	in := inliner{defined: map[string]*ast.AST{}, fields: all.fields, budget: budget}
	for i, v := range all.variables {
		if in.defined[v.Name], err = c.define(&in, v); err != nil {
			return nil, &VariableError{Index: i, Name: v.Name, Err: err}
		}
	}
	_, checked, err = c.parseInto(&in, all.text)
	return checked, err
}

// define parses and checks a variable.
func (c *Compiler) define(in *inliner, v cel.NamedExpression) (*ast.AST, error) {
	if _, ok := in.defined[v.Name]; ok {
		return nil, fmt.Errorf("expression %w: the name is used twice", cel.ErrCompile)
	}
	if !isIdentifier(v.Name) {
		return nil, fmt.Errorf("expression %w: the name is no identifier", cel.ErrCompile)
	}
	parsed, _, err := c.parseInto(in, v.Expression)
	return parsed, err
}

// parseInto parses an expression, puts in what it refers to, and checks the result.
func (c *Compiler) parseInto(in *inliner, text string) (*ast.AST, *celgo.Ast, error) {
	if len(text) > cel.MaxExpressionBytes {
		return nil, nil, cel.ErrTooLong
	}
	if err := in.budget.SpendText(text); err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	e := c.environment.Engine()
	if err := engine.CheckText(e.Guard, text); err != nil {
		return nil, nil, err
	}
	source := common.NewTextSource(text)
	parsed, issues := e.Env.ParseSource(source)
	if len(issues.Errors()) > 0 {
		return nil, nil, fmt.Errorf("expression %w: %s", cel.ErrCompile, engine.Describe(issues))
	}
	native := parsed.NativeRep()
	if err := in.inline(native); err != nil {
		return nil, nil, err
	}
	in.setFields(native)
	if err := in.check(e.Guard, native.Expr()); err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	expr, err := ast.ExprToProto(native.Expr())
	if err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	info, err := ast.SourceInfoToProto(native.SourceInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	checked, issues := e.Env.Check(celgo.ParsedExprToAstWithSource(&exprpb.ParsedExpr{Expr: expr, SourceInfo: info}, source))
	if len(issues.Errors()) > 0 {
		return nil, nil, fmt.Errorf("expression %w: %s", cel.ErrCompile, engine.Describe(issues))
	}
	return native, checked, nil
}

// check refuses an expression that takes too long to compile with what was put in, or with those before it.
func (in *inliner) check(g *guard.Guard, e ast.Expr) error {
	if err := guard.CheckPatterns(e); err != nil {
		return err
	}
	work, err := g.CheckTypeWork(e)
	if err != nil {
		return err
	}
	return in.budget.Spend(work)
}
