/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// comparing are the operators and functions that have the same result for an integer and for the same number with a fraction of zero.
var comparing = map[string]bool{
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.Conditional: true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.OptSelect: true, "optional.of": true, "optional.none": true, "hasValue": true, "value": true, "orValue": true, "or": true,
	"size": true, "dyn": true, "contains": true, "startsWith": true, "endsWith": true, "matches": true,
	"lowerAscii": true, "upperAscii": true, "trim": true, "sets.contains": true, "sets.equivalent": true, "sets.intersects": true,
}

// CallsOther returns the name of an operator or a function in the expression that does more than read, compare and search values, or an
// empty string if there is none. Without one, the result is the same whether a number is an integer or has a fraction of zero.
func (e *Expression) CallsOther() string { return callsOther(e.tree) }

func callsOther(n *node) string {
	isIndex := n.kind == callNode && (n.name == operators.Index || n.name == operators.OptIndex) && n.args[1].kind == constantNode
	if n.kind == callNode && !comparing[n.name] && !isIndex {
		return n.name
	}
	if n.target != nil {
		if name := callsOther(n.target); name != "" {
			return name
		}
	}
	for _, arg := range n.args {
		if name := callsOther(arg); name != "" {
			return name
		}
	}
	return ""
}

// Iterates returns the name of a macro in the expression that visits the elements of a list or a map, or an empty string if there is none. A list whose
// elements are in the expression does not count.
func (e *Expression) Iterates() string { return iterates(e.tree) }

func iterates(n *node) string {
	if n.kind == macroNode && n.target != nil && n.target.kind != listNode && n.name != "bind" {
		return n.name
	}
	for _, part := range append(n.args[:len(n.args):len(n.args)], n.target) {
		if part == nil {
			continue
		}
		if name := iterates(part); name != "" {
			return name
		}
	}
	return ""
}

// asServiceAccount is the function of the authorizer that makes checks for a service account in place of the user. The namespace is its first argument.
const asServiceAccount = "serviceAccount"

// ChecksForOthers reports whether the expression may make checks for a service account outside a namespace. In the namespace are only those whose namespace is
// written as this text, or as request.namespace. If the namespace is empty, every service account is outside.
func (e *Expression) ChecksForOthers(namespace string) bool {
	return checksForOthers(e.tree, namespace)
}

func checksForOthers(n *node, namespace string) bool {
	if n == nil {
		return false
	}
	//guard:checks-others-policies-cluster
	if n.kind == callNode && n.name == asServiceAccount && (namespace == "" || !isNamespace(n.args[0], namespace)) {
		return true
	}
	for _, arg := range n.args {
		//guard:checks-others-arguments
		if checksForOthers(arg, namespace) {
			return true
		}
	}
	//guard:checks-others-receivers
	return checksForOthers(n.target, namespace)
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
func (e *Expression) ComputesKeys() bool { return computesKeys(e.tree) }

func computesKeys(n *node) bool {
	if n == nil {
		return false
	}
	for i, arg := range n.args {
		if n.kind == mapNode && i%2 == 0 && arg.kind != constantNode || computesKeys(arg) {
			return true
		}
	}
	return computesKeys(n.target)
}
