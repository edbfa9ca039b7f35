/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	metricsNamespace = "proviso"
	metricsSubsystem = "authorization"
)

// The routes by which a condition is evaluated.
const (
	routeInProcess = "in_process" // by the program that it was made from
	routeText      = "text"       // by its text, compiled here
	routeAuthor    = "author"     // by the authorizer that made it, with its whole set
)

var (
	authorizerDecisions = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "authorizer_decisions_total", StabilityLevel: metrics.ALPHA,
		Help: "Answers of the authorizers in the chain, by authorizer and by decision: allow, deny, no_opinion or conditional.",
	}, []string{"authorizer", "decision"})
	authorizerErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "authorizer_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Answers of the authorizers in the chain that came with an error, by authorizer.",
	}, []string{"authorizer"})
	authorizerDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "authorizer_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time that the authorizers in the chain took to answer, by authorizer, in seconds.",
		Buckets: microseconds,
	}, []string{"authorizer"})
	evaluations = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "condition_evaluations_total", StabilityLevel: metrics.ALPHA,
		Help: "Evaluations of conditions, by type (other is any type that this server does not know), by route (in_process, text, or author for a whole set) and by result: true, false, error, residual or unsupported; for an author allow, deny, no_opinion or error.",
	}, []string{"type", "route", "result"})
	conditionBytes = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "condition_size_bytes", StabilityLevel: metrics.ALPHA,
		Help:    "Size of the texts of conditions that were returned in reviews, in bytes.",
		Buckets: metrics.ExponentialBuckets(16, 2, 11), // up to the bound of 10240 and over it
	})
)

// microseconds are buckets from a microsecond, which a decision from memory takes, to ten
// seconds, after which every call has timed out.
var microseconds = []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, .1, .2, .5, 1, 2, 5, 10}

// RegisterMetrics registers the metrics of the package, once. It must be called before a metric is used,
// because registering a metric that is in use is a race.
var RegisterMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(authorizerDecisions, authorizerErrors, authorizerDuration, evaluations, conditionBytes)
})

// labels of decisions and outcomes.
const (
	labelAllow       = "allow"
	labelDeny        = "deny"
	labelNoOpinion   = "no_opinion"
	labelConditional = "conditional"
)

func (d Decision) label() string {
	switch d.kind {
	case kindAllow:
		return labelAllow
	case kindNoOpinion:
		return labelNoOpinion
	case kindConditions, kindChain:
		return labelConditional
	default:
		return labelDeny
	}
}

// measure counts the answer of a member that was asked at start.
func (m Member) measure(start time.Time, d Decision) {
	authorizerDuration.WithLabelValues(m.Name).Observe(time.Since(start).Seconds())
	authorizerDecisions.WithLabelValues(m.Name, d.label()).Inc()
	if d.err != nil {
		authorizerErrors.WithLabelValues(m.Name).Inc()
	}
}

func (o Outcome) label() string {
	switch o.kind {
	case outcomeTrue:
		return "true"
	case outcomeFalse:
		return "false"
	case outcomeError:
		return "error"
	case outcomeResidual:
		return "residual"
	default:
		return "unsupported"
	}
}

// typeLabel keeps types that clients invent from making time series.
func typeLabel(conditionType string) string {
	switch conditionType {
	case ConditionTypeCEL, ConditionTypeCELBound:
		return conditionType
	default:
		return "other"
	}
}

// typeLabel is the type of the conditions of a set, if it is one.
func (s Set) typeLabel() string {
	label := ""
	for _, c := range s.Decision.conditions {
		if label != "" && label != typeLabel(c.Type) {
			return "other"
		}
		label = typeLabel(c.Type)
	}
	return label
}

func authorLabel(decision authorizer.Decision, err error) string {
	switch {
	case decision == authorizer.DecisionAllow:
		return labelAllow
	case err != nil:
		return "error"
	case decision == authorizer.DecisionNoOpinion:
		return labelNoOpinion
	default:
		return labelDeny
	}
}
