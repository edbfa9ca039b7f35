/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
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
// none is found. The condition is evaluated again with that selector, within the budget of explanations. The selector has what the
// request selects already, so that the hint shows nothing but a permission of the user.
func (e *evaluation) hint(p *Policy) string {
	if e.wildcards || p.condition == nil || p.conditionEffect() != authorization.EffectAllow || !e.request.IsResourceRequest() ||
		!slices.Contains(selectable, e.request.GetVerb()) || !p.condition.readsSelector() {
		return ""
	}
	if e.hints++; e.hints > maxReportedPolicies || hasManyValues(e.request.Attributes) {
		return ""
	}
	wanted, cost := p.condition.expression.WantedSelectors(e.ctx, e.request.known(), e.budgets.LeftToExplain())
	e.budgets.SpendToExplain(cost)
	for _, choice := range choices(wanted) {
		with, ok := withRequirements(e.request.Attributes, choice)
		if ok && e.allowsWith(p, with) {
			return with.text()
		}
	}
	return ""
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
func choices(wanted [][]partial.Wanted) [][]partial.Wanted {
	var all [][]partial.Wanted
	for _, of := range wanted {
		for _, w := range of {
			all = append(all, []partial.Wanted{w})
		}
	}
	all = all[:min(len(all), maxHints/2)]
	if len(wanted) < 2 {
		return all
	}
	together := [][]partial.Wanted{nil}
	for _, of := range wanted {
		var longer [][]partial.Wanted
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
	if limit == 0 || p.matches(with) != fullMatch {
		return false
	}
	plan, values := newRequest(e.request.decider, e.request.state, with).planOf(e.ctx, p)
	if plan == nil {
		return false
	}
	result := plan.EvalWithin(e.ctx, values, limit)
	e.budgets.SpendToExplain(result.Cost())
	return result.IsTrue()
}

// selectingRequest is a request with other selectors.
type selectingRequest struct {
	authorizer.Attributes

	labels labels.Requirements
	fields fields.Requirements
	// otherName says that the requirement that names the object is replaced.
	otherName bool
}

// GetLabelSelector implements authorizer.Attributes.
func (s *selectingRequest) GetLabelSelector() (labels.Requirements, error) { return s.labels, nil }

// GetFieldSelector implements authorizer.Attributes.
func (s *selectingRequest) GetFieldSelector() (fields.Requirements, error) { return s.fields, nil }

// GetName implements authorizer.Attributes. A server takes the name from a field selector that requires one.
func (s *selectingRequest) GetName() string {
	for _, r := range s.fields {
		if r.Field == metav1.ObjectNameField && r.Operator == selection.Equals {
			return r.Value
		}
	}
	if s.otherName {
		return ""
	}
	return s.Attributes.GetName()
}

var labelOperators = map[string]selection.Operator{
	string(metav1.LabelSelectorOpIn): selection.In, string(metav1.LabelSelectorOpNotIn): selection.NotIn,
	string(metav1.LabelSelectorOpExists): selection.Exists, string(metav1.LabelSelectorOpDoesNotExist): selection.DoesNotExist,
}

// withRequirements returns a request with requirements in place of those with the same keys. It returns false if they are no valid
// requirements, or if the selectors of the request cannot be parsed or are too long.
func withRequirements(a authorizer.Attributes, wanted []partial.Wanted) (with *selectingRequest, ok bool) {
	byLabels, err := a.GetLabelSelector()
	byFields, fieldsErr := a.GetFieldSelector()
	if err != nil || fieldsErr != nil || len(byLabels)+len(byFields) > maxHintRequirements {
		return nil, false
	}
	with = &selectingRequest{Attributes: a}
	has := func(key string, inFields bool) bool {
		return slices.ContainsFunc(wanted, func(w partial.Wanted) bool { return w.Key == key && w.InFields == inFields })
	}
	with.otherName = has(metav1.ObjectNameField, true)
	with.labels = slices.DeleteFunc(slices.Clone(byLabels), func(r labels.Requirement) bool { return has(r.Key(), false) })
	with.fields = slices.DeleteFunc(slices.Clone(byFields), func(r fields.Requirement) bool { return has(r.Field, true) })
	for _, w := range wanted {
		switch {
		case !w.InFields && len(w.Values) == 1 && w.Operator == string(metav1.LabelSelectorOpIn):
			ok = with.addLabel(w.Key, selection.Equals, w.Values)
		case !w.InFields:
			ok = with.addLabel(w.Key, labelOperators[w.Operator], w.Values)
		default:
			ok = with.addField(w)
		}
		if !ok {
			return nil, false
		}
	}
	return with, len(wanted) > 0
}

func (s *selectingRequest) addLabel(key string, operator selection.Operator, values []string) bool {
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		return false
	}
	s.labels = append(s.labels, *requirement)
	return true
}

// addField adds a requirement on a field, which has one value. It returns false if a client cannot copy the requirement from a reason.
func (s *selectingRequest) addField(w partial.Wanted) bool {
	operator, ok := map[string]selection.Operator{string(metav1.FieldSelectorOpIn): selection.Equals, string(metav1.FieldSelectorOpNotIn): selection.NotEquals}[w.Operator]
	if !ok || len(w.Values) != 1 || w.Key == "" || strings.ContainsAny(w.Key, `=!,\`) || !isShownAsIs(w.Key) || !isShownAsIs(w.Values[0]) {
		return false
	}
	s.fields = append(s.fields, fields.Requirement{Field: w.Key, Operator: operator, Value: w.Values[0]})
	return true
}

// isShownAsIs reports whether a reason shows a text without a change: reasons replace control characters, for example.
func isShownAsIs(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// text names the selectors as a client sends them. It is empty if they are too long.
func (s *selectingRequest) text() string {
	var byFields []fields.Selector
	for _, r := range s.fields {
		if r.Operator == selection.NotEquals {
			byFields = append(byFields, fields.OneTermNotEqualSelector(r.Field, r.Value))
		} else {
			byFields = append(byFields, fields.OneTermEqualSelector(r.Field, r.Value))
		}
	}
	text := "use "
	if len(s.labels) > 0 {
		text += "the label selector " + labels.NewSelector().Add(s.labels...).String()
	}
	if len(byFields) > 0 {
		if len(s.labels) > 0 {
			text += " and "
		}
		text += "the field selector " + fields.AndSelectors(byFields...).String()
	}
	if len(text) > maxHintBytes {
		return ""
	}
	return text
}
