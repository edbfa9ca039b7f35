/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/pkg/memo"
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

// CompileWithVariables compiles an expression that yields a bool and may refer to named expressions as variables.NAME. Each
// named expression may refer to earlier ones. Every reference is replaced by the named expression, which is evaluated only
// where it is needed, and whose error is an error there. Errors wrap cel.ErrCompile. An error in a named expression is a
// VariableError. If all expressions together exceed the budget, the error wraps cel.ErrBudget.
func (c *Compiler) CompileWithVariables(variables []cel.NamedExpression, text string) (*Expression, error) {
	expression, _, err := c.CompileWithCost(variables, text)
	return expression, err
}

// CompileWithCost is CompileWithVariables. It also returns the cost of compiling, in the units of cel.CostLimit. The cost of a cached expression is the
// cost of compiling it. If there is an error, the cost covers the work until the error.
func (c *Compiler) CompileWithCost(variables []cel.NamedExpression, text string) (*Expression, uint64, error) {
	key, err := memo.KeyOf(variables, text)
	if err != nil {
		return nil, 0, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	cost := uint64(0)
	expression, err := c.expressions.Get(key, func() (expression *Expression, err error) {
		expression, cost, err = c.compile(expressions{variables: slices.Clone(variables), text: text})
		return expression, err
	})
	if err == nil {
		cost = expression.cost
	}
	return expression, cost, err
}

// Compiled returns the number of expressions that were compiled without an error so far.
func (c *Compiler) Compiled() uint64 { return c.expressions.Computed() }

// compile compiles an expression, and returns what that costs.
func (c *Compiler) compile(compiled expressions) (expression *Expression, cost uint64, err error) {
	budget := guard.NewBudget(1)
	defer func() { cost = budget.Cost() }()
	defer engine.Recover(&err)
	checked, err := c.check(compiled, budget)
	if err != nil {
		return nil, 0, err
	}
	if expression, err = c.expression(compiled, checked); err == nil {
		expression.cost = budget.Cost()
	}
	return expression, 0, err
}

// expressions are an expression and the named expressions that it may refer to.
type expressions struct {
	variables []cel.NamedExpression
	text      string
	// fields are the fields of request that have one value only; see ForRequests.
	fields map[string]string
}

// check parses an expression, replaces the references to its named expressions, and checks the types of the result.
func (c *Compiler) check(all expressions, budget *guard.Budget) (checked *celgo.Ast, err error) {
	in := inliner{defined: map[string]*ast.AST{}, sizes: map[string]int{}, parse: c.parse, fields: all.fields, budget: budget}
	for i, v := range all.variables {
		if in.defined[v.Name], err = c.define(&in, v); err != nil {
			return nil, &VariableError{Index: i, Name: v.Name, Err: err}
		}
	}
	parsed, _, err := c.parseInto(&in, all.text)
	if err != nil {
		return nil, err
	}
	return c.checkTypes(parsed)
}

// define parses and checks a named expression, whose name must be a new identifier.
func (c *Compiler) define(in *inliner, v cel.NamedExpression) (*ast.AST, error) {
	if _, ok := in.defined[v.Name]; ok {
		return nil, fmt.Errorf("expression %w: the name is used twice", cel.ErrCompile)
	}
	if !syntax.IsIdentifier(v.Name) {
		return nil, fmt.Errorf("expression %w: the name is no identifier", cel.ErrCompile)
	}
	parsed, size, err := c.parseInto(in, v.Expression)
	if err != nil {
		return nil, err
	}
	in.sizes[v.Name] = size
	definition := ast.Copy(parsed.NativeRep()) // the checker changes what it checks
	_, err = c.checkTypes(parsed)
	return definition, err
}

// parseInto parses an expression, and replaces the references to named expressions in it. It returns the size of the result in bytes, about, and an error if it
// takes too long to check the types of the result.
func (c *Compiler) parseInto(in *inliner, text string) (parsed *celgo.Ast, size int, err error) {
	if err := cel.CheckText(text, c.engine.Guard, in.budget); err != nil {
		return nil, 0, err
	}
	if parsed, err = c.parse(text); err != nil {
		return nil, 0, err
	}
	if size, err = in.inline(parsed.NativeRep(), len(text)); err != nil {
		return nil, 0, err
	}
	in.setFields(parsed.NativeRep())
	if err := in.check(c.engine.Guard, parsed.NativeRep().Expr()); err != nil {
		return nil, 0, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	return parsed, size, nil
}

func (c *Compiler) parse(text string) (*celgo.Ast, error) {
	parsed, issues := c.engine.Env.Parse(text)
	if len(issues.Errors()) > 0 {
		return nil, fmt.Errorf("expression %w: %s", cel.ErrCompile, engine.Describe(issues))
	}
	return parsed, nil
}

func (c *Compiler) checkTypes(parsed *celgo.Ast) (*celgo.Ast, error) {
	checked, err := engine.CheckTypes(c.engine.Env, parsed)
	if err != nil {
		return nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	return checked, nil
}

// check returns an error if an expression, with the named expressions in it, takes too long to compile, or if it exceeds the
// budget together with the expressions before it.
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
