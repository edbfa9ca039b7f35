/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package answer

import (
	"slices"
	"strings"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Row is a condition in a table.
type Row struct {
	Effect authorizationv1alpha1.ConditionEffect `json:"effect"`
	// Condition is the condition in plain words if it is simple, and Expression is its text.
	Condition  string `json:"condition"`
	Expression string `json:"expression,omitempty"`
	// Policy is the policy, or the authorizer that decides without a condition.
	Policy      string `json:"policy"`
	Description string `json:"description,omitempty"`
}

// effects are in the order in which a set decides.
var effects = []authorizationv1alpha1.ConditionEffect{
	authorizationv1alpha1.ConditionEffectDeny, authorizationv1alpha1.ConditionEffectNoOpinion, authorizationv1alpha1.ConditionEffectAllow,
}

// Rows returns the conditions of sets in the order in which they decide.
func Rows(chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) (rows []Row) {
	for i := range chain {
		set := &chain[i]
		conditions := slices.Clone(set.Conditions)
		slices.SortStableFunc(conditions, func(a, b authorizationv1alpha1.SubjectAccessReviewCondition) int {
			return slices.Index(effects, a.Effect) - slices.Index(effects, b.Effect)
		})
		for _, c := range conditions {
			text := c.Condition
			if c.Type == authorization.ConditionTypeCEL {
				text = Words(c.Condition)
			}
			rows = append(rows, Row{Effect: c.Effect, Condition: text, Expression: c.Condition, Policy: policyOf(c.ID), Description: c.Description})
		}
		rows = append(rows, Rows(set.ConditionsChain)...)
		switch {
		case set.Allowed:
			rows = append(rows, Row{Effect: authorizationv1alpha1.ConditionEffectAllow, Condition: always, Policy: set.AuthorizerName})
		case set.Denied:
			rows = append(rows, Row{Effect: authorizationv1alpha1.ConditionEffectDeny, Condition: always, Policy: set.AuthorizerName})
		}
	}
	return rows
}

// always stands for the condition of a decision without one.
const always = "always"

// policyOf returns the policy of a condition, or for a condition of another authorizer its ID.
func policyOf(id string) string {
	domain, name, _ := strings.Cut(id, "/")
	if domain == authorization.ClusterPolicyDomain {
		return name
	}
	if namespace, ok := strings.CutSuffix(domain, authorization.NamespacedPolicyDomain); ok {
		return namespace + "/" + name
	}
	return id
}
