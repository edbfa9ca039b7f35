/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
)

type decisionKind uint8

const (
	kindDeny decisionKind = iota
	kindAllow
	kindNoOpinion
	kindConditions
	kindChain
)

// Decision is the answer of an authorizer, or of a chain of them: Allow, Deny,
// NoOpinion, conditions, or a chain of sets. The zero value denies. A Decision is
// immutable.
type Decision struct {
	kind   decisionKind
	reason string
	// why computes the reason of a NoOpinion, which takes time. It is called only for a decision that ends with NoOpinion,
	// because no later set decides. It is nil for all other decisions.
	why        func() string
	err        error
	decidedBy  string
	conditions []Condition
	chain      []Set
}

// Set is the answer of one authorizer within a chain. Its zero value denies.
type Set struct {
	// AuthorizerName names the authorizer, uniquely within its chain.
	AuthorizerName string
	// FailureMode says what a failure to evaluate the set counts as; empty means Deny.
	FailureMode FailureMode
	// Decision is what the authorizer answered.
	Decision Decision
	// Author made the set. It evaluates the set if the conditions cannot be evaluated in this process.
	// If nil, such a set fails.
	Author ConditionsAuthor
}

// ConditionsAuthor evaluates the conditions that it made, whatever their type (KEP-5681,
// "Authorizer requirements"). Every authorizer.Authorizer is one.
type ConditionsAuthor interface {
	// EvaluateConditions returns what the decision is for the data. An error that comes
	// with Deny or NoOpinion is for diagnosis.
	EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error)
}

// Allow is an unconditional Allow. An error that comes with it is for diagnosis.
func Allow(reason string, err error) Decision {
	return Decision{kind: kindAllow, reason: reason, err: err}
}

// Deny is an unconditional Deny.
func Deny(reason string, err error) Decision {
	return Decision{kind: kindDeny, reason: reason, err: err}
}

// NoOpinion leaves the decision to later authorizers. If there are none, the request is not allowed.
func NoOpinion(reason string, err error) Decision {
	return Decision{kind: kindNoOpinion, reason: reason, err: err}
}

// NoOpinionBecause is NoOpinion with a function that finds the reason. It is called at most once, and only if no later authorizer
// decides. It is called in the goroutine that asks for the reason.
func NoOpinionBecause(reason func() string) Decision {
	return noOpinionBecause(reason, nil)
}

func noOpinionBecause(reason func() string, err error) Decision {
	return Decision{kind: kindNoOpinion, why: sync.OnceValue(reason), err: err}
}

// ErrInvalidConditions is the error of a decision that was made from conditions that
// break the data model.
var ErrInvalidConditions = errors.New("invalid conditions")

// Conditions is a decision that depends on conditions. At least one is needed, and their
// IDs must be distinct; IDs, effects and types must be valid. Otherwise the decision fails
// closed with ErrInvalidConditions: it is Deny if one of the conditions has the effect Deny,
// and NoOpinion if none has. The number of conditions and the length of the texts are not
// checked: they are bounded where a decision is serialised.
func Conditions(conditions ...Condition) Decision {
	//guard:conditions-shared-conditions
	d := Decision{kind: kindConditions, conditions: slices.Clone(conditions)}
	if err := d.validateConditions(); err != nil {
		return d.fold("invalid conditions", err)
	}
	return d
}

func (d Decision) validateConditions() error {
	switch {
	case len(d.conditions) == 0:
		return fmt.Errorf("%w: at least one is needed", ErrInvalidConditions)
	case areWellFormed(d.conditions):
		return nil
	}
	return validateConditions(d.conditions)
}

// validateConditions returns an error that names the invalid fields of conditions, and nil if there are
// none. Texts are not checked. It validates as many conditions at a time as a set may have when it is
// serialised.
func validateConditions(conditions []Condition) error {
	if len(conditions) > authorization.MaxConditionsPerSet && hasDuplicates(conditions) {
		return fmt.Errorf("%w: two have the same ID", ErrInvalidConditions)
	}
	for some := range slices.Chunk(conditions, authorization.MaxConditionsPerSet) {
		wire := make([]authorization.SubjectAccessReviewCondition, 0, len(some))
		for _, c := range some {
			// Texts are made lazily, so bounds on them are checked when they are serialised.
			wire = append(wire, authorization.SubjectAccessReviewCondition{ID: c.ID, Effect: c.Effect, Type: c.Type})
		}
		set := []authorization.SubjectAccessReviewConditionSet{{AuthorizerName: "-", Conditions: wire}}
		if errs := validation.ValidateConditionSets(set, field.NewPath("sets")); len(errs) > 0 {
			return fmt.Errorf("%w: %w", ErrInvalidConditions, errs.ToAggregate())
		}
	}
	return nil
}

// Chained is the decision of a chain of authorizers, given their answers in order: the
// first that is not, or does not evaluate to, NoOpinion is final (KEP-5681, "Computing
// a concrete decision from a conditional authorization chain"). The empty chain has no
// opinion.
func Chained(sets ...Set) Decision {
	//guard:chained-shared-sets
	return Decision{kind: kindChain, chain: slices.Clone(sets)}
}

// IsAllow reports whether the decision is an unconditional Allow.
func (d Decision) IsAllow() bool { return d.kind == kindAllow }

// IsDeny reports whether the decision is an unconditional Deny.
func (d Decision) IsDeny() bool { return d.kind == kindDeny }

// IsNoOpinion reports whether the decision is an unconditional NoOpinion.
func (d Decision) IsNoOpinion() bool { return d.kind == kindNoOpinion }

// IsUnconditional reports whether the decision is Allow, Deny or NoOpinion.
func (d Decision) IsUnconditional() bool { return d.kind <= kindNoOpinion }

// Conditions returns a copy of the conditions of a decision that is a set of them.
func (d Decision) Conditions() []Condition { return slices.Clone(d.conditions) }

// Chain returns a copy of the sets of a decision that is a chain.
//
//guard:chain-shared-sets
func (d Decision) Chain() []Set { return slices.Clone(d.chain) }

// Reason returns the reason of an unconditional decision, on one line. It may be empty. Webhooks and other servers may give any texts as reasons.
//
//guard:texts-reasons
func (d Decision) Reason() string { return OneLine(d.explained().reason) }

// Err returns an error that occurred while deciding. It may come with any
// unconditional decision.
func (d Decision) Err() error { return d.err }

// DecidedBy returns the ID of the Deny or Allow condition whose truth made the decision Deny or
// Allow. It is empty for all other decisions: for every NoOpinion, and if no condition was evaluated
// or one failed.
func (d Decision) DecidedBy() string { return d.decidedBy }

func (d Decision) by(condition *Condition) Decision {
	d.decidedBy = condition.ID
	return d
}

// outcomes is the set of unconditional decisions that a decision can become.
type outcomes uint8

const (
	canAllow outcomes = 1 << iota
	canDeny
	canNoOpinion
)

// possible returns what the decision can become if all conditions can be evaluated. It leaves
// failures out: a set that fails becomes Deny or NoOpinion by its failure mode, never Allow.
func (d Decision) possible() outcomes {
	switch d.kind {
	case kindAllow:
		return canAllow
	case kindNoOpinion:
		return canNoOpinion
	case kindConditions:
		result := canNoOpinion
		for _, c := range d.conditions {
			switch c.Effect {
			case EffectAllow:
				result |= canAllow
			case EffectDeny:
				result |= canDeny
			case EffectNoOpinion:
			}
		}
		return result
	case kindChain:
		var result outcomes
		for _, s := range d.chain {
			possible := s.Decision.possible()
			result |= possible &^ canNoOpinion
			if possible&canNoOpinion == 0 {
				return result
			}
		}
		return result | canNoOpinion
	default:
		return canDeny
	}
}

// CanBecomeAllowed reports whether some data could make the decision Allow. A request
// for which it is false must be refused before its body is read.
func (d Decision) CanBecomeAllowed() bool { return d.possible()&canAllow != 0 }

// CanBecomeDenied reports whether some data could make the decision Deny.
func (d Decision) CanBecomeDenied() bool { return d.possible()&canDeny != 0 }

// WithoutDeny returns the decision without those Deny conditions of one member of the chain that another component enforces, and the
// conditions that it leaves out. enforced reports whether another component refuses the request at admission if the condition
// denies it or cannot be evaluated. Conditions are left out only of a set that has Deny conditions alone, and is directly in the chain
// under the name of the member: other members may use the same IDs.
//
// For all data for which the conditions that are left out are false, the result evaluates to what d evaluates to. For other data the
// caller relies on the other component.
func (d Decision) WithoutDeny(authorizerName string, enforced func(Condition) bool) (rest Decision, leftOut []Condition) {
	if d.kind != kindChain {
		return d, nil
	}
	//guard:without-deny-shared-sets
	sets := slices.Clone(d.chain)
	for i := range sets {
		set := &sets[i]
		//guard:without-deny-sets-other-members
		if set.AuthorizerName != authorizerName || set.Decision.kind != kindConditions || slices.ContainsFunc(set.Decision.conditions, Condition.isNoDeny) {
			continue
		}
		var kept []Condition
		for _, c := range set.Decision.conditions {
			//guard:without-deny-conditions-not-enforced
			if enforced(c) {
				leftOut = append(leftOut, c)
			} else {
				kept = append(kept, c)
			}
		}
		set.Decision = Decision{kind: kindConditions, conditions: kept}
	}
	if len(leftOut) == 0 {
		return d, nil
	}
	return Decision{kind: kindChain, chain: sets}.simplify(), leftOut
}

func (c Condition) isNoDeny() bool { return c.Effect != EffectDeny }

// Fold makes the decision unconditional for a request whose conditions no server evaluates, and for any other caller that
// does not support conditions: Deny if it could deny, NoOpinion otherwise (KEP-5681, "Authorizer requirements"). The reason
// names the conditions that could deny. If there are none, it names the conditions that could keep Allow policies from allowing
// and those that could allow. A decision that is Allow for all values of its conditions becomes Allow. Unconditional decisions
// are returned as they are.
func (d Decision) Fold() Decision { return d.foldBecause(Decision.notEvaluated) }

// FoldBecause is Fold with a text that says why no server evaluates the conditions.
func (d Decision) FoldBecause(why string) Decision {
	return d.foldBecause(func(d Decision) string { return d.explainFolded(textOfFolded + ": " + why) })
}

// FoldReview is Fold for the answer to a review, whose reason says what the conditions could do.
func (d Decision) FoldReview() Decision { return d.foldBecause(Decision.notShown) }

func (d Decision) foldBecause(reason func(Decision) string) Decision {
	simple := d.simplify()
	if allowed := simple.allowedByEveryValue(); allowed.IsAllow() {
		return allowed
	}
	switch {
	case simple.IsUnconditional():
		return simple
	case simple.CanBecomeDenied():
		return Deny(reason(simple), nil)
	default:
		return NoOpinion(reason(simple), nil)
	}
}

func (d Decision) fold(reason string, err error) Decision {
	if d.CanBecomeDenied() {
		return Deny(reason+" to Deny", err)
	}
	return NoOpinion(reason+" to NoOpinion", err)
}

// allConditions returns the conditions of the decision, nested ones included, in order.
func (d Decision) allConditions() []Condition {
	conditions := d.conditions
	for _, set := range d.chain {
		conditions = append(conditions[:len(conditions):len(conditions)], set.Decision.allConditions()...)
	}
	return conditions
}

// simplify makes the decision unconditional if no data can change it, and otherwise
// drops the sets that cannot be reached or cannot have an opinion. A set that could fail
// stays before an Allow, because its failure may deny. Evaluate simplifies in the same way
// first, so that a review and an evaluation cannot differ.
func (d Decision) simplify() Decision {
	if d.kind == kindConditions && d.possible() == canNoOpinion {
		return NoOpinion("", nil)
	}
	if d.kind != kindChain {
		return d
	}
	var (
		kept     []Set
		trail    diagnostics
		possible = d.possible()
	)
	for _, s := range d.chain {
		s.Decision = s.Decision.simplify()
		if s.Decision.possible() == canNoOpinion {
			trail.add(s)
			continue
		}
		kept = append(kept, s)
		if s.Decision.possible()&canNoOpinion == 0 {
			break
		}
	}
	switch {
	case len(kept) == 0:
		return trail.noOpinion()
	case len(kept) == 1 && kept[0].Decision.IsUnconditional():
		return kept[0].Decision
	case possible == canDeny:
		last := kept[len(kept)-1].Decision
		return Deny(last.reason, last.err)
	//guard:simplify-sets-can-fail
	case possible == canAllow && !slices.ContainsFunc(kept, Set.canFail):
		last := kept[len(kept)-1].Decision
		return Allow(last.reason, last.err)
	}
	return Decision{kind: kindChain, chain: kept}
}

// canFail reports whether the set, or one nested in it, has the failure mode Deny and a condition
// whose type may be unknown to the evaluator. Such a set may deny even if it has no Deny condition.
func (s Set) canFail() bool {
	switch s.Decision.kind {
	case kindChain:
		//guard:canfail-nested
		return slices.ContainsFunc(s.Decision.chain, Set.canFail)
	case kindConditions:
		//guard:canfail-failure-mode
		return s.FailureMode != FailureModeNoOpinion && slices.ContainsFunc(s.Decision.conditions, Condition.isForeign)
	default:
		return false
	}
}

// isForeign reports whether the type of a condition may be unknown to an evaluator.
func (c Condition) isForeign() bool {
	return c.Type != ConditionTypeCEL && c.Type != ConditionTypeCELBound
}

// allowedByEveryValue returns the Allow at the end of a simplified decision that can only become
// Allow, and NoOpinion for every other decision.
func (d Decision) allowedByEveryValue() Decision {
	if d.possible() != canAllow {
		return NoOpinion("", nil)
	}
	for d.kind == kindChain {
		d = d.chain[len(d.chain)-1].Decision
	}
	return d
}
