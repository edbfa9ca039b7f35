/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"errors"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// ResidualText is the text of a residual, also if it does not compile.
func ResidualText(r *Residual) string { return textOf(r.tree) }

// ResidualLength is the length of the text of a residual, as it is counted without making it.
func ResidualLength(r *Residual) int { return lengthOf(r.tree, MaxExpressionBytes) }

// KeptPrograms is the number of the programs and failures that a compiler keeps.
func KeptPrograms(c *Compiler) int { return c.programs.Len() }

// SameTree reports whether two expressions are the same, types included.
func SameTree(a, b *Expression) bool { return sameTree(a.tree, b.tree) }

func sameTree(a, b *node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.kind != b.kind || a.name != b.name || a.test != b.test || !slices.Equal(a.binders, b.binders) || !maps.Equal(a.optional, b.optional) ||
		a.typ.String() != b.typ.String() || !maps.Equal(a.free, b.free) {
		return false
	}
	if a.kind == constantNode && (a.value.Type() != b.value.Type() || a.value.Equal(b.value) != types.True) {
		return false
	}
	return sameTree(a.target, b.target) && slices.EqualFunc(a.args, b.args, sameTree)
}

// Plain evaluates with the environment of this package, but as cel-go alone does: without limits,
// what makes errors of panics, and all guards but those whose errors another error may hide, so
// that no message would tell why the two differ: what may be a key, and what may be a quantity.
type Plain struct {
	env   *cel.Env
	guard *guard
}

func (p *Plain) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := i.(type) {
	case interpreter.InterpretableCall:
		if name := node.Function(); name == "quantity" || name == "isQuantity" {
			return p.guard.decorate(i)
		}
	case interpreter.InterpretableConstructor:
		return contained(i)
	}
	return i, nil
}

// NewPlain makes one for policies and one for conditions.
func NewPlain() (policies, conditions *Plain, err error) {
	all, err := newEnvironment(nil, requestVariables, unknownVariables)
	if err != nil {
		return nil, nil, err
	}
	unknown, err := newEnvironment(nil, unknownVariables)
	if err != nil {
		return nil, nil, err
	}
	policyGuard, err := newGuard(all)
	if err != nil {
		return nil, nil, err
	}
	conditionGuard, err := newGuard(unknown)
	if err != nil {
		return nil, nil, err
	}
	return &Plain{all, policyGuard}, &Plain{unknown, conditionGuard}, nil
}

// Compile returns the evaluation of an expression.
func (p *Plain) Compile(text string) (func(Values) (bool, error), error) {
	checked, err := check(p.env, p.guard, text)
	if err != nil {
		return nil, err
	}
	program, err := p.env.Program(checked, cel.CustomDecoratorV2(p.decorate))
	if err != nil {
		return nil, err
	}
	return func(values Values) (bool, error) {
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
