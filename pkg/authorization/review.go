/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// Review answers a review: what the chain decides about the attributes, with
// conditions if the caller asked for them.
func (c *Chain) Review(ctx context.Context, record authorizer.AttributesRecord, config *authorization.ConditionalAuthorizationConfiguration) authorization.SubjectAccessReviewStatus {
	attributes := Attributes{AttributesRecord: record}
	if config != nil {
		attributes.Mode = config.Mode
	}
	decision := c.Decide(ctx, attributes)
	if attributes.Mode == authorization.ConditionsModeNone || AsksAboutMany(record) {
		decision = decision.Fold()
	}
	status := Status(decision)
	if message := SelectorErrors(record); message != "" {
		if status.EvaluationError != "" {
			status.EvaluationError += "; "
		}
		status.EvaluationError += message
	}
	return status
}

// AsksAboutMany reports whether attributes are about more than one kind of request. A
// condition is written for one version of one resource, so there are none for those
// (KEP-5681, "Feature availability and version skew").
func AsksAboutMany(attributes authorizer.Attributes) bool {
	values := []string{attributes.GetVerb()}
	if attributes.IsResourceRequest() {
		if attributes.GetAPIGroup() == "*" || attributes.GetSubresource() == "*" { // the empty ones are not many
			return true
		}
		values = append(values, attributes.GetAPIVersion(), attributes.GetResource())
	}
	return slices.Contains(values, "") || slices.Contains(values, "*")
}
