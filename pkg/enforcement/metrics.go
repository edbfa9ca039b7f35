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
		Help: "Number of requests by the decision before their body was read: allow, conditional or deny.",
	}, []string{"decision"})
	results = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "results_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of conditional decisions by their result at admission: allow, deny, or error if the decision was denied because of an error. An update is counted for each attempt, a deletecollection for each object.",
	}, []string{"result"})
	duration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time to evaluate a conditional decision at admission, by result, in seconds.",
		Buckets: []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, .1, .2, .5, 1, 2, 5, 10},
	}, []string{"result"})
	neverEvaluated = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "never_evaluated_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of requests that succeeded on conditions that were never evaluated. Any value but zero is a bug.",
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

// measure records the result of a conditional decision, and the time since start.
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
