/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"strings"

	"github.com/google/cel-go/common/operators"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
)

// admissionName is the name of ValidatingAdmissionPolicies in the chain. They decide last, about requests that the authorizers allow.
const admissionName = "ValidatingAdmissionPolicy"

// parameter is the variable that has the parameter of a ValidatingAdmissionPolicy.
const parameter = "params"

// addRefusals makes refusals by ValidatingAdmissionPolicies the decision.
func (x *explainer) addRefusals(ctx context.Context, e *explained, refusals []admissionpolicy.Refusal) error {
	for _, m := range e.Chain {
		m.Decides = false
	}
	last := &member{Name: admissionName, Opinion: opinionDeny, Decides: true}
	for _, r := range refusals {
		hidesParameter := r.ParamKind != nil && (len(secrets[r.ParamKind.Kind]) > 0 || len(x.secrecy) > 0)
		//guard:explain-secrets-messages
		if len(x.secrecy) > 0 || hidesParameter {
			r.Message = notShown // it may quote a secret
		}
		p := &policy{Policy: r.Policy, Effect: authorization.EffectDeny, Description: r.Message, Result: "true", Decides: true, isAdmission: true}
		for _, f := range r.Failed {
			traced, err := x.traceValidation(ctx, &f)
			if err != nil {
				return err
			}
			//guard:explain-secrets-parameters
			if traced == nil || hidesParameter {
				p.Validations = append(p.Validations, &part{Text: f.Text, Value: f.Result})
				continue
			}
			shown := x.partOf(traced)
			shown.Text = f.Text // the trace has the variables in their place
			p.Validations, p.traces = append(p.Validations, shown), append(p.traces, traced)
		}
		last.Policies = append(last.Policies, p)
	}
	e.Chain, e.Decision, e.WithObject = append(e.Chain, last), answer.No, answer.No
	return nil
}

// traceValidation evaluates a validation that refuses the request with the engine of policies, and returns nil if that is not possible, or has
// another result: a request has other fields for a ValidatingAdmissionPolicy than for a policy of Proviso.
func (x *explainer) traceValidation(ctx context.Context, f *admissionpolicy.Failed) (*explanation.Trace, error) {
	a := x.request.Spec.ResourceAttributes
	resource := strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")
	if f.Condition == "" {
		return nil, nil //nolint:nilnil // the parameter cannot be written as an expression
	}
	var variables []policyv1alpha1.Variable
	for _, v := range f.Variables {
		variables = append(variables, policyv1alpha1.Variable{Name: v.Name, Expression: v.Expression})
	}
	source, err := x.compilers.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{{Name: "validation"}: {
		Effect: policyv1alpha1.PolicyEffectDeny, Condition: "!(" + f.Condition + "\n)", Variables: variables,
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{a.Verb}, APIGroups: []string{a.Group}, APIVersions: []string{a.Version}, Resources: []string{resource}}},
	}})
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the engine has not all that admission has
	}
	request, err := x.admission.WithNamespace(&x.request)
	if err != nil {
		return nil, err
	}
	steps, err := x.compilers.Steps(ctx, source, request)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		for _, p := range step.Policies {
			traced := p.Condition
			if traced == nil || traced.Function != operators.LogicalNot || len(traced.Parts) != 1 || resultOf(traced.Parts[0]) != f.Result {
				continue
			}
			// With a parameter, the condition is a macro around the validation (see admissionpolicy.Failed). Only the validation is shown.
			traced = traced.Parts[0]
			if last := len(traced.Parts) - 1; f.HasParameter && last >= 0 && traced.Parts[last].Element != nil {
				traced = traced.Parts[last]
			}
			return traced, nil
		}
	}
	return nil, nil //nolint:nilnil // see above
}
