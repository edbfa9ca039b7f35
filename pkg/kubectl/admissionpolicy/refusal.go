/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// Refusal says why a policy refuses a request.
type Refusal struct {
	Policy, Message string
	// ParamKind is the kind of the parameters of the policy, which the message and Failed may quote. It is nil if it has none.
	ParamKind *admissionregistrationv1.ParamKind
	// Failed are the validations that refuse it.
	Failed []Failed
}

// Failed is a validation that refuses a request.
type Failed struct {
	Text string
	// Result is false or error.
	Result string
	// Condition has the same result as the text, and reads no parameter. HasParameter says that it is a macro around the text, whose
	// only element is the parameter. Variables are the variables that it reads, which read no parameter, either.
	Condition    string
	HasParameter bool
	Variables    []admissionregistrationv1.Variable
}

// The results of validations that refuse a request.
const (
	resultFalse = "false"
	resultError = "error"
)

// failedOf returns the validations that refuse a request with one parameter.
func (p *policy) failedOf(decisions []validating.PolicyDecision, parameter runtime.Object) (failed []Failed) {
	if len(decisions) != len(p.Spec.Validations) {
		return nil // the decision is about the policy as a whole
	}
	for i, d := range decisions {
		if d.Action != validating.ActionDeny {
			continue
		}
		f := Failed{Text: strings.TrimSpace(p.Spec.Validations[i].Expression), Result: resultFalse}
		if d.Evaluation == validating.EvalError {
			f.Result = resultError
		}
		if err := p.bind(&f, parameter); err != nil {
			f.Condition, f.Variables = "", nil
		}
		failed = append(failed, f)
	}
	return failed
}

// parameterVariable is the variable that has the parameter. It has underscores, so that it is no variable of a policy by accident.
const parameterVariable = "__parameter__"

// bind writes the condition and its variables.
func (p *policy) bind(f *Failed, parameter runtime.Object) error {
	f.Condition, f.HasParameter = f.Text, p.Spec.ParamKind != nil
	if !f.HasParameter {
		for _, i := range p.variablesOf(f.Text) {
			f.Variables = append(f.Variables, p.Spec.Variables[i])
		}
		return nil
	}
	literal := "null"
	if parameter != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(parameter)
		if err != nil {
			return err
		}
		literal = literalOf(content)
	}
	f.Variables = append(f.Variables, admissionregistrationv1.Variable{Name: parameterVariable, Expression: "dyn(" + literal + ")"})
	for _, i := range p.variablesOf(f.Text) {
		v := p.Spec.Variables[i]
		f.Variables = append(f.Variables, admissionregistrationv1.Variable{Name: v.Name, Expression: fmt.Sprintf("[variables.%s].map(params, %s\n)[0]", parameterVariable, v.Expression)})
	}
	f.Condition = fmt.Sprintf("[variables.%s].all(params, %s\n)", parameterVariable, f.Text)
	return nil
}

// literalOf returns an expression for a value of JSON. Lists and maps have elements of any types.
func literalOf(value any) string {
	var parts []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, literalOf(key)+": dyn("+literalOf(v[key])+")")
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, "dyn("+literalOf(element)+")")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return strconv.QuoteToASCII(strings.ToValidUTF8(v, "\uFFFD"))
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case nil:
		return "null"
	}
	return fmt.Sprint(value) // an int64 or a bool
}

// variablesOf returns the variables that a text may read, and those that they may read, in their order.
func (p *policy) variablesOf(text string) (used []int) {
	for i := len(p.Spec.Variables) - 1; i >= 0; i-- {
		if v := p.Spec.Variables[i]; strings.Contains(text, "variables."+v.Name) {
			used, text = append([]int{i}, used...), text+"\n"+v.Expression
		}
	}
	return used
}

// WithNamespace returns a request with the Namespace that it is in, if the set has it and the request does not.
func (s *Set) WithNamespace(r *simulation.Request) (*simulation.Request, error) {
	namespace := s.namespaces[r.Spec.ResourceAttributes.Namespace]
	if namespace == nil || r.Data.NamespaceObject != nil {
		return r, nil
	}
	text, err := json.Marshal(namespace)
	if err != nil {
		return nil, err
	}
	data, with := *r.Data, *r
	data.NamespaceObject, with.Data = &runtime.RawExtension{Raw: text}, &data
	return &with, nil
}
