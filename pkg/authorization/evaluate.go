/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Evaluate evaluates the conditions of the decision with evaluator. The result is Allow,
// Deny or NoOpinion, with the reason and the errors. Only if the evaluator returned
// residuals, the result may be a set or chain of residual conditions. Data that is missing,
// errors and unknown types never make it Allow.
//
// The order of the conditions in a set has no influence on the result, on its reason
// or on its errors.
//
// An evaluator that returns residuals must also return the conditions whose type it does
// not know as residuals, because their author may evaluate them when all data is known. A
// condition that it cannot afford to evaluate must be Exhausted. So an evaluation in two
// steps never allows a request that an evaluation in one step, with all data, would refuse
// (docs/adr/0026-half-known-conditions-stay-closed.md).
func (d Decision) Evaluate(ctx context.Context, evaluator ConditionEvaluator) Decision {
	ctx, span := startSpan(ctx, evaluationSpan)
	decision := d.evaluate(ctx, evaluator).explained()
	span.end(decision, func() Decision { return d })
	return decision
}

// evaluate is Evaluate, but does not find the reason of a NoOpinion.
func (d Decision) evaluate(ctx context.Context, evaluator ConditionEvaluator) Decision {
	d = d.simplify()
	switch d.kind {
	case kindConditions:
		return Set{Decision: d}.evaluate(ctx, evaluator)
	case kindChain:
		return evaluateChain(ctx, d.chain, evaluator)
	default:
		return d
	}
}

// explained finds the reason of a NoOpinion with which an evaluation ends. It is not found before, because it spends the budget
// of the conditions that are still to be evaluated.
func (d Decision) explained() Decision {
	if d.why != nil {
		d.reason, d.why = d.why(), nil
	}
	return d
}

// evaluateChain implements KEP-5681, "Computing a concrete decision from a conditional
// authorization chain": the first set that evaluates to Allow or Deny is final, whatever
// later sets are. If a set before it has residual conditions, the result is the chain of
// the sets from there on that are not NoOpinion.
func evaluateChain(ctx context.Context, chain []Set, evaluator ConditionEvaluator) Decision {
	var (
		remaining []Set
		trail     diagnostics
	)
	for _, set := range chain {
		set.Decision = set.evaluate(ctx, evaluator)
		if set.Decision.IsNoOpinion() {
			trail.add(set)
			continue
		}
		if len(remaining) == 0 && set.Decision.IsUnconditional() {
			return set.Decision.after(trail)
		}
		remaining = append(remaining, set)
		if set.Decision.IsUnconditional() {
			break
		}
	}
	if len(remaining) == 0 {
		return trail.noOpinion()
	}
	return Decision{kind: kindChain, chain: remaining}.simplify()
}

// after is the unconditional decision with the errors of the sets before it.
func (d Decision) after(trail diagnostics) Decision {
	errs := trail.errs
	if d.err != nil {
		errs = append(errs, d.err)
	}
	return Decision{kind: d.kind, reason: d.reason, err: joinErrors(errs), decidedBy: d.decidedBy}
}

func (s Set) evaluate(ctx context.Context, evaluator ConditionEvaluator) Decision {
	if s.Decision.kind != kindConditions {
		return s.Decision.evaluate(ctx, evaluator)
	}
	e := setEvaluation{ctx: ctx, evaluator: evaluator, mode: s.FailureMode, conditions: byID(s.Decision.conditions), reasons: map[string]func() string{}}
	if sets, ok := evaluator.(setEvaluator); ok && s.Author != nil {
		e.author = func() Decision { return sets.evaluateSet(ctx, s) }
	}
	return e.decide()
}

// setEvaluator is a ConditionEvaluator that can also ask the author of a set to evaluate the whole set.
type setEvaluator interface {
	evaluateSet(ctx context.Context, set Set) Decision
}

// decide implements KEP-5681, "Computing a concrete decision from a ConditionSet",
// extended by residuals and by conditions that this process cannot evaluate. If the result of a set could
// depend on such a condition, the author evaluates the set. Without an author the set fails, and the
// failure mode decides.
func (e *setEvaluation) decide() Decision {
	deny := e.evaluate(EffectDeny)
	if deny.decided != nil {
		return Deny(deny.because(WordDenied), nil).by(deny.decided)
	}
	e.pendingDeny = deny.residual
	if len(deny.errs) > 0 || len(deny.unsupported) > 0 {
		return e.failed(deny)
	}

	noOpinion := e.evaluate(EffectNoOpinion)
	if noOpinion.decided != nil {
		return e.noOpinion(func() string { return noOpinion.because(WordHeldBack) })
	}
	if len(noOpinion.errs) > 0 {
		if noOpinion.exhausted {
			if allow := e.evaluate(EffectAllow); allow.maybeUnsupported() || noOpinion.maybeUnsupported() && allow.mayHold() {
				return e.failedByMode(noOpinion)
			}
		}
		return e.noOpinion(noOpinion.failures) // an error counts as true
	}

	allow := e.evaluate(EffectAllow)
	if allow.exhausted && len(allow.unsupported) == 0 && noOpinion.maybeUnsupported() {
		return e.failedByMode(noOpinion)
	}
	if allow.decided == nil && len(allow.residual) == 0 && len(allow.unsupported) == 0 {
		return e.noOpinion(e.nothingAllows)
	}
	if len(noOpinion.unsupported) > 0 {
		return e.failed(noOpinion)
	}
	if allow.decided == nil && len(allow.unsupported) > 0 {
		return e.failed(allow)
	}
	return e.allowed(noOpinion.residual, allow)
}

// maybeUnsupported reports whether some of the conditions, or of their residuals, have a type that may have no
// evaluator. If the set depends on such a condition, it fails. Whether it does can depend on a condition of
// another effect; if that is exhausted, decide lets the set fail at once, because it is not evaluated again.
func (o effectOutcome) maybeUnsupported() bool {
	return len(o.unsupported) > 0 || slices.ContainsFunc(o.residual, Condition.isForeign)
}

// mayHold reports whether one of the conditions is true, or may be.
func (o effectOutcome) mayHold() bool {
	return o.decided != nil || len(o.residual) > 0 || len(o.unsupported) > 0 || o.exhausted
}

// byID orders conditions so that the same set always gives the same reason.
func byID(conditions []Condition) []Condition {
	sorted := slices.Clone(conditions)
	slices.SortStableFunc(sorted, func(a, b Condition) int { return cmp.Compare(a.ID, b.ID) })
	return sorted
}

// setEvaluation is the state of evaluating one set.
type setEvaluation struct {
	//nolint:containedctx // lives for one call of decide
	ctx         context.Context
	evaluator   ConditionEvaluator
	mode        FailureMode
	conditions  []Condition
	author      func() Decision // has the author evaluate the whole set; nil if there is no author
	pendingDeny []Condition
	// reasons say why Allow conditions do not hold, by ID. They are made when they are shown.
	reasons map[string]func() string
	errs    []error
}

// effectOutcome is the result of the conditions of one effect.
type effectOutcome struct {
	effect      Effect
	decided     *Condition // the first that is true
	reason      string     // why it is
	failed      []string   // the reasons of those that failed
	residual    []Condition
	errs        []error
	unsupported []error
	exhausted   bool // one of errs or unsupported is for want of time, budget or size
}

// because returns the reason of the condition that decided.
func (o effectOutcome) because(word Word) string {
	return Explain(o.decided.ID, word, o.decided.Description, o.reason)
}

// failures returns the reasons of the conditions that failed.
func (o effectOutcome) failures() string { return bounded(o.failed) }

// becauseFailed returns the reason of a condition that could not be evaluated. It quotes no data.
func (c Condition) becauseFailed(err error) string {
	return Explain(c.ID, WordError, c.Description, textOfError, failureClass(err))
}

// Label names the condition for people: its policy, or its ID if it comes from no policy, and its description.
func (c Condition) Label() string {
	description := plain(c.Description)
	if description == "" {
		return nameOf(c.ID)
	}
	return fmt.Sprintf("%s (%s)", nameOf(c.ID), description)
}

// evaluate stops at the first condition that is true: conditions of one effect are a
// disjunction.
func (e *setEvaluation) evaluate(effect Effect) effectOutcome {
	result := effectOutcome{effect: effect}
	for _, c := range e.conditions {
		if c.Effect != effect {
			continue
		}
		outcome := e.outcomeOf(c)
		result.exhausted = result.exhausted || outcome.exhausted
		switch outcome.kind {
		case outcomeTrue:
			return effectOutcome{decided: &c, reason: outcome.because()}
		case outcomeFalse:
			e.reasons[c.ID] = func() string { return Explain(c.ID, WordNotMet, c.Description, outcome.because()) }
		case outcomeResidual:
			c.Type, c.Text, c.TextFunc, c.EvaluateFunc = outcome.residual.Type, outcome.residual.Text, outcome.residual.TextFunc, outcome.residual.EvaluateFunc
			result.residual = append(result.residual, c)
		case outcomeError:
			if e.author != nil && errors.Is(outcome.err, ErrNotCompiled) {
				// Its author may know a newer language.
				result.unsupported = append(result.unsupported, conditionError(c, outcome.err))
				result.failed = append(result.failed, c.becauseFailed(outcome.err))
				break
			}
			result.errs = append(result.errs, conditionError(c, outcome.err))
			reason := c.becauseFailed(outcome.err)
			result.failed, e.reasons[c.ID] = append(result.failed, reason), func() string { return reason }
		default:
			err := outcome.err
			if err == nil {
				err = errUnsupported
			}
			result.unsupported = append(result.unsupported, conditionError(c, err))
			if !outcome.exhausted {
				err = errUnsupported
			}
			result.failed = append(result.failed, c.becauseFailed(err))
		}
	}
	e.errs = append(append(e.errs, result.errs...), result.unsupported...)
	return result
}

// outcomeOf evaluates one condition. Once the context has ended, it returns an exhausted Unsupported instead.
func (e *setEvaluation) outcomeOf(c Condition) Outcome {
	if err := e.ctx.Err(); err != nil {
		//guard:time-up-deny-condition-denies
		return Outcome{kind: outcomeUnsupported, err: err, exhausted: true}
	}
	return e.evaluator.EvaluateCondition(e.ctx, c)
}

func conditionError(c Condition, err error) error {
	return fmt.Errorf("%s with effect %s: %w", c.Label(), c.Effect, err)
}

// failed returns the result of a set whose conditions of one effect failed. If they failed only because this
// process cannot evaluate them, the author, if any, evaluates the set while there is time. Otherwise an exhausted
// Deny condition denies, and for all other failures the failure mode decides.
func (e *setEvaluation) failed(of effectOutcome) Decision {
	if len(of.unsupported) > 0 && len(of.errs) == 0 && e.author != nil && e.ctx.Err() == nil {
		decision := e.author()
		if decision.IsNoOpinion() {
			// The author does not know which conditions only it could evaluate.
			return noOpinionBecause(func() string { return joinReasons(e.nothingAllows(), decision.Reason()) }, decision.err)
		}
		return decision
	}
	//guard:exhausted-deny-condition-denies
	if of.exhausted && of.effect == EffectDeny {
		return Deny(of.failures(), joinErrors(e.errs))
	}
	return e.failedByMode(of)
}

// failedByMode returns the result of a set that failed because of the conditions of an effect: Deny if its failure
// mode is Deny, and else the result of noOpinion.
func (e *setEvaluation) failedByMode(of effectOutcome) Decision {
	//guard:failure-mode-deny-default
	if e.mode != FailureModeNoOpinion {
		return Deny(of.failures(), joinErrors(e.errs))
	}
	return e.noOpinion(of.failures)
}

// nothingAllows returns the reasons why no Allow condition holds, one for each of the first maxReportedConditions Allow
// conditions. It returns "" for a set without Allow conditions.
func (e *setEvaluation) nothingAllows() string {
	var reasons []string
	for _, c := range e.conditions {
		if c.Effect != EffectAllow {
			continue
		}
		if len(reasons) == maxReportedConditions {
			reasons = append(reasons, "…")
			break
		}
		because := e.reasons[c.ID]
		if because == nil { // it was not evaluated, or only its author could
			because = func() string { return Explain(c.ID, WordNotMet, c.Description) }
		}
		reasons = append(reasons, because())
	}
	return joinReasons(reasons...)
}

// bounded joins at most maxReportedConditions reasons.
func bounded(reasons []string) string { return joinReasons(atMost(reasons)...) }

// atMost returns at most maxReportedConditions reasons, and an ellipsis if there are more.
func atMost(reasons []string) []string {
	if len(reasons) > maxReportedConditions {
		reasons = append(reasons[:maxReportedConditions:maxReportedConditions], "…")
	}
	return reasons
}

// labelsOf names the conditions of an effect, each once, and at most maxReportedConditions.
func labelsOf(conditions []Condition, effect Effect) []string {
	var names []string
	for _, c := range conditions {
		if c.Effect == effect && !slices.Contains(names, c.Label()) {
			names = append(names, c.Label())
		}
	}
	return atMost(names)
}

func namesOf(conditions []Condition, effect Effect) string {
	return joinReasons(labelsOf(conditions, effect)...)
}

// Labels names the conditions of the decision for people: those that can deny, those that can
// hold back, and those that can allow, of each effect at most maxReportedConditions.
func (d Decision) Labels() []string {
	all := d.allConditions()
	return slices.Concat(labelsOf(all, EffectDeny), labelsOf(all, EffectNoOpinion), labelsOf(all, EffectAllow))
}

const textOfFolded = "its condition cannot be evaluated for this request"

// notEvaluated returns the reason of a request that is refused because its conditions cannot be evaluated. It names the
// conditions that could deny. If there are none, it names the conditions that could keep Allow policies from allowing, and also
// the conditions that could allow, unless one of the conditions that could allow is always true.
func (d Decision) notEvaluated() string { return d.explainFolded(textOfFolded) }

// explainFolded is notEvaluated with a text for each condition.
func (d Decision) explainFolded(text string) string {
	all := d.allConditions()
	counts := func(c Condition) bool { return c.Effect == EffectDeny }
	if !slices.ContainsFunc(all, counts) {
		counts = func(c Condition) bool { return c.Effect == EffectNoOpinion }
		if !slices.ContainsFunc(all, func(c Condition) bool { return c.Effect == EffectAllow && c.isAlwaysTrue() }) {
			counts = func(Condition) bool { return true }
		}
	}
	onlyAllow := !slices.ContainsFunc(all, func(c Condition) bool { return c.Effect != EffectAllow })
	seen, reasons := map[string]bool{}, []string{}
	for _, c := range all {
		if counts(c) && !seen[c.ID] && len(reasons) <= maxReportedConditions {
			hint := ""
			//guard:authorization-selectors-beside-conditions-hold-back
			if onlyAllow {
				hint = c.Hint
			}
			seen[c.ID], reasons = true, append(reasons, Explain(c.ID, WordError, c.Description, text, hint))
		}
	}
	return bounded(reasons)
}

// isAlwaysTrue reports whether the condition is the one of a policy that has none, or whose condition holds already.
func (c Condition) isAlwaysTrue() bool {
	return c.Type == ConditionTypeCEL && c.TextFunc == nil && c.Text == "true"
}

// notShown returns the reason in the answer to a review that depends on conditions and cannot have them. People read it.
func (d Decision) notShown() string {
	const reason = "the decision depends on conditions, which cannot be evaluated or shown here"
	if on := d.DependsOn(); on != "" {
		return reason + ": " + on
	}
	return reason
}

// HowToSeeConditions ends the reason of a folded answer to a review.
const HowToSeeConditions = "to see the conditions, create the review of authorization.proviso.dev/v1alpha1 with spec.conditionalAuthorization.mode"

// DependsOn returns a text for people about what the conditions of the decision could do: deny, or if none could deny, keep Allow
// policies from allowing, and allow. It names at most maxReportedConditions of each effect, and names a condition that is in
// several sets once. It returns an empty string if there are no conditions.
func (d Decision) DependsOn() string {
	all := d.allConditions()
	if names := namesOf(all, EffectDeny); names != "" {
		return "one condition could deny: " + names
	}
	var parts []string
	if names := namesOf(all, EffectNoOpinion); names != "" {
		parts = append(parts, "one condition could keep Allow policies from allowing: "+names)
	}
	if names := namesOf(all, EffectAllow); names != "" {
		parts = append(parts, "allowed on conditions: "+names)
	}
	return joinReasons(parts...)
}

// maxReportedConditions bounds how many conditions a reason names.
const maxReportedConditions = 8

// noOpinion returns the result of a set that can no longer allow: its Deny conditions that depend on unknown data, or
// NoOpinion if there are none.
func (e *setEvaluation) noOpinion(why func() string) Decision {
	if len(e.pendingDeny) > 0 {
		return Decision{kind: kindConditions, conditions: e.pendingDeny}
	}
	//guard:explained-after-later-sets
	return noOpinionBecause(why, joinErrors(e.errs))
}

// allowed returns the result of a set in which an Allow condition holds or may still hold: Allow, or
// a set with the conditions that depend on unknown data and the Allow condition that holds, if
// there is one. Errors of other Allow conditions are ignored, as the KEP demands.
func (e *setEvaluation) allowed(pendingNoOpinion []Condition, allow effectOutcome) Decision {
	pending := slices.Concat(e.pendingDeny, pendingNoOpinion)
	if allow.decided == nil {
		return Decision{kind: kindConditions, conditions: append(pending, allow.residual...)}
	}
	if len(pending) == 0 {
		return Allow(allow.because(WordAllowed), nil).by(allow.decided)
	}
	held := *allow.decided
	held.Type, held.Text, held.TextFunc = ConditionTypeCEL, "true", nil
	held.EvaluateFunc = func(context.Context, authorizer.ConditionsData) Outcome { return True() }
	return Decision{kind: kindConditions, conditions: append(pending, held)}
}

// diagnostics gathers the reasons and errors of authorizers without an opinion, for the case that all
// authorizers have none.
type diagnostics struct {
	decisions []Decision
	errs      []error
}

func (t *diagnostics) add(s Set) {
	if s.Decision.reason != "" || s.Decision.why != nil {
		t.decisions = append(t.decisions, s.Decision)
	}
	if err := s.Decision.err; err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s: %w", s.AuthorizerName, err))
	}
}

// noOpinion returns the decision if no authorizer has an opinion.
func (t *diagnostics) noOpinion() Decision {
	if len(t.decisions) == 0 {
		return NoOpinion("", t.err())
	}
	return noOpinionBecause(t.reason, t.err())
}

func (t *diagnostics) reason() string {
	reasons := make([]string, 0, len(t.decisions))
	for _, d := range t.decisions {
		reasons = append(reasons, d.Reason())
	}
	return joinReasons(reasons...)
}

func (t *diagnostics) err() error { return joinErrors(t.errs) }

// maxReportedErrors bounds how many errors one decision reports. 512 conditions may
// each fail with a message of their own.
const maxReportedErrors = 8

func joinErrors(errs []error) error {
	if more := len(errs) - maxReportedErrors; more > 0 {
		errs = append(errs[:maxReportedErrors:maxReportedErrors], fmt.Errorf("and %d more errors", more))
	}
	return utilerrors.NewAggregate(errs)
}

var errUnsupported = errors.New("the condition type is not supported")
