/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

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
