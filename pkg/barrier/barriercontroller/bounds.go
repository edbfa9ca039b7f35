/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"k8s.io/client-go/tools/cache"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// The bounds of barriers. Each kube-apiserver compiles every barrier and keeps it in memory, and evaluates those that match a request.
// The text of one barrier is bounded by barrier.MaxTextBytes, and the work of all for one write by barrier.MaxWork.
const (
	// MaxPerNamespace is the number of barriers for the policies of one namespace.
	MaxPerNamespace = 100
	// MaxTextPerNamespace is the number of bytes of their expressions together.
	MaxTextPerNamespace = 1 << 20
	// MaxOfCluster and MaxTextOfCluster are the same for cluster-scoped policies.
	MaxOfCluster     = 2000
	MaxTextOfCluster = 32 << 20
)

// overAnyBound returns why there is no room for the barrier of a policy, or "". A barrier of the same specification stays: it is restored, or an update
// of Proviso has given it another text. So does one that becomes no larger.
func (c *Controller) overAnyBound(p *policy, b *barrier.Barrier) string {
	isWritten, seen := c.isWritten(p), c.record(p.key).settled
	//guard:barriers-force-stay
	if isWritten && c.isOfSpecification(p) {
		return ""
	}
	//guard:barriers-shrink
	if seen != nil && b.CostsNoMore(seen) && barrier.TextSize(b.Policy) <= barrier.TextSize(seen.Policy) {
		return ""
	}
	// Those that are written come first, whatever their age: a policy that allowed, and becomes a Deny policy later, may be the oldest one.
	others := c.others(p.key, func(other *policy) bool {
		//guard:barriers-written-first
		if c.isWritten(other) {
			return true
		}
		return !isWritten && isOlder(other, p)
	})
	if reason := overSize(p.key.Namespace, b, others); reason != "" {
		return reason
	}
	return overWork(p, b, others)
}

// overSize returns why the number of barriers, or their text, exceeds the bounds of a namespace, or "".
func overSize(namespace string, b *barrier.Barrier, others []*barrier.Barrier) string {
	maxNumber, maxText, whose := MaxPerNamespace, MaxTextPerNamespace, "policies of the namespace have"
	if namespace == "" {
		maxNumber, maxText, whose = MaxOfCluster, MaxTextOfCluster, "cluster-scoped policies have"
	}
	text := barrier.TextSize(b.Policy)
	for _, other := range others {
		text += barrier.TextSize(other.Policy)
	}
	switch {
	//guard:barriers-bounds
	case len(others) >= maxNumber:
		return fmt.Sprintf("other %s %d barriers, the most that they may have", whose, maxNumber)
	//guard:barriers-bound-text
	case text > maxText:
		return fmt.Sprintf("the barriers of other %s so many expressions that this one would exceed %d bytes in all", whose, maxText)
	}
	return ""
}

// overWork returns why the work of the barriers of a policy and of others for one write exceeds the bound, or "".
func overWork(p *policy, b *barrier.Barrier, others []*barrier.Barrier) string {
	if p.mapping != nil {
		return ""
	}
	return barrier.OverWork(b, others)
}

// warning returns why a barrier that is written would not be written today, because of older ones, or "".
func (c *Controller) warning(p *policy, b *barrier.Barrier) string {
	//guard:work-older-policies
	return overWork(p, b, c.others(p.key, func(other *policy) bool { return isOlder(other, p) }))
}

// OverWork returns why the work of a new barrier, or of a new text of a barrier, and of all others of its scope exceeds the bound for one
// write, or "".
func (c *Controller) OverWork(b *barrier.Barrier) string {
	var others []*barrier.Barrier
	for _, other := range c.policiesOf(b.Key.Namespace) {
		if wanted := c.barrierOf(other); wanted != nil && other.wantsBarrier() {
			others = append(others, wanted)
		}
	}
	return barrier.OverWork(b, others)
}

// others returns the barriers of the other policies of a namespace that count. A barrier that is written counts with the text that was last seen in
// order: another text may find no room.
func (c *Controller) others(key Key, counts func(*policy) bool) (others []*barrier.Barrier) {
	for _, other := range c.policiesOf(key.Namespace) {
		if other.key == key || !other.wantsBarrier() || !counts(other) {
			continue
		}
		b := c.record(other.key).settled
		if b == nil {
			b = c.barrierOf(other)
		}
		if b != nil {
			others = append(others, b)
		}
	}
	return others
}

// barrierOf returns the barrier that a policy is to have, or nil if it has none. A policy that waits for its turn is compiled: otherwise many that are
// written at once would all find room.
func (c *Controller) barrierOf(p *policy) *barrier.Barrier {
	known := c.record(p.key).compiled
	b, isCompiled := known.barrier, known.uid == p.meta.UID && known.generation == p.meta.Generation
	//guard:barriers-waiting-policies-count
	if p.mapping == nil && !isCompiled {
		b = c.compile(context.Background(), p).barrier
	}
	if b == nil || b.Policy == nil {
		return nil
	}
	return b
}

// isWritten reports whether kube-apiserver stores a barrier of the policy, perhaps of another text, or this process has just written one.
func (c *Controller) isWritten(p *policy) bool {
	if c.record(p.key).settled != nil {
		return true
	}
	name := p.key.barrierName()
	stored, ok := c.policies.cached(name)
	return ok && c.policies.isOurs(stored, p.key) && c.uidOf(name) == p.meta.UID
}

// isOfSpecification reports whether the barrier that kube-apiserver stores was written for the specification that the policy has. One without the
// annotation is older than the annotation, or others have removed it: it counts until this process has seen it in order, which writes the annotation.
func (c *Controller) isOfSpecification(p *policy) bool {
	stored, ok := c.policies.cached(p.key.barrierName())
	if !ok {
		return false
	}
	generation, ok := stored.Annotations[GenerationAnnotation]
	if stored.Annotations[UIDAnnotation] != string(p.meta.UID) {
		return false
	}
	//guard:barriers-without-generation
	if !ok {
		return c.record(p.key).settled == nil
	}
	return generation == strconv.FormatInt(p.meta.Generation, 10)
}

// isOlder orders policies by age and name.
func isOlder(a, b *policy) bool {
	return cmp.Or(a.meta.CreationTimestamp.Compare(b.meta.CreationTimestamp.Time), cmp.Compare(a.key.Name, b.key.Name)) < 0
}

// policiesOf returns the policies of a namespace in the cache, or the cluster-scoped ones.
func (c *Controller) policiesOf(namespace string) []*policy {
	var objects []any
	if namespace == "" {
		objects = c.informers[0].GetStore().List()
		if c.mappings != nil {
			objects = append(objects, c.mappings.GetStore().List()...)
		}
	} else {
		objects, _ = c.informers[1].GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	}
	result := make([]*policy, 0, len(objects))
	for _, obj := range objects {
		if p, ok := policyOf(obj); ok {
			result = append(result, p)
		}
	}
	return result
}
