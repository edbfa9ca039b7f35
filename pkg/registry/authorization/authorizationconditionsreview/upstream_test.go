/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsreview_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/apiserver"
)

// onMap is a decision with one condition in a list.
func onMap(list, conditionType, text string) string {
	return fmt.Sprintf(`{"type":"ConditionsMap","conditionsMap":{%q:[{"id":"example.com/c","type":%q,"condition":%q}]}}`, list, conditionType, text)
}

func union(members ...string) string {
	return `{"type":"Union","union":[` + strings.Join(members, ",") + `]}`
}

func member(name, decision string) string {
	return fmt.Sprintf(`{"authorizerName":%q,"decision":%s}`, name, decision)
}

const admissionRequest = `{"uid":"7","kind":{"group":"","version":"v1","kind":"ConfigMap"},"requestKind":{"group":"","version":"v1","kind":"ConfigMap"},` +
	`"resource":{"group":"","version":"v1","resource":"configmaps"},"requestResource":{"group":"","version":"v1","resource":"configmaps"},` +
	`"name":"c","namespace":"n","operation":"UPDATE","userInfo":{"username":"u"},"object":{"data":{"a":"new"}},"oldObject":{"data":{"a":"old"}},"dryRun":false}`

// TestReviewInUpstreamForm evaluates a decision in the form that is proposed for Kubernetes. Unless there is a plain Allow, the answer is a Deny or
// NoOpinion, or an error that names what is wrong.
func TestReviewInUpstreamForm(t *testing.T) {
	t.Parallel()
	const cel = "authorizer.kubernetes.io/cel"
	allowIf := func(text string) string { return onMap("allowConditions", cel, text) }
	replaced := func(old, with string) string {
		if !strings.Contains(admissionRequest, old) {
			t.Fatalf("the request has no %s", old)
		}
		return strings.Replace(admissionRequest, old, with, 1)
	}
	var many []string
	for i := range 129 {
		many = append(many, fmt.Sprintf(`{"id":"example.com/c%d","type":%q,"condition":"true"}`, i, cel))
	}
	nested := allowIf("true")
	for range 9 {
		nested = union(member("a", nested))
	}
	for _, tc := range []struct{ name, decision, request, want string }{
		{name: "the condition holds", decision: allowIf(`object.data.a == "new" && oldObject.data.a == "old"`), want: "Allow"},
		{name: "the condition does not hold", decision: allowIf(`object.data.a == "old"`), want: "NoOpinion"},
		{name: "the other type of CEL", decision: onMap("allowConditions", "k8s.io/authorization-cel", "true"), want: "Allow"},
		{name: "a condition that denies", decision: union(member("a", onMap("denyConditions", cel, "true")), member("b", `{"type":"Allow","allow":{}}`)), want: "Deny"},
		{name: "an error in a condition that denies", decision: union(member("a", onMap("denyConditions", cel, "object.b == 1")), member("b", `{"type":"Allow","allow":{}}`)), want: "Deny"},
		{name: "a type without an evaluator", decision: onMap("allowConditions", "example.com/opaque", "?"), want: "Deny"},
		{name: "the namespace, which has no place in the form", decision: allowIf(`namespaceObject.metadata.name == "n"`), want: "NoOpinion"},
		{name: "an Allow", decision: `{"type":"Allow","allow":{}}`, want: "it must depend on conditions"},
		{name: "no decision", decision: `null`, want: "request.decision"},
		{name: "a decision that is none", decision: `[]`, want: "request.decision"},
		{name: "a field that is not known", decision: strings.Replace(allowIf("true"), `"type"`, `"unless":{},"type"`, 1), want: `unknown field "unless"`},
		{name: "a field twice", decision: strings.Replace(allowIf("true"), `"type"`, `"type":"Deny","type"`, 1), want: `duplicate field "type"`},
		{name: "two members", decision: strings.Replace(allowIf("true"), `"type"`, `"deny":{},"type"`, 1), want: "must have the member of its type and no other"},
		{name: "one name twice", decision: union(member("a", allowIf("true")), member("a", allowIf("true"))), want: "Duplicate value"},
		{name: "129 conditions", decision: `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[` + strings.Join(many, ",") + `]}}`, want: "at most 128 items"},
		{name: "deep chains", decision: nested, want: "nested more than 8 levels deep"},
		{name: "an ID without a domain", decision: strings.Replace(allowIf("true"), "example.com/c", "c", 1), want: "must be qualified by a domain"},
		{name: "no request", decision: allowIf("true"), request: `null`, want: "request.admissionRequest"},
		{name: "a request that is none", decision: allowIf("true"), request: `"x"`, want: "request.admissionRequest"},
		{name: "no uid", decision: allowIf("true"), request: replaced(`"uid":"7",`, ""), want: "it has no uid"},
		{name: "a uid twice", decision: allowIf("true"), request: replaced(`"uid":"7"`, `"uid":"7","uid":"8"`), want: "a field twice"},
		{name: "objects of another version", decision: allowIf("true"), request: replaced(`"requestResource":{"group":"","version":"v1"`, `"requestResource":{"group":"","version":"v2"`), want: "another version"},
		{name: "objects of another resource", decision: allowIf("true"), request: replaced(`"requestResource":{"group":"","version":"v1","resource":"configmaps"`, `"requestResource":{"group":"","version":"v1","resource":"secrets"`), want: "another version"},
		{name: "no operation", decision: allowIf("true"), request: replaced(`"UPDATE"`, `""`), want: "request.admissionRequest.operation"},
		{name: "an operation that is not known", decision: allowIf("true"), request: replaced(`"UPDATE"`, `"READ"`), want: "request.admissionRequest.operation"},
		{name: "an old object of a create", decision: allowIf("true"), request: replaced(`"UPDATE"`, `"CREATE"`), want: "request.admissionRequest.oldObject"},
		{name: "an object that is none", decision: allowIf("true"), request: replaced(`{"data":{"a":"new"}}`, `[]`), want: "request.admissionRequest.object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := &authorizationapi.AuthorizationConditionsRequest{Decision: raw(tc.decision), AdmissionRequest: raw(tc.request)}
			if tc.request == "" {
				request.AdmissionRequest = raw(admissionRequest)
			}
			response, err := review(t, request)
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			var got struct{ Type string }
			if err := json.Unmarshal(response.Decision.Raw, &got); err != nil {
				t.Fatal(err)
			}
			if got.Type != tc.want || response.UID != "7" || response.Allowed || response.Denied || response.Reason != "" || response.ConditionSets != nil {
				t.Errorf("got %s in %+v, want %s", response.Decision.Raw, response, tc.want)
			}
		})
	}
}

// TestReviewsAreNotMixed gives a review in one form a field of the other. The answer names the fields.
func TestReviewsAreNotMixed(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(*authorizationapi.AuthorizationConditionsRequest){
		"request.conditionSets": func(r *authorizationapi.AuthorizationConditionsRequest) {
			r.ConditionSets = []authorizationapi.SubjectAccessReviewConditionSet{}
		},
		"request.operation":   func(r *authorizationapi.AuthorizationConditionsRequest) { r.Operation = "CREATE" },
		"request.kind":        func(r *authorizationapi.AuthorizationConditionsRequest) { r.Kind = &metav1.GroupVersionKind{} },
		"request.resource":    func(r *authorizationapi.AuthorizationConditionsRequest) { r.Resource = &metav1.GroupVersionResource{} },
		"request.subResource": func(r *authorizationapi.AuthorizationConditionsRequest) { r.SubResource = "x" },
		"request.name":        func(r *authorizationapi.AuthorizationConditionsRequest) { r.Name = "x" },
		"request.namespace":   func(r *authorizationapi.AuthorizationConditionsRequest) { r.Namespace = "x" },
		"request.namespaceObject": func(r *authorizationapi.AuthorizationConditionsRequest) {
			r.NamespaceObject = &runtime.RawExtension{}
		},
		"request.userInfo":  func(r *authorizationapi.AuthorizationConditionsRequest) { r.UserInfo = &authenticationv1.UserInfo{} },
		"request.object":    func(r *authorizationapi.AuthorizationConditionsRequest) { r.Object = raw(`null`) },
		"request.oldObject": func(r *authorizationapi.AuthorizationConditionsRequest) { r.OldObject = raw(`{}`) },
		"request.options":   func(r *authorizationapi.AuthorizationConditionsRequest) { r.Options = raw(`{}`) },
		"request.dryRun":    func(r *authorizationapi.AuthorizationConditionsRequest) { r.DryRun = true },
		"request.impersonation": func(r *authorizationapi.AuthorizationConditionsRequest) {
			r.Impersonation = &authorizationapi.ImpersonationData{}
		},
	} {
		for _, form := range []*authorizationapi.AuthorizationConditionsRequest{
			{Decision: raw(onMap("allowConditions", "authorizer.kubernetes.io/cel", "true")), AdmissionRequest: raw(admissionRequest)},
			{Decision: raw(`{}`)}, {AdmissionRequest: raw(`{}`)},
		} {
			set(form)
			if _, err := review(t, form); err == nil || !strings.Contains(err.Error(), "the review mixes two forms") || !strings.Contains(err.Error(), field+" of KEP-5681") {
				t.Errorf("%s: got %v", field, err)
			}
		}
	}
}

// TestUpstreamFormNeedsTheGate sends the form to a server without the gate.
func TestUpstreamFormNeedsTheGate(t *testing.T) {
	t.Parallel()
	request := &authorizationapi.AuthorizationConditionsRequest{Decision: raw(onMap("allowConditions", "authorizer.kubernetes.io/cel", "true")), AdmissionRequest: raw(admissionRequest)}
	if _, err := reviewWith(t, false, request); err == nil || !strings.Contains(err.Error(), "needs the feature gate UpstreamConditionalDecisions") {
		t.Errorf("got %v", err)
	}
}

// TestAllowedIsLeftOut has answers in both forms as JSON.
func TestAllowedIsLeftOut(t *testing.T) {
	t.Parallel()
	for want, response := range map[string]authorizationv1alpha1.AuthorizationConditionsResponse{
		`{"allowed":false}`: {}, `{"allowed":true,"reason":"r"}`: {Allowed: true, Reason: "r"},
		`{"uid":"7","decision":{"type":"Allow","allow":{}}}`: {UID: "7", Decision: raw(`{"type":"Allow","allow":{}}`)},
		`{"allowed":true,"decision":{}}`:                     {Allowed: true, Decision: raw(`{}`)},
	} {
		got, err := json.Marshal(response)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
}

// TestUnreadableValues decodes reviews with numbers that no type holds, in each field that has JSON of any kind. They must not get past decoding.
func TestUnreadableValues(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"kind":"AuthorizationConditionsReview","apiVersion":"authorization.k8s.io/v1alpha1","request":{"decision":{"a":1e999}}}`,
		`{"kind":"AuthorizationConditionsReview","apiVersion":"authorization.k8s.io/v1alpha1","request":{"admissionRequest":{"a":1e999}}}`,
		`{"kind":"AuthorizationConditionsReview","apiVersion":"authorization.k8s.io/v1alpha1","response":{"decision":{"a":1e999}}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1alpha1","status":{"conditionalDecision":{"a":1e999}}}`,
	} {
		if _, _, err := apiserver.Codecs.UniversalDecoder().Decode([]byte(body), nil, nil); err == nil {
			t.Errorf("%s is decoded", body)
		}
	}
}
