/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform

import (
	"slices"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Handles reports whether a client can handle conditional decisions of Proviso, which are chains of condition sets. Without options a
// client handles unconditional decisions only.
func (o *AuthorizationOptions) Handles() bool {
	return o != nil && slices.Contains(o.HandledDecisionTypes, TypeConditionsMap) && slices.Contains(o.HandledDecisionTypes, TypeUnion)
}

// Encode returns the form of a conditional decision, and nil with the folded decision if the decision is unconditional or if a review
// cannot hold it. Failure modes are left out, so that a set that fails denies.
func Encode(d authorization.Decision) (*Decision, authorization.Decision) {
	serializable, sets := authorization.Serializable(d)
	if len(sets) == 0 {
		return nil, serializable
	}
	return &Decision{Type: TypeUnion, Union: membersOf(sets)}, serializable
}

// EncodeUnconditional returns the form of an unconditional decision. A conditional decision is folded.
func EncodeUnconditional(d authorization.Decision) *Decision {
	d = d.Fold()
	with := &Unconditional{Reason: d.Reason()}
	if err := d.Err(); err != nil {
		with.EvaluationError = err.Error()
	}
	switch {
	case d.IsAllow():
		return &Decision{Type: TypeAllow, Allow: with}
	case d.IsNoOpinion():
		return &Decision{Type: TypeNoOpinion, NoOpinion: with}
	default:
		return &Decision{Type: TypeDeny, Deny: with}
	}
}

func membersOf(sets []authorizationapi.SubjectAccessReviewConditionSet) []Member {
	members := make([]Member, 0, len(sets))
	for i := range sets {
		members = append(members, Member{AuthorizerName: sets[i].AuthorizerName, Decision: decisionOf(&sets[i])})
	}
	return members
}

func decisionOf(set *authorizationapi.SubjectAccessReviewConditionSet) Decision {
	switch {
	case set.Allowed:
		return Decision{Type: TypeAllow, Allow: &Unconditional{}}
	case set.Denied:
		return Decision{Type: TypeDeny, Deny: &Unconditional{}}
	case len(set.Conditions) > 0:
		return Decision{Type: TypeConditionsMap, ConditionsMap: mapOf(set.Conditions)}
	case len(set.ConditionsChain) > 0:
		return Decision{Type: TypeUnion, Union: membersOf(set.ConditionsChain)}
	default:
		return Decision{Type: TypeNoOpinion, NoOpinion: &Unconditional{}}
	}
}

func mapOf(conditions []authorizationapi.SubjectAccessReviewCondition) *ConditionsMap {
	result := &ConditionsMap{}
	for _, c := range conditions {
		condition := Condition{ID: c.ID, Type: c.Type, Condition: c.Condition, Description: c.Description}
		if c.Type == authorization.ConditionTypeCEL {
			condition.Type = ConditionTypeCEL
		}
		switch c.Effect {
		case authorizationapi.ConditionEffectAllow:
			result.AllowConditions = append(result.AllowConditions, condition)
		case authorizationapi.ConditionEffectNoOpinion:
			result.NoOpinionConditions = append(result.NoOpinionConditions, condition)
		default:
			result.DenyConditions = append(result.DenyConditions, condition)
		}
	}
	return result
}
