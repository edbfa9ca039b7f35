/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/client-go/tools/cache"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// The results of conditions and of their parts, beside "true" and "false".
const (
	resultError   = "error"
	resultUnknown = "unknown"
	// resultNever is for the condition of an Allow policy that can be true for no object.
	resultNever = "never"
)

// The opinions of authorizers.
const (
	opinionAllow      = "Allow"
	opinionDeny       = "Deny"
	opinionNone       = "NoOpinion"
	opinionConditions = "Conditions"
	opinionUnknown    = "Unknown"
)

// explained is an explained decision, as -o json prints it.
type explained struct {
	// Decision is the decision of the last phase that is known: yes, no or yes-if. AtAuthorization and WithObject are those of both phases.
	Decision        answer.Verdict `json:"decision"`
	AtAuthorization answer.Verdict `json:"atAuthorization"`
	WithObject      answer.Verdict `json:"withObject,omitempty"`
	User            string         `json:"user"`
	Request         string         `json:"request"`
	// Chain has the authorizers in the order in which they decide.
	Chain []*member `json:"chain"`
	// Because are the parts of conditions that decide.
	Because []because `json:"because,omitempty"`
	// NearMiss is the change that would be allowed. It is null if there is none, or if the decision is not no.
	NearMiss *nearMiss `json:"nearMiss"`
	// NoNearMiss says why there is no near miss.
	NoNearMiss string `json:"noNearMiss,omitempty"`
	// Recorded has the annotations of the audit event.
	Recorded map[string]string `json:"recorded,omitempty"`
	Notes    []string          `json:"notes,omitempty"`

	// isSchemaKnown says that the schema of the object accepts the near miss.
	isSchemaKnown bool
	// isOfCluster says that the policies come from a cluster.
	isOfCluster bool
}

// member is an authorizer.
type member struct {
	Name    string `json:"name"`
	Opinion string `json:"opinion"`
	// Decides says that the decision is the opinion of this authorizer.
	Decides  bool      `json:"decides,omitempty"`
	Policies []*policy `json:"policies,omitempty"`
}

// policy is a policy that matches the request.
type policy struct {
	Policy      string               `json:"policy"`
	Effect      authorization.Effect `json:"effect"`
	Description string               `json:"description,omitempty"`
	// Result is the result of the condition: true, false, error, unknown or never. It is true for a policy without a condition.
	Result string `json:"result"`
	// Decides says that the policy is a reason of the decision.
	Decides   bool  `json:"decides,omitempty"`
	Condition *part `json:"condition,omitempty"`
	// Validations are the validations of a ValidatingAdmissionPolicy that refuse the request.
	Validations []*part `json:"validations,omitempty"`

	// traces has the trace of Condition, or the traces of Validations. A validation with a hidden value has none.
	traces []*explanation.Trace
	// isAdmission says that it is a ValidatingAdmissionPolicy.
	isAdmission bool
}

// part is a part of a condition.
type part struct {
	Text string `json:"text"`
	// Value is the value as JSON, or what stands for it.
	Value string `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
	// Element is the element of a list or a map for which the part was evaluated, such as c = "web".
	Element string  `json:"element,omitempty"`
	Parts   []*part `json:"parts,omitempty"`
	// IsTruncated says that some parts were left out.
	IsTruncated bool `json:"isTruncated,omitempty"`
}

// because is a part of a condition that decides: one that was false or failed, or one that was true and should not have been.
type because struct {
	Policy string  `json:"policy"`
	Text   string  `json:"text"`
	Result string  `json:"result"`
	Values []value `json:"values,omitempty"`
}

// value is the value of an expression.
type value struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// maxBecause bounds the deciding parts that are listed.
const maxBecause = 32

// explainer explains the request of an input.
type explainer struct {
	*input

	source  *engine.Source
	secrecy secrecy
}

// explain decides the request, and explains the decision.
func (x *explainer) explain(ctx context.Context) (*explained, error) {
	decided, err := x.admission.Decide(ctx, x.compilers, x.source, &x.request)
	if err != nil {
		return nil, err
	}
	decisions := decided.Decisions
	steps, err := x.compilers.Steps(ctx, x.source, &x.request)
	if err != nil {
		return nil, err
	}
	e := &explained{
		Decision: decisions.Last(), AtAuthorization: decisions.Decision, WithObject: decisions.Outcome,
		User: x.request.Spec.User, Request: requestText(&x.request), isOfCluster: x.isOfCluster,
	}
	isDecided := false
	for _, step := range steps {
		m := &member{Name: step.Name, Opinion: opinionOf(step.Decision)}
		if step.Name == order.KubeAPIServerName && x.isPermitted == nil && m.Opinion == opinionNone {
			m.Opinion = opinionUnknown
		}
		for i := range step.Policies {
			m.Policies = append(m.Policies, x.policyOf(&step.Policies[i]))
		}
		if !isDecided && m.Opinion != opinionNone && m.Opinion != opinionUnknown {
			// The opinions after conditions count only if the conditions have none.
			m.Decides, isDecided = m.Opinion != opinionConditions, true
		}
		e.Chain = append(e.Chain, m)
	}
	if decided.Admission != nil && len(decided.Admission.Refusals) > 0 {
		if err := x.addRefusals(ctx, e, decided.Admission.Refusals); err != nil {
			return nil, err
		}
	}
	if !e.agrees() {
		return nil, errDisagrees
	}
	x.markDeciding(e, decisions)
	for _, m := range e.Chain {
		for _, p := range m.Policies {
			if p.Decides {
				e.Because = append(e.Because, x.becauseOf(p)...)
			}
		}
	}
	e.Because = e.Because[:min(len(e.Because), maxBecause)]
	return e, x.findNearMiss(ctx, e)
}

var errDisagrees = errors.New("the opinions of the authorizers do not agree with the decision: this is a mistake in explain")

// agrees reports whether the decision follows from the opinions of the authorizers. Both are the results of separate evaluations.
func (e *explained) agrees() bool {
	if last := e.Chain[len(e.Chain)-1]; last.Name == admissionName {
		return e.Decision == answer.No // it was allowed before
	}
	for _, m := range e.Chain {
		switch m.Opinion {
		case opinionAllow:
			return e.Decision == answer.Yes
		case opinionDeny:
			return e.Decision == answer.No
		case opinionConditions:
			return e.WithObject == "" // the decision is not known, or no if the conditions can only deny
		}
	}
	return e.Decision == answer.No
}

// isUndecided reports whether the answer is no only because what RBAC allows is not known.
func (e *explained) isUndecided() bool {
	return e.Decision == answer.No && slices.ContainsFunc(e.Chain, func(m *member) bool { return m.Opinion == opinionUnknown }) &&
		!slices.ContainsFunc(e.Chain, func(m *member) bool { return m.Decides })
}

func opinionOf(d authorization.Decision) string {
	switch {
	case d.IsAllow():
		return opinionAllow
	case d.IsDeny():
		return opinionDeny
	case d.IsNoOpinion():
		return opinionNone
	}
	return opinionConditions
}

// markDeciding marks the policies that are reasons of the decision: policies in the reason of the engine, and of a request that no
// authorizer allows, also the Allow policies that do not apply.
func (x *explainer) markDeciding(e *explained, decisions *simulation.Decisions) {
	named := decisions.Policies()
	decider := slices.IndexFunc(e.Chain, func(m *member) bool { return m.Decides })
	if decider >= 0 && e.Chain[decider].Name == admissionName {
		return // each policy that refuses is a reason
	}
	for i, m := range e.Chain {
		if decider >= 0 && i != decider {
			continue
		}
		for _, p := range m.Policies {
			if e.Decision == answer.No && e.WithObject == "" && p.Effect == authorization.EffectAllow && p.Result == resultUnknown && decider < 0 {
				p.Result = resultNever
			}
			switch {
			case e.Decision == answer.YesIf:
				p.Decides = p.Result == resultUnknown
			case slices.Contains(named, p.Policy):
				p.Decides = decider >= 0 || p.Effect != authorization.EffectDeny
			case decider < 0:
				p.Decides = p.Effect == authorization.EffectAllow && p.Result != "true" || p.Effect == authorization.EffectNoOpinion && p.Result != "false"
			}
		}
	}
}

func (x *explainer) policyOf(traced *engine.PolicyTrace) *policy {
	name := cache.NewObjectName(traced.Key.Namespace, traced.Key.Name).String() // as reasons have it
	p := &policy{Policy: name, Effect: traced.Effect, Description: traced.Description, Result: "true"}
	switch {
	case traced.IsUnconditional:
	case traced.Condition == nil:
		p.Result = resultUnknown
	default:
		p.traces = []*explanation.Trace{traced.Condition}
		p.Result = resultOf(traced.Condition)
		p.Condition = x.partOf(traced.Condition)
	}
	return p
}

// resultOf returns the result of a condition or of a part of it that is a bool.
func resultOf(traced *explanation.Trace) string {
	switch {
	case traced.IsUnknown:
		return resultUnknown
	case traced.Value == types.True:
		return "true"
	case traced.Value == types.False:
		return "false"
	}
	return resultError
}

// partOf returns a part with the parts that explain its value.
func (x *explainer) partOf(traced *explanation.Trace) *part {
	p := &part{Text: labelOf(traced), IsTruncated: traced.IsTruncated}
	p.Value, p.Error = x.shown(traced)
	if traced.Element != nil {
		p.Element = traced.Element.Name + " = " + x.elementText(traced.Element)
	}
	for _, child := range explaining(traced) {
		p.Parts = append(p.Parts, x.partsOf(child)...)
	}
	return p
}

// partsOf returns a part, or the parts in it if it is not shown itself.
func (x *explainer) partsOf(traced *explanation.Trace) (parts []*part) {
	if traced.Text == parameter {
		return nil // it is shown once, for the validation
	}
	if isShown(traced) {
		return []*part{x.partOf(traced)}
	}
	for _, child := range traced.Parts {
		parts = append(parts, x.partsOf(child)...)
	}
	return parts
}

// labelOf returns the text of a part, or the field that it selects.
func labelOf(traced *explanation.Trace) string {
	if traced.Field == nil || traced.Function == operators.Has || traced.Function == "orValue" {
		return traced.Text
	}
	return pathText(append([]any{string(traced.Field.Variable)}, traced.Field.Path...))
}

func (x *explainer) elementText(element *explanation.Element) string {
	//guard:explain-elements-secrets
	if x.secrecy.hidesAny(element.Reads) {
		return notShown
	}
	return textOf(element.Value)
}

// isShown reports whether a part says something about the value of the expression around it: constants, and checks that are
// prepared but not made, do not.
func isShown(traced *explanation.Trace) bool {
	return !traced.IsConstant && (traced.Value == nil || traced.Value.Type() == types.OptionalType || textOf(traced.Value) != "")
}

// shown returns the value of a part, or its error. A part that may depend on secrets has its value only if it is a bool.
func (x *explainer) shown(traced *explanation.Trace) (text, failure string) {
	_, isBool := traced.Value.(types.Bool)
	//guard:explain-values-secrets
	isHidden := !isBool && x.secrecy.hidesAny(traced.Reads)
	switch {
	case traced.IsUnknown:
		return resultUnknown, ""
	//guard:explain-errors-about-secrets
	case traced.Err != nil && isHidden:
		return "", cel.FailureClass(traced.Err)
	case traced.Err != nil:
		return "", excerpt.Of(strings.TrimPrefix(traced.Err.Error(), cel.ErrEvaluation.Error()+": "), maxValueBytes)
	case isHidden:
		return notShown, ""
	}
	return textOf(traced.Value), ""
}

// logic are the functions whose result is explained by the results of their parts.
var logic = append([]string{operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional}, quantifiers...)

// quantifiers are the macros that evaluate a bool for the elements of a list or a map.
var quantifiers = []string{operators.All, operators.Exists, operators.ExistsOne, "existsOne"}

// explaining returns the parts that explain the value of an expression: of a false && the parts that are false, of a true || the parts that
// are true, and all parts of other expressions. If no part is false or true, the parts that have no value explain it.
func explaining(traced *explanation.Trace) []*explanation.Trace {
	decisive := ""
	switch traced.Function {
	case operators.LogicalAnd:
		decisive = "false"
	case operators.LogicalOr:
		decisive = "true"
	default:
		return traced.Parts
	}
	of := func(results ...string) (found []*explanation.Trace) {
		for _, child := range traced.Parts {
			if slices.Contains(results, resultOf(child)) {
				found = append(found, child)
			}
		}
		return found
	}
	switch resultOf(traced) {
	case decisive:
		return of(decisive)
	case resultError, resultUnknown:
		return of(resultError, resultUnknown)
	}
	return traced.Parts
}

// clauses returns the smallest parts that explain the result of a condition: parts without logical operators around other parts.
func clauses(traced *explanation.Trace) (found []*explanation.Trace) {
	if traced.IsConstant {
		return nil
	}
	if slices.Contains(logic, traced.Function) {
		for _, child := range explaining(traced) {
			if isRange := child.Element == nil && slices.Contains(quantifiers, traced.Function); !isRange {
				found = append(found, clauses(child)...)
			}
		}
	}
	if len(found) == 0 {
		return []*explanation.Trace{traced}
	}
	return found
}

// becauseOf returns the clauses of a deciding policy.
func (x *explainer) becauseOf(p *policy) (found []because) {
	for _, traced := range p.traces {
		for _, clause := range clauses(traced) {
			b := because{Policy: p.Policy, Text: clause.Text, Result: resultOf(clause)}
			x.addValues(&b, clause)
			found = append(found, b)
		}
	}
	return found
}

// addValues adds the values of the fields in a clause, and of what they are compared with.
func (x *explainer) addValues(b *because, traced *explanation.Trace) {
	add := func(text, shown string) {
		if shown != "" && !slices.ContainsFunc(b.Values, func(v value) bool { return v.Text == text }) {
			b.Values = append(b.Values, value{Text: text, Value: shown})
		}
	}
	if traced.Element != nil {
		add(traced.Element.Name, x.elementText(traced.Element))
	}
	if traced.Field != nil || len(traced.Parts) == 0 {
		if shown, failure := x.shown(traced); !traced.IsConstant {
			add(labelOf(traced), shown+failure)
		}
		return
	}
	for _, child := range traced.Parts {
		x.addValues(b, child)
	}
}
