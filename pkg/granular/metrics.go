/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"context"
	"sync"
	"time"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

var (
	metricSet metricset.Set

	evaluations = metricSet.CounterVec("proviso_granular_evaluations_total", []string{"side", "result"},
		"Writes whose changed fields were checked, by side, include or exclude, and by result: allow, refuse, or error if the check failed and the write was refused.")
	checks = metricSet.HistogramVec("proviso_granular_checks", []string{"side"}, []float64{0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64},
		"Authorization checks that the fields of one write caused, by side.")
	duration = metricSet.HistogramVec("proviso_granular_duration_seconds", []string{"side"}, []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, .1, .2, .5, 1, 2, 5, 10},
		"Time that it took to compare the objects of a write and to check its fields, by side, in seconds.")
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(metricSet.Register)

// measure records the result, the number of verbs and the duration of a check that began at start.
func measure(ctx context.Context, start time.Time, mode string, result Result) {
	label := "refuse"
	switch {
	case result.Allowed:
		label = "allow"
	case result.Err != nil:
		label = "error"
	}
	evaluations.WithContext(ctx).WithLabelValues(mode, label).Inc()
	checks.WithContext(ctx).WithLabelValues(mode).Observe(float64(len(result.Verbs)))
	duration.WithContext(ctx).WithLabelValues(mode).Observe(time.Since(start).Seconds())
}
