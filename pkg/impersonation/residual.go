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
	"unicode/utf8"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

var (
	errMany       = fmt.Errorf("too much of the user depends on the object: more than %d sets of conditions", api.MaxConditionSets)
	errParts      = fmt.Errorf("more than %d parts of the user have conditions", maxConditionalParts)
	errShape      = errors.New("several authorizers would have to allow it, one after the other")
	errNested     = errors.New("an authorizer answered with others within it")
	errFailure    = errors.New("a set of conditions that fails must deny")
	errNotDenying = errors.New("only sets of conditions that deny may remain, and deny if they fail")
	errChecks     = errors.New("a condition on the object of an impersonated request must not make authorization checks")
)

// idNothingAllows is the ID of the condition that none of several Allow conditions holds.
const idNothingAllows = "impersonation.proviso.dev/nothing-allows"

// remainder is what a decision about a part of a user leaves to be decided on the object.
type remainder struct {
	// all denies whatever the decision would not allow.
	all []authorization.Set
	// denials denies what the decision would deny, and is part of all. It holds even if
	// another mode allows the impersonation: a denial is final.
	denials []authorization.Set
}

func (r *remainder) add(other remainder) {
	r.all, r.denials = append(r.all, other.all...), append(r.denials, other.denials...)
}

// denyOnly makes conditions that deny what a decision about a part of a user would not
// allow (KEP-5681, "Constrained Impersonation through Conditional Authorization", on
// object and oldObject). As they only deny, they can precede everything that decides the
// request itself. What cannot be said in this form is an error: the impersonation then
// must be refused.
func (c *Conditional) denyOnly(decision authorization.Decision) (remains remainder, err error) {
	var held, unless []authorization.Condition // none of held and one of unless must be true
	chain := decision.Chain()
	for i, set := range chain {
		if set.Decision.IsUnconditional() {
			continue // it is the last: an Allow is looked at with the sets before it, a Deny below
		}
		if err := unsayable(set); err != nil {
			return remainder{}, err
		}
		denials, without, allowances := split(set.Decision.Conditions(), onlyAllowFollows(chain[i+1:]))
		if len(unless) > 0 {
			// This set counts only if the one before it does not allow. It is the same as one set
			// with all Allow conditions if both are held back by the same.
			if len(denials) > 0 || !sameConditions(held, without) {
				return remainder{}, errShape
			}
			unless = append(unless, allowances...)
			continue
		}
		held, unless = without, allowances
		remains.denials = appendSet(remains.denials, denials...)
		remains.all = appendSet(appendSet(remains.all, denials...), without...)
	}
	if len(unless) > 0 {
		none, err := c.noneOf(unless)
		if err != nil {
			return remainder{}, err
		}
		remains.all = appendSet(remains.all, none)
	}
	if n := len(chain); n > 0 && chain[n-1].Decision.IsDeny() {
		remains.denials = remains.all // whatever is not allowed is denied
	}
	for _, set := range remains.all {
		if err := validateResidual(c.Compiler, set); err != nil {
			return remainder{}, err
		}
	}
	return remains, nil
}

// unsayable reports why a set cannot be said in conditions that only deny. Those deny if they fail,
// which is no less than the set does unless it has Deny conditions that a failure would lift.
func unsayable(set authorization.Set) error {
	switch {
	case len(set.Decision.Chain()) > 0:
		return errNested
	case set.FailureMode == authorization.FailureModeNoOpinion && set.Decision.CanBecomeDenied():
		return errFailure
	}
	for _, c := range set.Decision.Conditions() {
		if c.Type != authorization.ConditionTypeCEL {
			return errType(c) // the set may fail, which denies, whatever the effect
		}
	}
	return nil
}

// onlyAllowFollows reports whether the rest of a chain always becomes Allow.
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

// split returns what denies in a set of conditions, what leaves it without an opinion, as
// conditions that deny, and what must hold for it to allow. If only Allow can
// follow the set, or if it cannot allow, only the first matters.
func split(conditions []authorization.Condition, allowFollows bool) (denials, without, unless []authorization.Condition) {
	for _, c := range conditions {
		switch c.Effect {
		case authorization.EffectAllow:
			unless = append(unless, c)
		case authorization.EffectNoOpinion:
			c.Effect = authorization.EffectDeny
			without = append(without, c)
		default:
			denials = append(denials, c)
		}
	}
	if allowFollows || len(unless) == 0 {
		return denials, nil, nil
	}
	return denials, without, unless
}

// residualDomain is in the names of sets that remain of an impersonation.
const residualDomain = "impersonation.proviso.dev"

// named gives residual sets names that are distinct.
func named(sets []authorization.Set) []authorization.Set {
	for i := range sets {
		sets[i].AuthorizerName = fmt.Sprintf("%d.%s", i, residualDomain)
	}
	return sets
}

// noneOf is true if no condition is.
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
	none.Description = shorten("none of these holds for the object: " + strings.Join(labels, "; "))
	if len(conditions) == 1 {
		none.Description = shorten(strings.TrimSuffix("it does not hold for the object: "+conditions[0].Description, ": "))
	}
	var err error
	none.Text, err = c.Partial.NoneOf(texts...)
	return none, err
}

func errType(c authorization.Condition) error {
	return fmt.Errorf("a condition of type %q cannot wait for the object", c.Type)
}

// shorten keeps a description within the bound of the data model.
func shorten(text string) string {
	if len(text) <= api.MaxDescriptionBytes {
		return text
	}
	cut := api.MaxDescriptionBytes - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// validateResidual reports why a set cannot be what remains of an impersonation.
func validateResidual(compiler *cel.Compiler, set authorization.Set) error {
	conditions := set.Decision.Conditions()
	if len(conditions) == 0 || set.FailureMode == authorization.FailureModeNoOpinion {
		return errNotDenying
	}
	for _, condition := range conditions {
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
		if authorization.MakesChecks(program) {
			return fmt.Errorf("condition %q: %w", condition.ID, errChecks)
		}
	}
	return nil
}
