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
)

// ResidualText is the text of a residual, also if it does not compile.
func ResidualText(r *Residual) string { return textOf(r.tree) }

// ResidualLength is the length of the text of a residual, as it is counted without making it.
func ResidualLength(r *Residual) int { return lengthOf(r.tree, MaxExpressionBytes) }

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

// Plain evaluates with the environment of this package, but as cel-go alone does: without guards,
// limits, and what makes errors of panics.
type Plain struct{ env *cel.Env }

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
	return &Plain{all}, &Plain{unknown}, nil
}

// Compile returns the evaluation of an expression.
func (p *Plain) Compile(text string) (func(Values) (bool, error), error) {
	checked, err := check(p.env, text)
	if err != nil {
		return nil, err
	}
	program, err := p.env.Program(checked)
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
