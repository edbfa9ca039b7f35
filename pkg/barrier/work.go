/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/cel/costbound"
)

// The bounds of the work of all barriers for one write, in units of a twelfth of a microsecond. kube-apiserver limits each barrier apart,
// and the authors of one namespace can have 100 of them.
const (
	// MaxWork is the bound for the barriers of one namespace: half a second for an object of UsualBytes.
	MaxWork = 6_000_000
	// MaxWorkOfCluster is the bound for the barriers of cluster-scoped policies.
	MaxWorkOfCluster = 4 * MaxWork
	// UsualBytes is the size of an object to which MaxWork applies.
	UsualBytes = 256 << 10
	// LargestBytes is the size of the largest object that kube-apiserver accepts. For one of this size the work may be largestFactor times
	// as large: kube-apiserver itself works longer for it.
	LargestBytes  = 3 << 20
	largestFactor = 6
)

// work is the bound of the work of a barrier, for objects of two sizes.
type work struct{ usual, largest uint64 }

func (w work) plus(o work) work {
	return work{usual: w.usual + min(o.usual, unlimited-w.usual), largest: w.largest + min(o.largest, unlimited-w.largest)}
}

const unlimited = ^uint64(0)

// CostsNoMore reports whether a barrier works no longer than another one for the same write.
func (b *Barrier) CostsNoMore(than *Barrier) bool {
	return b.work.usual <= than.work.usual && b.work.largest <= than.work.largest
}

// OverWork returns why the work of a barrier and of others of the same scope exceeds the bound for one write, or "". The barriers of
// mappings have no bound, and do not count.
func OverWork(b *Barrier, others []*Barrier) string {
	limit := uint64(MaxWork)
	whose := "the policies of the namespace"
	if b.Key.Namespace == "" {
		limit, whose = MaxWorkOfCluster, "cluster-scoped policies"
	}
	paths := b.paths
	for _, other := range others {
		if b.hasWildcard() {
			paths = append(paths[:len(paths):len(paths)], other.paths...)
		}
	}
	seen := map[resourcePath]bool{}
	for _, path := range paths {
		if seen[path] || !b.sees(path) {
			continue
		}
		seen[path] = true
		total := b.work
		for _, other := range others {
			if other.Key != b.Key && other.sees(path) {
				total = total.plus(other.work)
			}
		}
		if total.usual > limit || total.largest > limit*largestFactor {
			return fmt.Sprintf("a write of %v with an object of %d KiB could cost kube-apiserver up to %d ms for the barriers of %s, of which this one takes %d; at most %d ms are allowed, and %d ms for an object of %d MiB: "+
				"compare fewer fields of any size, and nest no macros", path, UsualBytes>>10, total.usual/unitsPerMillisecond, whose, b.work.usual/unitsPerMillisecond, limit/unitsPerMillisecond, limit*largestFactor/unitsPerMillisecond, LargestBytes>>20)
		}
	}
	return ""
}

const unitsPerMillisecond = 12_000

// resourcePath is a resource or subresource of a rule, which may have wildcards.
type resourcePath struct{ group, path string }

// String returns the name of the resource, such as deployments.apps/scale.
func (p resourcePath) String() string {
	if p.group == "" {
		return p.path
	}
	return groupOf([]string{p.path}, p.group)[0]
}

// pathsOf returns the resources of the rules of a policy.
func pathsOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (paths []resourcePath) {
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				paths = append(paths, resourcePath{group: group, path: path})
			}
		}
	}
	return paths
}

// hasWildcard reports whether a rule of the barrier may match resources that it does not name.
func (b *Barrier) hasWildcard() bool {
	return slices.ContainsFunc(b.paths, func(p resourcePath) bool { return p.group == all || strings.Contains(p.path, all) })
}

// sees reports whether a rule of the barrier may match a resource.
func (b *Barrier) sees(path resourcePath) bool {
	for _, own := range b.paths {
		if (own.group == all || path.group == all || own.group == path.group) && pathsOverlap(own.path, path.path) {
			return true
		}
	}
	return false
}

// pathsOverlap reports whether two entries of the resources of admission rules may match the same resource or subresource.
func pathsOverlap(a, b string) bool {
	aResource, aSub, _ := strings.Cut(a, "/")
	bResource, bSub, _ := strings.Cut(b, "/")
	same := func(a, b string) bool { return a == all || b == all || a == b }
	return same(aResource, bResource) && same(aSub, bSub)
}

// bounded records the bound of the work of the barrier, and its resources. It returns why there is none, or "".
func (b *Barrier) bounded() string {
	bound, err := costbound.Of(b.Policy)
	if err != nil {
		return reasonOf(err)
	}
	b.work, b.paths = work{usual: bound.Work(UsualBytes), largest: bound.Work(LargestBytes)}, pathsOf(b.Policy)
	if what := bound.Unbounded(); what != "" {
		return "no limit of kube-apiserver ends the work of " + what
	}
	return ""
}
