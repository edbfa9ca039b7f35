/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Policies are compiled in steps, and each step publishes a snapshot, so that the policies of one author do not delay
// the policies of others. The time that a policy takes is estimated from the bytes of its expressions, at most 10 to
// 50 µs each.
const (
	// firstStepBytes is for the namespaced policies of the first snapshot, enough for a thousand ordinary ones. A server without
	// a snapshot denies everything.
	firstStepBytes = 512 << 10
	// stepBytes is for each snapshot after that. It leaves room for one policy of the greatest size.
	stepBytes = 32 << 10
	// bytesOfAny is what a policy without expressions counts as.
	bytesOfAny = 256
)

var errPending = errors.New("it has not been compiled yet")

// publish compiles the policies that have changed, and publishes snapshots with them.
func (c *Controller) publish(ctx context.Context) {
	for c.publishStep(ctx) && ctx.Err() == nil {
	}
}

// publishStep publishes a snapshot with some of the policies that have changed. The others keep their current
// compilation, or fail closed if they have none. It reports whether others are left.
func (c *Controller) publishStep(ctx context.Context) (more bool) {
	left, isFirst := stepBytes, !c.isPublished()
	if isFirst {
		left = firstStepBytes
	}
	changes := map[engine.Key]*engine.Policy{}
	for _, w := range c.waiting(changes) {
		if ctx.Err() != nil {
			return false
		}
		size := sizeOf(w.spec)
		switch isFree := isFirst && w.key.Namespace == ""; {
		case isFree:
		case left <= 0, size > left && left < stepBytes:
			more, left = true, 0
			c.postpone(w, changes)
			continue
		default:
			left -= size
		}
		if compiled, ok := c.compile(ctx, w.key, w.content); ok {
			changes[w.key] = compiled
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

// waiting is a policy that has changed.
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
	changes[w.key] = engine.Broken(w.key, w.spec, errPending)
}

// sizeOf estimates what it takes to compile a policy.
func sizeOf(spec *policyv1alpha1.AuthorizationPolicySpec) int {
	size := bytesOfAny + len(spec.Condition)
	for _, v := range spec.Variables {
		size += len(v.Expression)
	}
	return size
}
