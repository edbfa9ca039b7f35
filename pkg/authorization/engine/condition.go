/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// requestClass is a class of requests for which the same variables of conditions are known at authorization. It is not the
// operation of a request at admission, such as UPDATE or CONNECT, which may not be known yet.
type requestClass uint8

const (
	otherRequest requestClass = iota // the operation is not known yet
	creation                         // the operation is CREATE, and there is no old object
	deletion                         // the operation is DELETE, and there is no object
	classCount
)

// classOf returns creation or deletion if the verb of a resource request fixes the operation. It
// returns otherRequest for a subresource, because a POST to one may be a connection, and for
// an update or a patch, because they may become a create.
func classOf(a authorizer.Attributes) requestClass {
	if !a.IsResourceRequest() || a.GetSubresource() != "" {
		return otherRequest
	}
	switch a.GetVerb() {
	case "create":
		return creation
	case "delete", "deletecollection":
		return deletion
	default:
		return otherRequest
	}
}

// known returns the variables whose values are known for the requests of a class.
func (c requestClass) known() []cel.Variable {
	switch c {
	case creation:
		return []cel.Variable{cel.Request, cel.Operation, cel.OldObject}
	case deletion:
		return []cel.Variable{cel.Request, cel.Operation, cel.Object}
	default:
		return []cel.Variable{cel.Request}
	}
}

// The values of the variables that a class fixes.
var (
	operationCreate = cel.Known("CREATE")
	operationDelete = cel.Known("DELETE")
	null            = cel.Known(nil)
)

// values returns the values of these variables, for the value of the variable request.
func (c requestClass) values(request cel.Value) cel.Values {
	switch c {
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
	// parts explain why the condition is not true.
	parts *explanation.Parts
	plans [classCount]*partial.Plan
	// namespacePlans are for requests whose namespace is known. They are nil if the expression does not read namespaceObject.
	namespacePlans [classCount]*partial.Plan
	// readsName says that the condition may depend on the name of the request.
	readsName bool
	// readsNamespace says that it may depend on the name of the namespace of the request.
	readsNamespace bool
	// readsUnseen says that it may depend on what an admission webhook does not see of a request.
	readsUnseen bool
}

// dependsOnName reports whether the condition may depend on the name of a request that is for any name. A request by name for a
// namespace is in that namespace.
func (c *condition) dependsOnName(a authorizer.Attributes) bool {
	//guard:engine-conditions-namespace-namespace-not-known
	return isForAnyName(a) && (c.readsName || c.readsNamespace && a.GetNamespace() == "")
}

// unseen are the fields of request that an AdmissionReview does not have.
var unseen = []string{"path", "labelSelector", "fieldSelector"}

// ReadsUnseen reports whether a condition may depend on what an admission webhook does not see of a request: its path and its
// selectors.
func ReadsUnseen(expression *partial.Expression) bool {
	return slices.ContainsFunc(unseen, func(field string) bool { return expression.ReadsRequestField(field) })
}

// newCondition plans an expression for the classes of requests that the rules of its policy may match.
func newCondition(expression *partial.Expression, rules []rule) (*condition, error) {
	c := &condition{
		expression: expression, parts: explanation.PartsOf(expression), readsName: expression.ReadsRequestField("name"), readsNamespace: expression.ReadsRequestField("namespace"),
		readsUnseen: ReadsUnseen(expression),
	}
	for _, class := range classesOf(rules) {
		plan, err := expression.Plan(class.known()...)
		if err != nil {
			return nil, err
		}
		c.plans[class] = plan
		if !expression.Program().Reads(cel.NamespaceObject) {
			continue
		}
		if c.namespacePlans[class], err = expression.Plan(append(class.known(), cel.NamespaceObject)...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// classesOf returns every class that classOf can return for a request that one of the rules matches. It may return further
// classes.
func classesOf(rules []rule) []requestClass {
	var possible [classCount]bool
	for _, r := range rules {
		for _, verb := range r.verbs {
			switch verb {
			case all:
				possible = [classCount]bool{true, true, true}
			case "create":
				possible[creation] = true
			case "delete", "deletecollection":
				possible[deletion] = true
			default:
				possible[otherRequest] = true
			}
		}
		// All requests for a subresource or a path are of the class otherRequest.
		hasSubresource := func(resource string) bool { return resource == all || slices.Contains([]byte(resource), '/') }
		if len(r.paths) > 0 || slices.ContainsFunc(r.resources, hasSubresource) {
			possible[otherRequest] = true
		}
	}
	var result []requestClass
	for class, ok := range possible {
		if ok {
			result = append(result, requestClass(class))
		}
	}
	return result
}
