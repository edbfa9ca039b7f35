/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"errors"
	"maps"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// ResidualText is the text of a residual, also if it does not compile.
func ResidualText(r *Residual) string { return r.tree.Text() }

// ResidualLength is the length of the text of a residual, as it is counted without making it.
func ResidualLength(r *Residual) int { return r.tree.Length(cel.MaxExpressionBytes) }

// TextIteratingLast is the part of AdmissionText that orders operands.
func TextIteratingLast(e *Expression, variables ...cel.Variable) string {
	return iteratingLast(e.tree, namesOf(variables)).Text()
}

// SameTree reports whether two expressions are the same, types included.
func SameTree(a, b *Expression) bool { return sameTree(a.tree, b.tree) }

func sameTree(a, b *syntax.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.Name != b.Name || a.IsTest != b.IsTest || !slices.Equal(a.Binders, b.Binders) || !maps.Equal(a.Optional, b.Optional) ||
		a.Type.String() != b.Type.String() || !maps.Equal(a.Free, b.Free) {
		return false
	}
	if a.Kind == syntax.ConstantNode && (a.Value.Type() != b.Value.Type() || a.Value.Equal(b.Value) != types.True) {
		return false
	}
	return sameTree(a.Target, b.Target) && slices.EqualFunc(a.Args, b.Args, sameTree)
}

// Plain evaluates with the environment of this package, but as cel-go alone does: without limits,
// what makes errors of panics, and all guards but those whose errors another error may hide, so
// that no message would tell why the two differ: what may be a key, and what may be a quantity.
type Plain struct {
	env   *celgo.Env
	guard *guard.Guard
}

func (p *Plain) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := i.(type) {
	case interpreter.InterpretableCall:
		if name := node.Function(); name == "quantity" || name == "isQuantity" {
			return p.guard.CheckCalls(i)
		}
	case interpreter.InterpretableConstructor:
		return guard.ContainPanics(i)
	}
	return i, nil
}

// NewPlain makes one for policies and one for conditions.
func NewPlain() (policies, conditions *Plain, err error) {
	all, err := cel.NewPolicyEnvironment()
	if err != nil {
		return nil, nil, err
	}
	unknown, err := cel.NewConditionEnvironment()
	if err != nil {
		return nil, nil, err
	}
	return &Plain{all.Engine().Env, all.Engine().Guard}, &Plain{unknown.Engine().Env, unknown.Engine().Guard}, nil
}

// Compile returns the evaluation of an expression.
func (p *Plain) Compile(text string) (func(cel.Values) (bool, error), error) {
	checked, err := engine.Check(p.env, p.guard, text)
	if err != nil {
		return nil, err
	}
	program, err := p.env.Program(checked, celgo.CustomDecoratorV2(p.decorate))
	if err != nil {
		return nil, err
	}
	return func(values cel.Values) (bool, error) {
		value, _, err := program.Eval(values)
		if err != nil {
			return false, err
		}
		if b, ok := value.(types.Bool); ok {
			return bool(b), nil
		}
		return false, errors.New("the value is not a bool")
	}, nil
}
