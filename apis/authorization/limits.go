/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

// The bounds of one answer, and of one review that has its conditions evaluated. They are the same for
// servers and clients. An answer beyond a bound is refused, never shortened.
const (
	// MaxConditionsPerSet bounds the conditions of one set, as Kubernetes does in
	// authorizer.MaxConditionsPerMap.
	MaxConditionsPerSet = 128
	// MaxConditionBytes bounds the text of one condition, as Kubernetes 1.38 does.
	MaxConditionBytes = 10240
	// MaxDescriptionBytes bounds the description of one condition, as Kubernetes 1.38 does.
	MaxDescriptionBytes = 1024
	// MaxConditionSets bounds the sets of a chain, including nested ones: far more than the
	// authorizers of a server, and few enough to evaluate.
	MaxConditionSets = 32
	// MaxConditionSetDepth bounds the nesting of chains. Each server in front of another adds
	// a level.
	MaxConditionSetDepth = 8
	// MaxConditions bounds the conditions of a whole chain, and with them the cost of one
	// evaluation. Four sets of maximum size fit.
	MaxConditions = 512
	// MaxAuthorizerNameBytes bounds the name of an authorizer, which is a DNS name in most
	// configurations.
	MaxAuthorizerNameBytes = 253
	// MaxAttributeBytes bounds each text of a request in an AuthorizationConditionsReview: its kind,
	// resource, subresource, namespace, name, verb and path. Most servers do not accept longer URLs.
	MaxAttributeBytes = 8192
	// MaxHandledDecisionTypes and MaxDecisionTypeBytes bound the types of decisions that a caller handles. Kubernetes
	// knows five.
	MaxHandledDecisionTypes = 16
	MaxDecisionTypeBytes    = 64
)

// The bounds of the user to impersonate in a review. Each group and each value of extra needs
// a check in two modes, and each check is a SubjectAccessReview to kube-apiserver.
const (
	// MaxImpersonatedGroups bounds the groups.
	MaxImpersonatedGroups = 128
	// MaxImpersonatedExtraValues bounds the number of values of extra, over all keys.
	MaxImpersonatedExtraValues = 128
	// MaxImpersonatedValueBytes bounds the user name, the UID, each group, and each key and
	// value of extra. Most proxies do not accept longer header lines.
	MaxImpersonatedValueBytes = 8192
)

// The condition types of the KEPs, and the type of Proviso. Every other type under k8s.io
// or kubernetes.io is invalid.
const (
	// ConditionTypeCEL is a CEL expression over the data that was unknown at authorization
	// (KEP-5681, "Built-in CEL conditions evaluator").
	ConditionTypeCEL = "k8s.io/authorization-cel"
	// ConditionTypeUpstreamCEL is the name of ConditionTypeCEL in the form that is proposed for Kubernetes. Both are
	// accepted in both forms.
	ConditionTypeUpstreamCEL = "authorizer.kubernetes.io/cel"
	// ConditionTypeCELBound is a JSON object with a CEL expression and the fields of the
	// request that it reads, {"expression": …, "request": {…}}. All users and requests of
	// one policy share the expression, and with it the compiled program.
	ConditionTypeCELBound = "proviso.dev/authorization-cel-bound"
	// ConditionTypeNodeAuthorizer is an opaque condition of the node authorizer (KEP-5681,
	// "Node authorizer").
	ConditionTypeNodeAuthorizer = "k8s.io/node-authorizer"
)

// ExtraImpersonationConditions is the key of the extra that passes the residual conditions of
// an impersonation to the server behind. It is reserved: if it is left on the user of a
// request, the server has not applied the conditions, and must refuse the request.
const ExtraImpersonationConditions = "authorization.proviso.dev/impersonation-conditions"
