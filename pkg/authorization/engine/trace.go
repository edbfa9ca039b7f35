/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
)

// PolicyTrace is a policy that matches a request, with the values of its condition.
type PolicyTrace struct {
	Key         Key
	Effect      authorization.Effect
	Description string
	// IsUnconditional says that the policy applies whatever its condition is. It has none, or it is about other versions than the request.
	IsUnconditional bool
	// Condition has the values of the condition. It is nil if the policy is unconditional, or if the condition cannot be traced.
	Condition *explanation.Trace
}

// atAdmission are the variables that have no values while a request is authorized.
var atAdmission = []cel.Variable{
	cel.Object, cel.OldObject, cel.Options, cel.Operation, cel.DryRun, cel.NamespaceObject, cel.Authorizer, cel.RequestResource,
}

// Trace evaluates the conditions of the policies in the place Part that match a request, for explanations. No decision is made from the
// result. The conditions have the values that they have in a decision: with the data of admission, or, if data is nil, as far as they
// are known at authorization. absent are variables whose values data does not have. It returns an error if the data cannot be read.
func (a *Authorizer) Trace(ctx context.Context, attributes authorizer.Attributes, data authorizer.ConditionsData, absent ...cel.Variable) ([]PolicyTrace, error) {
	s := a.Source.StateOf(ctx)
	if s.Value == nil {
		return nil, nil
	}
	x := &s.Value.granting
	if a.Part == Restricting {
		x = &s.Value.restricting
	}
	q := newRequest(a, s, attributes)
	var traces []PolicyTrace
	for _, m := range x.find(attributes, nil) {
		isNamespaced := m.policy.key.Namespace != ""
		if m.policy.conditionEffect() == authorization.EffectAllow && (a.Part == GrantingCluster && isNamespaced || a.Part == GrantingNamespaced && !isNamespaced) {
			continue
		}
		traced := PolicyTrace{Key: m.policy.key, Effect: m.policy.conditionEffect(), Description: m.policy.description, IsUnconditional: !m.isConditional()}
		if !traced.IsUnconditional && m.policy.condition != nil {
			values, err := q.allKnown(ctx, data)
			if err != nil {
				return nil, err
			}
			for _, v := range absent {
				delete(values, v)
			}
			unknown := absent
			if data == nil {
				unknown = slices.DeleteFunc(slices.Clone(atAdmission), func(v cel.Variable) bool { return values[v] != nil })
			}
			traced.Condition = explanation.TraceOf(ctx, m.policy.condition.expression, values, explanation.TraceLimit, unknown...)
		}
		traces = append(traces, traced)
	}
	return traces, nil
}

// allKnown returns a new map with the values of all variables that are known: at authorization, and if there are data, at admission.
func (q *request) allKnown(ctx context.Context, data authorizer.ConditionsData) (cel.Values, error) {
	if data == nil {
		return maps.Clone(q.known()), nil
	}
	values, err := celeval.ValuesOf(data, &cel.ObjectReader{})
	if err != nil {
		return nil, err
	}
	maps.Copy(values, q.known())
	if q.decider.Checks != nil {
		values = celeval.WithChecks(q.decider.Source.PinTo(ctx, q.state), values, &celeval.SecondaryChecks{Authorizer: q.decider.Checks, User: data.GetUserInfo(), Resource: data})
	}
	return values, nil
}
