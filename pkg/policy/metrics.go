/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

const (
	metricsNamespace = "proviso"
	metricsSubsystem = "policy"
)

// The states that a policy is counted under.
const (
	stateReady    = "ready"
	stateLastGood = "last_good" // an earlier compilation is in force
	stateBroken   = "broken"    // fails closed
)

var (
	policies = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "policies", StabilityLevel: metrics.ALPHA,
		Help: "Number of policies by state: ready, last_good (does not compile, an earlier compilation is used) or broken (does not compile, fails closed).",
	}, []string{"state"})
	compileFailures = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "compile_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of times that a stored policy could not be compiled.",
	})
	snapshotRevision = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "snapshot_revision", StabilityLevel: metrics.ALPHA,
		Help: "Revision of the snapshot of policies that decides, counted from the start of the process.",
	})
	snapshotTimestamp = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "snapshot_timestamp_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Time at which the snapshot of policies that decides was made, in seconds since the epoch.",
	})
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(policies, compileFailures, snapshotRevision, snapshotTimestamp)
})

// measure counts the policies by state.
func (c *Controller) measure(snapshot *engine.Snapshot) {
	counts := map[string]int{stateReady: 0, stateLastGood: 0, stateBroken: 0}
	c.mu.Lock()
	for _, r := range c.results {
		switch {
		case r.failure == nil:
			counts[stateReady]++
		case r.lastGood:
			counts[stateLastGood]++
		default:
			counts[stateBroken]++
		}
	}
	c.mu.Unlock()
	for state, n := range counts {
		policies.WithLabelValues(state).Set(float64(n))
	}
	snapshotRevision.Set(float64(snapshot.Revision()))
	snapshotTimestamp.SetToCurrentTime()
}
