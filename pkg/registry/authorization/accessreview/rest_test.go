/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package accessreview_test

import (
	"context"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/accessreview"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// TestNamespaces calls the storage as the generic server does not: without having made
// sure that the namespaces agree.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, request, review string
		wantBad               bool
	}{
		{"the same", "n", "n", false},
		{"another", "n", "other", true},
		{"none", "", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := genericapirequest.WithNamespace(t.Context(), tc.request)
			review := &authorizationapi.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: tc.review},
				Spec:       authorizationapi.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: tc.review}},
			}
			if _, err := accessreview.NewLocalREST(&virtual.Reviewer{Chain: chain}).Create(ctx, review, nil, nil); apierrors.IsBadRequest(err) != tc.wantBad {
				t.Errorf("got %v, want a bad request: %v", err, tc.wantBad)
			}
		})
	}
}

// deciding always returns the same decision.
type deciding struct{ authorization.Decision }

func (d deciding) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	return d.Decision
}

// TestForms answers reviews whose callers ask for conditions in one form, in none, or in both.
func TestForms(t *testing.T) {
	t.Parallel()
	condition := authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "object.a == 1"}
	handles := &authorizationapi.AuthorizationOptions{HandledDecisionTypes: []string{"Allow", "Later", "ConditionsMap", "Union"}}
	const (
		conditional = `{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"authorizer.kubernetes.io/cel","condition":"object.a == 1"}]}}}]}`
		bad         = "400"
		folded      = "folded"
	)
	readable := &authorizationapi.ConditionalAuthorizationConfiguration{Mode: authorizationapi.ConditionsModeHumanReadable}
	for _, tc := range []struct {
		name     string
		options  *authorizationapi.AuthorizationOptions
		mode     *authorizationapi.ConditionalAuthorizationConfiguration
		gateOff  bool
		decision authorization.Decision
		verb     string
		want     string
	}{
		{name: "options", options: handles, want: conditional},
		{name: "options without chains", options: &authorizationapi.AuthorizationOptions{HandledDecisionTypes: []string{"Allow", "ConditionsMap"}}, want: folded},
		{name: "options without types", options: &authorizationapi.AuthorizationOptions{}, want: folded},
		{name: "options without the gate", options: handles, gateOff: true, want: folded},
		{name: "options and a mode", options: handles, mode: readable, want: bad},
		{name: "options and a mode without the gate", options: handles, mode: readable, gateOff: true, want: bad},
		{name: "options and the absence of a mode", options: handles, mode: &authorizationapi.ConditionalAuthorizationConfiguration{}, want: bad},
		{name: "empty options and a mode", options: &authorizationapi.AuthorizationOptions{}, mode: readable, want: bad},
		{name: "a mode", mode: readable, want: "chain"},
		{name: "neither", want: folded},
		{name: "options and all verbs", options: handles, verb: "*", want: folded},
		{name: "options and an Allow", options: handles, decision: authorization.Allow("because", nil), want: "allowed"},
		{name: "options and a Deny", options: handles, decision: authorization.Deny("because", nil), want: "denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := tc.decision
			if decision.IsDeny() && tc.want != "denied" {
				decision = authorization.Conditions(condition)
			}
			chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: deciding{decision}})
			if err != nil {
				t.Fatal(err)
			}
			verb := tc.verb
			if verb == "" {
				verb = "create"
			}
			review := &authorizationapi.SubjectAccessReview{Spec: authorizationapi.SubjectAccessReviewSpec{
				User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "pods"},
				ConditionalAuthorization: tc.mode, AuthorizationOptions: tc.options,
			}}
			answer, err := accessreview.NewSubjectREST(&virtual.Reviewer{Chain: chain, Conditional: true, Upstream: !tc.gateOff}).Create(t.Context(), review, nil, nil)
			if got := formOf(t, answer, err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// formOf describes an answer. An answer with conditions must have nothing beside them.
func formOf(t *testing.T, answer runtime.Object, err error) string {
	t.Helper()
	if apierrors.IsBadRequest(err) {
		return "400"
	}
	if err != nil {
		t.Fatal(err)
	}
	status := answer.(*authorizationapi.SubjectAccessReview).Status
	isEmpty := !status.Allowed && !status.Denied && status.Reason == "" && status.EvaluationError == ""
	switch {
	case status.ConditionalDecision != nil && isEmpty && status.ConditionsChain == nil:
		return string(status.ConditionalDecision.Raw)
	case status.ConditionalDecision != nil:
		return "a mixed answer"
	case len(status.ConditionsChain) > 0 && isEmpty:
		return "chain"
	case status.Allowed:
		return "allowed"
	case status.Denied:
		return "denied"
	}
	return "folded"
}
