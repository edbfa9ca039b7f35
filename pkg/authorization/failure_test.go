/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
)

const quoted = "value of the object"

// TestWithoutValues evaluates conditions whose errors quote the object, as requests do and as
// reviews do.
func TestWithoutValues(t *testing.T) {
	t.Parallel()
	failing := func(err error) authorization.Decision {
		return authorization.Conditions(authorization.Condition{
			ID: "example.com/x", Effect: authorization.EffectDeny, Type: "example.com/go", Description: "about x",
			EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome {
				return authorization.Failed(err)
			},
		})
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"any error", errors.New(quoted), "evaluation failed"},
		{"an error of CEL", fmt.Errorf("%w: %s", cel.ErrEvaluation, quoted), "evaluation failed"},
		{"the cost", fmt.Errorf("%w: %s", cel.ErrCost, quoted), "cost limit exceeded"},
		{"the time", fmt.Errorf("%s: %w", quoted, context.DeadlineExceeded), "the time was up"},
		{name: "a condition that does not compile", err: fmt.Errorf("%w: %s", authorization.ErrNotCompiled, quoted), want: "the condition does not compile"},
		{name: "a secondary check", err: fmt.Errorf("%s: %w", quoted, authorization.ErrCheckFailed), want: "an authorization check failed"},
		{name: "a secondary check that took too long", err: fmt.Errorf("%w: %s: %w", authorization.ErrCheckFailed, quoted, context.DeadlineExceeded), want: "an authorization check failed"},
		{name: "objects that cannot be read", err: fmt.Errorf("%w: %s", authorization.ErrUnreadableObjects, quoted), want: "the objects could not be read"},
		{name: "a namespace that cannot be read", err: fmt.Errorf("%w: %s", authorization.ErrUnreadableNamespace, quoted), want: "namespaceObject could not be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := authorization.Chained(authorization.Set{AuthorizerName: "a", Decision: failing(tc.err)}, authorization.Set{AuthorizerName: "b", Decision: authorization.Allow("", nil)})
			evaluator := authorization.EvaluatorFor(nil, nil)
			got := set.Evaluate(t.Context(), authorization.WithoutValues(evaluator))
			want := `condition=example.com/x (about x) with effect Deny: ` + tc.want
			if !got.IsDeny() || got.Err() == nil || got.Err().Error() != want || !authorization.OnlyConditionsFailed(got.Err()) {
				t.Errorf("got %v %v, want Deny with %q", got, got.Err(), want)
			}
			if full := set.Evaluate(t.Context(), evaluator); !full.IsDeny() || !strings.Contains(full.Err().Error(), quoted) {
				t.Errorf("a review lost the error: %v", full.Err())
			}
		})
	}
}

// TestWithoutValuesKeepsOutcomes has an evaluator that answers everything.
func TestWithoutValuesKeepsOutcomes(t *testing.T) {
	t.Parallel()
	for _, outcome := range []authorization.Outcome{
		authorization.True().Because("r"), authorization.False(), {}, authorization.Unsupported(errors.New("x")), authorization.Residual(authorization.Condition{ID: "y"}),
	} {
		evaluator := authorization.WithoutValues(authorization.ConditionEvaluatorFunc(func(context.Context, authorization.Condition) authorization.Outcome { return outcome }))
		if got := evaluator.EvaluateCondition(t.Context(), authorization.Condition{}); fmt.Sprint(got) != fmt.Sprint(outcome) {
			t.Errorf("got %v, want %v", got, outcome)
		}
	}
}

// quotingAuthor is an authorizer whose evaluation fails with an error that quotes the object.
type quotingAuthor struct{ asked *int }

func (a quotingAuthor) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	*a.asked++
	return authorizer.DecisionDeny, "", errors.New(quoted)
}

// TestWithoutValuesAsksAuthors has conditions that only their author can evaluate: of an
// unknown type, and in a language that does not compile here.
func TestWithoutValuesAsksAuthors(t *testing.T) {
	t.Parallel()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]authorization.Condition{
		"an unknown type":  {ID: "example.com/x", Effect: authorization.EffectAllow, Type: "example.com/opaque"},
		"does not compile": {ID: "example.com/x", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "newer syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			set := authorization.Chained(authorization.Set{AuthorizerName: "a", Author: quotingAuthor{&asked}, Decision: authorization.Conditions(c)})
			evaluator := authorization.EvaluatorFor(nil, &celeval.Evaluator{Compiler: compiler, Values: cel.Values{}})
			got := set.Evaluate(t.Context(), authorization.WithoutValues(evaluator))
			if asked != 1 || !got.IsDeny() || got.Err() == nil || strings.Contains(got.Err().Error(), quoted) {
				t.Errorf("the author was asked %d times, got %v %v", asked, got, got.Err())
			}
		})
	}
}

// TestOnlyConditionsFailed tells failing conditions from authorizers that do not answer.
func TestOnlyConditionsFailed(t *testing.T) {
	t.Parallel()
	failed, outage := fmt.Errorf("%w: %s", cel.ErrEvaluation, quoted), errors.New("connection refused")
	costly := fmt.Errorf("policy: %w", fmt.Errorf("%w: more than 5", cel.ErrCost))
	for _, tc := range []struct {
		name        string
		err         error
		want        bool
		wantClasses string
	}{
		{"nothing", nil, false, ""},
		{"a failure", failed, true, "evaluation failed"},
		{"a named failure", fmt.Errorf("authorizer a: %w", failed), true, "evaluation failed"},
		{"several", utilerrors.NewAggregate([]error{failed, costly, failed}), true, "evaluation failed; cost limit exceeded"},
		{"several of one authorizer", fmt.Errorf("a: %w", utilerrors.NewAggregate([]error{costly})), true, "cost limit exceeded"},
		{"invalid conditions", fmt.Errorf("%w: at least one is needed", authorization.ErrInvalidConditions), true, "invalid conditions"},
		{"an outage", outage, false, ""},
		{name: "invalid conditions and a failure", err: utilerrors.NewAggregate([]error{fmt.Errorf("%w: x", authorization.ErrInvalidConditions), failed}), want: true, wantClasses: "invalid conditions; evaluation failed"},
		{name: "a failure behind many names", err: fmt.Errorf("a: %w", fmt.Errorf("b: %w", fmt.Errorf("c: %w", costly))), want: true, wantClasses: "cost limit exceeded"},
		{name: "nothing of one of several", err: utilerrors.NewAggregate([]error{nil, failed}), want: true, wantClasses: "evaluation failed"},
		{name: "a text that looks like a failure", err: errors.New(cel.ErrEvaluation.Error())},
		{name: "the end of the request", err: context.Canceled},
		{"an outage of one of several", fmt.Errorf("a: %w", utilerrors.NewAggregate([]error{failed, fmt.Errorf("b: %w", outage)})), false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := authorization.OnlyConditionsFailed(tc.err); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := authorization.FailureClasses(tc.err); tc.want && got != tc.wantClasses {
				t.Errorf("got classes %q, want %q", got, tc.wantClasses)
			}
		})
	}
}

// TestLabels names the conditions of a decision by effect, nested ones included.
func TestLabels(t *testing.T) {
	t.Parallel()
	condition := func(id string, effect authorization.Effect) authorization.Condition {
		return authorization.Condition{ID: "example.com/" + id, Effect: effect, Type: "example.com/t", Description: "about " + id}
	}
	d := authorization.Chained(
		authorization.Set{AuthorizerName: "a", Decision: authorization.Conditions(condition("a", authorization.EffectAllow), condition("n", authorization.EffectNoOpinion))},
		authorization.Set{AuthorizerName: "b", Decision: authorization.Conditions(condition("d", authorization.EffectDeny))},
	)
	const want = `condition=example.com/d (about d); condition=example.com/n (about n); condition=example.com/a (about a)`
	if got := strings.Join(d.Labels(), "; "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := authorization.Allow("", nil).Labels(); len(got) > 0 {
		t.Errorf("got %q of a decision without conditions", got)
	}
}

// TestDependsOn says what conditions could do: if one could deny, that alone, and otherwise each condition once.
func TestDependsOn(t *testing.T) {
	t.Parallel()
	condition := func(id string, effect authorization.Effect) authorization.Condition {
		return authorization.Condition{ID: "example.com/" + id, Effect: effect, Type: "example.com/t", Description: "about " + id}
	}
	set := func(name string, conditions ...authorization.Condition) authorization.Set {
		return authorization.Set{AuthorizerName: name, Decision: authorization.Conditions(conditions...)}
	}
	allow, deny, hold := condition("a", authorization.EffectAllow), condition("d", authorization.EffectDeny), condition("n", authorization.EffectNoOpinion)
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     string
	}{
		{"unconditional", authorization.Allow("why", nil), ""},
		{"Allow", authorization.Chained(set("x", allow)), `allowed on conditions: condition=example.com/a (about a)`},
		{"Deny, and Allow", authorization.Chained(set("x", deny), set("y", allow)), `one condition could deny: condition=example.com/d (about d)`},
		{"NoOpinion in two sets", authorization.Chained(set("x", hold, allow), set("y", hold, condition("b", authorization.EffectAllow))), `one condition could keep Allow policies from allowing: condition=example.com/n (about n); allowed on conditions: condition=example.com/a (about a); condition=example.com/b (about b)`},
	} {
		if got := tc.decision.DependsOn(); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
