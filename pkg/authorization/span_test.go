/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// answering returns the same decision each time, and notes the span with which it was called.
type answering struct {
	decision authorization.Decision
	span     *trace.SpanID
}

func (a answering) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	*a.span = trace.SpanContextFromContext(ctx).SpanID()
	return a.decision
}

// TestSpans has a chain decide and evaluate below a span that is recorded, and below one that is not.
func TestSpans(t *testing.T) {
	t.Parallel()
	condition := func(id string, effect authorization.Effect) authorization.Condition {
		return authorization.Condition{ID: "example.com/" + id, Effect: effect, Type: authorization.ConditionTypeCEL, Text: "true", Description: "secret"}
	}
	nested := authorization.Set{AuthorizerName: "inner", Decision: authorization.Conditions(condition("c", authorization.EffectDeny))}
	members := map[string]authorization.Decision{
		"a-no-opinion": authorization.NoOpinion("secret", errors.New("secret")),
		"b-chain":      authorization.Chained(nested, nested),
		"c-conditions": authorization.Conditions(condition("a", authorization.EffectAllow), condition("b", authorization.EffectDeny)),
		"d-allow":      authorization.Allow("secret", nil),
		"e-never":      authorization.Deny("secret", nil),
	}
	type recorded struct {
		Name, Parent, Decision string
		Conditions             int64
		Status                 sdktrace.Status
	}
	for name, tc := range map[string]struct {
		sampler sdktrace.Sampler
		want    []recorded
	}{
		"recorded": {sdktrace.AlwaysSample(), []recorded{
			{"a-no-opinion", "request", "no_opinion", 0, sdktrace.Status{Code: codes.Error}},
			{"b-chain", "request", "conditional", 2, sdktrace.Status{}},
			{"c-conditions", "request", "conditional", 2, sdktrace.Status{}},
			{"d-allow", "evaluate conditions", "allow", 0, sdktrace.Status{}}, // asked because the conditions do not decide
			{"evaluate conditions", "request", "allow", 4, sdktrace.Status{Code: codes.Error}},
		}},
		"not recorded": {sdktrace.NeverSample(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var called trace.SpanID
			var chained []authorization.Member
			for _, member := range []string{"a-no-opinion", "b-chain", "c-conditions", "d-allow", "e-never"} {
				chained = append(chained, authorization.Member{Name: member, Decider: answering{members[member], &called}})
			}
			chain, err := authorization.NewChain(chained...)
			if err != nil {
				t.Fatal(err)
			}
			recorder := tracetest.NewSpanRecorder()
			ctx, request := sdktrace.NewTracerProvider(sdktrace.WithSampler(tc.sampler), sdktrace.WithSpanProcessor(recorder)).Tracer("test").Start(t.Context(), "request")
			lazy := chain.Begin(ctx, authorizer.AttributesRecord{})
			if isOwn := called != request.SpanContext().SpanID(); isOwn != (tc.want != nil) {
				t.Errorf("an authorizer was called with a span of its own: %t", isOwn)
			}
			lazy.Evaluate(ctx, authorization.ConditionEvaluatorFunc(func(context.Context, authorization.Condition) authorization.Outcome { return authorization.False() }))
			names, got := map[trace.SpanID]string{request.SpanContext().SpanID(): "request"}, []recorded(nil)
			for _, span := range recorder.Ended() {
				names[span.SpanContext().SpanID()] = span.Name()
			}
			for _, span := range recorder.Ended() {
				one := recorded{Name: span.Name(), Parent: names[span.Parent().SpanID()], Status: span.Status()}
				for _, attribute := range span.Attributes() {
					switch attribute.Key {
					case "proviso.decision":
						one.Decision = attribute.Value.AsString()
					case "proviso.conditions":
						one.Conditions = attribute.Value.AsInt64()
					default:
						t.Errorf("%s: the attribute %v", span.Name(), attribute)
					}
				}
				got = append(got, one)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
