/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"sync"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

var (
	metricSet metricset.Set

	policies = metricSet.GaugeVec("proviso_barrier_rollout_policies", []string{"phase"},
		"Number of Deny policies by the phase of their barrier as this replica knows it: absent (no rule can be translated, or the policy does not compile), pending (not written, or a kube-apiserver is not known to have loaded it) or active. Without the front door, only kube-apiservers whose addresses are known count.")
	isLoaded = metricSet.GaugeVec("proviso_barrier_rollout_server_loaded", []string{"server"},
		"Whether a kube-apiserver has shown that it has loaded all barriers that are written, by server: 1 or 0.")
	probes = metricSet.CounterVec("proviso_barrier_rollout_probes_total", []string{"result"},
		"Number of rounds of probes at one kube-apiserver, by result: loaded, behind (it has not loaded the last barriers yet), passed (it enforces no barriers) or failed.")
)

var registerMetrics = sync.OnceFunc(func() {
	metricSet.Register()
	for _, o := range outcomes {
		probes.WithLabelValues(string(o)).Add(0)
	}
})

// countedAs returns the phase for the gauge: active if the barrier counts as loaded. Otherwise it would be pending for ever where a load balancer hides some
// kube-apiservers.
func (s State) countedAs() Phase {
	if s.Loaded {
		return Active
	}
	return s.Phase
}

// measure sets the gauges, and removes the gauges of servers that do not count any more.
func (r *Rollout) measure() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	counts := map[Phase]int{}
	for _, e := range r.entries {
		counts[r.state(e).countedAs()]++
	}
	for _, phase := range phases {
		policies.WithLabelValues(string(phase)).Set(float64(counts[phase]))
	}
	gone := r.measured
	r.measured = map[string]bool{}
	for address, s := range r.servers {
		value := 0.0
		if r.last > 0 && s.shown >= r.last {
			value = 1
		}
		isLoaded.WithLabelValues(address).Set(value)
		r.measured[address] = true
		delete(gone, address)
	}
	for address := range gone {
		isLoaded.Delete(map[string]string{"server": address})
	}
}
