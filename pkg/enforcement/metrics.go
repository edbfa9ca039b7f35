/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var neverEvaluated = metrics.NewCounter(&metrics.CounterOpts{
	Namespace: "proviso",
	Subsystem: "enforcement",
	Name:      "never_evaluated_total",
	Help:      "Requests that succeeded on conditions that were never evaluated. Anything but zero is a bug.",
	// Beta: an alert belongs on it.
	StabilityLevel: metrics.BETA,
})

var registerMetrics sync.Once

// RegisterMetrics registers the metrics of the package, once.
func RegisterMetrics() {
	registerMetrics.Do(func() { legacyregistry.MustRegister(neverEvaluated) })
}
