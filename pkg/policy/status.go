/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// recheckMistakes is the time after which a policy with mistakes is checked again: a resource or a field that did not
// exist may exist then.
const recheckMistakes = 5 * time.Minute

// recheckPause is the time that Recheck waits between two policies.
const recheckPause = 10 * time.Millisecond

// Recheck schedules writing the status of the policies whose result of Config.Server has changed. It may be called
// concurrently with Run.
func (c *Controller) Recheck() {
	for i, key := range c.outdated() {
		c.EnqueueAfter(key, time.Duration(i)*recheckPause)
	}
}

// outdated returns the policies whose status differs from the result of Config.Server.
func (c *Controller) outdated() (keys []engine.Key) {
	c.mu.Lock()
	results := maps.Clone(c.results)
	c.mu.Unlock()
	for key, r := range results {
		p := c.get(key)
		if p == nil || r.failure != nil || !r.isOf(p) {
			continue // publish enqueues it
		}
		// The condition Effective summarizes all entries, also those that do not fit into the status.
		entries := c.config.Server.OfPolicy(p.meta.Namespace, p.meta.Name, p.spec, r.reads)
		effective, stored := enforcementstatus.Effective(entries), meta.FindStatusCondition(p.status.Conditions, policyv1alpha1.PolicyEffective)
		if stored == nil || stored.Status != effective.Status || stored.Reason != effective.Reason || stored.Message != effective.Message ||
			!apiequality.Semantic.DeepEqual(enforcementstatus.Bounded(entries), p.status.Enforcement) {
			keys = append(keys, key)
		}
	}
	return keys
}

// differsByPlaces reports whether only a change of Places can be the reason why a status differs from the stored one.
func differsByPlaces(p *content, status *policyv1alpha1.AuthorizationPolicyStatus) bool {
	stored := p.status.DeepCopy()
	stored.Enforcement = status.Enforcement
	if effective := meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyEffective); effective != nil {
		meta.SetStatusCondition(&stored.Conditions, *effective)
	}
	return apiequality.Semantic.DeepEqual(status, stored)
}

// writeStatus writes the status of a policy, if it has changed. It does nothing if the policy does not exist any more, or
// if its current specification has not been compiled yet.
func (c *Controller) writeStatus(ctx context.Context, key engine.Key) error {
	p := c.get(key)
	c.mu.Lock()
	r, known := c.results[key]
	c.mu.Unlock()
	if p == nil || !known || !r.isOf(p) {
		return nil // gone, or to be compiled, after which it comes here again
	}
	status, incomplete := c.statusOf(p, r)
	if status.TypeChecking != nil {
		c.EnqueueAfter(key, recheckMistakes)
	}
	isPlaced := !apiequality.Semantic.DeepEqual(status, p.status) && differsByPlaces(p, status)
	switch wait := c.pace.Wait(key, p.meta.Generation); {
	//guard:status-before-anything-known
	case isPlaced && !c.config.Server.AreKnown():
		status, isPlaced = p.status.DeepCopy(), false // Recheck follows
	//guard:status-replicas-do-not-agree
	case isPlaced && wait > 0:
		c.EnqueueAfter(key, wait)
		status, isPlaced = p.status.DeepCopy(), false
	}
	counted := c.addCounts(key, r, status)
	if apiequality.Semantic.DeepEqual(status, p.status) {
		return incomplete
	}
	recordEvent := c.effectEvent(key, p, status)
	if err := c.updateStatus(ctx, key, p, status); err != nil {
		//guard:policy-counts-not-written
		r.counts.Return(counted)
		return err
	}
	recordEvent()
	if !counted.IsZero() {
		c.auditPace.Wrote(key, anyGeneration)
	}
	if isPlaced {
		c.pace.Wrote(key, p.meta.Generation)
	}
	return incomplete
}

// statusOf returns the status of a policy, given the result of compiling it. The error says that
// its types could not be checked completely.
func (c *Controller) statusOf(p *content, r result) (*policyv1alpha1.AuthorizationPolicyStatus, error) {
	status := p.status.DeepCopy()
	status.ObservedGeneration = p.meta.Generation
	ready := metav1.Condition{Type: policyv1alpha1.PolicyReady, Status: metav1.ConditionTrue, Reason: policyv1alpha1.ReasonCompiled, Message: "the policy takes effect"}
	if r.failure != nil {
		// Replicas may differ in whether they have an earlier compilation; what they write
		// must not.
		ready.Status, ready.Reason = metav1.ConditionFalse, policyv1alpha1.ReasonCompileFailed
		ready.Message = r.failure.Error() + ". The last successful compilation still takes effect, if there is one; otherwise " + closedAnswer(p.spec)
	}
	effective := metav1.Condition{Type: policyv1alpha1.PolicyEffective, Status: metav1.ConditionFalse, Reason: policyv1alpha1.ReasonCompileFailed, Message: "see the condition Ready"}
	status.Enforcement = nil
	if r.failure == nil {
		enforcement := c.config.Server.OfPolicy(p.meta.Namespace, p.meta.Name, p.spec, r.reads)
		status.Enforcement, effective = enforcementstatus.Bounded(enforcement), enforcementstatus.Effective(enforcement)
	}
	for _, condition := range []metav1.Condition{ready, effective} {
		condition.ObservedGeneration, condition.Message = p.meta.Generation, authorization.OneLine(condition.Message)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.Audit = auditOf(p)
	status.TypeChecking = nil
	var incomplete error
	if r.failure == nil { // what does not compile has no types
		status.TypeChecking, incomplete = c.checkTypes(p.meta.Namespace, p.spec, r.mistakes())
	}
	return status, incomplete
}

// checkTypes returns the given mistakes together with the mistakes that the schemas of servers show, or nil if there are
// none. The error says that not all schemas could be read.
func (c *Controller) checkTypes(namespace string, spec *policyv1alpha1.AuthorizationPolicySpec, mistakes []policyv1alpha1.ExpressionWarning) (*policyv1alpha1.TypeChecking, error) {
	var incomplete error
	if c.config.Types != nil {
		found, err := c.config.Types.Check(namespace, spec)
		mistakes, incomplete = slices.Concat(mistakes, found.ExpressionWarnings), err
	}
	if len(mistakes) == 0 {
		return nil, incomplete
	}
	return &policyv1alpha1.TypeChecking{ExpressionWarnings: mistakes[:min(len(mistakes), typechecking.MaxWarnings)]}, incomplete
}

func closedAnswer(spec *policyv1alpha1.AuthorizationPolicySpec) string {
	switch {
	case spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit:
		return "the policy denies nothing, because its enforcement is Audit"
	case spec.Effect == policyv1alpha1.PolicyEffectAllow:
		return "the policy grants nothing"
	}
	return "the policy denies what its rules match"
}

func (c *Controller) updateStatus(ctx context.Context, key engine.Key, p *content, status *policyv1alpha1.AuthorizationPolicyStatus) error {
	var err error
	if key.Namespace == "" {
		_, err = c.config.Client.PolicyV1alpha1().ClusterAuthorizationPolicies().UpdateStatus(ctx,
			&policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: *p.meta.DeepCopy(), Spec: *p.spec.DeepCopy(), Status: *status}, metav1.UpdateOptions{})
	} else {
		_, err = c.config.Client.PolicyV1alpha1().AuthorizationPolicies(key.Namespace).UpdateStatus(ctx,
			&policyv1alpha1.AuthorizationPolicy{ObjectMeta: *p.meta.DeepCopy(), Spec: *p.spec.DeepCopy(), Status: *status}, metav1.UpdateOptions{})
	}
	return err
}

// auditPeriod is how often the controller looks for counts of policies with the enforcement Audit that are not in their status yet.
// controller.PaceInterval bounds how often a status is written for them.
const auditPeriod = 5 * time.Second

// Run follows the policies until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	var group wait.Group
	defer group.Wait()
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(context.Context) { c.reportAudits() }, auditPeriod)
	})
	c.Controller.Run(ctx)
}

// anyGeneration is for counts, whose pace does not begin again with each generation.
const anyGeneration = 0

// reportAudits schedules writing the status of the policies that have counts.
func (c *Controller) reportAudits() {
	c.mu.Lock()
	var keys []engine.Key
	for key, r := range c.results {
		if r.counts != nil && r.counts.HasAny() && c.auditPace.Wait(key, anyGeneration) <= 0 {
			keys = append(keys, key)
		}
	}
	c.mu.Unlock()
	for i, key := range keys {
		c.EnqueueAfter(key, time.Duration(i)*recheckPause)
	}
}

// auditOf returns the counts in the status of a policy, without what this replica has counted since. They begin again with each
// generation. A policy that is enforced has none.
func auditOf(p *content) *policyv1alpha1.PolicyAuditStatus {
	switch stored := p.status.Audit; {
	case p.spec.Enforcement != policyv1alpha1.PolicyEnforcementAudit:
		return nil
	//guard:policy-counts-another-generation
	case stored == nil || stored.ObservedGeneration != p.meta.Generation:
		return &policyv1alpha1.PolicyAuditStatus{ObservedGeneration: p.meta.Generation}
	default:
		return stored.DeepCopy()
	}
}

// addCounts adds what this replica has counted for a policy to its status, if the status has not been written for it in the last
// controller.PaceInterval. It returns what it has added, which must be returned if the status is not written. Each replica adds its
// own counts to those that are stored. A write from an old version of the object conflicts, so that no count of another replica
// is lost.
func (c *Controller) addCounts(key engine.Key, r result, status *policyv1alpha1.AuthorizationPolicyStatus) engine.AuditDelta {
	//guard:policy-pace-counts
	if r.counts == nil || status.Audit == nil || c.auditPace.Wait(key, anyGeneration) > 0 {
		return engine.AuditDelta{}
	}
	counted := r.counts.Take()
	status.Audit.Decided += counted.Decided
	status.Audit.Errors += counted.Errors
	status.Audit.Undetermined += counted.Undetermined
	if last := (metav1.Time{Time: counted.Last}); !last.IsZero() && (status.Audit.LastTime == nil || status.Audit.LastTime.Before(&last)) {
		status.Audit.LastTime = &last
	}
	return counted
}
