/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"sync"
	"time"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/metricset"
)

var (
	metricSet metricset.Set

	decisions = metricSet.CounterVec("proviso_enforcement_decisions_total", []string{"decision"},
		"Number of requests by the decision before their body was read: allow, conditional or deny.")
	results = metricSet.CounterVec("proviso_enforcement_results_total", []string{"result"},
		"Number of conditional decisions by their result at admission: allow, deny, or error if the decision was denied because of an error. An update is counted for each attempt, a deletecollection for each object.")
	duration = metricSet.HistogramVec("proviso_enforcement_duration_seconds", []string{"result"}, metricset.LatencyBuckets,
		"Time to evaluate a conditional decision at admission, by result, in seconds.")
	neverEvaluated = metricSet.Counter("proviso_enforcement_never_evaluated_total",
		"Number of requests that succeeded on conditions that were never evaluated. Any value but zero is a bug.")
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(metricSet.Register)

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
