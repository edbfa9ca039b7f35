/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform

import (
	"errors"
	"fmt"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// ErrInvalid is the error of a decision that breaks the form.
var ErrInvalid = errors.New("invalid conditional decision")

var (
	errEmpty         = errors.New("a list of sets or of conditions is empty")
	errUnconditional = errors.New("it must depend on conditions")
)

// maxTypeBytes bounds how much of a type an error quotes.
const maxTypeBytes = 32

// Sets returns the chain of a conditional decision. name names the authorizer of a decision that is a lone ConditionsMap. The error
// wraps ErrInvalid if the decision does not have the form. Bounds of the data model are not checked: authorization.SetsFromWire does
// that.
func Sets(name string, d *Decision) ([]authorizationapi.SubjectAccessReviewConditionSet, error) {
	set, err := d.set(name, authorizationapi.MaxConditionSetDepth)
	switch {
	case err != nil:
	case len(set.ConditionsChain) > 0:
		return set.ConditionsChain, nil
	case len(set.Conditions) > 0:
		return []authorizationapi.SubjectAccessReviewConditionSet{set}, nil
	default:
		err = errUnconditional
	}
	return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
}

// Decode returns a conditional decision. name names the authorizer of a decision that is a lone ConditionsMap. The error wraps
// ErrInvalid if the decision does not have the form, and authorization.ErrInvalidConditions if it breaks a bound of the data model. The
// caller must then deny.
func Decode(name string, d *Decision) (authorization.Decision, error) {
	wire, err := Sets(name, d)
	if err != nil {
		return authorization.Decision{}, err
	}
	sets, err := authorization.SetsFromWire(wire)
	if err != nil {
		return authorization.Decision{}, err
	}
	return authorization.Chained(sets...), nil
}

// set returns the decision as a set of a chain. depth bounds the nesting.
func (d *Decision) set(name string, depth int) (set authorizationapi.SubjectAccessReviewConditionSet, err error) {
	set.AuthorizerName = name
	if err := d.hasOneMember(); err != nil {
		return set, err
	}
	switch d.Type {
	case TypeAllow:
		set.Allowed = true
	case TypeDeny:
		//guard:upstreams-form-deny-chain
		set.Denied = true
	case TypeConditionsMap:
		set.Conditions = d.ConditionsMap.conditions()
		if len(set.Conditions) == 0 {
			return set, errEmpty
		}
	case TypeUnion:
		//guard:upstreams-form-nesting
		if depth == 0 {
			return set, fmt.Errorf("chains are nested more than %d levels deep", authorizationapi.MaxConditionSetDepth)
		}
		for i := range d.Union {
			nested, err := d.Union[i].Decision.set(d.Union[i].AuthorizerName, depth-1)
			if err != nil {
				return set, err
			}
			set.ConditionsChain = append(set.ConditionsChain, nested)
		}
		if len(set.ConditionsChain) == 0 {
			return set, errEmpty
		}
	}
	return set, nil
}

// hasOneMember returns an error unless the decision has the member that its type names, and no other.
func (d *Decision) hasOneMember() error {
	members := map[string]bool{
		TypeAllow: d.Allow != nil, TypeDeny: d.Deny != nil, TypeNoOpinion: d.NoOpinion != nil, TypeConditionsMap: d.ConditionsMap != nil, TypeUnion: d.Union != nil,
	}
	given := 0
	for _, has := range members {
		if has {
			given++
		}
	}
	//guard:upstreams-form-two-members
	if given != 1 || !members[d.Type] {
		return fmt.Errorf("a decision of type %.*q must have the member of its type and no other", maxTypeBytes, d.Type)
	}
	return nil
}

func (m *ConditionsMap) conditions() []authorizationapi.SubjectAccessReviewCondition {
	var conditions []authorizationapi.SubjectAccessReviewCondition
	//guard:upstreams-form-conditions-without-opinion
	for _, of := range []struct {
		effect authorizationapi.ConditionEffect
		list   []Condition
	}{
		{authorizationapi.ConditionEffectDeny, m.DenyConditions},
		{authorizationapi.ConditionEffectNoOpinion, m.NoOpinionConditions},
		{authorizationapi.ConditionEffectAllow, m.AllowConditions},
	} {
		for _, c := range of.list {
			conditionType := c.Type
			if conditionType == ConditionTypeCEL {
				conditionType = authorization.ConditionTypeCEL
			}
			conditions = append(conditions, authorizationapi.SubjectAccessReviewCondition{
				ID: c.ID, Effect: of.effect, Type: conditionType, Condition: c.Condition, Description: c.Description,
			})
		}
	}
	return conditions
}
