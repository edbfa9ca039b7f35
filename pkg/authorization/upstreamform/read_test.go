/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
)

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
