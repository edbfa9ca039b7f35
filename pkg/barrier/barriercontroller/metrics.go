/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"sync"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

var (
	metricSet metricset.Set

	barriers = metricSet.GaugeVec("proviso_barrier_policies", []string{"phase"},
		"Number of Deny policies, and of mappings that exclude fields, by the phase of their barrier: pending, written, refused (by kube-apiserver), over_bound, name_taken (by an object of another tool), untranslated (nothing can be translated) or broken (the policy or mapping does not compile).")
	orphaned = metricSet.Gauge("proviso_barrier_orphaned",
		"Number of barriers whose policy or mapping is not in the store of this server. They stay, and still refuse requests.")
	leading = metricSet.Gauge("proviso_barrier_leader",
		"Whether this replica writes barriers: 1 or 0.")
	writes = metricSet.CounterVec("proviso_barrier_writes_total", []string{"result"},
		"Number of attempts to write or remove a barrier, by result: written, restored (others had changed or deleted it), removed, refused (by kube-apiserver), conflict, or failed.")
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
	metricSet.Register()
	for _, result := range []string{resultWritten, resultRestored, resultRemoved, resultRefused, resultConflict, resultFailed} {
		writes.WithLabelValues(result).Add(0)
	}
	for _, phase := range phases {
		barriers.WithLabelValues(string(phase)).Set(0)
	}
})
