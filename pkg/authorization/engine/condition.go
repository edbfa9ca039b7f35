/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// operation says which variables of conditions the verb of a request already fixes.
type operation uint8

const (
	anyOperation operation = iota
	creation               // the operation is CREATE, and there is no old object
	deletion               // the operation is DELETE, and there is no object
	operationCount
)

// operationOf returns creation or deletion if the verb of a resource request fixes it. It
// returns anyOperation for a subresource, because a POST to one may be a connection, and for
// an update or a patch, because they may become a create.
func operationOf(a authorizer.Attributes) operation {
	if !a.IsResourceRequest() || a.GetSubresource() != "" {
		return anyOperation
	}
	switch a.GetVerb() {
	case "create":
		return creation
	case "delete", "deletecollection":
		return deletion
	default:
		return anyOperation
	}
}

// known are the variables whose value is known for an operation.
func (o operation) known() []cel.Variable {
	switch o {
	case creation:
		return []cel.Variable{cel.Request, cel.Operation, cel.OldObject}
	case deletion:
		return []cel.Variable{cel.Request, cel.Operation, cel.Object}
	default:
		return []cel.Variable{cel.Request}
	}
}

// The values of the variables that an operation fixes.
var (
	operationCreate = cel.Known("CREATE")
	operationDelete = cel.Known("DELETE")
	null            = cel.Known(nil)
)

// values are what is known for the operation of a request.
func (o operation) values(request cel.Value) cel.Values {
	switch o {
	case creation:
		return cel.Values{cel.Request: request, cel.Operation: operationCreate, cel.OldObject: null}
	case deletion:
		return cel.Values{cel.Request: request, cel.Operation: operationDelete, cel.Object: null}
	default:
		return cel.Values{cel.Request: request}
	}
}

// condition is the compiled condition of a policy. It is immutable and shared by every
// request.
type condition struct {
	expression *partial.Expression
	plans      [operationCount]*partial.Plan
	// namespacePlans are for requests whose namespace is known. They are nil if the expression does not read namespaceObject.
	namespacePlans [operationCount]*partial.Plan
}

// newCondition plans an expression for the operations that the rules of its policy allow.
func newCondition(expression *partial.Expression, rules []rule) (*condition, error) {
	c := &condition{expression: expression}
	for _, o := range operationsOf(rules) {
		plan, err := expression.Plan(o.known()...)
		if err != nil {
			return nil, err
		}
		c.plans[o] = plan
		if !expression.Program().Reads(cel.NamespaceObject) {
			continue
		}
		if c.namespacePlans[o], err = expression.Plan(append(o.known(), cel.NamespaceObject)...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// operationsOf returns the operations for which a rule can match.
func operationsOf(rules []rule) []operation {
	var possible [operationCount]bool
	for _, r := range rules {
		for _, verb := range r.verbs {
			switch verb {
			case all:
				possible = [operationCount]bool{true, true, true}
			case "create":
				possible[creation] = true
			case "delete", "deletecollection":
				possible[deletion] = true
			default:
				possible[anyOperation] = true
			}
		}
		// What is asked about a subresource or a path is no operation of its own.
		hasSubresource := func(resource string) bool { return resource == all || slices.Contains([]byte(resource), '/') }
		if len(r.paths) > 0 || slices.ContainsFunc(r.resources, hasSubresource) {
			possible[anyOperation] = true
		}
	}
	var result []operation
	for o, ok := range possible {
		if ok {
			result = append(result, operation(o))
		}
	}
	return result
}
