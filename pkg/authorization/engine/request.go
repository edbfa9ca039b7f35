/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// requestData is what is known of a request, as policies read it. Every field is there,
// empty if the request has none.
func requestData(a authorizer.Attributes) map[string]any {
	// A selector that cannot be parsed restricts nothing: it could be anything.
	fieldRequirements, _ := a.GetFieldSelector()
	labelRequirements, _ := a.GetLabelSelector()
	return map[string]any{
		"verb": a.GetVerb(), "apiGroup": a.GetAPIGroup(), "apiVersion": a.GetAPIVersion(),
		"resource": a.GetResource(), "subresource": a.GetSubresource(),
		"namespace": a.GetNamespace(), "name": a.GetName(), "path": a.GetPath(),
		"userInfo":      userData(a),
		"fieldSelector": selectorData(fieldSelector(fieldRequirements)),
		"labelSelector": selectorData(labelSelector(labelRequirements)),
	}
}

func userData(a authorizer.Attributes) map[string]any {
	data := map[string]any{"username": "", "uid": "", "groups": []any{}, "extra": map[string]any{}}
	u := a.GetUser()
	if u == nil {
		return data
	}
	extra := make(map[string]any, len(u.GetExtra()))
	for key, values := range u.GetExtra() {
		extra[key] = listOf(values)
	}
	data["username"], data["uid"], data["groups"], data["extra"] = u.GetName(), u.GetUID(), listOf(u.GetGroups()), extra
	return data
}

func listOf(values []string) []any {
	list := make([]any, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	return list
}

// requirement is one requirement of a selector. The operators are those of
// metav1.LabelSelectorRequirement, for fields too.
type requirement struct {
	key      string
	operator metav1.LabelSelectorOperator
	values   []string
}

func selectorData(requirements []requirement) map[string]any {
	list := make([]any, 0, len(requirements))
	for _, r := range requirements {
		list = append(list, map[string]any{"key": r.key, "operator": string(r.operator), "values": listOf(r.values)})
	}
	return map[string]any{"requirements": list}
}

// operators are those that requests have under the names that policies see. Others, such
// as > in a label selector, have names of their own.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn,
	selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	selection.GreaterThan: "Gt", selection.LessThan: "Lt",
}

func fieldSelector(requirements fields.Requirements) []requirement {
	result := make([]requirement, 0, len(requirements))
	for _, r := range requirements {
		result = append(result, requirement{key: r.Field, operator: operators[r.Operator], values: []string{r.Value}})
	}
	return result
}

func labelSelector(requirements labels.Requirements) []requirement {
	result := make([]requirement, 0, len(requirements))
	for _, r := range requirements {
		result = append(result, requirement{key: r.Key(), operator: operators[r.Operator()], values: r.ValuesUnsorted()})
	}
	return result
}

// question is one request as its policies see it. The data are made when the first
// condition reads them.
type question struct {
	authorizer.Attributes
	occasion occasion
	data     map[string]any
	request  cel.Values
	values   cel.Values
}

func newQuestion(a authorizer.Attributes) *question {
	return &question{Attributes: a, occasion: occasionOf(a)}
}

func (q *question) known() cel.Values {
	if q.values == nil {
		q.data = requestData(q.Attributes)
		q.request = cel.Values{cel.Request: cel.Known(q.data)}
		q.values = q.occasion.values(q.request)
	}
	return q.values
}
