/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	barriers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "barrier", Name: "policies", StabilityLevel: metrics.ALPHA,
		Help: "Number of Deny policies by the phase of their barrier: pending, written, refused (by kube-apiserver), over_bound, name_taken (by an object of another tool), untranslated (no rule can be translated) or broken (the policy does not compile).",
	}, []string{"phase"})
	orphaned = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "barrier", Name: "orphaned", StabilityLevel: metrics.ALPHA,
		Help: "Number of barriers whose policy is not in the store of this server. They stay, and still refuse requests.",
	})
	leading = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "barrier", Name: "leader", StabilityLevel: metrics.ALPHA,
		Help: "Whether this replica writes barriers: 1 or 0.",
	})
	writes = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "barrier", Name: "writes_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of attempts to write or remove a barrier, by result: written, restored (others had changed or deleted it), removed, refused (by kube-apiserver), conflict, or failed.",
	}, []string{"result"})
)

// The results of a write.
const (
	resultWritten  = "written"
	resultRestored = "restored"
	resultRemoved  = "removed"
	resultRefused  = "refused"
	resultConflict = "conflict"
	resultFailed   = "failed"
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(barriers, orphaned, leading, writes)
	for _, result := range []string{resultWritten, resultRestored, resultRemoved, resultRefused, resultConflict, resultFailed} {
		writes.WithLabelValues(result).Add(0)
	}
	for _, phase := range phases {
		barriers.WithLabelValues(string(phase)).Set(0)
	}
})
