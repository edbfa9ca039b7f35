/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
)

// TestEncode shows the form of each kind of decision.
func TestEncode(t *testing.T) {
	t.Parallel()
	allow := authorization.Condition{ID: "example.com/allow", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "object.a == 1", Description: "a is 1"}
	hold := authorization.Condition{ID: "example.com/hold", Effect: authorization.EffectNoOpinion, Type: "example.com/opaque", Text: "?"}
	deny := authorization.Condition{ID: "example.com/deny", Effect: authorization.EffectDeny, Type: authorization.ConditionTypeCELBound, Text: "{}"}
	set := func(name string, d authorization.Decision) authorization.Set {
		return authorization.Set{AuthorizerName: name, Decision: d, FailureMode: authorization.FailureModeNoOpinion}
	}
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		want     string
	}{
		{"Allow", authorization.Allow("because", nil), `null`},
		{"conditions without an author", authorization.Conditions(allow), `null`},
		{"too many conditions that may deny", authorization.Chained(set("a", authorization.Conditions(manyConditions(129, authorization.EffectDeny)...))), `null`},
		{"all effects", authorization.Chained(set("a", authorization.Conditions(allow, hold, deny))), `{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"ConditionsMap","conditionsMap":{` +
			`"denyConditions":[{"id":"example.com/deny","type":"proviso.dev/authorization-cel-bound","condition":"{}"}],` +
			`"noOpinionConditions":[{"id":"example.com/hold","type":"example.com/opaque","condition":"?"}],` +
			`"allowConditions":[{"id":"example.com/allow","type":"authorizer.kubernetes.io/cel","condition":"object.a == 1","description":"a is 1"}]}}}]}`},
		{"a chain that ends with Allow", authorization.Chained(set("a", authorization.Conditions(deny)), set("b", authorization.Allow("because", nil))),
			`{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"example.com/deny","type":"proviso.dev/authorization-cel-bound","condition":"{}"}]}}},` +
				`{"authorizerName":"b","decision":{"type":"Allow","allow":{}}}]}`},
		{"a chain within a chain that ends with Deny", authorization.Chained(set("a", authorization.Chained(set("x", authorization.Conditions(allow)), set("y", authorization.Deny("", nil))))),
			`{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"Union","union":[` +
				`{"authorizerName":"x","decision":{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/allow","type":"authorizer.kubernetes.io/cel","condition":"object.a == 1","description":"a is 1"}]}}},` +
				`{"authorizerName":"y","decision":{"type":"Deny","deny":{}}}]}}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			form, folded := upstreamform.Encode(tc.decision)
			if got := marshalled(t, form); got != tc.want {
				t.Errorf("got\n%s, want\n%s", got, tc.want)
			}
			if form == nil && !folded.IsUnconditional() {
				t.Errorf("the folded decision is %+v", folded)
			}
		})
	}
}

func manyConditions(n int, effect authorization.Effect) []authorization.Condition {
	var conditions []authorization.Condition
	for i := range n {
		conditions = append(conditions, authorization.Condition{ID: fmt.Sprintf("example.com/c%d", i), Effect: effect, Type: authorization.ConditionTypeCEL, Text: "true"})
	}
	return conditions
}

func marshalled(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEncodeUnconditional shows the form of decisions that depend on nothing.
func TestEncodeUnconditional(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]authorization.Decision{
		`{"type":"Allow","allow":{"reason":"because"}}`:                      authorization.Allow("because", nil),
		`{"type":"Deny","deny":{"reason":"because"}}`:                        authorization.Deny("because", nil),
		`{"type":"NoOpinion","noOpinion":{"evaluationError":"no such key"}}`: authorization.NoOpinion("", errors.New("no such key")),
	} {
		if got := marshalled(t, upstreamform.EncodeUnconditional(d)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := upstreamform.EncodeUnconditional(authorization.Conditions(manyConditions(1, authorization.EffectAllow)...)); got.Type != upstreamform.TypeNoOpinion {
		t.Errorf("a condition that could allow became %+v", got)
	}
}

// TestHandles reads the options of a client.
func TestHandles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{}`: false, `{"handledDecisionTypes":[]}`: false, `{"handledDecisionTypes":["Allow","Deny","NoOpinion"]}`: false,
		`{"handledDecisionTypes":["ConditionsMap"]}`: false, `{"handledDecisionTypes":["Union"]}`: false, `{"handledDecisionTypes":["conditionsmap","union"]}`: false,
		`{"handledDecisionTypes":["Union","ConditionsMap"]}`: true, `{"handledDecisionTypes":["Allow","Perhaps","Deny","NoOpinion","ConditionsMap","Union"]}`: true,
	} {
		var options authorizationv1alpha1.AuthorizationOptions
		if err := json.Unmarshal([]byte(text), &options); err != nil {
			t.Fatal(err)
		}
		if got := upstreamform.Handles(options.HandledDecisionTypes); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestUpstreamFormDecode reads decisions, also those that break the form.
func TestUpstreamFormDecode(t *testing.T) {
	t.Parallel()
	condition := func(id string) string {
		return `{"id":"` + id + `","type":"authorizer.kubernetes.io/cel","condition":"true"}`
	}
	conditions := func(list string) string { return `{"type":"ConditionsMap","conditionsMap":` + list + `}` }
	allowIf := conditions(`{"allowConditions":[` + condition("example.com/c") + `]}`)
	union := func(members ...string) string { return `{"type":"Union","union":[` + strings.Join(members, ",") + `]}` }
	member := func(name, decision string) string {
		return `{"authorizerName":"` + name + `","decision":` + decision + `}`
	}
	nested := func(depth int) string {
		d := allowIf
		for range depth {
			d = union(member("a", d))
		}
		return d
	}
	var many []string
	for i := range 129 {
		many = append(many, condition(fmt.Sprintf("example.com/c%d", i)))
	}
	for _, tc := range []struct {
		name, decision string
		want           error
	}{
		{"a map", allowIf, nil},
		{"the other type of CEL", strings.Replace(allowIf, upstreamform.ConditionTypeCEL, authorization.ConditionTypeCEL, 1), nil},
		{"a chain", union(member("a", allowIf), member("b", `{"type":"NoOpinion","noOpinion":{"reason":"x"}}`), member("c", `{"type":"Deny","deny":{}}`)), nil},
		{"a chain of chains", nested(7), nil},
		{"chains that are nested too deep", nested(9), upstreamform.ErrInvalid},
		{"chains that are nested far too deep", nested(1000), upstreamform.ErrInvalid},
		{"nothing", `{}`, upstreamform.ErrInvalid},
		{"no type", `{"conditionsMap":{"allowConditions":[` + condition("example.com/c") + `]}}`, upstreamform.ErrInvalid},
		{"no member", `{"type":"ConditionsMap"}`, upstreamform.ErrInvalid},
		{"the member of another type", `{"type":"Allow","deny":{}}`, upstreamform.ErrInvalid},
		{"two members", `{"type":"Allow","allow":{},"deny":{}}`, upstreamform.ErrInvalid},
		{"the member of another type in a chain", union(member("a", allowIf), member("b", `{"type":"Allow","deny":{}}`)), upstreamform.ErrInvalid},
		{"two members in a chain", union(member("a", allowIf), member("b", `{"type":"Allow","allow":{},"deny":{}}`)), upstreamform.ErrInvalid},
		{"a type that is not known in a chain", union(member("a", allowIf), member("b", `{"type":"Perhaps","allow":{}}`)), upstreamform.ErrInvalid},
		{"a type that is not known", `{"type":"Perhaps","allow":{}}`, upstreamform.ErrInvalid},
		{"Allow", `{"type":"Allow","allow":{}}`, upstreamform.ErrInvalid},
		{"Deny", `{"type":"Deny","deny":{}}`, upstreamform.ErrInvalid},
		{"NoOpinion", `{"type":"NoOpinion","noOpinion":{}}`, upstreamform.ErrInvalid},
		{"an empty map", conditions(`{}`), upstreamform.ErrInvalid},
		{"an empty list of conditions", conditions(`{"allowConditions":[]}`), upstreamform.ErrInvalid},
		{"an empty chain", union(), upstreamform.ErrInvalid},
		{"an empty map in a chain", union(member("a", conditions(`{}`))), upstreamform.ErrInvalid},
		{"a defect in a chain", union(member("a", allowIf), member("b", `{"type":"Allow"}`)), upstreamform.ErrInvalid},
		{"one name twice", union(member("a", allowIf), member("a", allowIf)), authorization.ErrInvalidConditions},
		{"no name", union(member("", allowIf)), authorization.ErrInvalidConditions},
		{"one ID twice", conditions(`{"allowConditions":[` + condition("example.com/c") + `],"denyConditions":[` + condition("example.com/c") + `]}`), authorization.ErrInvalidConditions},
		{"an ID without a domain", conditions(`{"allowConditions":[` + condition("c") + `]}`), authorization.ErrInvalidConditions},
		{"no ID", conditions(`{"allowConditions":[` + condition("") + `]}`), authorization.ErrInvalidConditions},
		{"another type of kubernetes.io", strings.Replace(allowIf, "kubernetes.io/cel", "kubernetes.io/rego", 1), authorization.ErrInvalidConditions},
		{"129 conditions", conditions(`{"allowConditions":[` + strings.Join(many, ",") + `]}`), authorization.ErrInvalidConditions},
		{"128 conditions", conditions(`{"allowConditions":[` + strings.Join(many[1:], ",") + `]}`), nil},
		{"a condition that is too long", strings.Replace(allowIf, `"true"`, `"`+strings.Repeat("x", authorizationapi.MaxConditionBytes+1)+`"`, 1), authorization.ErrInvalidConditions},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := &upstreamform.Decision{}
			if err := json.Unmarshal([]byte(tc.decision), d); err != nil {
				t.Fatal(err)
			}
			decoded, err := upstreamform.Decode("webhook", d)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got the error %v, want %v", err, tc.want)
			}
			if err != nil && !decoded.IsDeny() || err == nil && !decoded.CanBecomeAllowed() {
				t.Errorf("got %+v", decoded)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}
