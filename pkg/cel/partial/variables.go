/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// CompileWithVariables compiles an expression that yields a bool and may refer to named expressions. Each
// of them may refer to earlier ones. A name is replaced by its expression, which is evaluated only where it
// is needed, and whose error is an error there. Errors wrap cel.ErrCompile and name the variable.
func (c *Compiler) CompileWithVariables(variables []cel.NamedExpression, text string) (expression *Expression, err error) {
	defer func() {
		if r := recover(); r != nil {
			expression, err = nil, fmt.Errorf("expression %w: the compiler failed", cel.ErrCompile)
		}
	}()
	in := inliner{defined: map[string]*ast.AST{}}
	for _, v := range variables {
		if _, ok := in.defined[v.Name]; ok {
			return nil, fmt.Errorf("variable %q: expression %w: the name is used twice", v.Name, cel.ErrCompile)
		}
		if !isIdentifier(v.Name) {
			return nil, fmt.Errorf("variable %q: expression %w: the name is no identifier", v.Name, cel.ErrCompile)
		}
		parsed, _, err := c.parseInto(&in, v.Expression)
		if err != nil {
			return nil, fmt.Errorf("variable %q: %w", v.Name, err)
		}
		in.defined[v.Name] = parsed
	}
	_, checked, err := c.parseInto(&in, text)
	if err != nil {
		return nil, err
	}
	return c.expression(checked)
}

// parseInto parses an expression, replaces its references to named expressions, and checks the result.
func (c *Compiler) parseInto(in *inliner, text string) (*ast.AST, *celgo.Ast, error) {
	if len(text) > cel.MaxExpressionBytes {
		return nil, nil, cel.ErrTooLong
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
	if err := guard.CheckPatterns(native.Expr()); err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	if _, err := e.Guard.CheckTypeWork(native.Expr()); err != nil {
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
