/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Failed is the outcome of an expression that could not be evaluated.
func Failed(err error) Outcome { return Outcome{decided: true, err: err} }

// NeverTrue reports whether the residual is sure to be false or an error, whatever the
// unknown variables are. It may miss some, which are then false or an error later.
func (r *Residual) NeverTrue() bool { return neverTrue(r.tree) }

func neverTrue(n *node) bool {
	switch {
	case n.kind == constantNode:
		return n.value != types.True
	case n.kind == callNode && n.name == operators.LogicalAnd:
		return slices.ContainsFunc(n.args, neverTrue)
	case n.kind == callNode && n.name == operators.LogicalOr:
		return !slices.ContainsFunc(n.args, func(arg *node) bool { return !neverTrue(arg) })
	}
	return isErrorTerm(n)
}

// isErrorTerm reports whether a node is what errorTerm returns.
func isErrorTerm(n *node) bool {
	if n.kind != callNode || n.name != "dyn" || len(n.args) != 1 {
		return false
	}
	missing := n.args[0]
	return missing.kind == callNode && missing.name == operators.Index && missing.args[0].kind == mapNode && len(missing.args[0].args) == 0
}

// ReadsRequestField reports whether the value may depend on a field of request.
func (e *Expression) ReadsRequestField(name string) bool {
	reads := &fields{}
	reads.read(e.tree)
	return reads.all || reads.byName[name] != nil
}
