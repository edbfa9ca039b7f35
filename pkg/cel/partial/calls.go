/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// comparing are the operators and functions that have the same result for an integer and for the same number with a fraction of zero.
var comparing = sets.New(
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.Equals, operators.NotEquals, operators.In,
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.OptSelect, "optional.none", "optional.of", "hasValue", "value", "orValue", "or", "size", "dyn",
	"contains", "startsWith", "endsWith", "matches", "lowerAscii", "upperAscii", "trim", "sets.contains", "sets.equivalent", "sets.intersects",
)

// CallsOther returns the name of an operator or a function in the expression that does more than read, compare and search values, or an
// empty string if there is none. Without one, the result is the same whether a number is an integer or has a fraction of zero.
func (e *Expression) CallsOther() string {
	for n := range e.tree.all {
		isIndex := n.kind == callNode && (n.name == operators.Index || n.name == operators.OptIndex) && n.args[1].kind == constantNode
		if n.kind == callNode && !comparing.Has(n.name) && !isIndex {
			return n.name
		}
	}
	return ""
}

// Iterates returns the name of a macro in the expression that visits the elements of a list or a map, or an empty string if there is none. A list whose
// elements are in the expression does not count.
func (e *Expression) Iterates() string { return iterates(e.tree) }

func iterates(tree *node) string {
	for n := range tree.all {
		if n.kind == macroNode && n.target.kind != listNode {
			return n.name
		}
	}
	return ""
}

// asServiceAccount is the function of the authorizer that makes checks for a service account in place of the user. The namespace is its first argument.
const asServiceAccount = "serviceAccount"

// ChecksForOthers reports whether the expression may make checks for a service account outside a namespace. In the namespace are only those whose namespace is
// written as this text, or as request.namespace. If the namespace is empty, every service account is outside.
func (e *Expression) ChecksForOthers(namespace string) bool {
	for n := range e.tree.all {
		//guard:checks-others-policies-cluster
		if n.kind == callNode && n.name == asServiceAccount && (namespace == "" || !isNamespace(n.args[0], namespace)) {
			return true
		}
	}
	return false
}

// isNamespace reports whether a part is a text, or request.namespace.
func isNamespace(n *node, text string) bool {
	if n.kind == constantNode {
		//guard:checks-others-constants
		return n.value.Equal(types.String(text)) == types.True
	}
	//guard:checks-others-other-variables
	return n.kind == selectNode && !n.test && n.name == "namespace" && n.target.kind == variableNode && n.target.name == string(cel.Request)
}

// ComputesKeys reports whether the expression makes a map with a key that is not a literal. Proviso makes an error of a key that is a list or a
// map, and cel-go does not.
func (e *Expression) ComputesKeys() bool {
	for n := range e.tree.all {
		for i, arg := range n.args {
			if n.kind == mapNode && i%2 == 0 && arg.kind != constantNode {
				return true
			}
		}
	}
	return false
}

// costOfCheck is the cost of an authorization check in the library of Kubernetes.
const costOfCheck = 350_000

// MinCost returns what the authorization checks of each evaluation cost together, in the units of cel.CostLimit, or less. All other work
// counts as 0. An evaluation that ends in an error may cost less.
func (e *Expression) MinCost() uint64 { return costOfCheck * minChecks(e.tree) }

// minChecks returns the number of checks that each evaluation of a node makes, or less.
func minChecks(n *node) (checks uint64) {
	switch {
	case n.kind == macroNode: // it may have no round
		return minChecks(n.target)
	case n.kind != callNode:
	case isLogic(n): // one operand decides
		return min(minChecks(n.args[0]), minChecks(n.args[1]))
	case n.name == operators.Conditional:
		return minChecks(n.args[0]) + min(minChecks(n.args[1]), minChecks(n.args[2]))
	case n.name == operators.Index, n.name == operators.OptIndex, n.name == operators.OptSelect: // an index of an optional that is none is not evaluated
		return minChecks(n.args[0])
	case n.name == "or", n.name == "orValue":
		return minChecks(n.target)
	case n.name == operators.In && isEmptyAggregate(n.args[1]): // the planner makes it false
		return 0
	case n.name == "check":
		checks = 1
	}
	for part := range n.parts {
		checks += minChecks(part)
	}
	return checks
}
