/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

var (
	errMany       = fmt.Errorf("too much of the user depends on the object: more than %d sets of conditions", api.MaxConditionSets)
	errParts      = fmt.Errorf("more than %d parts of the user have conditions", maxConditionalParts)
	errManyParts  = fmt.Errorf("more than %d parts of the user are not allowed by conditional mode", maxDeniedParts)
	errShape      = errors.New("several authorizers would have to allow it, one after the other")
	errNested     = errors.New("an authorizer answered with others within it")
	errFailure    = errors.New("a set of conditions that fails must deny")
	errNotDenying = errors.New("only sets of conditions that deny may remain, and deny if they fail")
	errChecks     = errors.New("a condition on the object of an impersonated request must not make authorization checks")
)

// residualDomain is the domain of the names of residual sets and conditions.
const residualDomain = "impersonation.proviso.dev"

// idNothingAllows is the ID of a Deny condition that is true if none of several Allow conditions is true.
const idNothingAllows = residualDomain + "/nothing-allows"

// residual has the residual conditions of the checks on a user, which are conditions on the object.
type residual struct {
	// all deny every object for which a check would not be allowed.
	all []authorization.Set
	// denials deny every object for which a check would be denied, and are part of all. They apply even if
	// another mode allows the impersonation: a denial is final.
	denials []authorization.Set
}

func (r *residual) add(other residual) {
	r.all, r.denials = append(r.all, other.all...), append(r.denials, other.denials...)
}

// denyOnly returns Deny conditions that are true for the objects for which the decision on a part of a user would not
// be Allow (KEP-5681, "Constrained Impersonation through Conditional Authorization", on object and
// oldObject). As they can only deny, they can precede all authorizers that decide the request itself. It returns an error
// if the decision cannot be expressed in this form: the impersonation then must be refused.
func (c *Conditional) denyOnly(decision authorization.Decision) (result residual, err error) {
	// The sets that can allow do so if none of noOpinion and one of allow is true.
	var noOpinion, allow []authorization.Condition
	chain := decision.Chain()
	for i, set := range chain {
		if set.Decision.IsUnconditional() {
			continue // It is the last one. An Allow is considered with the sets before it, a Deny below.
		}
		if err := unsupported(set); err != nil {
			return residual{}, err
		}
		deny, setNoOpinion, setAllow := split(set.Decision.Conditions(), onlyAllowFollows(chain[i+1:]))
		if len(allow) > 0 {
			// This set counts only if the one before it does not allow. Both are the same as one set
			// with the Allow conditions of both if their NoOpinion conditions are the same.
			if len(deny) > 0 || !sameConditions(noOpinion, setNoOpinion) {
				return residual{}, errShape
			}
			allow = append(allow, setAllow...)
			continue
		}
		noOpinion, allow = setNoOpinion, setAllow
		result.denials = appendSet(result.denials, deny...)
		result.all = appendSet(appendSet(result.all, deny...), noOpinion...)
	}
	if len(allow) > 0 {
		none, err := c.noneOf(allow)
		if err != nil {
			return residual{}, err
		}
		result.all = appendSet(result.all, none)
	}
	if n := len(chain); n > 0 && chain[n-1].Decision.IsDeny() {
		result.denials = result.all // Everything that is not allowed is denied.
	}
	for _, set := range result.all {
		if err := validateResidual(c.Compiler, set); err != nil {
			return residual{}, err
		}
	}
	return result, nil
}

// unsupported returns an error if a set cannot be expressed as deny-only conditions, which deny if they fail: if the set
// contains a chain, if it has a condition that is not CEL, or if it can deny and has the failure mode NoOpinion, so that a
// failure would lift its Deny conditions.
func unsupported(set authorization.Set) error {
	switch {
	case len(set.Decision.Chain()) > 0:
		return errNested
	case set.FailureMode == authorization.FailureModeNoOpinion && set.Decision.CanBecomeDenied():
		return errFailure
	}
	for _, c := range set.Decision.Conditions() {
		//guard:impersonation-unknown-types
		if c.Type != authorization.ConditionTypeCEL {
			return errType(c) // the set may fail, which denies, whatever the effect
		}
	}
	return nil
}

// onlyAllowFollows reports whether the rest of a chain always evaluates to Allow: it ends with Allow, and nothing in it can
// deny.
func onlyAllowFollows(rest []authorization.Set) bool {
	denies := func(s authorization.Set) bool { return s.Decision.CanBecomeDenied() }
	return len(rest) > 0 && rest[len(rest)-1].Decision.IsAllow() && !slices.ContainsFunc(rest, denies)
}

// sameConditions reports whether two lists of conditions are the same, in their order.
func sameConditions(a, b []authorization.Condition) bool {
	return slices.EqualFunc(a, b, func(a, b authorization.Condition) bool {
		return a.ID == b.ID && a.Effect == b.Effect && a.Type == b.Type && a.Text == b.Text
	})
}

func appendSet(sets []authorization.Set, conditions ...authorization.Condition) []authorization.Set {
	if len(conditions) == 0 {
		return sets
	}
	return append(sets, authorization.Set{Decision: authorization.Conditions(conditions...)})
}

// split returns the conditions of a set by effect. The NoOpinion conditions get the effect Deny. If the rest of the chain
// always allows (allowFollows), or if the set has no Allow condition, only its Deny conditions matter, and noOpinion and allow
// are empty.
func split(conditions []authorization.Condition, allowFollows bool) (deny, noOpinion, allow []authorization.Condition) {
	for _, c := range conditions {
		switch c.Effect {
		case authorization.EffectAllow:
			allow = append(allow, c)
		case authorization.EffectNoOpinion:
			c.Effect = authorization.EffectDeny
			noOpinion = append(noOpinion, c)
		default:
			deny = append(deny, c)
		}
	}
	if allowFollows || len(allow) == 0 {
		return deny, nil, nil
	}
	return deny, noOpinion, allow
}

// named gives residual sets distinct names.
func named(sets []authorization.Set) []authorization.Set {
	for i := range sets {
		sets[i].AuthorizerName = fmt.Sprintf("%d.%s", i, residualDomain)
	}
	return sets
}

// noneOf returns a Deny condition that is true if none of the given conditions is true.
func (c *Conditional) noneOf(conditions []authorization.Condition) (authorization.Condition, error) {
	none := authorization.Condition{ID: idNothingAllows, Effect: authorization.EffectDeny, Type: authorization.ConditionTypeCEL}
	if len(conditions) == 1 {
		none.ID = conditions[0].ID
	}
	var texts, labels []string
	for _, condition := range conditions {
		if condition.Type != authorization.ConditionTypeCEL {
			return none, errType(condition)
		}
		texts, labels = append(texts, condition.Text), append(labels, condition.Label())
	}
	none.Description = excerpt.Of("none of these holds for the object: "+strings.Join(labels, "; "), api.MaxDescriptionBytes)
	if len(conditions) == 1 {
		none.Description = excerpt.Of(strings.TrimSuffix("it does not hold for the object: "+conditions[0].Description, ": "), api.MaxDescriptionBytes)
	}
	var err error
	none.Text, err = c.Partial.NoneOf(texts...)
	return none, err
}

func errType(c authorization.Condition) error {
	return fmt.Errorf("a condition of type %q cannot wait for the object", c.Type)
}

// validateResidual returns an error unless a set can be a set of residual conditions: it has conditions, all are Deny
// conditions in CEL that compile and make no authorization checks, and its failure mode is Deny.
func validateResidual(compiler *cel.Compiler, set authorization.Set) error {
	conditions := set.Decision.Conditions()
	//guard:impersonation-sets-fail-noopinion
	if len(conditions) == 0 || set.FailureMode == authorization.FailureModeNoOpinion {
		return errNotDenying
	}
	for _, condition := range conditions {
		//guard:impersonation-residuals-do-not-deny
		if condition.Effect != authorization.EffectDeny {
			return fmt.Errorf("condition %q: only conditions that deny may remain", condition.ID)
		}
		if condition.Type != authorization.ConditionTypeCEL {
			return errType(condition)
		}
		program, err := compiler.Compile(condition.Text)
		if err != nil {
			return fmt.Errorf("condition %q: %w", condition.ID, err)
		}
		if celeval.MakesChecks(program) {
			return fmt.Errorf("condition %q: %w", condition.ID, errChecks)
		}
	}
	return nil
}
