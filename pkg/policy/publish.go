/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"cmp"
	"context"
	"slices"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Policies are compiled in steps, and each step publishes a snapshot, so that the policies of one author do not delay
// the policies of others. partial.CompileWithCost defines the costs. A unit is worth some 0.1 to 0.3 µs.
const (
	// firstStepCost bounds the cost of the namespaced policies that are compiled for the first snapshot; it is enough for a
	// thousand ordinary ones. A server without a snapshot denies all requests that policies can deny.
	firstStepCost = 16 << 20
	// stepCost bounds the cost of the policies that are compiled for each later snapshot. It leaves room for one policy of the
	// greatest length.
	stepCost = 1 << 20
	// costOfAny is the cost of a policy without expressions, and costPerByte is the least cost of a byte of its expressions.
	// What variables make of short expressions is known only when they have been compiled.
	costOfAny   = 8 << 10
	costPerByte = 32
)

// publish compiles the policies that have changed, and publishes snapshots with them.
func (c *Controller) publish(ctx context.Context) {
	for c.publishStep(ctx) && ctx.Err() == nil {
	}
}

// publishStep compiles some of the policies that have changed, and publishes a snapshot with them. The changed policies that
// it leaves for later steps keep their current compilation, or fail closed if they have none. It reports whether there
// are such policies.
func (c *Controller) publishStep(ctx context.Context) (more bool) {
	left, isFirst := stepCost, !c.isPublished()
	if isFirst {
		left = firstStepCost
	}
	changes := map[engine.Key]*engine.Policy{}
	for _, w := range c.waiting(changes) {
		if ctx.Err() != nil {
			return false
		}
		isFree := isFirst && w.key.Namespace == ""
		if !isFree && (left <= 0 || leastCostOf(w.spec) > left && left < stepCost) {
			more, left = true, 0
			c.postpone(w, changes)
			continue
		}
		compiled, cost, ok := c.compile(ctx, w.key, w.content)
		if ok {
			changes[w.key] = compiled
		}
		if !isFree {
			//guard:publish-compiling-costs
			left -= costOfAny + int(cost) //nolint:gosec // the budget of a policy bounds it
		}
		delete(c.pending, w.key)
		c.Enqueue(w.key)
	}
	if len(changes) == 0 && c.isPublished() {
		return more
	}
	snapshot := c.builder.Apply(changes)
	c.config.Source.Publish(snapshot)
	c.measure(snapshot)
	return more
}

// waiting is a policy that has changed and is to be compiled.
type waiting struct {
	key engine.Key
	*content
	// turn is how many policies of its namespace come before it.
	turn int
}

// waiting takes the policies that have changed, in the order in which they are to be compiled: cluster-scoped policies
// first, then one of each namespace in turn, restrictions before others. It adds deleted policies to the changes.
func (c *Controller) waiting(changes map[engine.Key]*engine.Policy) []waiting {
	var all []waiting
	for key := range c.takeDirty() {
		if p := c.get(key); p != nil {
			all = append(all, waiting{key: key, content: p})
			continue
		}
		changes[key] = nil
		c.forget(key)
		delete(c.pending, key)
	}
	restricts := func(w waiting) int {
		if w.spec.Effect == policyv1alpha1.PolicyEffectAllow {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(restricts(a), restricts(b)), cmp.Compare(a.key.Name, b.key.Name))
	})
	for i := 1; i < len(all); i++ {
		if all[i].key.Namespace == all[i-1].key.Namespace && all[i].key.Namespace != "" {
			all[i].turn = all[i-1].turn + 1
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(min(len(a.key.Namespace), 1), min(len(b.key.Namespace), 1)), cmp.Compare(a.turn, b.turn), cmp.Compare(restricts(a), restricts(b)))
	})
	return all
}

// postpone leaves a policy to a later step. A policy without a compilation fails closed until then.
func (c *Controller) postpone(w waiting, changes map[engine.Key]*engine.Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty[w.key] = true
	if before, ok := c.results[w.key]; (ok && before.uid == w.meta.UID) || c.pending[w.key] == w.spec {
		return
	}
	c.pending[w.key] = w.spec
	changes[w.key] = nil // a policy with the enforcement Audit decides nothing, and would count errors
	if w.spec.Enforcement != policyv1alpha1.PolicyEnforcementAudit {
		changes[w.key] = engine.Broken(w.key, w.spec, engine.ErrPending)
	}
}

// leastCostOf returns the least cost of compiling a policy.
func leastCostOf(spec *policyv1alpha1.AuthorizationPolicySpec) int {
	size := len(spec.Condition)
	for _, v := range spec.Variables {
		size += len(v.Expression)
	}
	return costOfAny + costPerByte*size
}
