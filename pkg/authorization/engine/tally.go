/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"sync"
	"sync/atomic"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Metrics count the evaluations of each policy. Authors of a namespace choose how many policies it has, so the
// numbers of policies with counts of their own are bounded; the other policies of the same scope and effect are counted together.
const (
	// MaxTallied bounds the policies of each scope that have counts of their own. With four results for each policy, both
	// scopes have at most 8000 time series, as many as a server of Kubernetes has anyway.
	MaxTallied = 1000
	// MaxTalliedInNamespace bounds them for each namespace, so that fifty namespaces are needed to fill the bound.
	MaxTalliedInNamespace = 20
)

// Other is the name of policies without counts of their own. No policy can have this name.
const Other = "_other"

// result is what a policy says about a request.
type result uint8

const (
	resultTrue     result = iota // its condition is true, or it has none
	resultFalse                  // its condition is false
	resultResidual               // its condition depends on data that is unknown
	resultError                  // its condition cannot be evaluated
	resultCount
)

func (r result) String() string {
	return [resultCount]string{"true", "false", "residual", "error"}[r]
}

// resultOf returns the result for an outcome of package authorization or of this package.
func resultOf[Outcome interface {
	IsResidual() bool
	IsTrue() bool
	IsFalse() bool
}](o Outcome) result {
	switch {
	case o.IsResidual():
		return resultResidual
	case o.IsTrue():
		return resultTrue
	case o.IsFalse():
		return resultFalse
	default:
		return resultError
	}
}

// tally counts the results of a policy, or of several.
type tally struct {
	effect authorization.Effect
	counts [resultCount]atomic.Uint64
}

// count counts a result.
func (p *Policy) count(r result) {
	if p.tally != nil {
		p.tally.counts[r].Add(1)
	}
}

// countUnconditional counts that a policy applies without an evaluation.
func (p *Policy) countUnconditional() {
	if p.failure != nil {
		p.count(resultError)
		return
	}
	p.count(resultTrue)
}

// Tallies are the counts of the policies of a Builder. What decisions of earlier snapshots still count for a
// deleted policy is lost. The zero value is ready to use.
type Tallies struct {
	mu sync.Mutex
	// own has the policies with counts of their own.
	own         map[Key]*tally
	cluster     int
	inNamespace map[string]int
	// others have the counts of all other policies: of the cluster, and of namespaces.
	others [2][]*tally
}

// of returns the counts for a policy. A policy that changes keeps its counts, unless its effect changes.
func (t *Tallies) of(key Key, effect authorization.Effect) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, known := t.own[key]
	switch {
	case known && own.effect == effect:
		return own
	case !known && !t.hasRoom(key):
		return t.other(key, effect)
	case t.own == nil:
		t.own, t.inNamespace = map[Key]*tally{}, map[string]int{}
	}
	if !known {
		t.add(key, 1)
	}
	t.own[key] = &tally{effect: effect}
	return t.own[key]
}

func (t *Tallies) hasRoom(key Key) bool {
	if key.Namespace == "" {
		return t.cluster < MaxTallied
	}
	return len(t.own)-t.cluster < MaxTallied && t.inNamespace[key.Namespace] < MaxTalliedInNamespace
}

func (t *Tallies) add(key Key, n int) {
	if key.Namespace == "" {
		t.cluster += n
		return
	}
	if t.inNamespace[key.Namespace] += n; t.inNamespace[key.Namespace] == 0 {
		delete(t.inNamespace, key.Namespace)
	}
}

// other returns the common counts of policies with a scope and an effect.
func (t *Tallies) other(key Key, effect authorization.Effect) *tally {
	scope := min(len(key.Namespace), 1)
	for _, o := range t.others[scope] {
		if o.effect == effect {
			return o
		}
	}
	o := &tally{effect: effect}
	t.others[scope] = append(t.others[scope], o)
	return o
}

// forget ends the counts of a deleted policy.
func (t *Tallies) forget(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.own[key]; known {
		delete(t.own, key)
		t.add(key, -1)
	}
}

// Count is how often policies with an effect had a result.
type Count struct {
	// Policy identifies the policy. Policies without counts of their own count together: with the name Other, and the AuthorizationPolicies
	// among them with the namespace Other, too.
	Policy Key
	Effect authorization.Effect
	// Result is true, false, residual or error.
	Result string
	Value  uint64
}

// Counts returns the counts that are not zero, in no order.
func (t *Tallies) Counts() []Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Count
	add := func(key Key, counted *tally) {
		for r := range resultCount {
			if n := counted.counts[r].Load(); n > 0 {
				all = append(all, Count{Policy: key, Effect: counted.effect, Result: r.String(), Value: n})
			}
		}
	}
	for key, counted := range t.own {
		add(key, counted)
	}
	for scope, key := range []Key{{Name: Other}, {Namespace: Other, Name: Other}} {
		for _, counted := range t.others[scope] {
			add(key, counted)
		}
	}
	return all
}
