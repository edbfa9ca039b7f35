/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
)

// maxReportedPolicies bounds how many policies a reason names.
const maxReportedPolicies = 8

// nothingAllowed returns NoOpinion, for the reasons of nothingAllows.
func (e *evaluation) nothingAllowed(found []matching) authorization.Decision {
	if !slices.ContainsFunc(found, func(m matching) bool { return m.policy.conditionEffect() == authorization.EffectAllow }) {
		return authorization.NoOpinion("", nil)
	}
	// Decide keeps the evaluation and what it found on its stack, so the reason gets copies.
	later, matching := *e, slices.Clone(found)
	return authorization.NoOpinionBecause(func() string { return later.nothingAllows(matching) })
}

// nothingAllows returns the reasons of the Allow policies that match a request, but whose conditions cannot be true for any data
// of the request. It leaves out policies whose condition only selects other requests or users, as the rules and subjects of a
// policy do: they have nothing to do with the request. It names at most maxReportedPolicies, with the selectors that they would need, and is
// empty if no policy is left.
func (e *evaluation) nothingAllows(found []matching) string {
	var reasons []string
	for _, m := range found {
		if m.policy.conditionEffect() != authorization.EffectAllow || e.isUnseen(m.policy) {
			continue
		}
		part, related := e.falsePart(m.policy)
		if !related {
			continue
		}
		if len(reasons) == maxReportedPolicies {
			reasons = append(reasons, "…")
			break
		}
		reasons = append(reasons, m.policy.explain(authorization.WordNotMet, describe(part, ""), e.hint(m.policy)))
	}
	return strings.Join(reasons, "; ")
}

// falsePart returns the part of the condition of a policy that is false for the request, or nil if it is not known. It
// returns false if the policy only selects other requests. It evaluates the parts within the budget of explanations.
func (e *evaluation) falsePart(p *Policy) (part *explanation.Part, related bool) {
	if e.wildcards || p.condition == nil {
		return nil, true
	}
	known, values := e.request.class.known(), e.request.known()
	if p.condition.namespacePlans[e.request.class] != nil {
		if inNamespace := e.request.knownInNamespace(e.ctx); inNamespace != nil {
			known, values = append(known, cel.NamespaceObject), inNamespace
		}
	}
	limit := e.budgets.LeftToExplain()
	if limit == 0 {
		return nil, true
	}
	notTrue, cost := p.condition.parts.NotTrue(e.ctx, values, limit, selects)
	//guard:engine-budget-explanations
	e.budgets.SpendToExplain(cost)
	if len(notTrue) == 1 {
		//guard:engine-policies-select-others
		return notTrue[0], !selects(notTrue[0])
	}
	var failing []*explanation.Part
	for _, part := range notTrue {
		if part.ReadsOnly(known...) {
			failing = append(failing, part)
		}
	}
	switch {
	case len(failing) == 0:
		return nil, true
	case !slices.ContainsFunc(failing, func(p *explanation.Part) bool { return !selects(p) }):
		//guard:engine-policies-select-others-fails
		return nil, false
	case len(failing) == 1:
		return failing[0], true
	}
	return nil, true
}

// selecting are the fields of a request by which rules and subjects select requests.
var selecting = []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "path", "userInfo"}

// selects reports whether a part of a condition selects requests as rules and subjects do.
func selects(p *explanation.Part) bool {
	return p.ReadsOnly(cel.Request) && len(p.RequestFields) > 0 &&
		!slices.ContainsFunc(p.RequestFields, func(field string) bool { return !slices.Contains(selecting, field) })
}

// failedPart describes the part of the condition that is false for the data of a request, within the budget of the context.
// It is empty if the part cannot be found.
func (p *Policy) failedPart(ctx context.Context, values cel.Values, data authorizer.ConditionsData) string {
	budget := authorization.BudgetOf(ctx)
	if budget.Err() != nil || ctx.Err() != nil {
		return ""
	}
	notTrue, cost := p.condition.parts.NotTrue(ctx, values, cel.CostLimit, nil)
	budget.Spend(cost)
	if len(notTrue) != 1 {
		return ""
	}
	part := notTrue[0]
	if reader, ok := data.(celeval.FieldsReader); ok {
		reader.ReadFields(part.Fields)
	}
	text, cost := part.TextFor(ctx, values, cel.CostLimit)
	budget.Spend(cost)
	return describe(part, text)
}

// describe returns the part of a reason that names the false part of a condition, or "" if there is none. text is the text of the
// part. It is empty if the user may not see it, because the part reads the request; describe then names the fields of the request.
func describe(p *explanation.Part, text string) string {
	switch {
	case p == nil:
		return ""
	case text != "":
		return "failed part: " + text
	//guard:engine-text-part-reads-request
	case !p.Reads(cel.Request):
		return "failed part: " + p.Text
	}
	var fields []string
	for _, field := range p.RequestFields {
		fields = append(fields, strings.TrimSuffix(string(cel.Request)+"."+field, "."))
	}
	return "failed part reads " + strings.Join(fields, ", ")
}
