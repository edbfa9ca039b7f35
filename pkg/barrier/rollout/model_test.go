/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
)

var (
	modelKeys  = []engine.Key{{Name: "p"}, {Namespace: "n", Name: "q"}}
	modelVerbs = []string{"create", "update", "delete"}
)

// model changes a world at random.
type model struct {
	*world

	t     *testing.T
	r     *rand.Rand
	texts int
	// stored has the texts of the policies.
	stored map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec
	// number is the greatest number of the sentinel.
	number int64
	// knowsAll says that the replica has seen all servers in the list.
	knowsAll bool
	trail    []string
}

// verbs returns some verbs.
func (m *model) verbs() []string {
	return slices.DeleteFunc(slices.Clone(modelVerbs), func(string) bool { return m.r.IntN(3) == 0 })
}

// steps are what can happen in a cluster, in any order.
var steps map[string]func(*model)

func init() { steps = allSteps }

var allSteps = map[string]func(*model){
	"policy": func(m *model) {
		key := m.key()
		m.texts++
		m.stored[key] = specOf(fmt.Sprint("text ", m.texts), m.verbs()...)
		m.replica.SetPolicy(key, m.stored[key])
	},
	"delete policy": func(m *model) {
		if m.r.IntN(4) > 0 {
			return
		}
		key := m.key()
		delete(m.stored, key)
		m.replica.DeletePolicy(key)
		m.deletePolicy(nameOf(key))
		m.deleteBinding(nameOf(key))
		m.receive()
	},
	"write": func(m *model) {
		if key := m.key(); m.stored[key] != nil {
			m.writeBarrier(m.t, key, m.stored[key])
		}
	},
	"write the policy only": func(m *model) {
		if key := m.key(); m.stored[key] != nil {
			compiled, err := compile(key, m.stored[key])
			if err != nil {
				m.t.Fatal(err)
			}
			m.writePolicy(compiled.Policy)
		}
	},
	"status": func(m *model) {
		if p := m.policy([]string{nameOf(m.key()), barrier.SentinelName}[m.r.IntN(2)]); p != nil {
			m.writePolicy(p)
		}
	},
	"sentinel": func(m *model) { m.sentinel(m.extent()) },
	"sentinel of a leader that lags": func(m *model) {
		late := &world{store: &store{policies: m.policies[:m.r.IntN(len(m.policies)+1)], bindings: m.bindings[:m.r.IntN(len(m.bindings)+1)]}}
		m.sentinel(late.extent())
	},
	"policy of a sentinel": func(m *model) {
		m.number++
		policy, _ := barrier.Sentinel(namespace, m.number)
		barrier.SetExtent(policy, m.extent())
		m.writePolicy(policy)
	},
	"binding of a sentinel": func(m *model) {
		_, binding := barrier.Sentinel(namespace, m.number)
		m.writeBinding(binding)
	},
	"weaken": func(m *model) {
		if p := m.policy(nameOf(m.key())); p != nil {
			weak := p.DeepCopy()
			weak.Spec.Validations[0].Message, weak.Spec.Validations[0].Expression = "", "true"
			m.writePolicy(weak)
			m.receive()
		}
	},
	"lose the sentinel": func(m *model) {
		if m.r.IntN(4) == 0 {
			m.deletePolicy(barrier.SentinelName)
			m.deleteBinding(barrier.SentinelName)
		}
	},
	"roll out": func(m *model) {
		for key, spec := range m.stored {
			m.writeBarrier(m.t, key, spec)
		}
		m.sentinel(m.extent())
		m.receive()
		steps["load all"](m)
		m.probe()
	},
	"receive":  func(m *model) { m.receive() },
	"received": func(m *model) { m.receivePolicy() },
	"bound":    func(m *model) { m.receiveBinding() },
	"load": func(m *model) {
		k := m.some()
		k.policies += m.r.IntN(len(m.policies) - k.policies + 1)
	},
	"load bindings": func(m *model) {
		k := m.some()
		k.bindings += m.r.IntN(len(m.bindings) - k.bindings + 1)
	},
	"load all": func(m *model) {
		for _, k := range m.servers {
			if k.mode == "" {
				k.policies, k.bindings = len(m.policies), len(m.bindings)
			}
		}
	},
	"stall": func(m *model) {
		for _, k := range m.servers {
			k.mode = ""
		}
		m.server([]string{"a", "b", "c"}[m.r.IntN(3)]).mode = "stalled"
	},
	"run again": func(m *model) {
		for _, k := range m.servers {
			k.mode = ""
		}
	},
	"leave": func(m *model) {
		m.listed = slices.DeleteFunc(m.listed, func(address string) bool { return m.servers[address].mode != "" })
		if m.knowsAll { // Leases count as long as servers that have left, which the replica does not know yet
			m.alive = len(m.listed)
		}
	},
	"join": func(m *model) { m.join() },
	"restart the replica": func(m *model) {
		if m.r.IntN(4) == 0 {
			m.restart(m.t)
			m.knowsAll, m.alive = false, 3
			for key, spec := range m.stored {
				m.replica.SetPolicy(key, spec)
			}
			m.list()
			m.replica.SetSynced()
		}
	},
	"round":       func(m *model) { m.probe() },
	"round again": func(m *model) { m.probe() },
}

func (m *model) key() engine.Key { return modelKeys[m.r.IntN(len(modelKeys))] }

// some returns a server that runs.
func (m *model) some() *kube {
	k := m.server([]string{"a", "b", "c"}[m.r.IntN(3)])
	if k.mode != "" {
		return &kube{policies: len(m.policies), bindings: len(m.bindings)}
	}
	return k
}

func (m *model) sentinel(extent barrier.Extent) {
	m.number += 1 + m.r.Int64N(1000)
	m.writeSentinelWith(m.number, extent)
}

func (m *model) join() {
	m.listed = []string{"https://a:443", "https://b:443", "https://c:443"}
	m.alive = 3
}

func (m *model) probe() {
	m.round(m.t)
	m.knowsAll = m.knowsAll || len(m.listed) == 3
}

// check compares what is covered with what each server has loaded.
func (m *model) check() (covered int) {
	m.t.Helper()
	for _, key := range modelKeys {
		for _, v := range modelVerbs {
			if !m.replica.Covers(key.ConditionID(), verb(v)) {
				continue
			}
			covered++
			for name, k := range m.servers {
				policy, binding := stateAt(m.policies, k.policies, nameOf(key)), stateAt(m.bindings, k.bindings, nameOf(key))
				if policy == nil || binding == nil || !slices.Contains(strings.Split(policy.Spec.Validations[0].Message, ","), v) {
					m.t.Fatalf("%s of %v is left to its barrier, and %s has not loaded one that covers it; replica: %+v; steps: %q", v, key, name, m.replica.State(key), m.trail)
				}
			}
		}
	}
	return covered
}

// TestModel has all that can happen in a cluster in random orders. A request is covered only if each server has loaded a barrier that
// covers it. In the end everything is active.
func TestModel(t *testing.T) {
	t.Parallel()
	names := []string{}
	for name := range steps {
		names = append(names, name)
	}
	slices.Sort(names)
	covered, earlier := 0, 0
	for seed := range uint64(150) {
		m := &model{world: newWorld(t, "a", "b", "c"), t: t, r: rand.New(rand.NewPCG(seed, 1)), stored: map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}}
		m.replica.SetSynced()
		for range 150 {
			step := names[m.r.IntN(len(names))]
			m.trail = append(m.trail, step)
			steps[step](m)
			covered += m.check()
			for _, key := range modelKeys {
				if m.replica.State(key).Earlier {
					earlier++
				}
			}
		}
		m.trail = append(m.trail, "the end")
		steps["run again"](m)
		m.join()
		for key, spec := range m.stored {
			m.writeBarrier(t, key, spec)
		}
		m.sentinel(m.extent())
		m.receive()
		steps["load all"](m)
		m.clock.Step(time.Second)
		for range 4 {
			m.round(t)
		}
		m.check()
		for key := range m.stored {
			if got := m.replica.State(key); got.Phase != rollout.Active {
				t.Fatalf("seed %d: %v is not active in the end: %+v; %q; steps: %q", seed, key, got, m.replicaLines(), m.trail)
			}
		}
	}
	t.Logf("%d requests were covered, %d texts of earlier times were active", covered, earlier)
	if covered < 1000 || earlier < 100 {
		t.Error("too few to say anything")
	}
}
