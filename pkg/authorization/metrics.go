/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

// route is the way in which a condition is evaluated.
type route uint8

const (
	routeInProcess route = iota // by the program that it was made from
	routeText                   // by its text, compiled here
	routeAuthor                 // by the authorizer that made it, with its whole set
	routeCount
)

func (r route) label() string { return [routeCount]string{"in_process", "text", "author"}[r] }

// Stage says for what conditions are evaluated. It is a label of metrics. The zero value is StageRequest.
type Stage uint8

const (
	// StageRequest is the authorization of requests.
	StageRequest Stage = iota
	// StageReview answers SubjectAccessReviews and decides who may write policies.
	StageReview
	// StageCheck answers the secondary checks of conditions.
	StageCheck
	// StageImpersonation decides who may impersonate whom.
	StageImpersonation
	// StageFrontDoor answers kube-apiserver's authorization webhook.
	StageFrontDoor
	// StageAdmission is the enforcement of conditions.
	StageAdmission
	// StageConditionsReview answers AuthorizationConditionsReviews.
	StageConditionsReview
	stageCount
)

func (s Stage) label() string {
	return [stageCount]string{"request", "review", "check", "impersonation", "front_door", "admission", "conditions_review"}[s]
}

var (
	metricSet metricset.Set

	authorizerDecisions = metricSet.CounterVec("proviso_authorization_authorizer_decisions_total", []string{"authorizer", "decision"},
		"Answers of the authorizers in the chain, by authorizer and by decision: allow, deny, no_opinion or conditional.")
	authorizerErrors = metricSet.CounterVec("proviso_authorization_authorizer_errors_total", []string{"authorizer"},
		"Answers of the authorizers in the chain that came with an error, by authorizer.")
	authorizerDuration = metricSet.HistogramVec("proviso_authorization_authorizer_duration_seconds", []string{"authorizer"}, metricset.LatencyBuckets,
		"Time that the authorizers in the chain took to answer, by authorizer, in seconds.")
	evaluations = metricSet.CounterVec("proviso_authorization_condition_evaluations_total", []string{"type", "route", "result"},
		"Evaluations of conditions at admission, in AuthorizationConditionsReviews and for impersonation, by type (other is every type but the two in CEL), by route (in_process, text, or author for a whole set) and by result: true, false, error, residual or unsupported; for an author allow, deny, no_opinion or error.")
	evaluationDuration = metricSet.HistogramVec("proviso_authorization_evaluation_duration_seconds", []string{"stage", "route"}, metricset.LatencyBuckets,
		"Time to evaluate conditions in seconds, by stage and by route (in_process, text, or author for a whole set). With route in_process, one observation is for all policies that one decision evaluates with what is known of the request; in the stage conditions_review it is for one condition, and in the stage admission for either. With the other routes, it is for one condition or one set.")
	overBudget     = metricSet.Counter("proviso_authorization_over_budget_total", "Number of conditions that failed because the budget or the time of a decision was used up.")
	conditionBytes = metricSet.Histogram("proviso_authorization_condition_size_bytes", metrics.ExponentialBuckets(16, 2, 11), // up to the bound of 10240 and over it
		"Size of the texts of conditions that were returned in reviews, in bytes.")
)

// RegisterMetrics registers the metrics of the package, once. It must be called before a metric is used.
var RegisterMetrics = sync.OnceFunc(metricSet.Register)

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
	of := seriesOf(m.Name)
	of.duration.of(func() metrics.ObserverMetric { return authorizerDuration.WithLabelValues(m.Name) }).Observe(time.Since(start).Seconds())
	of.decisions[d.kind].of(func() metrics.CounterMetric { return authorizerDecisions.WithLabelValues(m.Name, d.label()) }).Inc()
	if d.err != nil {
		authorizerErrors.WithLabelValues(m.Name).Inc()
	}
}

// memberSeries are the series of an authorizer.
type memberSeries struct {
	duration  series[metrics.ObserverMetric]
	decisions [kindChain + 1]series[metrics.CounterMetric]
}

// byMember has the series of each authorizer that has answered. Administrators name authorizers, so there are few. The map is
// replaced when one is added.
var byMember atomic.Pointer[map[string]*memberSeries]

func seriesOf(member string) *memberSeries {
	for {
		all := byMember.Load()
		if all == nil {
			all = &map[string]*memberSeries{}
			byMember.CompareAndSwap(nil, all)
			continue
		}
		if of, ok := (*all)[member]; ok {
			return of
		}
		more := maps.Clone(*all)
		more[member] = &memberSeries{}
		byMember.CompareAndSwap(all, &more)
	}
}

// series makes a time series when it is used for the first time, and keeps it: looking it up takes longer than counting.
type series[T any] struct {
	once  sync.Once
	value T
}

func (s *series[T]) of(lookUp func() T) T {
	s.once.Do(func() {
		RegisterMetrics()
		s.value = lookUp()
	})
	return s.value
}

// The series of evaluations: by stage and route, and by type, route and outcome.
var (
	durationSeries [stageCount][routeCount]series[metrics.ObserverMetric]
	outcomeSeries  [typeCount][routeCount][outcomeCount]series[metrics.CounterMetric]
)

// ObserveEvaluation records the time that the conditions of policies took for one decision.
func ObserveEvaluation(stage Stage, took time.Duration) {
	observeEvaluation(stage, routeInProcess, took)
}

func observeEvaluation(stage Stage, r route, took time.Duration) {
	durationSeries[stage][r].of(func() metrics.ObserverMetric {
		return evaluationDuration.WithLabelValues(stage.label(), r.label())
	}).Observe(took.Seconds())
}

// measureCondition counts the outcome of a condition, whose evaluation began at start.
func measureCondition(stage Stage, r route, start time.Time, c Condition, o Outcome) {
	observeEvaluation(stage, r, time.Since(start))
	kind := typeOf(c.Type)
	outcomeSeries[kind][r][o.kind].of(func() metrics.CounterMetric {
		return evaluations.WithLabelValues(kind.label(), r.label(), o.label())
	}).Inc()
	if o.exhausted {
		ObserveOverBudget(o.err)
	}
}

// ObserveOverBudget counts a condition that failed with an error because the budget or the time was used up. If the client has left, neither was.
func ObserveOverBudget(err error) {
	if !errors.Is(err, context.Canceled) {
		overBudget.Inc()
	}
}

// Measured returns an evaluator that also counts and times the conditions that evaluator evaluates, with the
// route text.
func Measured(stage Stage, evaluator ConditionEvaluator) ConditionEvaluator {
	RegisterMetrics()
	return ConditionEvaluatorFunc(func(ctx context.Context, c Condition) Outcome {
		start := time.Now()
		outcome := evaluator.EvaluateCondition(ctx, c)
		measureCondition(stage, routeText, start, c, outcome)
		return outcome
	})
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

// knownType is a type of conditions that metrics distinguish. Clients may invent types, which must not make time series.
type knownType uint8

const (
	typeOther knownType = iota
	typeCEL
	typeCELBound
	typeCount
)

func (t knownType) label() string {
	return [typeCount]string{"other", ConditionTypeCEL, ConditionTypeCELBound}[t]
}

func typeOf(conditionType string) knownType {
	switch conditionType {
	case ConditionTypeCEL:
		return typeCEL
	case ConditionTypeCELBound:
		return typeCELBound
	default:
		return typeOther
	}
}

// typeLabel returns the label for the type of the conditions of a set: other if they have several types, and "" if
// the set has no conditions of its own.
func (s Set) typeLabel() string {
	for _, c := range s.Decision.conditions {
		if typeOf(c.Type) != typeOf(s.Decision.conditions[0].Type) {
			return typeOther.label()
		}
	}
	if len(s.Decision.conditions) == 0 {
		return ""
	}
	return typeOf(s.Decision.conditions[0].Type).label()
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

const (
	// tracerName is the instrumentation scope of the spans.
	tracerName = "github.com/proviso-authz/proviso/pkg/authorization"
	// evaluationSpan is the name of the span of an evaluation. The span of an authorizer has the name of the authorizer.
	evaluationSpan = "evaluate conditions"

	decisionKey   = attribute.Key("proviso.decision")
	conditionsKey = attribute.Key("proviso.conditions")
)

// span is the part of a trace about one authorizer, or about one evaluation. Others may read traces than may read objects or policies: its
// attributes are the decision and a number, and an error has no text. It is empty if the request is not traced.
type span struct{ recorded trace.Span }

// startSpan starts a span below the span of ctx. If that is not recorded, it returns ctx, and costs no more than looking for it.
func startSpan(ctx context.Context, name string) (context.Context, span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, span{}
	}
	ctx, recorded := parent.TracerProvider().Tracer(tracerName).Start(ctx, name)
	return ctx, span{recorded}
}

// end ends the span with its decision, and with the number of conditions in another one: what the authorizer returned, or what was evaluated.
func (s span) end(decided Decision, conditional func() Decision) {
	if s.recorded == nil {
		return
	}
	s.recorded.SetAttributes(decisionKey.String(decided.label()), conditionsKey.Int(len(conditional().allConditions())))
	if decided.err != nil {
		s.recorded.SetStatus(codes.Error, "")
	}
	s.recorded.End()
}
