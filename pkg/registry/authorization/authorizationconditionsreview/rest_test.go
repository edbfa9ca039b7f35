/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsreview_test

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
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
