/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"
)

// NamedExpression is an expression that others refer to as variables.NAME, as in
// ValidatingAdmissionPolicy.
type NamedExpression struct {
	Name       string
	Expression string
}

// CompileWithVariables compiles an expression that yields a bool and may refer to named
// expressions, each of which may refer to those before it. A name stands for its
// expression: it is evaluated only where it is needed, and an error in it is an error
// there. Errors wrap ErrCompile and name the variable.
func (c *PartialCompiler) CompileWithVariables(variables []NamedExpression, text string) (expression *Expression, err error) {
	defer func() {
		if r := recover(); r != nil {
			expression, err = nil, fmt.Errorf("expression %w: the compiler failed", ErrCompile)
		}
	}()
	in := inliner{defined: map[string]*ast.AST{}}
	for _, v := range variables {
		if _, ok := in.defined[v.Name]; ok {
			return nil, fmt.Errorf("variable %q: expression %w: the name is used twice", v.Name, ErrCompile)
		}
		if !isIdentifier(v.Name) {
			return nil, fmt.Errorf("variable %q: expression %w: the name is no identifier", v.Name, ErrCompile)
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

// parseInto parses an expression, puts in what it refers to, and checks the result.
func (c *PartialCompiler) parseInto(in *inliner, text string) (*ast.AST, *cel.Ast, error) {
	if len(text) > MaxExpressionBytes {
		return nil, nil, fmt.Errorf("expression %w: it is longer than %d bytes", ErrCompile, MaxExpressionBytes)
	}
	if err := c.engine.guard.checkText(text); err != nil {
		return nil, nil, err
	}
	source := common.NewTextSource(text)
	parsed, issues := c.engine.env.ParseSource(source)
	if len(issues.Errors()) > 0 {
		return nil, nil, fmt.Errorf("expression %w: %s", ErrCompile, describe(issues))
	}
	native := parsed.NativeRep()
	if err := in.inline(native); err != nil {
		return nil, nil, err
	}
	if _, err := c.engine.guard.checkTypeWork(native.Expr()); err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	expr, err := ast.ExprToProto(native.Expr())
	if err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	info, err := ast.SourceInfoToProto(native.SourceInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	checked, issues := c.engine.env.Check(cel.ParsedExprToAstWithSource(&exprpb.ParsedExpr{Expr: expr, SourceInfo: info}, source))
	if len(issues.Errors()) > 0 {
		return nil, nil, fmt.Errorf("expression %w: %s", ErrCompile, describe(issues))
	}
	return native, checked, nil
}
