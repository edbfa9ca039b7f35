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

// occasion says what the verb of a request already fixes.
type occasion uint8

const (
	anyOccasion occasion = iota
	creation             // the operation is CREATE, and there is no old object
	deletion             // the operation is DELETE, and there is no object
	occasions
)

// occasionOf returns what is fixed for a request. It is nothing where a subresource is
// named: a POST to one may be a connection. An update or a patch may become a create.
func occasionOf(a authorizer.Attributes) occasion {
	if !a.IsResourceRequest() || a.GetSubresource() != "" {
		return anyOccasion
	}
	switch a.GetVerb() {
	case "create":
		return creation
	case "delete", "deletecollection":
		return deletion
	default:
		return anyOccasion
	}
}

// known are the variables whose value is known on an occasion.
func (o occasion) known() []cel.Variable {
	switch o {
	case creation:
		return []cel.Variable{cel.Request, cel.Operation, cel.OldObject}
	case deletion:
		return []cel.Variable{cel.Request, cel.Operation, cel.Object}
	default:
		return []cel.Variable{cel.Request}
	}
}

// The values of the variables that an occasion fixes.
var (
	operationCreate = cel.Known("CREATE")
	operationDelete = cel.Known("DELETE")
	null            = cel.Known(nil)
)

// values are what is known on the occasion of a request.
func (o occasion) values(request cel.Value) cel.Values {
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
	plans      [occasions]*partial.Plan
}

// newCondition plans an expression for the occasions that the rules of its policy allow.
func newCondition(expression *partial.Expression, rules []rule) (*condition, error) {
	c := &condition{expression: expression}
	for _, o := range occasionsOf(rules) {
		plan, err := expression.Plan(o.known()...)
		if err != nil {
			return nil, err
		}
		c.plans[o] = plan
	}
	return c, nil
}

// occasionsOf returns the occasions on which a rule can match.
func occasionsOf(rules []rule) []occasion {
	var possible [occasions]bool
	for _, r := range rules {
		for _, verb := range r.verbs {
			switch verb {
			case all:
				possible = [occasions]bool{true, true, true}
			case "create":
				possible[creation] = true
			case "delete", "deletecollection":
				possible[deletion] = true
			default:
				possible[anyOccasion] = true
			}
		}
		// What is asked about a subresource or a path is no occasion of its own.
		hasSubresource := func(resource string) bool { return resource == all || slices.Contains([]byte(resource), '/') }
		if len(r.paths) > 0 || slices.ContainsFunc(r.resources, hasSubresource) {
			possible[anyOccasion] = true
		}
	}
	var result []occasion
	for o, ok := range possible {
		if ok {
			result = append(result, occasion(o))
		}
	}
	return result
}
