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

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// TestReadUnconditional reads answers to reviews. Only an Allow that is plain and alone allows.
func TestReadUnconditional(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want, reason string }{
		{name: "Allow", text: `{"type":"Allow","allow":{"reason":"because"}}`, want: "Allow", reason: "because"},
		{name: "Deny with an error", text: `{"type":"Deny","deny":{"reason":"because","evaluationError":"of that"}}`, want: "Deny", reason: "because; of that"},
		{name: "NoOpinion", text: `{"type":"NoOpinion","noOpinion":{}}`, want: "NoOpinion"},
		{name: "nothing"}, {name: "null", text: `null`}, {name: "a list", text: `[]`}, {name: "no JSON", text: `{`}, {name: "an empty object", text: `{}`},
		{name: "no member", text: `{"type":"Allow"}`}, {name: "no type", text: `{"allow":{}}`}, {name: "another member", text: `{"type":"Allow","deny":{}}`},
		{name: "two members", text: `{"type":"Allow","allow":{},"deny":{}}`}, {name: "a field twice", text: `{"type":"Deny","type":"Allow","allow":{}}`},
		{name: "a member twice", text: `{"type":"Allow","allow":{},"allow":{}}`}, {name: "a field that is not known", text: `{"type":"Allow","allow":{},"unless":{}}`},
		{name: "a field that is not known below", text: `{"type":"Allow","allow":{"unless":"x"}}`}, {name: "a type that is not known", text: `{"type":"Perhaps","allow":{}}`},
		{name: "other letters", text: `{"Type":"Allow","Allow":{}}`}, {name: "too long", text: `{"type":"Allow","allow":{"reason":"` + strings.Repeat("x", upstreamform.MaxDecisionBytes) + `"}}`},
		{name: "conditions", text: `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"example.com/x"}]}}`},
		{name: "a chain", text: `{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"Allow","allow":{}}}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := upstreamform.ReadUnconditional(raw(tc.text))
			got := map[bool]string{d.IsAllow(): "Allow", d.IsNoOpinion(): "NoOpinion", d.IsDeny(): "Deny"}[true]
			if tc.want == "" && (!errors.Is(err, upstreamform.ErrInvalid) || got != "Deny") {
				t.Errorf("got %s, %v, want an error", got, err)
			}
			if tc.want != "" && (err != nil || got != tc.want || d.Reason() != tc.reason) {
				t.Errorf("got %s (%s), %v, want %s (%s)", got, d.Reason(), err, tc.want, tc.reason)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestReadAdmissionRequest reads requests, and what is not one.
func TestReadAdmissionRequest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{name: "a request", text: `{"uid":"1","operation":"CREATE","newField":1}`},
		{name: "nothing", want: "there is no admissionRequest"}, {name: "null", text: `null`, want: "no uid"},
		{name: "no uid", text: `{"operation":"CREATE"}`, want: "no uid"}, {name: "a list", text: `["secret"]`, want: "not valid JSON of its kind"},
		{name: "a field of another type", text: `{"uid":"1","name":{"secret":1}}`, want: "not valid JSON of its kind"},
		{name: "a field twice", text: `{"uid":"1","uid":"2"}`, want: "a field twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request, err := upstreamform.ReadAdmissionRequest(raw(tc.text))
			if tc.want == "" && (err != nil || request.UID != "1") {
				t.Errorf("got %+v, %v", request, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestDataSurvives sends the data of conditions in an AdmissionRequest. All but the namespace object arrives.
func TestDataSurvives(t *testing.T) {
	t.Parallel()
	data := &authorizationapi.AuthorizationConditionsRequest{
		Operation: authorizationapi.OperationUpdate, Kind: &metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Scale"},
		Resource: &metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, SubResource: "scale", Name: "d", Namespace: "n", DryRun: true,
		UserInfo: &authenticationv1.UserInfo{Username: "ann", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
		Object:   raw(`{"a":1}`), OldObject: raw(`{"a":2}`), Options: raw(`{"kind":"UpdateOptions"}`),
	}
	sent, err := upstreamform.AdmissionRequestOf("1", data)
	if err != nil {
		t.Fatal(err)
	}
	request, err := upstreamform.ReadAdmissionRequest(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := upstreamform.Data(request)
	if diff := cmp.Diff(data, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestDataOfAnotherVersion refuses objects that were converted: the conditions were written for the version of the request.
func TestDataOfAnotherVersion(t *testing.T) {
	t.Parallel()
	const kind, resource = `"kind":{"version":"v1","kind":"Pod"}`, `"resource":{"version":"v1","resource":"pods"}`
	for _, tc := range []struct {
		name, fields string
		want         error
	}{
		{name: "no request fields", fields: kind + "," + resource},
		{name: "the same", fields: kind + "," + resource + `,"requestKind":{"version":"v1","kind":"Pod"},"requestResource":{"version":"v1","resource":"pods"}`},
		{name: "another kind", fields: kind + `,"requestKind":{"version":"v2","kind":"Pod"}`, want: upstreamform.ErrOtherVersion},
		{name: "another resource", fields: resource + `,"requestResource":{"version":"v1","resource":"secrets"}`, want: upstreamform.ErrOtherVersion},
		{name: "another subresource", fields: `"subResource":"exec","requestSubResource":"attach"`, want: upstreamform.ErrOtherVersion},
		{name: "a subresource in one place only", fields: resource + `,"subResource":"exec","requestResource":{"version":"v1","resource":"pods"}`, want: upstreamform.ErrOtherVersion},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request, err := upstreamform.ReadAdmissionRequest(raw(`{"uid":"1",` + tc.fields + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := upstreamform.Data(request); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// FuzzDecision reads any decision and writes it again: it then says the same, and is never an Allow unless its type says so.
func FuzzDecision(f *testing.F) {
	for _, seed := range []string{
		`{"type":"Allow","allow":{}}`, `{"type":"NoOpinion","noOpinion":{"reason":"r"}}`,
		`{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"example.com/c","type":"authorizer.kubernetes.io/cel","condition":"true"}]}}`,
		`{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"example.com/x"}]}}},{"authorizerName":"b","decision":{"type":"Deny","deny":{}}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := upstreamform.ReadUnconditional(&runtime.RawExtension{Raw: text}); err == nil && d.IsAllow() {
			var plain map[string]any
			if err := json.Unmarshal(text, &plain); err != nil || plain["type"] != "Allow" || plain["allow"] == nil || plain["deny"] != nil {
				t.Fatalf("an Allow from %s", text)
			}
		}
		read, err := upstreamform.ReadDecision(&runtime.RawExtension{Raw: text})
		if err != nil {
			return
		}
		decision, err := upstreamform.Decode("w", read)
		if err != nil {
			if !decision.IsDeny() {
				t.Fatalf("%+v beside %v", decision, err)
			}
			return
		}
		strict := decision.Evaluate(t.Context(), byText)
		again, isConditional := throughJSON(t, decision)
		if isConditional {
			again = again.Evaluate(t.Context(), byText)
		}
		if openness(again) > openness(strict) {
			t.Fatalf("%s\nevaluates to %+v, and to the more open %+v after the translation", text, strict, again)
		}
	})
}
