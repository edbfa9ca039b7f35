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
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
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
	for n := range e.tree.All {
		isIndex := n.Kind == syntax.CallNode && (n.Name == operators.Index || n.Name == operators.OptIndex) && n.Args[1].Kind == syntax.ConstantNode
		if n.Kind == syntax.CallNode && !comparing.Has(n.Name) && !isIndex {
			return n.Name
		}
	}
	return ""
}

// Iterates returns the name of a macro in the expression that visits the elements of a list or a map, or an empty string if there is none. A list whose
// elements are in the expression does not count.
func (e *Expression) Iterates() string { return iterates(e.tree) }

func iterates(tree *syntax.Node) string {
	for n := range tree.All {
		if n.Kind == syntax.MacroNode && n.Target.Kind != syntax.ListNode {
			return n.Name
		}
	}
	return ""
}

// asServiceAccount is the function of the authorizer that makes checks for a service account in place of the user. The namespace is its first argument.
const asServiceAccount = "serviceAccount"

// ChecksForOthers reports whether the expression may make checks for a service account outside a namespace. In the namespace are only those whose namespace is
// written as this text, or as request.namespace. If the namespace is empty, every service account is outside.
func (e *Expression) ChecksForOthers(namespace string) bool {
	for n := range e.tree.All {
		//guard:checks-others-policies-cluster
		if n.Kind == syntax.CallNode && n.Name == asServiceAccount && (namespace == "" || !isNamespace(n.Args[0], namespace)) {
			return true
		}
	}
	return false
}

// isNamespace reports whether a part is a text, or request.namespace.
func isNamespace(n *syntax.Node, text string) bool {
	if n.Kind == syntax.ConstantNode {
		//guard:checks-others-constants
		return n.Value.Equal(types.String(text)) == types.True
	}
	//guard:checks-others-other-variables
	return n.Kind == syntax.SelectNode && !n.IsTest && n.Name == "namespace" && n.Target.Kind == syntax.VariableNode && n.Target.Name == string(cel.Request)
}

// ComputesKeys reports whether the expression makes a map with a key that is not a literal. Proviso makes an error of a key that is a list or a
// map, and cel-go does not.
func (e *Expression) ComputesKeys() bool {
	for n := range e.tree.All {
		for i, arg := range n.Args {
			if n.Kind == syntax.MapNode && i%2 == 0 && arg.Kind != syntax.ConstantNode {
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
func minChecks(n *syntax.Node) (checks uint64) {
	switch {
	case n.Kind == syntax.MacroNode: // it may have no round
		return minChecks(n.Target)
	case n.Kind != syntax.CallNode:
	case n.IsLogic(): // one operand decides
		return min(minChecks(n.Args[0]), minChecks(n.Args[1]))
	case n.Name == operators.Conditional:
		return minChecks(n.Args[0]) + min(minChecks(n.Args[1]), minChecks(n.Args[2]))
	case n.Name == operators.Index, n.Name == operators.OptIndex, n.Name == operators.OptSelect: // an index of an optional that is none is not evaluated
		return minChecks(n.Args[0])
	case n.Name == "or", n.Name == "orValue":
		return minChecks(n.Target)
	case n.Name == operators.In && n.Args[1].IsEmptyAggregate(): // the planner makes it false
		return 0
	case n.Name == "check":
		checks = 1
	}
	for part := range n.Parts {
		checks += minChecks(part)
	}
	return checks
}
