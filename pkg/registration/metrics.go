/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package registration

import (
	"sync"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

var metricSet metricset.Set

var versionState = metricSet.GaugeVec("proviso_registration_state", []string{"group", "state"},
	"Which server kube-apiserver calls for the resources of Proviso, by group and state: 1 for the state of the group, 0 for the others. The states are proviso, unavailable (Proviso, but kube-apiserver does not reach it), missing (no APIService), kube_apiserver (kube-apiserver serves the version itself or owns its APIService), another_server, and unknown.")

var registerMetrics = sync.OnceFunc(metricSet.Register)

// measure sets the metric for each version: 1 for its current state, and 0 for all others.
func (w *Watcher) measure() {
	for _, version := range w.versions {
		current := w.Result(version).State
		for _, state := range states {
			value := 0.0
			if state == current {
				value = 1
			}
			versionState.WithLabelValues(version.Group, string(state)).Set(value)
		}
	}
}
