/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

// Phase is the phase of a barrier.
type Phase string

// The phases of a barrier. They are the values of a label of a metric.
const (
	// Pending means that the barrier is still to be written, or written again.
	Pending Phase = "pending"
	// Written means that both objects are stored as they must be. Whether kube-apiservers have loaded them is another question.
	Written Phase = "written"
	// Refused means that kube-apiserver refuses the barrier.
	Refused Phase = "refused"
	// OverBound means that the policies of the namespace, or of the cluster, have more barriers, more text or more work for one write than they may have.
	OverBound Phase = "over_bound"
	// NameTaken means that another object has the name.
	NameTaken Phase = "name_taken"
	// Untranslated means that no rule can be translated.
	Untranslated Phase = "untranslated"
	// Broken means that the policy does not compile. The barrier of its last good specification stays.
	Broken Phase = "broken"
)

var phases = []Phase{Pending, Written, Refused, OverBound, NameTaken, Untranslated, Broken}

// State is the state of the barrier of a policy.
type State struct {
	Phase Phase
	// Message explains the phase. It has no text of another policy.
	Message string
	// Warning says that a written barrier exceeds a bound, which did not exist when it was written. It is usually empty.
	Warning string
	// Report says which rules the barrier enforces once it is loaded.
	Report []barrier.RuleReport
	// of is the compiled barrier that was refused or is to be written. It is nil in the other phases.
	of *barrier.Barrier
	// generation is of the specification of a mapping that was compiled last, of the mapping with the UID.
	generation int64
	uid        types.UID
}

// MappingState returns the state of the barrier of a mapping. It returns false if the state is not known, or is about another
// specification.
func (c *Controller) MappingState(m *policyv1alpha1.FieldPermissionMapping) (State, bool) {
	state, ok := c.State(mappingKey(m.Name))
	return state, ok && state.generation == m.Generation && state.uid == m.UID
}

// State returns the state of the barrier of a policy or a mapping, and false if it has none or is not known.
func (c *Controller) State(key Key) (State, bool) {
	if state := c.record(key).state; state != nil {
		return *state, true
	}
	return State{}, false
}

// record is what this process knows about the barrier of a policy or a mapping. The zero value knows nothing.
type record struct {
	// state is nil if there is no barrier, or if nothing is known about it.
	state    *State
	compiled compiled
	// settled is the compiled barrier that has been seen in order, or nil, and missing the time since when it was not.
	settled *barrier.Barrier
	missing time.Time
	// deleted is the UID of the policy whose deletion has been seen.
	deleted types.UID
	// vanished is since when the policy is missing in the cache, and isOrphan says that its barrier was told to be an orphan.
	vanished time.Time
	isOrphan bool
}

// record returns the record of a policy.
func (c *Controller) record(key Key) record {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.records[key]; r != nil {
		return *r
	}
	return record{}
}

// with calls change with the record of a policy, which it may change.
func (c *Controller) with(key Key, change func(r *record)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[key]
	if r == nil {
		r = &record{}
		c.records[key] = r
	}
	if change(r); *r == (record{}) {
		delete(c.records, key)
	}
}

// setState records the state of a barrier, and calls Config.Changed if it has changed.
func (c *Controller) setState(key Key, state State) {
	isChanged := false
	c.with(key, func(r *record) {
		if key.IsMapping {
			state.generation, state.uid = r.compiled.generation, r.compiled.uid
		}
		before := r.state
		isChanged = before == nil || before.Phase != state.Phase || before.Message != state.Message || before.Warning != state.Warning ||
			before.generation != state.generation || before.uid != state.uid || !reflect.DeepEqual(before.Report, state.Report)
		r.state = &state
	})
	if isChanged {
		c.config.Changed()
	}
}

// forget forgets the compiled barrier of a policy, and its state.
func (c *Controller) forget(key Key) {
	isChanged := false
	c.with(key, func(r *record) {
		isChanged = r.state != nil
		*r = record{deleted: r.deleted, vanished: r.vanished, isOrphan: r.isOrphan}
	})
	if isChanged {
		c.config.Changed()
	}
}

// measure sets the gauges.
func (c *Controller) measure() {
	counts, orphans := map[Phase]int{}, 0
	c.mu.Lock()
	for _, r := range c.records {
		if r.state != nil {
			counts[r.state.Phase]++
		}
		if r.isOrphan {
			orphans++
		}
	}
	c.mu.Unlock()
	for _, phase := range phases {
		barriers.WithLabelValues(string(phase)).Set(float64(counts[phase]))
	}
	orphaned.Set(float64(orphans))
}
