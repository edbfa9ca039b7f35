/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
)

const (
	// maxHints bounds the selectors with which the condition of one policy is evaluated again.
	maxHints = 8
	// maxHintBytes bounds the selector in a reason.
	maxHintBytes = 256
	// maxHintRequirements bounds the requirements of a request for which a hint is looked for, and maxHintValues the values of their labels:
	// the selector in the hint has them, too, and they are converted again for each evaluation, which is not in its cost.
	maxHintRequirements, maxHintValues = 32, 128
)

// selectable are the verbs of requests that have selectors.
var selectable = []string{"list", "watch", "deletecollection"}

// hint returns a text that names a selector with which the policy, an Allow policy that does not allow the request, allows it, or "" if
// none is found. The condition is evaluated again with that selector, within the budget of explanations. The selector keeps what the
// request says of other labels and fields, so that the hint shows nothing but a permission of the user.
func (e *evaluation) hint(p *Policy) string {
	if with := e.selecting(p); with != nil {
		return with.text()
	}
	return ""
}

// SelectorsFor returns selectors with which an Allow policy allows a request: a label selector, a field selector, or both. Without them, the policy does not
// allow it. SelectorsFor returns false if it finds none.
func (a *Authorizer) SelectorsFor(ctx context.Context, attributes authorizer.Attributes) (byLabels, byFields string, ok bool) {
	s := a.Source.StateOf(ctx)
	if s.Value == nil {
		return "", "", false
	}
	e := a.evaluationOf(ctx, s, attributes)
	for _, m := range s.Value.granting.find(attributes, nil) {
		if with := e.selecting(m.policy); with != nil {
			return with.byLabels, with.byFields, true
		}
	}
	return "", "", false
}

// selecting returns the request of a hint, or nil if none is found.
func (e *evaluation) selecting(p *Policy) *selectingRequest {
	//guard:engine-selectors-requests-have-none
	if e.wildcards || p.condition == nil || p.conditionEffect() != authorization.EffectAllow || !e.request.IsResourceRequest() ||
		!slices.Contains(selectable, e.request.GetVerb()) || !p.condition.readsSelector() {
		return nil
	}
	//guard:engine-hints-lists-many-values
	if e.hints++; e.hints > maxReportedPolicies || hasManyValues(e.request.Attributes) {
		return nil
	}
	wanted, cost := explanation.WantedSelectors(e.ctx, p.condition.expression, e.request.known(), e.budgets.LeftToExplain())
	e.budgets.SpendToExplain(cost)
	for _, choice := range choices(wanted) {
		with, ok := withRequirements(e.request.Attributes, choice)
		//guard:engine-selectors-not-tried
		if ok && e.allowsWith(p, with) {
			return with
		}
	}
	return nil
}

// hasManyValues reports whether the label selector of a request has more than maxHintValues values.
func hasManyValues(a authorizer.Attributes) bool {
	requirements, _ := a.GetLabelSelector() // there is no hint if it cannot be parsed
	count := 0
	for i := range requirements {
		count += len(requirements[i].ValuesUnsorted())
	}
	return count > maxHintValues
}

func (c *condition) readsSelector() bool {
	return c.expression.ReadsRequestField("labelSelector") || c.expression.ReadsRequestField("fieldSelector")
}

// choices returns each requirement alone, and then one of each list together, at most maxHints in all.
func choices(wanted [][]explanation.Wanted) [][]explanation.Wanted {
	var all [][]explanation.Wanted
	for _, of := range wanted {
		for _, w := range of {
			all = append(all, []explanation.Wanted{w})
		}
	}
	all = all[:min(len(all), maxHints/2)]
	if len(wanted) < 2 {
		return all
	}
	together := [][]explanation.Wanted{nil}
	for _, of := range wanted {
		var longer [][]explanation.Wanted
		for _, begun := range together {
			for _, w := range of {
				if len(longer) < maxHints {
					longer = append(longer, append(slices.Clone(begun), w))
				}
			}
		}
		together = longer
	}
	return append(all, together[:min(len(together), maxHints-len(all))]...)
}

// allowsWith reports whether the policy allows another request of the same user unconditionally.
func (e *evaluation) allowsWith(p *Policy, with *selectingRequest) bool {
	limit := e.budgets.LeftToExplain()
	//guard:engine-selectors-rules-do-not-match
	if limit == 0 || p.matches(with) != fullMatch {
		return false
	}
	plan, values := newRequest(e.request.decider, e.request.state, with).planOf(e.ctx, p)
	if plan == nil {
		return false
	}
	result := plan.EvalWithin(e.ctx, values, limit)
	//guard:engine-budget-selectors
	e.budgets.SpendToExplain(result.Cost())
	//guard:engine-selectors-conditions-may-hold
	return result.IsTrue()
}

// selectingRequest is a request with other selectors, as a server reads it over HTTP.
type selectingRequest struct {
	authorizer.Attributes

	// byLabels and byFields are the selectors as a client sends them.
	byLabels, byFields string

	labels labels.Requirements
	fields fields.Requirements
	name   string
}

// GetLabelSelector implements authorizer.Attributes.
func (s *selectingRequest) GetLabelSelector() (labels.Requirements, error) { return s.labels, nil }

// GetFieldSelector implements authorizer.Attributes.
func (s *selectingRequest) GetFieldSelector() (fields.Requirements, error) { return s.fields, nil }

// GetName implements authorizer.Attributes.
func (s *selectingRequest) GetName() string { return s.name }

var labelOperators = map[string]selection.Operator{
	string(metav1.LabelSelectorOpIn): selection.In, string(metav1.LabelSelectorOpNotIn): selection.NotIn,
	string(metav1.LabelSelectorOpExists): selection.Exists, string(metav1.LabelSelectorOpDoesNotExist): selection.DoesNotExist,
}

// withRequirements returns a request with requirements in place of those with the same keys. It returns false if they are no valid
// requirements, or if the selectors of the request cannot be parsed or are too long.
func withRequirements(a authorizer.Attributes, wanted []explanation.Wanted) (with *selectingRequest, ok bool) {
	byLabels, err := a.GetLabelSelector()
	byFields, fieldsErr := a.GetFieldSelector()
	//guard:engine-hints-lists-long-selectors
	if err != nil || fieldsErr != nil || len(byLabels)+len(byFields) > maxHintRequirements {
		return nil, false
	}
	has := func(key string, inFields bool) bool {
		return slices.ContainsFunc(wanted, func(w explanation.Wanted) bool { return w.Key == key && w.InFields == inFields })
	}
	byLabels = slices.DeleteFunc(slices.Clone(byLabels), func(r labels.Requirement) bool { return has(r.Key(), false) })
	byFields = slices.DeleteFunc(slices.Clone(byFields), func(r fields.Requirement) bool { return has(r.Field, true) })
	for _, w := range wanted {
		if w.InFields {
			byFields, ok = addField(byFields, w)
		} else {
			byLabels, ok = addLabel(byLabels, w)
		}
		if !ok {
			return nil, false
		}
	}
	return servedWith(a, byLabels, byFields)
}

// servedWith returns a request with selectors, as a server reads it from their texts: the values of a requirement are sorted, for example. It
// returns false if a server refuses the texts, if they cannot be named in a reason, or if kube-apiserver sends an authorization webhook only a
// part of them.
func servedWith(a authorizer.Attributes, byLabels labels.Requirements, byFields fields.Requirements) (*selectingRequest, bool) {
	if slices.ContainsFunc(byLabels, func(r labels.Requirement) bool {
		//guard:engine-selectors-not-sent
		return r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan
	}) {
		return nil, false
	}
	s := &selectingRequest{Attributes: a, byLabels: labels.NewSelector().Add(byLabels...).String(), byFields: authorization.FieldSelectorText(byFields)}
	//guard:engine-selectors-cannot-shown
	if len(s.text()) > maxHintBytes || !isShownAsIs(s.byFields) {
		return nil, false
	}
	selector, fieldsErr := fields.ParseSelector(s.byFields)
	var err error
	//guard:engine-selectors-conditions-have-them
	if s.labels, err = labels.ParseToRequirements(s.byLabels); err != nil || fieldsErr != nil {
		return nil, false
	}
	s.fields = selector.Requirements()
	// A server takes the name of a list or watch from the field selector, see request.RequestInfoFactory.
	//guard:engine-names-deletecollections
	if name, ok := selector.RequiresExactMatch(metav1.ObjectNameField); ok && a.GetVerb() != "deletecollection" && len(content.IsPathSegmentName(name)) == 0 {
		s.name = name
	}
	return s, true
}

// addLabel adds a requirement on a label. It returns false if the requirement is not valid.
func addLabel(requirements labels.Requirements, w explanation.Wanted) (labels.Requirements, bool) {
	operator := labelOperators[w.Operator]
	if operator == selection.In && len(w.Values) == 1 {
		operator = selection.Equals
	}
	requirement, err := labels.NewRequirement(w.Key, operator, w.Values)
	if err != nil {
		return nil, false
	}
	return append(requirements, *requirement), true
}

// addField adds a requirement on a field, which has one value. It returns false if a client cannot copy the requirement from a reason.
func addField(requirements fields.Requirements, w explanation.Wanted) (fields.Requirements, bool) {
	operator, ok := map[string]selection.Operator{string(metav1.FieldSelectorOpIn): selection.Equals, string(metav1.FieldSelectorOpNotIn): selection.NotEquals}[w.Operator]
	if !ok || len(w.Values) != 1 || w.Key == "" || strings.ContainsAny(w.Key, `=!,\`) || !isShownAsIs(w.Key) || !isShownAsIs(w.Values[0]) {
		return nil, false
	}
	return append(requirements, fields.Requirement{Field: w.Key, Operator: operator, Value: w.Values[0]}), true
}

// isShownAsIs reports whether a reason shows a text without a change: reasons replace control characters, for example.
func isShownAsIs(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// text names the selectors.
func (s *selectingRequest) text() string {
	var named []string
	if s.byLabels != "" {
		named = append(named, "the label selector "+s.byLabels)
	}
	if s.byFields != "" {
		named = append(named, "the field selector "+s.byFields)
	}
	return "use " + strings.Join(named, " and ")
}
