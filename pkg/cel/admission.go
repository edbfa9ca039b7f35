/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"github.com/google/cel-go/cel"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// The variables that stand for what a ValidatingAdmissionPolicy cannot read. kube-apiserver does not declare them, so that an
// expression which reads one of them cannot be used there.
const (
	// AbsentName is the name of a create request, which differs from the name of its object.
	AbsentName Variable = "absentName"
	// AbsentPath is the path of the request.
	AbsentPath Variable = "absentPath"
	// AbsentSelector is a selector of the request.
	AbsentSelector Variable = "absentSelector"
	// AbsentRequest is the request, or its user, as a value.
	AbsentRequest Variable = "absentRequest"
	// AbsentNamespace is a part of the namespace that has another type or name there.
	AbsentNamespace Variable = "absentNamespace"
	// AbsentImpersonation is the request or the user of an impersonation check.
	AbsentImpersonation Variable = "absentImpersonation"
)

// admissionRequestType and admissionNamespaceType are the types of request and namespaceObject in ValidatingAdmissionPolicies.
var admissionRequestType, admissionNamespaceType = plugincel.BuildRequestType(), plugincel.BuildNamespaceType()

// admissionVariables are the variables of ValidatingAdmissionPolicies without params, and what they cannot read.
var admissionVariables = map[Variable]*cel.Type{
	Object:              cel.DynType,
	OldObject:           cel.DynType,
	NamespaceObject:     admissionNamespaceType.CelType(),
	Request:             admissionRequestType.CelType(),
	Authorizer:          library.AuthorizerType,
	RequestResource:     library.ResourceCheckType,
	AbsentName:          cel.StringType,
	AbsentPath:          cel.StringType,
	AbsentSelector:      cel.DynType,
	AbsentRequest:       cel.DynType,
	AbsentNamespace:     cel.DynType,
	AbsentImpersonation: cel.DynType,
}

// NewAdmissionEnvironment makes the environment of ValidatingAdmissionPolicies without params, in which an expression may also read
// the variables that stand for what such a policy cannot read.
func NewAdmissionEnvironment(options ...cel.EnvOption) (*Environment, error) {
	return newEnvironment(options, []*apiservercel.DeclType{admissionRequestType, admissionNamespaceType}, admissionVariables)
}
