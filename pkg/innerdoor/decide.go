/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/door"
)

var errPanicked = errors.New("the decision panicked")

// reasonNever is the reason for a write that no object would make allowed.
const reasonNever = "no policy and no other authorizer allows it, whatever the object is"

// Decider decides writes at admission.
type Decider struct {
	// Chain decides requests. It must have all authorizers that can deny, and those that may allow what kube-apiserver
	// has let pass on the word of Proviso. Its last member is to ask kube-apiserver whether its other authorizers allow the request.
	Chain *authorization.Chain
	// Evaluator returns an evaluator for conditions that cannot evaluate themselves. It may be nil.
	Evaluator func(authorizer.ConditionsData) authorization.ConditionEvaluator
	// OwnerReferences says that the admission plugin OwnerReferencesPermissionEnforcement of kube-apiserver is on: an update that
	// changes the owners of an object needs the permission to delete it, too. The plugin asks the front door for it, which
	// may have allowed it on conditions.
	OwnerReferences bool
	// Namespaces are those that the front door knew when it counted policies with the enforcement Audit. It may be nil.
	Namespaces authorization.Namespaces
}

// Decide returns Allow if all checks of one way to send the write are allowed for its objects, and Deny otherwise. All
// decisions are made from the policies of one moment, and share one budget.
func (d *Decider) Decide(ctx context.Context, write *Write) authorization.Decision {
	return d.decide(ctx, write).Decision
}

// verdict is the decision about a write.
type verdict struct {
	authorization.Decision
	// withheld is the reason for a user who may not read the stored object, to whom the reason of the decision could show something of
	// it. It is empty if the reason of the decision may be shown.
	withheld string
	// audit has the policies with the enforcement Audit that match the write. Nothing has been evaluated.
	audit *authorization.Audit
	// isDenied says that an authorizer denies the write, whatever others say.
	isDenied bool
}

func (d *Decider) decide(ctx context.Context, write *Write) (result verdict) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result = verdict{Decision: contained(ctx, panicked)}
		}
	}()
	m := &moment{decider: d, write: write, evaluator: d.evaluatorFor(write)}
	//guard:inner-door-admission-does-not-see
	ctx, _ = authorization.WithUnseen(authorization.WithBudget(ctx))
	var reasons []string
	var errs []error
	all := &authorization.Audit{}
	for _, way := range write.Ways() {
		audit := &authorization.Audit{}
		decision := m.decideWay(ctx, way, audit)
		if decision.IsAllow() {
			return verdict{Decision: decision, audit: audit}
		}
		all.Take(audit)
		if reason := decision.Reason(); reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		errs = append(errs, decision.Err())
	}
	refusal := authorization.Deny(cmp.Or(strings.Join(reasons, "; "), reasonNever), errors.Join(errs...))
	return verdict{Decision: refusal, withheld: m.withheld(ctx), audit: all, isDenied: m.isDenied}
}

// contained returns the decision of an evaluation that panicked. The value may quote the object, so only its type is logged.
func contained(ctx context.Context, panicked any) authorization.Decision {
	door.LogPanic(ctx, "inner door", panicked)
	return authorization.Deny("the write could not be decided", errPanicked)
}

// moment decides the checks of one write from the same policies.
type moment struct {
	decider *Decider
	write   *Write
	// evaluator evaluates the conditions of all checks, after the objects have been decoded.
	evaluator authorization.ConditionEvaluator
	// first is the first decision, whose policies the others share. It is nil before.
	first *authorization.Lazy
	// conditions names the conditions that were evaluated, as far as they were known before the objects were.
	conditions []string
	// isDenied says that an authorizer has denied a check.
	isDenied bool
	// comparesOwners says that the owners of the old and the new object were compared, and differ.
	comparesOwners bool
}

// begin asks the authorizers about a check, until one could allow it. They may answer with conditions, whose descriptions a refusal shows. Policies
// with the enforcement Audit that match the check are added to audit.
func (m *moment) begin(ctx context.Context, check authorizer.AttributesRecord, audit *authorization.Audit) *authorization.Lazy {
	attributes := authorization.Request{Attributes: check, Mode: authorization.EvaluatesConditions, Audit: audit}
	if m.first == nil {
		m.first = m.decider.Chain.Begin(ctx, attributes)
		return m.first
	}
	//guard:inner-door-policies-one-moment
	return m.first.ForAttributes(ctx, attributes)
}

// decideWay returns the first decision that is not Allow, or Allow. The objects are decoded only if all checks can become allowed. It adds
// the policies with the enforcement Audit that match the way to audit.
func (m *moment) decideWay(ctx context.Context, way []authorizer.AttributesRecord, audit *authorization.Audit) (decision authorization.Decision) {
	var begun []*authorization.Lazy
	for _, attributes := range way {
		lazy := m.begin(ctx, attributes, audit)
		//guard:inner-door-checks-cannot-become-allowed
		if decision := lazy.Decision(); !decision.CanBecomeAllowed() {
			m.isDenied = m.isDenied || decision.IsDeny()
			return never(decision)
		}
		begun = append(begun, lazy)
	}
	for _, lazy := range begun {
		m.conditions = append(m.conditions, lazy.Decision().Labels()...)
	}
	//guard:inner-door-objects-not-decoded
	if err := m.write.Decode(); err != nil {
		return authorization.Deny("the write cannot be decided: "+err.Error(), nil)
	}
	//guard:inner-door-owners
	if m.decider.OwnerReferences && m.write.changesOwners() {
		//guard:inner-door-owners-refusals
		m.comparesOwners = true
		begun = append(begun, m.begin(ctx, m.write.attributes(Check{Verb: "delete", Named: true}), audit))
	}
	for _, lazy := range begun {
		decision = lazy.Evaluate(ctx, m.evaluator)
		//guard:inner-door-all-checks-way
		if !decision.IsAllow() {
			m.isDenied = m.isDenied || decision.IsDeny()
			return decision
		}
		//guard:inner-door-end-context
		if err := ctx.Err(); err != nil {
			return authorization.Deny("the time to decide is over", err)
		}
	}
	return decision
}

// withheld returns the reason of a refusal for a user who may not read the stored object. It returns "" if nothing was evaluated with a
// stored object, or if the user may read it.
func (m *moment) withheld(ctx context.Context) string {
	//guard:inner-door-reasons-about-stored-objects
	if len(m.conditions) == 0 && !m.comparesOwners {
		return ""
	}
	return m.decider.withheld(m.first.Pin(ctx), m.write, m.conditions)
}

// withheld returns the reason of a refusal for a user who may not read the stored object. Which condition does not hold, and which field
// changes, depends on that object, and so does the check for the verb delete if the owners change, whose conditions it does not name. It
// returns "" if there is no stored object, or if the user may read it.
func (d *Decider) withheld(ctx context.Context, write *Write, conditions []string) string {
	if write.old == nil {
		return ""
	}
	check, objects := write.read()
	//guard:inner-door-reasons-users-who-may-not
	if d.Chain.Decide(ctx, check).Fold().IsAllow() {
		return ""
	}
	slices.Sort(conditions)
	reason := "the write is allowed only on conditions, and does not meet them (details are shown to users who may " + check.Verb + " the " + objects + "): " +
		strings.Join(slices.Compact(conditions), "; ")
	return strings.TrimSuffix(reason, ": ")
}

// never returns the refusal for a decision that cannot become Allow.
func never(decision authorization.Decision) authorization.Decision {
	if decision.IsUnconditional() {
		return authorization.Deny(decision.Reason(), decision.Err())
	}
	return authorization.Deny("", nil) // its conditions could only deny
}

// evaluatorFor returns the evaluator of conditions on a write.
func (d *Decider) evaluatorFor(write *Write) authorization.ConditionEvaluator {
	var others authorization.ConditionEvaluator
	if d.Evaluator != nil {
		others = d.Evaluator(&data{write})
	}
	return authorization.WithoutValues(authorization.EvaluatorFor(&data{write}, others))
}
