/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

func conditionsHandlerOf(t *testing.T, policies ...policy) http.Handler {
	t.Helper()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	decider := deciderOf(t, sourceOf(t, policies))
	decider.Evaluator = func(data authorizer.ConditionsData) authorization.ConditionEvaluator {
		return &celeval.DataEvaluator{Compiler: compiler, Checks: decider.Chain, Data: data}
	}
	handler, err := innerdoor.NewConditionsHandler(innerdoor.HandlerConfig{Decider: decider})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// conditionOf is a condition in JSON.
func conditionOf(id, conditionType, text string) string {
	return fmt.Sprintf(`{"id":"example.com/%s","type":%q,"condition":%q}`, id, conditionType, text)
}

// onCondition is a decision that one condition makes Allow.
func onCondition(text string) string {
	return `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[` + conditionOf("c", upstreamform.ConditionTypeCEL, text) + `]}}`
}

func conditionsReview(t *testing.T, decision string, request *admissionv1.AdmissionRequest) string {
	t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{"decision":` + decision + `,"admissionRequest":` + string(text) + `}}`
}

// TestConditions evaluates the conditions of one decision with the objects of a write.
func TestConditions(t *testing.T) {
	t.Parallel()
	chain := func(members ...string) string { return `{"type":"Union","union":[` + strings.Join(members, ",") + `]}` }
	member := func(name, decision string) string {
		return `{"authorizerName":"` + name + `","decision":` + decision + `}`
	}
	denyIf := func(text string) string {
		return `{"type":"ConditionsMap","conditionsMap":{"denyConditions":[` + conditionOf("d", upstreamform.ConditionTypeCEL, text) + `]}}`
	}
	const (
		allowed  = `{"type":"Allow","allow":{"reason":"condition=example.com/c`
		withheld = `"reason":"the write is allowed only on conditions, and does not meet them (details are shown to users who may get the object): condition=example.com/`
	)
	opaque := `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[` + conditionOf("c", "example.com/opaque", "?") + `]}}`
	get := policy{effect: allow, verbs: []string{"get"}}
	for _, tc := range []struct {
		name, decision string
		request        *admissionv1.AdmissionRequest
		policies       []policy
		want           string
	}{
		{name: "a condition holds", decision: onCondition(isDev), request: create(devClaim), want: allowed},
		{name: "a condition does not hold", decision: onCondition(isDev), request: create(prodClaim), want: `{"type":"NoOpinion","noOpinion":{"reason":"condition=example.com/c reason=NotMet: its condition does not hold"}}`},
		{name: "no permission to read the object", decision: onCondition(isDev), request: update(prodClaim, devClaim), want: `{"type":"NoOpinion","noOpinion":{` + withheld + `c"}}`},
		{name: "permission to read the object", decision: onCondition(isDev), request: update(prodClaim, devClaim), policies: []policy{get}, want: `{"type":"NoOpinion","noOpinion":{"reason":"condition=example.com/c reason=NotMet: its condition does not hold"}}`},
		{name: "denied", decision: chain(member("a", denyIf(isDev)), member("b", `{"type":"Allow","allow":{}}`)), request: create(devClaim), want: `{"type":"Deny","deny":{"reason":"condition=example.com/d reason=Denied`},
		{name: "denied, without permission to read the object", decision: chain(member("a", denyIf("true")), member("b", `{"type":"Allow","allow":{}}`)), request: update(devClaim, devClaim), want: `{"type":"Deny","deny":{` + withheld + `d"}}`},
		{name: "not denied", decision: chain(member("a", denyIf(isDev)), member("b", `{"type":"Allow","allow":{}}`)), request: create(prodClaim), want: `{"type":"Allow","allow":{}}`},
		{name: "an error denies", decision: chain(member("a", denyIf("object.none == 1")), member("b", `{"type":"Allow","allow":{}}`)), request: create(prodClaim), want: `{"type":"Deny","deny":{"reason":"condition=example.com/d reason=Error`},
		{name: "a condition that is not compiled", decision: onCondition("object."), request: create(devClaim), want: `{"type":"NoOpinion",`},
		{name: "a type without an evaluator", decision: opaque, request: create(devClaim), want: `{"type":"Deny",`},
		{name: "the other type of CEL", decision: strings.Replace(onCondition(isDev), upstreamform.ConditionTypeCEL, authorization.ConditionTypeCEL, 1), request: create(devClaim), want: allowed},
		{name: "an update without its object", decision: onCondition("true"), request: update("", devClaim), want: `{"type":"Deny","deny":{"reason":"the write cannot be decided: `},
		{name: "an object that is none", decision: onCondition("true"), request: create(`[]`), want: `{"type":"Deny","deny":{"reason":"the write cannot be decided: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(conditionsHandlerOf(t, tc.policies...), strings.NewReader(conditionsReview(t, tc.decision, tc.request)), nil)
			want := `{"kind":"AuthorizationConditionsReview","apiVersion":"authorization.k8s.io/v1alpha1","response":{"uid":"1","decision":` + tc.want
			if got.Code != http.StatusOK || !strings.HasPrefix(got.Body.String(), want) {
				t.Errorf("got %d %s\nwant %s", got.Code, got.Body, want)
			}
		})
	}
}

// TestConditionsRefuses has bodies that are no reviews: no answer has a decision, and none quotes the body.
func TestConditionsRefuses(t *testing.T) {
	t.Parallel()
	good := conditionsReview(t, onCondition("true"), create(devClaim))
	replaced := func(old, with string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("the review has no %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	for _, tc := range []struct {
		name, body string
		change     func(*http.Request)
		want       int
	}{
		{name: "a GET", body: good, change: func(r *http.Request) { r.Method = http.MethodGet }, want: http.StatusMethodNotAllowed},
		{name: "another media type", body: good, change: func(r *http.Request) { r.Header.Set("Content-Type", "application/yaml") }, want: http.StatusUnsupportedMediaType},
		{name: "too long", body: good + strings.Repeat(" ", 16<<20), want: http.StatusRequestEntityTooLarge},
		{name: "nothing", want: http.StatusBadRequest},
		{name: "no object", body: "[]", want: http.StatusBadRequest},
		{name: "another kind", body: replaced("AuthorizationConditionsReview", "SubjectAccessReview"), want: http.StatusBadRequest},
		{name: "another version", body: replaced("v1alpha1", "v1"), want: http.StatusBadRequest},
		{name: "a field twice", body: replaced(`"kind":`, `"kind":"AuthorizationConditionsReview","kind":`), want: http.StatusBadRequest},
		{name: "a response", body: replaced(`"request":`, `"response":{"uid":"1"},"request":`), want: http.StatusBadRequest},
		{name: "no request", body: replaced(`"request":`, `"other":`), want: http.StatusBadRequest},
		{name: "no decision", body: replaced(`"decision":`, `"other":`), want: http.StatusBadRequest},
		{name: "null instead of a decision", body: replaced(onCondition("true"), `null`), want: http.StatusBadRequest},
		{name: "an unconditional decision", body: replaced(onCondition("true"), `{"type":"Allow","allow":{}}`), want: http.StatusBadRequest},
		{name: "two members", body: replaced(`"conditionsMap":`, `"allow":{},"conditionsMap":`), want: http.StatusBadRequest},
		{name: "no type", body: replaced(`"type":"ConditionsMap",`, ``), want: http.StatusBadRequest},
		{name: "no admissionRequest", body: replaced(`"admissionRequest":`, `"other":`), want: http.StatusBadRequest},
		{name: "no uid", body: replaced(`"uid":"1"`, `"uid":""`), want: http.StatusBadRequest},
		{name: "objects of another version", body: replaced(`"requestResource":{"group":"","version":"v1"`, `"requestResource":{"group":"","version":"v2"`), want: http.StatusBadRequest},
		{name: "a connection", body: replaced(`"operation":"CREATE"`, `"operation":"CONNECT"`), want: http.StatusBadRequest},
		{name: "no operation", body: replaced(`"operation":"CREATE"`, `"operation":""`), want: http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(conditionsHandlerOf(t), strings.NewReader(tc.body), tc.change)
			if got.Code != tc.want || strings.Contains(got.Body.String(), "storageClassName") || strings.Contains(got.Body.String(), `"decision"`) {
				t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.want)
			}
		})
	}
}

// TestConditionsNeedAChain checks the configuration.
func TestConditionsNeedAChain(t *testing.T) {
	t.Parallel()
	for _, config := range []innerdoor.HandlerConfig{{}, {Decider: &innerdoor.Decider{}}} {
		if _, err := innerdoor.NewConditionsHandler(config); err == nil {
			t.Errorf("%+v is accepted", config)
		}
	}
}
