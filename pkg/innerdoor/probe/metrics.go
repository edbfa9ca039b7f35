/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package probe

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	known = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "inner_door", Name: "known", StabilityLevel: metrics.ALPHA,
		Help: "Whether this replica lets writes pass on conditions for a kube-apiserver, by server: 1 if the server is known to call the inner door and this replica answers its checks, 0 otherwise. Where there are several replicas, the largest value counts.",
	}, []string{"server"})
	calls = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "inner_door", Name: "called", StabilityLevel: metrics.ALPHA,
		Help: "Whether the last canaries of this replica show that a kube-apiserver calls the inner door, by server: 1 or 0.",
	}, []string{"server"})
	rounds = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "inner_door", Name: "probes_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of rounds of canaries at one kube-apiserver, by result: good, elsewhere (another replica answers the checks of the server), passed (the server does not call the inner door), other_manifest, failed, cached (the server reuses answers), or contradictory (checks with several certificates).",
	}, []string{"result"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(known, calls, rounds)
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
