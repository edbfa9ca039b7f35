/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// Environment is a CEL environment with its variables. It is immutable and safe for concurrent use.
type Environment struct {
	engine    *engine.Engine
	variables map[string]bool
}

// NewConditionEnvironment makes the environment of conditions. It has all variables except Request and Variables.
func NewConditionEnvironment(options ...cel.EnvOption) (*Environment, error) {
	return newEnvironment(options, conditionTypes, unknownVariables)
}

// NewPolicyEnvironment makes the environment of policies. It has Request and the variables of the environment of conditions.
func NewPolicyEnvironment(options ...cel.EnvOption) (*Environment, error) {
	return newEnvironment(options, conditionTypes, requestVariables, unknownVariables)
}

// conditionTypes are the object types of the variables of conditions and policies.
var conditionTypes = []*apiservercel.DeclType{namespaceType, impersonatedRequestType, userInfoType, requestType}

func newEnvironment(options []cel.EnvOption, declared []*apiservercel.DeclType, variables ...map[Variable]*cel.Type) (*Environment, error) {
	env, err := newEnv(options, declared, variables...)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(env, ExplanationBudget, NamespacedAuthorizationBudget, CostLimit)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, group := range variables {
		for name := range group {
			names[string(name)] = true
		}
	}
	return &Environment{engine: e, variables: names}, nil
}

// Engine returns the engine that evaluates the expressions of the environment.
func (e *Environment) Engine() *engine.Engine { return e.engine }

// Declares reports whether the environment has a variable of this name.
func (e *Environment) Declares(name string) bool { return e.variables[name] }

// newEnv builds the environment of cel-go with the given object types and variables. Expressions come from
// authorizers that may be newer than this server, so everything that the Kubernetes
// libraries can do is admitted, as for expressions that are already stored.
func newEnv(options []cel.EnvOption, declared []*apiservercel.DeclType, variables ...map[Variable]*cel.Type) (*cel.Env, error) {
	for _, group := range variables {
		for name, t := range group {
			options = append(options, cel.Variable(string(name), t))
		}
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{
			// The variables have existed for as long as the environment has.
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        options,
			DeclTypes:         declared,
		},
		environment.StrictCostOpt,
	)
	if err != nil {
		return nil, fmt.Errorf("extending the CEL environment of Kubernetes: %w", err)
	}
	env, err := set.Env(environment.StoredExpressions)
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	return env, nil
}

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
