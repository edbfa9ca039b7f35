/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

// The bounds of what one answer, or one question about it, may hold. They apply to
// every server and client alike; what exceeds them is refused, never cut.
const (
	// MaxConditionsPerSet bounds the conditions of one set, as Kubernetes does in
	// authorizer.MaxConditionsPerMap.
	MaxConditionsPerSet = 128
	// MaxConditionBytes bounds the text of one condition, as Kubernetes 1.38 does.
	MaxConditionBytes = 10240
	// MaxDescriptionBytes bounds the description of one condition, as Kubernetes 1.38 does.
	MaxDescriptionBytes = 1024
	// MaxConditionSets bounds the sets of a chain, nested ones included: far more than any
	// server configures, and little enough to walk.
	MaxConditionSets = 32
	// MaxConditionSetDepth bounds how deep chains may be nested. One level is added by
	// each server that fronts another.
	MaxConditionSetDepth = 8
	// MaxConditions bounds the conditions of a chain in all, four full sets' worth, so
	// that the cost of one evaluation is bounded too.
	MaxConditions = 512
	// MaxAuthorizerNameBytes bounds the name of an authorizer, which is a DNS name in most
	// configurations.
	MaxAuthorizerNameBytes = 253
)

// The bounds of whom a review may ask to impersonate. Each group and each value of extra
// costs a check in each of two modes, of which each asks kube-apiserver.
const (
	// MaxImpersonatedGroups bounds the groups.
	MaxImpersonatedGroups = 128
	// MaxImpersonatedExtraValues bounds the values of extra, of all keys together.
	MaxImpersonatedExtraValues = 128
	// MaxImpersonatedValueBytes bounds the user name, the UID, each group, and each key and
	// value of extra: no more fits into a line of headers of most proxies.
	MaxImpersonatedValueBytes = 8192
)

// The condition types that the KEPs name, and Proviso's own. Every other type under k8s.io
// or kubernetes.io is invalid.
const (
	// ConditionTypeCEL is a CEL expression over the data that was unknown at authorization
	// (KEP-5681, "Built-in CEL conditions evaluator").
	ConditionTypeCEL = "k8s.io/authorization-cel"
	// ConditionTypeCELBound is a JSON object with a CEL expression and the fields of the
	// request that it reads, {"expression": …, "request": {…}}. All users and requests of
	// one policy share the expression, and with it the compiled program.
	ConditionTypeCELBound = "proviso.dev/authorization-cel-bound"
	// ConditionTypeNodeAuthorizer is an opaque condition of the node authorizer (KEP-5681,
	// "Node authorizer").
	ConditionTypeNodeAuthorizer = "k8s.io/node-authorizer"
)

// ExtraImpersonationConditions is the key of the extra in which a server tells one behind it
// what an impersonation still depends on. It is reserved: a server that finds it on the user
// of a request has not put those conditions in force, and must refuse the request.
const ExtraImpersonationConditions = "authorization.proviso.dev/impersonation-conditions"
