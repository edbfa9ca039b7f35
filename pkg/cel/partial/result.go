/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// Result is the result of a partial evaluation: true, false, an error, or a residual over the unknown
// variables.
type Result struct {
	decided  bool
	value    bool
	err      error
	residual *Residual
	cost     uint64
	stopped  bool
}

// Cost returns the cost of the partial evaluation, in the units of cel.CostLimit.
func (o Result) Cost() uint64 { return o.cost }

// IsTrue reports whether the expression is true whatever the unknown variables are.
func (o Result) IsTrue() bool { return o.decided && o.err == nil && o.value }

// IsFalse reports whether the expression is false whatever the unknown variables are.
func (o Result) IsFalse() bool { return o.decided && o.err == nil && !o.value }

// Err returns the error of the expression, whatever the unknown variables are, or the error that stopped the partial
// evaluation (Stopped). It returns nil if there is a value or a residual.
func (o Result) Err() error { return o.err }

// Stopped reports whether the error is an error of the partial evaluation only, which exceeded a bound, failed, or could not
// write the residual. The expression may have a value when all variables are known.
func (o Result) Stopped() bool { return o.stopped }

// Residual returns the residual, or nil if the expression is decided.
func (o Result) Residual() *Residual { return o.residual }

// Residual is an expression over unknown variables only. Its text is made when it is first read, because
// enforcement in the same process does not need it.
type Residual struct {
	tree     *syntax.Node
	compiler *cel.Compiler
	once     sync.Once
	text     string
	cost     uint64
	err      error
}

// Text returns the source text of the residual, which compiles in the environment of conditions. It returns an error if the
// text does not compile or is longer than cel.MaxExpressionBytes. The caller must then fail closed.
func (r *Residual) Text() (string, error) {
	r.once.Do(func() {
		text, ok := r.tree.BoundedText(cel.MaxExpressionBytes)
		err := cel.ErrTooLong
		if ok {
			_, r.cost, err = r.compiler.CompileWithCost(text)
		}
		if err != nil {
			text, err = "", fmt.Errorf("the residual cannot be expressed: %w", err)
		}
		r.text, r.err = text, err
	})
	return r.text, r.err
}

// Tree returns the tree of the residual. It must not be changed.
func (r *Residual) Tree() *syntax.Node { return r.tree }

// TextCost makes the text if Text has not made it yet, and returns the cost of compiling it, in the units of cel.CostLimit. The
// cost is 0 if the text is too long.
func (r *Residual) TextCost() uint64 {
	_, _ = r.Text()
	return r.cost
}

// Failed returns the result of an expression that could not be evaluated.
func Failed(err error) Result { return Result{decided: true, err: err} }

// NeverTrue reports whether the residual is false or an error for all values of the unknown variables. It
// may return false for such a residual, which is then false or an error when it is evaluated.
func (r *Residual) NeverTrue() bool { return neverTrue(r.tree) }

func neverTrue(n *syntax.Node) bool {
	switch {
	case n.Kind == syntax.ConstantNode:
		return n.Value != types.True
	case n.Kind == syntax.CallNode && n.Name == operators.LogicalAnd:
		return slices.ContainsFunc(n.Args, neverTrue)
	case n.Kind == syntax.CallNode && n.Name == operators.LogicalOr:
		//guard:never-true-one-two
		return !slices.ContainsFunc(n.Args, func(arg *syntax.Node) bool { return !neverTrue(arg) })
	}
	return n.IsErrorTerm()
}
