/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// requestData is what is known of a request, as policies read it. Every field is there,
// empty if the request has none.
func requestData(a authorizer.Attributes) map[string]any {
	data := celeval.RequestData(a)
	data["userInfo"], data["fieldSelector"], data["labelSelector"] = celeval.UserData(userOf(a)), fieldSelectorData(a), labelSelectorData(a)
	return data
}

// userOf returns the user of a request, one without names if there is none.
func userOf(a authorizer.Attributes) user.Info {
	if u := a.GetUser(); u != nil {
		return u
	}
	return &user.DefaultInfo{}
}

// requirementData returns a requirement of a selector as data for policies. Requirements on fields, too, have an operator of
// metav1.LabelSelectorRequirement.
func requirementData(key string, operator selection.Operator, values []string) map[string]any {
	return map[string]any{"key": key, "operator": string(operators[operator]), "values": celeval.ListOf(values)}
}

// operators maps the operators of selectors to the names that policies see. Gt and Lt, for
// > and < in a label selector, are not among the operators of metav1.LabelSelectorRequirement.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn,
	selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	selection.GreaterThan: "Gt", selection.LessThan: "Lt",
}

// fieldSelectorData returns the requirements of the field selector of a request. Requirements
// that cannot be parsed are left out, as if the request were about more objects.
func fieldSelectorData(a authorizer.Attributes) map[string]any {
	requirements, _ := a.GetFieldSelector()
	list := make([]any, 0, len(requirements))
	for _, r := range requirements {
		list = append(list, requirementData(r.Field, r.Operator, []string{r.Value}))
	}
	return map[string]any{"requirements": list}
}

// labelSelectorData is fieldSelectorData for labels.
func labelSelectorData(a authorizer.Attributes) map[string]any {
	requirements, _ := a.GetLabelSelector()
	list := make([]any, 0, len(requirements))
	for _, r := range requirements {
		list = append(list, requirementData(r.Key(), r.Operator(), r.ValuesUnsorted()))
	}
	return map[string]any{"requirements": list}
}

// requestFields are the data of requestData. They are made one by one, because policies usually read a field
// or two.
type requestFields struct {
	authorizer.Attributes

	user, fieldSelector, labelSelector shared
}

// shared is a selector, a user or the extra of a user as a value of CEL. It may have some hundred thousand parts, and each
// of many conditions may read it many times: all of them share one conversion.
type shared struct {
	once  sync.Once
	value cel.Value
}

func (s *shared) of(convert func() cel.Value) cel.Value {
	s.once.Do(func() { s.value = convert() })
	return s.value
}

// Field implements cel.Fields.
func (f *requestFields) Field(name string) (cel.Value, bool) {
	if text, ok := celeval.RequestText(f.Attributes, name); ok {
		return cel.Text(text), true
	}
	switch name {
	case "userInfo":
		return f.user.of(func() cel.Value { return cel.Lazy(&userFields{Info: userOf(f)}) }), true
	case "fieldSelector":
		return f.fieldSelector.of(func() cel.Value { return cel.Known(fieldSelectorData(f.Attributes)) }), true
	case "labelSelector":
		return f.labelSelector.of(func() cel.Value { return cel.Known(labelSelectorData(f.Attributes)) }), true
	default:
		return nil, false
	}
}

// Whole implements cel.Fields.
func (f *requestFields) Whole() cel.Value { return cel.Known(requestData(f.Attributes)) }

// userFields are the data of celeval.UserData.
type userFields struct {
	user.Info

	extra shared
}

// Field implements cel.Fields.
func (f *userFields) Field(name string) (cel.Value, bool) {
	switch name {
	case "username":
		return cel.Text(f.GetName()), true
	case "uid":
		return cel.Text(f.GetUID()), true
	case "groups":
		return cel.Texts(f.GetGroups()), true
	case "extra":
		return f.extra.of(func() cel.Value { return cel.Known(celeval.ExtraData(f.Info)) }), true
	default:
		return nil, false
	}
}

// Whole implements cel.Fields.
func (f *userFields) Whole() cel.Value { return cel.Known(celeval.UserData(f.Info)) }

// request is one request as its policies see it. Its values are made when the first
// condition reads them.
type request struct {
	authorizer.Attributes
	// decider is the authorizer that decides, and state has the snapshot from which it decides.
	decider *Authorizer
	state   state
	class   requestClass
	values  cel.Values
	// inNamespace has the values and the namespace, nil if the namespace is not known.
	inNamespace cel.Values
	// asked is true once the namespace has been looked up.
	asked bool
}

func newRequest(decider *Authorizer, s state, a authorizer.Attributes) *request {
	return &request{Attributes: a, decider: decider, state: s, class: classOf(a)}
}

// known returns the values of the variables that are known for the request. The caller must not change the map.
func (q *request) known() cel.Values {
	if q.values == nil {
		q.values = q.class.values(cel.Lazy(&requestFields{Attributes: q.Attributes}))
	}
	return q.values
}
