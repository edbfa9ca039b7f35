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
	//guard:upstreams-form-clients-without-chains
	return slices.Contains(handledDecisionTypes, TypeConditionsMap) && slices.Contains(handledDecisionTypes, TypeUnion)
}

// Encode returns the form of a conditional decision, and nil with the folded decision if the decision is unconditional or if a review
// cannot hold it. EncodeSets says what becomes of failure modes.
func Encode(d authorization.Decision) (*Decision, authorization.Decision) {
	serializable, sets := authorization.Serializable(d)
	if len(sets) == 0 {
		return nil, serializable
	}
	return EncodeSets(sets), serializable
}

// failureMember is the name of the Deny at the end of a chain whose conditions may fail.
const failureMember = "failure-mode"

// EncodeSets returns the form of the chain of a review. The form has no failure modes: a client goes on to the next authorizer if a
// condition that could only allow fails. A chain therefore ends with Deny after the first set that must deny if it fails and that has
// conditions that the client may not be able to evaluate.
func EncodeSets(sets []authorizationapi.SubjectAccessReviewConditionSet) *Decision {
	members, fails := membersUntil(sets, mayFailToDeny)
	//guard:upstreams-form-failure-modes
	if !fails {
		return &Decision{Type: TypeUnion, Union: members}
	}
	deny := Decision{Type: TypeDeny, Deny: &Unconditional{Reason: "conditions before it may fail, and the form has no failure mode"}}
	named := func(m Member) bool { return m.AuthorizerName == failureMember }
	//guard:upstreams-form-room-deny-failure
	if slices.ContainsFunc(members, named) || length(members) >= authorizationapi.MaxConditionSets {
		members[len(members)-1].Decision = deny // there is no place behind it
	} else {
		members = append(members, Member{AuthorizerName: failureMember, Decision: deny})
	}
	return &Decision{Type: TypeUnion, Union: members}
}

// mayFailToDeny reports whether the failure of a set can be Deny in Proviso and NoOpinion in the form. Conditions that deny do not help:
// once they are false, a client keeps only the conditions that are left.
func mayFailToDeny(set *authorizationapi.SubjectAccessReviewConditionSet) bool {
	foreign := func(c authorizationapi.SubjectAccessReviewCondition) bool {
		known := c.Type == authorization.ConditionTypeCEL || c.Type == ConditionTypeCEL || c.Type == authorization.ConditionTypeCELBound
		//guard:upstreams-form-opaque-conditions-hold-back
		return !known && c.Effect != authorizationapi.ConditionEffectDeny
	}
	allows := func(c authorizationapi.SubjectAccessReviewCondition) bool {
		return c.Effect == authorizationapi.ConditionEffectAllow
	}
	//guard:upstreams-form-sets-without-failure-mode
	return set.FailureMode != authorizationapi.FailureModeNoOpinion && slices.ContainsFunc(set.Conditions, foreign) && slices.ContainsFunc(set.Conditions, allows)
}

// length counts the members with the nested ones.
func length(members []Member) int {
	n := len(members)
	for i := range members {
		n += length(members[i].Decision.Union)
	}
	return n
}

// EncodeOwn returns the form of the sets that are sent back to the authorizer name, which evaluates its own conditions: the chain is sent
// as it is. A set with its name was a decision of its own, which Decode named.
func EncodeOwn(name string, sets []authorizationapi.SubjectAccessReviewConditionSet) *Decision {
	if len(sets) == 1 && sets[0].AuthorizerName == name && len(sets[0].Conditions) > 0 {
		d := decisionOf(&sets[0])
		return &d
	}
	members, _ := membersUntil(sets, never)
	return &Decision{Type: TypeUnion, Union: members}
}

func never(*authorizationapi.SubjectAccessReviewConditionSet) bool { return false }

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

// membersUntil returns the members up to the first set, in nested chains too, for which last is true, and whether there is one.
func membersUntil(sets []authorizationapi.SubjectAccessReviewConditionSet, last func(*authorizationapi.SubjectAccessReviewConditionSet) bool) (_ []Member, ended bool) {
	members := make([]Member, 0, len(sets))
	for i := range sets {
		member := Member{AuthorizerName: sets[i].AuthorizerName}
		if chain := sets[i].ConditionsChain; len(chain) > 0 {
			member.Decision.Type = TypeUnion
			member.Decision.Union, ended = membersUntil(chain, last)
		} else {
			member.Decision, ended = decisionOf(&sets[i]), last(&sets[i])
		}
		if members = append(members, member); ended {
			break
		}
	}
	return members, ended
}

// decisionOf returns the decision of a set that is no chain.
func decisionOf(set *authorizationapi.SubjectAccessReviewConditionSet) Decision {
	switch {
	case set.Allowed:
		return Decision{Type: TypeAllow, Allow: &Unconditional{}}
	//guard:upstreams-form-chain-ends-deny
	case set.Denied:
		return Decision{Type: TypeDeny, Deny: &Unconditional{}}
	case len(set.Conditions) > 0:
		return Decision{Type: TypeConditionsMap, ConditionsMap: mapOf(set.Conditions)}
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
