/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsreview_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/freshness"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/authorizationconditionsreview"
)

// review answers a review as the API server does.
func review(t *testing.T, request *authorizationapi.AuthorizationConditionsRequest, members ...authorization.Member) (*authorizationapi.AuthorizationConditionsResponse, error) {
	t.Helper()
	return reviewWith(t, true, request, members...)
}

// reviewWith answers a review with or without the gate UpstreamConditionalDecisions.
func reviewWith(t *testing.T, upstream bool, request *authorizationapi.AuthorizationConditionsRequest, members ...authorization.Member) (*authorizationapi.AuthorizationConditionsResponse, error) {
	t.Helper()
	conditions, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	inPart, err := partial.NewConditionCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		t.Fatal(err)
	}
	storage := authorizationconditionsreview.NewREST(authorizationconditionsreview.Compilers{Conditions: conditions, Partial: inPart}, chain, apiserver.Scheme, upstream)
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "caller"})
	answer, err := storage.Create(ctx, &authorizationapi.AuthorizationConditionsReview{Request: request}, nil, nil)
	if err != nil {
		return nil, err
	}
	return answer.(*authorizationapi.AuthorizationConditionsReview).Response, nil
}

func allowIf(condition string) []authorizationapi.SubjectAccessReviewConditionSet {
	return []authorizationapi.SubjectAccessReviewConditionSet{{AuthorizerName: "a", Conditions: []authorizationapi.SubjectAccessReviewCondition{
		{ID: "example.com/c", Effect: authorizationapi.ConditionEffectAllow, Type: authorizationapi.ConditionTypeCEL, Condition: condition},
	}}}
}

func raw(object string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(object)} }

func createOf(condition, object string) *authorizationapi.AuthorizationConditionsRequest {
	return &authorizationapi.AuthorizationConditionsRequest{
		ConditionSets: allowIf(condition), Operation: authorizationapi.OperationCreate, Object: raw(object),
		Kind:     &metav1.GroupVersionKind{Group: "g.example.com", Version: "v1", Kind: "Thing"},
		Resource: &metav1.GroupVersionResource{Group: "g.example.com", Version: "v1", Resource: "things"},
		UserInfo: &authenticationv1.UserInfo{Username: "u"},
	}
}

const machine = `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"m"},"spec":{"image":"i","cpuShare":2,"disks":[{"name":"d","sizeGiB":4}]}}`

// TestReviewTypesNumbersAsTheServer reviews objects with a whole number in a field that is a
// double. Of kinds that the server serves, an object has in a review the types that it has in a
// request; the others have the types of their text.
func TestReviewTypesNumbersAsTheServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, condition, object string
		want                    bool
	}{
		{"a double of a served kind", `object.spec.cpuShare * 2.0 == 4.0`, machine, true},
		{"a double of a served kind is no int", `object.spec.cpuShare * 2 == 4`, machine, false},
		{"a double in a list", `object.spec.disks[0].sizeGiB + 0.5 == 4.5`, machine, true},
		{"an int of a served kind", `object.metadata.generation * 2 == 6`, `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"generation":3}}`, true},
		{"a number of another kind", `object.spec.share * 2.0 == 4.0`, `{"apiVersion":"g.example.com/v1","kind":"Thing","spec":{"share":2}}`, false},
		{"a number of another kind, converted", `double(object.spec.share) * 2.0 == 4.0`, `{"apiVersion":"g.example.com/v1","kind":"Thing","spec":{"share":2}}`, true},
		{"an object without a kind", `object.spec.share * 2 == 4`, `{"spec":{"share":2}}`, true},
		{"an internal version is no kind of objects", `object.spec.cpuShare * 2 == 4`, `{"apiVersion":"demo.proviso.dev/__internal","kind":"VirtualMachine","spec":{"cpuShare":2}}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, ofObject := range []bool{true, false} {
				request := createOf(tc.condition, tc.object)
				if !ofObject {
					request = createOf("oldObject != null && "+strings.ReplaceAll(tc.condition, "object.", "oldObject."), tc.object)
					request.Operation, request.OldObject = authorizationapi.OperationUpdate, raw(tc.object)
				}
				response, err := review(t, request)
				if err != nil {
					t.Fatal(err)
				}
				if response.Allowed != tc.want {
					t.Errorf("%s: got %+v, want allowed: %v", request.ConditionSets[0].Conditions[0].Condition, response, tc.want)
				}
			}
		})
	}
}

// TestReviewWithKindOfTheRequest: an object that does not say its kind has the one of the request.
func TestReviewWithKindOfTheRequest(t *testing.T) {
	t.Parallel()
	request := createOf(`object.spec.cpuShare * 2.0 == 4.0`, `{"spec":{"cpuShare":2}}`)
	kind := metav1.GroupVersionKind(demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine"))
	request.Kind = &kind
	response, err := review(t, request)
	if err != nil || !response.Allowed {
		t.Errorf("got %+v (%v), want allowed", response, err)
	}
}

// TestReviewRefusesWhatTheServerWould refuses an object that no request could have.
func TestReviewRefusesWhatTheServerWould(t *testing.T) {
	t.Parallel()
	request := createOf(`object.spec.cpuShare == "much"`, `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","spec":{"cpuShare":"much"}}`)
	if response, err := review(t, request); !apierrors.IsBadRequest(err) {
		t.Errorf("got %+v (%v), want a bad request", response, err)
	}
}

// admitted is a request as admission knows it, in the server's own process.
type admitted struct {
	authorizer.ConditionsData
	object runtime.Object
}

func (a admitted) GetObject() runtime.Object           { return a.object }
func (a admitted) GetOldObject() runtime.Object        { return nil }
func (a admitted) GetOperationOptions() runtime.Object { return nil }
func (a admitted) GetOperation() authorizer.AdmissionOperation {
	return "CREATE"
}
func (a admitted) IsDryRun() bool { return false }

// TestReviewAgreesWithTheProcess evaluates conditions on an object of a served kind in a review
// and on the typed object, as a request does.
func TestReviewAgreesWithTheProcess(t *testing.T) {
	t.Parallel()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	typed, err := runtime.Decode(apiserver.Codecs.UniversalDeserializer(), []byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range []string{
		`object.spec.cpuShare * 2.0 == 4.0`, `object.spec.cpuShare * 2 == 4`, `type(object.spec.cpuShare) == double`, `string(object.spec.disks[0].sizeGiB) == "4"`,
		`has(object.status)`, `has(object.spec.nodeName)`, `has(object.spec.unknown)`, `object.kind == "VirtualMachine"`, `has(object.metadata.creationTimestamp)`,
		`object.spec.disks.all(d, d.sizeGiB / 8.0 == 0.5)`,
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			reader := &cel.ObjectReader{}
			values, err := celeval.ValuesOf(admitted{object: typed}, reader)
			if err != nil {
				t.Fatal(err)
			}
			evaluator := &celeval.Evaluator{Compiler: compiler, Values: values}
			inProcess := evaluator.EvaluateCondition(context.Background(), authorization.Condition{Type: authorization.ConditionTypeCEL, Text: condition})
			if err := reader.Err(); err != nil {
				t.Fatal(err)
			}
			response, err := review(t, createOf(condition, machine))
			if err != nil {
				t.Fatal(err)
			}
			if response.Allowed != inProcess.IsTrue() {
				t.Errorf("a review says %+v, the process %+v", response, inProcess)
			}
		})
	}
}

// TestHalfKnownReview: conditions of an unknown type before a set that becomes Allow in a review
// of the impersonation alone.
func TestHalfKnownReview(t *testing.T) {
	t.Parallel()
	sets := append([]authorizationapi.SubjectAccessReviewConditionSet{{AuthorizerName: "first", Conditions: []authorizationapi.SubjectAccessReviewCondition{
		{ID: "example.com/o", Effect: authorizationapi.ConditionEffectAllow, Type: "example.com/opaque", Condition: "?"},
	}}}, allowIf(`impersonatedUser.username == "bob"`)...)
	impersonation := &authorizationapi.ImpersonationData{User: authenticationv1.UserInfo{Username: "bob"}, Request: authorizationapi.ImpersonatedRequest{Verb: "create", Resource: "things", APIVersion: "v1"}}
	half, err := review(t, &authorizationapi.AuthorizationConditionsRequest{ConditionSets: sets, Impersonation: impersonation})
	if err != nil {
		t.Fatal(err)
	}
	if half.Allowed || half.Denied || len(half.ConditionSets) != 2 {
		t.Errorf("the impersonation alone: got %+v, want both sets", half)
	}
	for name, remaining := range map[string][]authorizationapi.SubjectAccessReviewConditionSet{"in two steps": half.ConditionSets, "at once": sets} {
		request := createOf("true", `{}`)
		request.ConditionSets, request.Impersonation = remaining, impersonation
		response, err := review(t, request)
		if err != nil {
			t.Fatal(err)
		}
		if !response.Denied {
			t.Errorf("%s: got %+v, want denied", name, response)
		}
	}
}

// TestImpersonatedRequestPath: a request for a resource has no path, whatever the review says.
func TestImpersonatedRequestPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, condition string
		request         authorizationapi.ImpersonatedRequest
	}{
		{"a resource", `impersonatedRequest.path == ""`, authorizationapi.ImpersonatedRequest{Verb: "get", APIVersion: "v1", Resource: "pods", Path: "/api/v1/pods"}},
		{"a path", `impersonatedRequest.path == "/metrics"`, authorizationapi.ImpersonatedRequest{Verb: "get", Path: "/metrics"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			response, err := review(t, &authorizationapi.AuthorizationConditionsRequest{
				ConditionSets: allowIf(tc.condition), Impersonation: &authorizationapi.ImpersonationData{User: authenticationv1.UserInfo{Username: "bob"}, Request: tc.request},
			})
			if err != nil || !response.Allowed {
				t.Errorf("got %+v (%v), want allowed", response, err)
			}
		})
	}
}

// counted evaluates conditions by a number, which it then increases.
type counted struct {
	source freshness.Source[int]
	seen   []int
}

func (c *counted) Pin(ctx context.Context) context.Context { return c.source.Pin(ctx) }

func (c *counted) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	return authorization.Allow("", nil) // so that the caller may have conditions evaluated
}

func (c *counted) EvaluateConditions(ctx context.Context, _ authorizer.ConditionsAwareDecision, _ authorizer.ConditionsData) (authorizer.Decision, string, error) {
	now := *c.source.StateOf(ctx).Value
	c.seen = append(c.seen, now)
	now++
	c.source.Store(&now)
	return authorizer.DecisionNoOpinion, "", nil
}

// TestReviewIsPinned reviews two sets of authorizers with one source, which changes between them.
func TestReviewIsPinned(t *testing.T) {
	t.Parallel()
	authors := &counted{}
	authors.source.Store(new(int))
	request := createOf("", "{}")
	request.ConditionSets[0].Conditions[0].Type = "example.com/own"
	request.ConditionSets = append(request.ConditionSets, *request.ConditionSets[0].DeepCopy())
	request.ConditionSets[1].AuthorizerName = "b"
	for i := range request.ConditionSets {
		request.ConditionSets[i].Conditions[0].Condition = "text"
	}
	answer, err := review(t, request, authorization.Member{Name: "a", Decider: authors}, authorization.Member{Name: "b", Decider: authors})
	if err != nil || len(authors.seen) != 2 || authors.seen[0] != authors.seen[1] {
		t.Errorf("got %+v, %v from the states %v, want one state", answer, err, authors.seen)
	}
}

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
