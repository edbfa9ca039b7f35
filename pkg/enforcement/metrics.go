/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

const (
	metricsNamespace = "proviso"
	metricsSubsystem = "enforcement"
)

var (
	decisions = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "decisions_total", StabilityLevel: metrics.ALPHA,
		Help: "Requests by what was decided before their body was read: allow, conditional or deny.",
	}, []string{"decision"})
	results = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "results_total", StabilityLevel: metrics.ALPHA,
		Help: "Conditional decisions by what they evaluated to at admission: allow, deny, or error for one that was denied because of an error. An update is evaluated for each attempt, a collection for each object.",
	}, []string{"result"})
	duration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time that it took at admission to evaluate a conditional decision, by result, in seconds.",
		Buckets: []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, .1, .2, .5, 1, 2, 5, 10},
	}, []string{"result"})
	neverEvaluated = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "never_evaluated_total", StabilityLevel: metrics.ALPHA,
		Help: "Requests that succeeded on conditions that were never evaluated. Anything but zero is a bug.",
	})
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(decisions, results, duration, neverEvaluated)
})

// The labels of decisions and results.
const (
	labelAllow       = "allow"
	labelConditional = "conditional"
	labelDeny        = "deny"
	labelError       = "error"
)

// measure counts what a conditional decision evaluated to, since start.
func measure(ctx context.Context, start time.Time, d authorization.Decision) {
	result := labelDeny
	switch {
	case d.IsAllow():
		result = labelAllow
	case d.Err() != nil:
		result = labelError
	}
	results.WithContext(ctx).WithLabelValues(result).Inc()
	duration.WithContext(ctx).WithLabelValues(result).Observe(time.Since(start).Seconds())
}
