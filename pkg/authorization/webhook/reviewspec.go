/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"maps"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// maxHops bounds how many servers pass a review on to the next one. A longer line of servers
// would nest conditions deeper than their bounds permit, and a circle of servers would never get
// an answer.
const maxHops = authorizationapi.MaxConditionSetDepth

// marked returns a copy of a user's extra with the delegation marker, with one value for each
// server that has passed the review on.
func marked(extra map[string]authorizationv1.ExtraValue, hops int) map[string]authorizationv1.ExtraValue {
	extra = maps.Clone(extra)
	if extra == nil {
		extra = map[string]authorizationv1.ExtraValue{}
	}
	extra[authorization.DelegationMarker] = slices.Repeat(authorizationv1.ExtraValue{"true"}, hops)
	return extra
}

// specOf returns the spec of a check that kube-apiserver answers, with the delegation marker.
func specOf(attributes authorizer.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := reviewSpecOf(attributes)
	spec.Extra = marked(spec.Extra, 1)
	return spec
}

// reviewSpecOf returns the spec of a review without the delegation marker. Equal attributes always
// give the same bytes, because the result is also the key of the cache.
func reviewSpecOf(attributes authorizer.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		Extra: map[string]authorizationv1.ExtraValue{},
	}
	if subject := attributes.GetUser(); subject != nil {
		spec.User, spec.UID, spec.Groups = subject.GetName(), subject.GetUID(), subject.GetGroups()
		for k, v := range subject.GetExtra() {
			spec.Extra[k] = v
		}
	}
	if !attributes.IsResourceRequest() {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: attributes.GetPath(),
			Verb: attributes.GetVerb(),
		}
		return spec
	}
	// The valid part of a selector is used. Without the other requirements the review asks for
	// more than the request would use.
	fieldRequirements, _ := attributes.GetFieldSelector()
	labelRequirements, _ := attributes.GetLabelSelector()
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace:     attributes.GetNamespace(),
		Verb:          attributes.GetVerb(),
		Group:         attributes.GetAPIGroup(),
		Version:       attributes.GetAPIVersion(),
		Resource:      attributes.GetResource(),
		Subresource:   attributes.GetSubresource(),
		Name:          attributes.GetName(),
		FieldSelector: fieldSelectorOf(fieldRequirements),
		LabelSelector: labelSelectorOf(labelRequirements),
	}
	return spec
}

func fieldSelectorOf(requirements fields.Requirements) *authorizationv1.FieldSelectorAttributes {
	operators := map[selection.Operator]metav1.FieldSelectorOperator{
		selection.Equals:       metav1.FieldSelectorOpIn,
		selection.DoubleEquals: metav1.FieldSelectorOpIn,
		selection.In:           metav1.FieldSelectorOpIn,
		selection.NotEquals:    metav1.FieldSelectorOpNotIn,
		selection.NotIn:        metav1.FieldSelectorOpNotIn,
	}
	var result []metav1.FieldSelectorRequirement
	for _, r := range requirements {
		// A selector may have a requirement without a key, but a review may not. Without the
		// requirement the review asks for more than the request would use.
		if operator, ok := operators[r.Operator]; ok && r.Field != "" {
			result = append(result, metav1.FieldSelectorRequirement{Key: r.Field, Operator: operator, Values: []string{r.Value}})
		}
	}
	if len(result) == 0 {
		return nil
	}
	return &authorizationv1.FieldSelectorAttributes{Requirements: result}
}

func labelSelectorOf(requirements labels.Requirements) *authorizationv1.LabelSelectorAttributes {
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.Equals:       metav1.LabelSelectorOpIn,
		selection.DoubleEquals: metav1.LabelSelectorOpIn,
		selection.In:           metav1.LabelSelectorOpIn,
		selection.NotEquals:    metav1.LabelSelectorOpNotIn,
		selection.NotIn:        metav1.LabelSelectorOpNotIn,
		selection.Exists:       metav1.LabelSelectorOpExists,
		selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	var result []metav1.LabelSelectorRequirement
	for _, r := range requirements {
		if operator, ok := operators[r.Operator()]; ok {
			values := slices.Sorted(slices.Values(r.ValuesUnsorted()))
			result = append(result, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: values})
		}
	}
	if len(result) == 0 {
		return nil
	}
	return &authorizationv1.LabelSelectorAttributes{Requirements: result}
}
