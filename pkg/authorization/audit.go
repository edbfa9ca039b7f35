/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/excerpt"
)

const (
	// auditTimeout bounds the time that the policies with the enforcement Audit add to one step of a request: to its authorization,
	// and to the admission of one object. A policy that is not evaluated by then counts as undetermined.
	auditTimeout = 250 * time.Millisecond
	// maxAudited bounds the policies whose results one request keeps.
	maxAudited = 256
	// maxAuditWarnings bounds the warnings of one request, and maxAuditWarningBytes each of them: clients show warnings on a terminal,
	// and kube-apiserver shortens longer ones.
	maxAuditWarnings     = 5
	maxAuditWarningBytes = 256
	// maxAuditAnnotationBytes bounds an annotation: audit backends cut events that are too long.
	maxAuditAnnotationBytes = 2048
)

// AuditPrefix is the beginning of the keys of the audit annotations about policies with the enforcement Audit.
const AuditPrefix = "audit.policy.proviso.dev/"

// AuditResult is what a policy with the enforcement Audit would have done to a request.
type AuditResult uint8

// The results. Of two results about the same request, the greater one counts.
const (
	// AuditUnapplied means that the policy would not have applied.
	AuditUnapplied AuditResult = iota
	// AuditUndetermined means that it is not known whether the policy would have applied.
	AuditUndetermined
	// AuditApplied means that the policy would have applied.
	AuditApplied
	// AuditFailed means that the condition cannot be evaluated. A Deny or NoOpinion policy would have applied.
	AuditFailed
)

// AuditPolicy is a policy with the enforcement Audit that matches a request, and so might have decided it.
type AuditPolicy struct {
	// ID, Description and Effect are as in the condition of the policy.
	ID, Description string
	Effect          Effect
	// Known evaluates the condition with the data that is known at authorization. The outcome is residual if it depends on
	// other data. Calls are not concurrent.
	Known func(ctx context.Context, budgets *PolicyBudgets) Outcome
	// Evaluate evaluates a residual condition with all data. Calls may be concurrent.
	Evaluate func(ctx context.Context, data authorizer.ConditionsData) Outcome
	// Count counts the result. It is called once for a request.
	Count func(AuditResult)
}

// Audit finds out what policies with the enforcement Audit would have done to one request. These policies decide nothing. The
// authorizers add them while the request is decided, to the Audit of its attributes, and its caller evaluates them after the
// decision. They have budgets of their own. It is safe for concurrent use; a nil Audit does nothing.
type Audit struct {
	budgets PolicyBudgets
	budget  Budget

	mu       sync.Mutex
	policies []*audited
	finished bool
}

// audited is one policy, or the same policy for another check of the request.
type audited struct {
	AuditPolicy
	state  auditState
	result AuditResult
}

type auditState uint8

const (
	auditNew      auditState = iota
	auditResidual            // the condition depends on data that is not known at authorization
	auditDone
)

// Add adds a policy that matches the request.
func (a *Audit) Add(p AuditPolicy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.policies) < maxAudited && !a.finished {
		a.policies = append(a.policies, &audited{AuditPolicy: p})
	}
}

// Settle evaluates the policies that were added, with what is known at authorization. It takes auditTimeout at most, and does
// nothing about policies that it has evaluated before.
func (a *Audit) Settle(ctx context.Context) {
	if a.IsEmpty() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	a.each(auditNew, func(p *audited) {
		outcome := contained(func() Outcome { return p.Known(ctx, &a.budgets) })
		if outcome.IsResidual() {
			p.state = auditResidual
			return
		}
		p.state, p.result = auditDone, resultOf(ctx, outcome)
	})
}

// each calls a function for each policy that is in a state, while it holds the lock.
func (a *Audit) each(state auditState, do func(*audited)) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.policies {
		if p.state == state {
			do(p)
		}
	}
}

// Admit evaluates the residual conditions with the data of an object. For several objects, or several attempts at an update, a
// policy applies if it applies once. It takes auditTimeout at most for each.
func (a *Audit) Admit(ctx context.Context, data authorizer.ConditionsData) {
	a.Settle(ctx) // authorizers that were asked at admission
	var residual []*audited
	a.each(auditResidual, func(p *audited) { residual = append(residual, p) })
	if len(residual) == 0 {
		return
	}
	s := scopeOf(ctx)
	s.budget = &a.budget
	//guard:audit-time
	ctx, cancel := context.WithTimeout(s.in(ctx), auditTimeout)
	defer cancel()
	for _, p := range residual {
		var result AuditResult
		switch outcome := contained(func() Outcome { return a.evaluate(ctx, p, data) }); {
		case outcome.IsResidual(), outcome.IsUnsupported():
			result = AuditUndetermined
		default:
			result = resultOf(ctx, outcome)
		}
		a.mu.Lock()
		p.result = max(p.result, result)
		a.mu.Unlock()
	}
}

func (a *Audit) evaluate(ctx context.Context, p *audited, data authorizer.ConditionsData) Outcome {
	if err := ctx.Err(); err != nil {
		return Failed(err)
	}
	if err := a.budget.Err(); err != nil {
		return Failed(err)
	}
	return p.Evaluate(ctx, data)
}

var errAuditPanicked = errors.New("the evaluation panicked")

// contained makes a panic an error: a policy that decides nothing must not end a request.
func contained(evaluate func() Outcome) (outcome Outcome) {
	defer func() {
		//guard:audit-panic
		if recover() != nil { // the value may quote the object
			outcome = Failed(errAuditPanicked)
		}
	}()
	return evaluate()
}

func resultOf(ctx context.Context, outcome Outcome) AuditResult {
	switch {
	case outcome.IsTrue():
		return AuditApplied
	case outcome.IsFalse():
		return AuditUnapplied
	case ctx.Err() != nil: // another time it may have a result
		return AuditUndetermined
	default:
		return AuditFailed
	}
}

// Remainder has the result of a residual condition that was not evaluated on an object, by the effect of its policy.
type Remainder struct {
	Deny, NoOpinion, Allow AuditResult
}

var (
	// RemainderNone is for a request on which the conditions would not have been evaluated either, or which another component counts.
	RemainderNone = Remainder{}
	// RemainderRefused is for a request that was refused before its object was read, where an Allow policy might have allowed it.
	RemainderRefused = Remainder{Allow: AuditUndetermined}
	// RemainderFolded is for a request on which conditions are not evaluated: Deny and NoOpinion policies would have applied,
	// whatever their condition is, and Allow policies would not.
	RemainderFolded = Remainder{Deny: AuditApplied, NoOpinion: AuditApplied}
	// RemainderListed is for a request that the inner door would have decided if it had passed: only a Deny is folded.
	RemainderListed = Remainder{Deny: AuditApplied, Allow: AuditUndetermined}
	// RemainderElsewhere is for a request on which another server evaluates conditions.
	RemainderElsewhere = Remainder{Deny: AuditUndetermined, NoOpinion: AuditUndetermined, Allow: AuditUndetermined}
)

func (r Remainder) of(effect Effect) AuditResult {
	switch effect {
	case EffectAllow:
		return r.Allow
	case EffectNoOpinion:
		return r.NoOpinion
	default:
		return r.Deny
	}
}

// Seal ends the residual conditions so far: they are about a check that is decided without an object.
func (a *Audit) Seal() {
	a.each(auditResidual, func(p *audited) { p.state = auditDone })
}

// CountedBefore says that another component has counted the results that are known so far. They are still in annotations and warnings.
func (a *Audit) CountedBefore() {
	a.each(auditDone, func(p *audited) { p.Count = func(AuditResult) {} })
}

// Take moves the policies of another Audit to a.
func (a *Audit) Take(other *Audit) {
	other.mu.Lock()
	policies := other.policies
	other.policies = nil
	other.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policies = append(a.policies, policies...)
}

// Leave removes the policies with an effect: another component decides the request again, and audits them.
func (a *Audit) Leave(effects ...Effect) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policies = slices.DeleteFunc(a.policies, func(p *audited) bool { return slices.Contains(effects, p.Effect) })
}

// SetUndetermined gives residual conditions whose ID matches the result AuditUndetermined.
func (a *Audit) SetUndetermined(matches func(id string) bool) {
	a.each(auditResidual, func(p *audited) {
		if matches(p.ID) {
			p.state, p.result = auditDone, max(p.result, AuditUndetermined)
		}
	})
}

// Finish counts the results. Residual conditions that have not been evaluated have the result that remainder gives them. Later
// calls do nothing.
func (a *Audit) Finish(remainder Remainder) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finished {
		return
	}
	a.finished = true
	for _, p := range a.policies {
		if p.state == auditResidual {
			p.result = max(p.result, remainder.of(p.Effect))
		}
	}
	//guard:audit-once-request
	a.policies = strongest(a.policies)
	for _, p := range a.policies {
		p.Count(p.result)
	}
}

// strongest returns one entry for each policy, with its strongest result.
func strongest(policies []*audited) []*audited {
	var kept []*audited
	byID := map[string]*audited{}
	for _, p := range policies {
		if before, ok := byID[p.ID]; ok {
			if p.result > before.result {
				before.result, before.Count = p.result, p.Count
			}
			continue
		}
		byID[p.ID] = p
		kept = append(kept, p)
	}
	return kept
}

// IsEmpty reports whether no policy matches the request.
func (a *Audit) IsEmpty() bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.policies) == 0
}

// would are the keys of annotations by effect.
var would = []struct {
	effect Effect
	key    string
}{{EffectDeny, "would-deny"}, {EffectNoOpinion, "would-hold-back"}, {EffectAllow, "would-allow"}}

// Annotations returns audit annotations as pairs of key and value, after Finish: the IDs of the policies that would have denied the
// request, kept Allow policies from allowing it, or allowed it, those whose condition cannot be evaluated, and those
// whose result is not known. Each list has at most maxAuditAnnotationBytes.
func (a *Audit) Annotations() []string {
	if a.IsEmpty() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var annotations []string
	add := func(key string, has func(*audited) bool) {
		var ids []string
		for _, p := range a.policies {
			if has(p) {
				ids = append(ids, p.ID)
			}
		}
		if len(ids) > 0 {
			annotations = append(annotations, AuditPrefix+key, boundedIDs(ids))
		}
	}
	for _, w := range would {
		add(w.key, func(p *audited) bool { return p.Effect == w.effect && p.hasApplied() })
	}
	add("error", func(p *audited) bool { return p.result == AuditFailed })
	add("undetermined", func(p *audited) bool { return p.result == AuditUndetermined })
	return annotations
}

// hasApplied reports whether the policy would have applied.
func (p *audited) hasApplied() bool { return p.result.Applies(p.Effect) }

// Applies reports whether a policy with an effect applies if it has the result: a Deny or NoOpinion policy applies also if its condition
// cannot be evaluated.
func (r AuditResult) Applies(effect Effect) bool {
	return r == AuditApplied || r == AuditFailed && effect != EffectAllow
}

func boundedIDs(ids []string) string {
	slices.Sort(ids)
	size := 0
	for i, id := range ids {
		if size += len(id) + 1; size > maxAuditAnnotationBytes {
			return strings.Join(ids[:i], ",") + ",and " + strconv.Itoa(len(ids)-i) + " more"
		}
	}
	return strings.Join(ids, ",")
}

// Warnings returns a warning for each Deny policy that would have denied the request, after Finish. They have the grammar of
// refusals, and are bounded in number and length.
func (a *Audit) Warnings() []string {
	if a.IsEmpty() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var warnings []string
	more := 0
	for _, p := range a.policies {
		switch {
		case p.Effect != EffectDeny || !p.hasApplied():
		case len(warnings) == maxAuditWarnings:
			more++
		case p.result == AuditFailed:
			warnings = append(warnings, auditWarning(Explain(p.ID, WordError, p.Description, textOfError)))
		default:
			warnings = append(warnings, auditWarning(Explain(p.ID, WordDenied, p.Description)))
		}
	}
	if more > 0 {
		warnings = append(warnings, auditWarning(strconv.Itoa(more)+" more policies"))
	}
	return warnings
}

func auditWarning(text string) string {
	return excerpt.Of("would be denied: "+text, maxAuditWarningBytes)
}
