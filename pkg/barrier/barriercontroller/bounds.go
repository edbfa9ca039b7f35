/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"cmp"
	"context"
	"fmt"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
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

func boundsOf(namespace string) (number, text int) {
	if namespace == "" {
		return MaxOfCluster, MaxTextOfCluster
	}
	return MaxPerNamespace, MaxTextPerNamespace
}

// overBound returns why a policy is to have no barrier because of other policies of its namespace, or "". A policy never takes the barrier of another one.
func (c *Controller) overBound(p *policy, size int) string {
	maxNumber, maxText := boundsOf(p.key.Namespace)
	number, text := 1, size
	for _, older := range c.policiesOf(p.key.Namespace) {
		if older.key == p.key || !older.wantsBarrier() || !c.comesBefore(older, p) {
			continue
		}
		if olderSize, hasBarrier := c.sizeOf(older.key); hasBarrier {
			number, text = number+1, text+olderSize
		}
	}
	whose := "cluster-scoped policies have"
	if p.key.Namespace != "" {
		whose = "policies of the namespace have"
	}
	switch {
	//guard:barriers-bounds
	case number > maxNumber:
		return fmt.Sprintf("older %s %d barriers, the most that they may have", whose, maxNumber)
	//guard:barriers-bound-text
	case text > maxText:
		return fmt.Sprintf("the barriers of older %s so many expressions that this one would exceed %d bytes in all", whose, maxText)
	}
	return ""
}

// overAnyBound returns why a policy is to have no barrier, or "". A barrier that is in force when its work exceeds the bound, because it
// is older than the bound, stays.
func (c *Controller) overAnyBound(p *policy, r compiled) string {
	//guard:barriers-force-stay
	if reason := c.overBound(p, r.size); reason != "" || c.isInForce(p) {
		return reason
	}
	//guard:work-older-policies
	return c.overWork(p, r.barrier, false)
}

// overWork returns why the work of the barriers of a policy and of others for one write exceeds the bound, or "". Others are those
// that come before, or all of them.
func (c *Controller) overWork(p *policy, b *barrier.Barrier, withAll bool) string {
	if p.mapping != nil {
		return ""
	}
	var others []*barrier.Barrier
	for _, other := range c.policiesOf(p.key.Namespace) {
		if other.key != p.key && other.wantsBarrier() && (withAll || c.comesBefore(other, p)) {
			if compiled := c.barrierOf(other); compiled != nil {
				others = append(others, compiled)
			}
		}
	}
	return barrier.OverWork(b, others)
}

// OverWork returns why the work of a new barrier, or of a new text of a barrier, and of all others of its scope exceeds the bound for one
// write, or "".
func (c *Controller) OverWork(b *barrier.Barrier) string {
	return c.overWork(&policy{key: Key{Key: b.Key}}, b, true)
}

// barrierOf returns the barrier of a policy, or nil if it has none. A policy that waits for its turn counts, too: otherwise many that are written at once, or
// those that have no room, while none has been compiled after a start, would all find room.
func (c *Controller) barrierOf(p *policy) *barrier.Barrier {
	c.mu.Lock()
	known := c.compiled[p.key]
	c.mu.Unlock()
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

// isInForce reports whether kube-apiserver stores a barrier of the policy, perhaps of another text.
func (c *Controller) isInForce(p *policy) bool {
	name := p.key.barrierName()
	stored, ok := c.policies.cached(name)
	return ok && c.policies.isOurs(stored, p.key) && c.uidOf(name) == p.meta.UID
}

// comesBefore orders policies: those that have a barrier come first, then older ones. A policy that gets no barrier before it is changed, such as one that
// allowed, may be older than all that have one; and authors choose the names of those that are created in the same second.
func (c *Controller) comesBefore(a, b *policy) bool {
	//guard:barriers-written-first
	if has := c.isWritten(a); has != c.isWritten(b) {
		return has
	}
	return cmp.Or(a.meta.CreationTimestamp.Compare(b.meta.CreationTimestamp.Time), cmp.Compare(a.key.Name, b.key.Name)) < 0
}

// isWritten reports whether the barrier of a policy is stored, or this process has just written it.
func (c *Controller) isWritten(p *policy) bool {
	c.mu.Lock()
	settled := c.settled[p.key] != nil
	c.mu.Unlock()
	return settled || c.isInForce(p)
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
		objects, _ = c.informers[1].GetIndexer().ByIndex(namespaceIndex, namespace)
	}
	result := make([]*policy, 0, len(objects))
	for _, obj := range objects {
		if p, ok := policyOf(obj); ok {
			result = append(result, p)
		}
	}
	return result
}

const namespaceIndex = "namespace"

// indexNamespace is the index function of namespaceIndex.
func indexNamespace(obj any) ([]string, error) {
	if p, ok := obj.(*policyv1alpha1.AuthorizationPolicy); ok {
		return []string{p.Namespace}, nil
	}
	return nil, nil
}

// sizeOf returns the number of bytes in the expressions of the barrier of a policy, and false if it has none. A policy that has not been
// compiled yet may have one.
func (c *Controller) sizeOf(key Key) (size int, hasBarrier bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.compiled[key]
	return r.size, !ok || r.barrier != nil && r.barrier.Policy != nil
}
