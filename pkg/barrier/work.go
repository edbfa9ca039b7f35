/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/cel/costbound"
)

// The bounds of the work of all barriers for one write of an object of 256 KiB, in units of a twelfth of a microsecond. kube-apiserver
// limits each barrier apart, and the authors of one namespace can have 100 of them.
const (
	// MaxWork is the bound for the barriers of one namespace: half a second.
	MaxWork = 6_000_000
	// MaxWorkOfCluster is the bound for the barriers of cluster-scoped policies.
	MaxWorkOfCluster = 4 * MaxWork

	unitsPerMillisecond = 12_000
)

// sizes are the sizes of the objects for which the work is bounded, and the part of the bound that it may take.
//
//guard:work-small-objects
var sizes = [...]struct {
	bytes int
	part  float64
}{
	// Small objects arrive often, many at the same time. A macro in another one takes as long for them as kube-apiserver lets it.
	{4 << 10, 0.25},
	{256 << 10, 1},
	// The largest object that kube-apiserver accepts. kube-apiserver itself works longer for it.
	{3 << 20, 6},
}

// work is the bound of the work of a barrier, for objects of the sizes.
type work [len(sizes)]uint64

func (w work) plus(o work) work {
	for i := range w {
		w[i] += min(o[i], unlimited-w[i])
	}
	return w
}

const unlimited = ^uint64(0)

// Cost returns how long kube-apiserver takes at most for the barrier and one write of an object of CostSize, in whole milliseconds. It is 0 for a
// mapping, and without objects.
func (b *Barrier) Cost() time.Duration {
	return time.Duration((b.work[1]+unitsPerMillisecond-1)/unitsPerMillisecond) * time.Millisecond
}

// CostSize is the size of the object of Barrier.Cost.
const CostSize = "256 KiB"

// CostsNoMore reports whether a barrier works no longer than another one for the same write, and for no writes that the other one does not see.
func (b *Barrier) CostsNoMore(than *Barrier) bool {
	//guard:work-other-resources
	if slices.ContainsFunc(b.paths, func(path resourcePath) bool { return !slices.Contains(than.paths, path) }) {
		return false
	}
	for i := range sizes {
		if b.work[i] > than.work[i] {
			return false
		}
	}
	return true
}

// OverWork returns why the work of a barrier and of others of the same scope exceeds the bound for one write, or "". The barriers of
// mappings have no bound, and do not count.
func OverWork(b *Barrier, others []*Barrier) string {
	limit := float64(MaxWork)
	whose := "the policies of the namespace"
	//guard:work-namespaces
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
				//guard:work-others
				total = total.plus(other.work)
			}
		}
		for i, size := range sizes {
			if most := uint64(size.part * limit); total[i] > most {
				return fmt.Sprintf("a write of %v with an object of %d KiB could cost kube-apiserver up to %d ms for the barriers of %s, of which this one takes %d; at most %d ms are allowed: "+
					"compare fewer fields of any size, and nest no macros", path, size.bytes>>10, total[i]/unitsPerMillisecond, whose, b.work[i]/unitsPerMillisecond, most/unitsPerMillisecond)
			}
		}
	}
	return ""
}

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
	return slices.ContainsFunc(b.paths, func(own resourcePath) bool {
		return (own.group == all || path.group == all || own.group == path.group) && pathsOverlap(own.path, path.path)
	})
}

// pathsOverlap reports whether two entries of the resources of admission rules may match the same resource or subresource.
func pathsOverlap(a, b string) bool {
	aResource, aSub, _ := strings.Cut(a, "/")
	bResource, bSub, _ := strings.Cut(b, "/")
	//guard:work-wildcards
	same := func(a, b string) bool { return a == all || b == all || a == b }
	return same(aResource, bResource) && same(aSub, bSub)
}

// bounded records the bound of the work of the barrier, and its resources. It returns why there is none, or "".
func (b *Barrier) bounded() string {
	bound, err := costbound.Of(b.Policy)
	if err != nil {
		return reasonOf(err)
	}
	b.paths = pathsOf(b.Policy)
	for i, size := range sizes {
		b.work[i] = bound.Work(size.bytes)
	}
	//guard:work-unbounded-functions
	if what := bound.Unbounded(); what != "" {
		return "no limit of kube-apiserver ends the work of " + what
	}
	return ""
}
