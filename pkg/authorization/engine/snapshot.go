/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

// Snapshot is a set of compiled policies at one moment. It is immutable.
type Snapshot struct {
	revision uint64
	size     int
	// restricting are the policies that decide before kube-apiserver does, and granting the
	// policies that decide after it. Allow policies that do not compile are in neither.
	restricting, granting index
	// audited are the policies with the enforcement Audit, which decide nothing.
	audited index
}

// Revision counts the snapshots of a Builder, from 1.
func (s *Snapshot) Revision() uint64 { return s.revision }

// Len returns the number of policies.
func (s *Snapshot) Len() int { return s.size }

// Builder makes snapshots, each from the one before. It must not be used concurrently; the
// snapshots may be.
type Builder struct {
	last     *Snapshot
	policies map[Key]*Policy
	// tallies count for policies that decide, and audits for those with the enforcement Audit.
	tallies, audits Tallies
}

// NewBuilder makes a Builder without policies.
func NewBuilder() *Builder {
	return &Builder{last: &Snapshot{}, policies: map[Key]*Policy{}}
}

// Get returns the policy of the last snapshot under a key, or nil.
func (b *Builder) Get(key Key) *Policy { return b.policies[key] }

// Tallies returns the counts of evaluations of the policies of the last snapshot. They may be read concurrently.
func (b *Builder) Tallies() *Tallies { return &b.tallies }

// Audits returns the counts of the policies with the enforcement Audit. They may be read concurrently.
func (b *Builder) Audits() *Tallies { return &b.audits }

// Apply makes the next snapshot. A policy replaces the policy with the same key; nil removes it. A policy
// belongs to the first Builder that it is given, and must not be given again once it is removed. The
// cost grows with the number of changes and with the policies of the subjects that they
// name.
func (b *Builder) Apply(changes map[Key]*Policy) *Snapshot {
	restricting, granting, audited := newBuilder(b.last.restricting), newBuilder(b.last.granting), newBuilder(b.last.audited)
	for key, policy := range changes {
		old := b.policies[key]
		if old == policy {
			continue
		}
		restricting.replace(ifRestricting(old), ifRestricting(policy))
		granting.replace(ifGranting(old), ifGranting(policy))
		audited.replace(ifAudited(old), ifAudited(policy))
		tallies, others := &b.tallies, &b.audits
		if policy == nil {
			delete(b.policies, key)
			tallies.forget(key)
		} else {
			if policy.audit != nil {
				tallies, others = others, tallies
			}
			b.policies[key] = policy
			policy.tally = tallies.of(key, policy.conditionEffect())
		}
		others.forget(key)
	}
	b.last = &Snapshot{
		revision: b.last.revision + 1, size: len(b.policies),
		restricting: restricting.index, granting: granting.index, audited: audited.index,
	}
	return b.last
}

func ifRestricting(p *Policy) *Policy {
	//guard:engine-restrictions-audit
	if p == nil || p.audit != nil || !p.restricts() {
		return nil
	}
	return p
}

func ifGranting(p *Policy) *Policy {
	//guard:engine-grants-audit
	if p == nil || p.audit != nil || p.restricts() || p.grantsNothing() {
		return nil
	}
	return p
}

func ifAudited(p *Policy) *Policy {
	if p == nil || p.audit == nil || p.grantsNothing() {
		return nil
	}
	return p
}
