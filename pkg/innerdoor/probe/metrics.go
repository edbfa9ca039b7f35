/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe

import (
	"sync"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

var (
	metricSet metricset.Set

	known = metricSet.GaugeVec("proviso_inner_door_known", []string{"server"},
		"Whether this replica lets writes pass on conditions for a kube-apiserver, by server: 1 if the server is known to call the inner door and this replica answers its checks, 0 otherwise. Where there are several replicas, the largest value counts.")
	calls = metricSet.GaugeVec("proviso_inner_door_called", []string{"server"},
		"Whether the last canaries of this replica show that a kube-apiserver calls the inner door, by server: 1 or 0.")
	rounds = metricSet.CounterVec("proviso_inner_door_probes_total", []string{"result"},
		"Number of rounds of canaries at one kube-apiserver, by result: good, elsewhere (another replica answers the checks of the server), passed (the server does not call the inner door), other_manifest, failed, cached (the server reuses answers), or contradictory (checks with several certificates).")
)

var registerMetrics = sync.OnceFunc(func() {
	metricSet.Register()
	for _, result := range results {
		rounds.WithLabelValues(string(result)).Add(0)
	}
})

// measure sets the gauges, and removes the gauges of servers that are no longer listed.
func (p *Prober) measure() {
	value := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	p.measuring.Lock()
	defer p.measuring.Unlock()
	states, gone := p.States(), p.measured
	p.measured = map[string]bool{}
	for _, state := range states {
		known.WithLabelValues(state.Server).Set(value(state.Known))
		calls.WithLabelValues(state.Server).Set(value(state.Calls))
		p.measured[state.Server] = true
		delete(gone, state.Server)
	}
	for server := range gone {
		known.Delete(map[string]string{"server": server})
		calls.Delete(map[string]string{"server": server})
	}
}
