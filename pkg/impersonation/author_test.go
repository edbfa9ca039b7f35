/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// author answers with an opaque condition, and evaluates it when a user is impersonated.
type author struct {
	conditioned
	answer func(requester user.Info, data *api.ImpersonationData) (authorizer.Decision, error)
}

func (a author) EvaluateImpersonation(_ context.Context, _ authorizer.ConditionsAwareDecision, requester user.Info, data *api.ImpersonationData) (authorizer.Decision, string, error) {
	decision, err := a.answer(requester, data)
	return decision, "", err
}

// TestAuthorsDecideImpersonation lets the author of an opaque condition decide who may be impersonated for which request.
func TestAuthorsDecideImpersonation(t *testing.T) {
	t.Parallel()
	shared := compilerOf(t)
	inPart, err := partial.NewConditionCompiler(shared)
	if err != nil {
		t.Fatal(err)
	}
	opaque := []authorization.Condition{{ID: "example.com/opaque", Effect: authorization.EffectAllow, Type: "example.com/opaque", Text: "?"}}
	for _, tc := range []struct {
		name       string
		conditions []authorization.Condition
		decision   authorizer.Decision
		err        error
		want       bool
	}{
		{"allowed", opaque, authorizer.DecisionAllow, nil, true},
		{"denied", opaque, authorizer.DecisionDeny, nil, false},
		{"no opinion", opaque, authorizer.DecisionNoOpinion, nil, false},
		{"an error", opaque, authorizer.DecisionDeny, errors.New("no answer"), false},
		{"not supported", opaque, authorizer.DecisionAllow, authorizer.ErrorConditionEvaluationNotSupported, false},
		{"an Allow of conditions that can only deny", []authorization.Condition{{ID: "example.com/deny", Effect: authorization.EffectDeny, Type: "example.com/opaque"}}, authorizer.DecisionAllow, nil, false},
		{"beside a condition on the object", append([]authorization.Condition{{ID: "example.com/object", Effect: authorization.EffectDeny, Type: authorization.ConditionTypeCEL, Text: "object.x == 1"}}, opaque...), authorizer.DecisionAllow, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			chain, err := authorization.NewChain(authorization.Member{Name: "first", Decider: authorization.DeciderOf(author{
				conditioned: conditioned{conditions: tc.conditions},
				answer: func(requester user.Info, data *api.ImpersonationData) (authorizer.Decision, error) {
					if asked++; requester.GetName() != getPod.User.GetName() || data.User.Username != "bob" || data.Request.Verb != getPod.Verb || data.Request.Resource != getPod.Resource || data.Request.Namespace != getPod.Namespace {
						t.Errorf("asked about %+v of %+v", data, requester)
					}
					return tc.decision, tc.err
				},
			})})
			if err != nil {
				t.Fatal(err)
			}
			reviewer, err := impersonation.NewReviewer(chain, false, &impersonation.Conditional{Chain: chain, Denials: chain, Compiler: shared, Partial: inPart})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := reviewer.Review(t.Context(), getPod, &user.DefaultInfo{Name: "bob"})
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.User != nil; got != tc.want || (asked == 0) != (len(tc.conditions) > 1) {
				t.Errorf("impersonated: %v (%s), want %v; asked %d times", got, answer.Reason, tc.want, asked)
			}
		})
	}
}
