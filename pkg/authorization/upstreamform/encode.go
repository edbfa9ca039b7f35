/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// HandledDecisionTypes are the types of decisions that Proviso handles as a client.
var HandledDecisionTypes = []string{TypeAllow, TypeDeny, TypeNoOpinion, TypeConditionsMap, TypeUnion}

// Handles reports whether a client can handle conditional decisions of Proviso, which are chains of condition sets. A client
// without options handles unconditional decisions only.
func Handles(handledDecisionTypes []string) bool {
	return slices.Contains(handledDecisionTypes, TypeConditionsMap) && slices.Contains(handledDecisionTypes, TypeUnion)
}

// Encode returns the form of a conditional decision, and nil with the folded decision if the decision is unconditional or if a review
// cannot hold it. Failure modes are left out, so that a set that fails denies.
func Encode(d authorization.Decision) (*Decision, authorization.Decision) {
	serializable, sets := authorization.Serializable(d)
	if len(sets) == 0 {
		return nil, serializable
	}
	return EncodeSets(sets), serializable
}

// EncodeSets returns the form of the chain of a review. Failure modes are left out, so that a set that fails denies.
func EncodeSets(sets []authorizationapi.SubjectAccessReviewConditionSet) *Decision {
	return &Decision{Type: TypeUnion, Union: membersOf(sets)}
}

// EncodeOwn is EncodeSets for the sets that are sent back to the authorizer name. A set with its name was a decision of its own, which
// Decode named.
func EncodeOwn(name string, sets []authorizationapi.SubjectAccessReviewConditionSet) *Decision {
	if len(sets) == 1 && sets[0].AuthorizerName == name && len(sets[0].Conditions) > 0 {
		d := decisionOf(&sets[0])
		return &d
	}
	return EncodeSets(sets)
}

// Raw returns the JSON of a decision.
func (d *Decision) Raw() (*runtime.RawExtension, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encoding a decision: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
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
