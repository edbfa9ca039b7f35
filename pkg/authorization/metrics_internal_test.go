/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestMeasuringAllocatesNothing counts the outcome of a condition.
func TestMeasuringAllocatesNothing(t *testing.T) {
	c := Condition{Type: ConditionTypeCEL}
	if got := testing.AllocsPerRun(100, func() {
		measureCondition(StageAdmission, routeInProcess, time.Now(), c, True())
	}); got != 0 {
		t.Errorf("got %v allocations", got)
	}
}

// TestMeasuringMembers counts the answers of new members from many goroutines.
func TestMeasuringMembers(t *testing.T) {
	const callers, names = 16, 8
	answers := []Decision{Allow("", nil), Deny("", errors.New("failed")), NoOpinion("", nil), Conditions(Condition{ID: "example.com/a", Effect: EffectAllow, Type: ConditionTypeCEL})}
	member := func(i int) Member { return Member{Name: fmt.Sprintf("measured-%d", i%names)} }
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for i := range names {
				for _, d := range answers {
					member(i).measure(time.Now(), d)
				}
			}
		})
	}
	group.Wait()
	for i := range names {
		for _, d := range answers {
			got, err := testutil.GetCounterMetricValue(authorizerDecisions.WithLabelValues(member(i).Name, d.label()))
			if err != nil || got != callers {
				t.Errorf("%s %s: counted %v, %v; want %d", member(i).Name, d.label(), got, err, callers)
			}
		}
		if got, err := testutil.GetCounterMetricValue(authorizerErrors.WithLabelValues(member(i).Name)); err != nil || got != callers {
			t.Errorf("%s: counted %v errors, %v; want %d", member(i).Name, got, err, callers)
		}
		if got, err := testutil.GetHistogramMetricCount(authorizerDuration.WithLabelValues(member(i).Name)); err != nil || got != callers*uint64(len(answers)) {
			t.Errorf("%s: %d durations, %v", member(i).Name, got, err)
		}
	}
	if got := testing.AllocsPerRun(100, func() { (Member{Name: "measured-0"}).measure(time.Now(), answers[0]) }); got != 0 {
		t.Errorf("got %v allocations", got)
	}
}

// TestMeasured counts conditions of each type with each outcome. No other test of this package makes impersonation
// reviews.
func TestMeasured(t *testing.T) {
	outcomes := map[string]Outcome{
		"true": True(), "false": False(), "error": Failed(errors.New("failed")), "residual": Residual(Condition{}), "unsupported": {},
	}
	evaluator := Measured(StageImpersonation, ConditionEvaluatorFunc(func(_ context.Context, c Condition) Outcome { return outcomes[c.Text] }))
	counted := func(conditionType, result string) float64 {
		value, err := testutil.GetCounterMetricValue(evaluations.WithLabelValues(conditionType, "text", result))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	types := map[string]string{ConditionTypeCEL: ConditionTypeCEL, ConditionTypeCELBound: ConditionTypeCELBound, "example.com/invented": "other", "example.com/another": "other"}
	before := map[[2]string]float64{}
	want := map[[2]string]float64{}
	for conditionType, label := range types {
		for result := range outcomes {
			key := [2]string{label, result}
			if _, seen := before[key]; !seen {
				before[key] = counted(label, result)
			}
			want[key]++
			if got := evaluator.EvaluateCondition(t.Context(), Condition{Type: conditionType, Text: result}); got.label() != result {
				t.Errorf("%s: got %s, want %s", conditionType, got.label(), result)
			}
		}
	}
	for key, n := range want {
		if got := counted(key[0], key[1]) - before[key]; got != n {
			t.Errorf("%v: counted %v, want %v", key, got, n)
		}
	}
	durations, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer, "proviso_authorization_evaluation_duration_seconds", map[string]string{"stage": "impersonation", "route": "text"})
	if err != nil {
		t.Fatal(err)
	}
	if got := durations.GetAggregatedSampleCount(); got != uint64(len(types)*len(outcomes)) {
		t.Errorf("got %d durations, want %d", got, len(types)*len(outcomes))
	}
}

// TestOverBudget counts conditions that failed for want of budget or time, and none whose client has left. It is not parallel: others count, too.
func TestOverBudget(t *testing.T) { //nolint:paralleltest // see above
	RegisterMetrics()
	count := func() float64 {
		value, err := testutil.GetCounterMetricValue(overBudget)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for err, want := range map[error]float64{cel.ErrCost: 1, context.DeadlineExceeded: 1, context.Canceled: 0} {
		before := count()
		measureCondition(StageRequest, routeText, time.Now(), Condition{}, Exhausted(fmt.Errorf("evaluation failed: %w", err)))
		if got := count() - before; got != want {
			t.Errorf("%v: counted %v times, want %v", err, got, want)
		}
	}
}
