/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

const secret = "dGhlIHNlY3JldA"

// The answers of the generic handlers that quote the stored object.
var (
	invalid = apierrors.NewInvalid(demo.Kind("VirtualMachine"), "x", field.ErrorList{
		field.Invalid(field.NewPath("metadata", "labels"), secret, "name part must consist of alphanumeric characters"),
	})
	badRequest = apierrors.NewBadRequest("the name of the object (" + secret + ") does not match the name on the URL (x)")
	conflict   = apierrors.NewConflict(demo.Resource("virtualmachines"), "x", errors.New("precondition failed: UID in precondition: 1, UID in object meta: "+secret))
	tooLarge   = apierrors.NewRequestEntityTooLargeError("Unable to complete the copy, " + secret)
	internal   = apierrors.NewInternalError(errors.New("cannot unmarshal " + secret))
	// unreachable is the answer while the storage does not answer.
	unreachable = apierrors.NewServerTimeout(demo.Resource("virtualmachines"), "patch", 2)
	notFound    = apierrors.NewNotFound(demo.Resource("virtualmachines"), "x")
	mediaType   = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType, Message: secret}}
)

const (
	// withheld is the message of every 403 to a user who may not get the object.
	withheld = `virtualmachines.demo.proviso.dev "x" is forbidden: User "alice" cannot %[1]s resource "virtualmachines" in API group "demo.proviso.dev" in the namespace "n": ` +
		`the request is allowed only on conditions, and it is invalid or does not meet them (details are shown to users who may get the object): condition=example.com/%[2]s (description of %[2]s)`
	oneMachine = machines + "/x"
)

// statusOf decodes the answer.
func statusOf(tb testing.TB, got *httptest.ResponseRecorder) metav1.Status {
	tb.Helper()
	var status metav1.Status
	if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil {
		tb.Fatalf("%v: %s", err, got.Body)
	}
	return status
}

// TestAnswersShowNothingOfTheObject has handlers answer with errors that quote the stored
// object before its conditions are evaluated.
func TestAnswersShowNothingOfTheObject(t *testing.T) {
	t.Parallel()
	onConditions := map[string]authorization.Decision{"update": holds, "patch": holds, "delete": holds}
	for _, tc := range []struct {
		name, method string
		answer       error
		wantCode     int
		wantReason   metav1.StatusReason
		want         string
	}{
		{"422 to a patch", http.MethodPatch, invalid, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "patch", "holds")},
		{"422 to an update", http.MethodPut, invalid, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "update", "holds")},
		{"400 to a patch", http.MethodPatch, badRequest, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "patch", "holds")},
		{"409 to a patch", http.MethodPatch, conflict, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "patch", "holds")},
		{"409 to a delete", http.MethodDelete, conflict, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "delete", "holds")},
		{"413 to a patch", http.MethodPatch, tooLarge, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "patch", "holds")},
		{"an error that is no status", http.MethodPatch, errors.New(secret), 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "patch", "holds")},
		{"500 to a patch", http.MethodPatch, internal, 403, metav1.StatusReasonForbidden, fmt.Sprintf(withheld, "patch", "holds")},
		{"500 because the store is out of reach", http.MethodPatch, unreachable, 500, metav1.StatusReasonServerTimeout, "could not be completed at this time"},
		{"503 to a patch", http.MethodPatch, apierrors.NewServiceUnavailable(secret), 503, metav1.StatusReasonServiceUnavailable, "the server is currently unable"},
		{"504 to a patch", http.MethodPatch, apierrors.NewTimeoutError(secret, 0), 504, metav1.StatusReasonTimeout, "in the time allotted"},
		{"415 to a patch", http.MethodPatch, mediaType, 415, metav1.StatusReasonUnsupportedMediaType, "details are not shown"},
		{"404 stays", http.MethodPatch, notFound, 404, metav1.StatusReasonNotFound, `virtualmachines.demo.proviso.dev "x" not found`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{chain: chainOf(t, byVerb(onConditions)), storages: storages, behind: func(ctx context.Context, _ *rig) error {
				warning.AddWarning(ctx, "", "unknown field "+secret)
				return tc.answer
			}})
			got := r.send(tc.method, oneMachine, "Content-Type", "application/json-patch+json")
			status := statusOf(t, got)
			if got.Code != tc.wantCode || int(status.Code) != tc.wantCode || status.Reason != tc.wantReason || !strings.Contains(status.Message, tc.want) {
				t.Errorf("got %d %s; want %d %s with %q", got.Code, got.Body, tc.wantCode, tc.wantReason, tc.want)
			}
			if shown := fmt.Sprint(got.Body, got.Header()); strings.Contains(shown, secret) {
				t.Errorf("the answer shows the object: %s", shown)
			}
			if retry := got.Header().Get("Retry-After"); (tc.wantReason == metav1.StatusReasonServerTimeout) != (retry == "2") {
				t.Errorf("got Retry-After %q", retry)
			}
			if status.Details != nil && len(status.Details.Causes) > 0 {
				t.Errorf("the answer has causes: %v", status.Details.Causes)
			}
		})
	}
}

// TestPanicsShowNothing has handlers panic, as libraries of patches do on some objects. Users who may not read the object
// get the answer to a refusal; for all others the panic is the server's to handle.
func TestPanicsShowNothing(t *testing.T) {
	t.Parallel()
	errPanic := errors.New("nil map, " + secret)
	reader := map[string]authorization.Decision{"patch": fails, "get": allow}
	for _, tc := range []struct {
		name, method, path string
		decisions          map[string]authorization.Decision
		reason             error
		wantCode           int // 0 if the panic is passed on
	}{
		{"a patch on conditions", http.MethodPatch, oneMachine, map[string]authorization.Decision{"patch": fails}, errPanic, http.StatusForbidden},
		{"a deletecollection on conditions", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": fails}, errPanic, http.StatusForbidden},
		{"the handler ends the connection", http.MethodPatch, oneMachine, map[string]authorization.Decision{"patch": fails}, http.ErrAbortHandler, 0},
		{"may get the object", http.MethodPatch, oneMachine, reader, errPanic, 0},
		{"allowed without conditions", http.MethodPatch, oneMachine, map[string]authorization.Decision{"patch": allow}, errPanic, 0},
		{"creates its own object", http.MethodPost, machines, map[string]authorization.Decision{"create": fails}, errPanic, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			behind := func(ctx context.Context, _ *rig) error {
				warning.AddWarning(ctx, "", "unknown field "+secret)
				panic(tc.reason)
			}
			r := newRig(t, rigConfig{chain: chainOf(t, byVerb(tc.decisions)), storages: storages, behind: behind})
			var got *httptest.ResponseRecorder
			reason := func() (reason any) {
				defer func() { reason = recover() }()
				got = r.send(tc.method, tc.path)
				return nil
			}()
			if tc.wantCode == 0 {
				if reason != tc.reason { //nolint:errorlint // it must be the same
					t.Errorf("got panic %v, want %v", reason, tc.reason)
				}
				return
			}
			if reason != nil {
				t.Fatalf("the server panics: %v", reason)
			}
			if shown := fmt.Sprint(got.Body, got.Header()); got.Code != tc.wantCode || strings.Contains(shown, secret) || !strings.Contains(shown, "description of fails") {
				t.Errorf("got %d %s, want the answer to a refusal", got.Code, shown)
			}
			if got := r.annotations()["authorization.proviso.dev/withheld-status"]; got != "500" {
				t.Errorf("got withheld status %q, want 500", got)
			}
		})
	}
}

// TestPanicsWhileAnswering has handlers panic after they have begun their answer.
func TestPanicsWhileAnswering(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer error // nil for a success
		want   bool  // that the panic is passed on
	}{
		{"an answer that is withheld", invalid, false},
		{"a success", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{chain: chainOf(t, byVerb(map[string]authorization.Decision{"patch": holds})), storages: storages, panicsLast: true, behind: func(context.Context, *rig) error { return tc.answer }})
			defer func() {
				if passed := recover() != nil; passed != tc.want {
					t.Errorf("the panic is passed on: %v, want %v", passed, tc.want)
				}
			}()
			if got := r.send(http.MethodPatch, oneMachine); got.Code != http.StatusForbidden || strings.Contains(got.Body.String(), secret) {
				t.Errorf("got %d %s, want the answer to a refusal", got.Code, got.Body)
			}
		})
	}
}

// withSubresource has a subresource whose storage runs admission.
var withSubresource = map[string]rest.Storage{"virtualmachines": &genericregistry.Store{}, "virtualmachines/embedded": &genericregistry.Store{}}

// TestAnswersThatStay are those whose user may read the object, or that show nothing of one.
func TestAnswersThatStay(t *testing.T) {
	t.Parallel()
	reader := map[string]authorization.Decision{"patch": holds, "delete": holds, "get": allow}
	for _, tc := range []struct {
		name, method, path string
		decisions          map[string]authorization.Decision
		want               bool // that the answer is the handler's
	}{
		{"allowed without conditions", http.MethodPatch, oneMachine, map[string]authorization.Decision{"patch": allow}, true},
		{"may get the object", http.MethodPatch, oneMachine, reader, true},
		{"may get the object, and deletes it", http.MethodDelete, oneMachine, reader, true},
		{"may get the object on conditions", http.MethodPatch, oneMachine, map[string]authorization.Decision{"patch": holds, "get": holds}, false},
		{"asking whether it may fails", http.MethodPatch, oneMachine, map[string]authorization.Decision{"patch": holds, "get": authorization.Deny("", errTest)}, false},
		{"creates its own object", http.MethodPost, machines, map[string]authorization.Decision{"create": holds}, true},
		{"patches the status", http.MethodPatch, oneMachine + "/embedded", map[string]authorization.Decision{"patch": holds}, false},
		{"may list, and deletes a collection", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": holds, "list": allow}, true},
		{"may only get, and deletes a collection", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": holds, "get": allow}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{chain: chainOf(t, byVerb(tc.decisions)), storages: withSubresource, behind: func(context.Context, *rig) error { return invalid }})
			got := r.send(tc.method, tc.path)
			if stays := got.Code == http.StatusUnprocessableEntity && strings.Contains(got.Body.String(), secret); stays != tc.want {
				t.Errorf("got %d %s; want the handler's answer %v", got.Code, got.Body, tc.want)
			}
		})
	}
}

// TestReadingIsAskedAboutTheWholeObject has a user who may get the subresource only.
func TestReadingIsAskedAboutTheWholeObject(t *testing.T) {
	t.Parallel()
	var asked []authorizer.AttributesRecord
	chain := chainOf(t, decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
		if a.GetVerb() == "patch" {
			return holds
		}
		asked = append(asked, authorizer.AttributesRecord{User: a.GetUser(), Verb: a.GetVerb(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: a.IsResourceRequest()})
		return authorization.NoOpinion("", nil)
	}))
	r := newRig(t, rigConfig{chain: chain, storages: withSubresource, behind: func(context.Context, *rig) error { return invalid }})
	r.send(http.MethodPatch, oneMachine+"/embedded")
	if len(asked) != 1 {
		t.Fatalf("got %d calls, want one", len(asked))
	}
	asked[0].User = nil
	want := authorizer.AttributesRecord{Verb: "get", APIGroup: demo.GroupName, APIVersion: "v1alpha1", Resource: "virtualmachines", Namespace: "n", Name: "x", ResourceRequest: true}
	if diff := cmp.Diff(want, asked[0]); diff != "" {
		t.Error(diff)
	}
}

// TestOneAnswerToAll compares the answers to a user who may not get the object: to a JSON
// patch whose test fails, and to one whose test succeeds but whose conditions do not hold.
func TestOneAnswerToAll(t *testing.T) {
	t.Parallel()
	answer := func(behind func(context.Context, *rig) error) string {
		r := newRig(t, rigConfig{chain: chainOf(t, byVerb(map[string]authorization.Decision{"patch": fails})), storages: storages, behind: behind})
		got := r.send(http.MethodPatch, oneMachine)
		got.Header().Del("Audit-Id")
		return fmt.Sprint(got.Code, got.Header(), got.Body)
	}
	refused := answer(admitting(admission.Update))
	for name, err := range map[string]error{"422": invalid, "400": badRequest, "409": conflict, "413": tooLarge, "500": internal, "no status": errors.New(secret)} {
		if diff := cmp.Diff(refused, answer(func(context.Context, *rig) error { return err })); diff != "" {
			t.Errorf("%s differs from a refusal: %s", name, diff)
		}
	}
	if !strings.Contains(refused, "403") || !strings.Contains(refused, "description of fails") {
		t.Errorf("got %s", refused)
	}
}

// TestSuccessfulDeletesShowNoCollection has a handler answer with the list that it has read. It
// writes no status code, so that the code is 200.
func TestSuccessfulDeletesShowNoCollection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, method, path string
		decisions          map[string]authorization.Decision
		residual           []authorization.Set
		want               bool // that the answer is the handler's
	}{
		{"on conditions", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": holds}, nil, false},
		{"restricted by conditions of an impersonation", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": allow}, []authorization.Set{{AuthorizerName: "a", Decision: denies}}, false},
		{"may list on conditions", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": holds, "list": holds}, nil, false},
		{"asking whether it may fails", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": holds, "list": authorization.Deny("", errTest)}, nil, false},
		{"may list", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": holds, "list": allow}, nil, true},
		{"unconditionally", http.MethodDelete, machines, map[string]authorization.Decision{"deletecollection": allow}, nil, true},
		{"a delete evaluates its conditions", http.MethodDelete, oneMachine, map[string]authorization.Decision{"delete": holds}, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{chain: chainOf(t, byVerb(tc.decisions)), storages: storages, residual: tc.residual, body: `{"items":["` + secret + `"]}`})
			got := r.send(tc.method, tc.path)
			if shown := strings.Contains(got.Body.String(), secret); shown != tc.want || got.Code != http.StatusOK {
				t.Errorf("got %d %s; want the handler's answer %v", got.Code, got.Body, tc.want)
			}
			if status := statusOf(t, got); !tc.want && (status.Status != metav1.StatusSuccess || status.Details.Kind != "virtualmachines" || r.annotations()["authorization.proviso.dev/withheld-status"] != "200") {
				t.Errorf("got %#v, annotations %v; want an audited success", status, r.annotations())
			}
		})
	}
}

// TestWithheldAnswersAreAudited keeps the code of the answer for the administrator.
func TestWithheldAnswersAreAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{chain: chainOf(t, byVerb(map[string]authorization.Decision{"patch": holds})), storages: storages, behind: func(context.Context, *rig) error { return invalid }})
	r.send(http.MethodPatch, oneMachine)
	if got := r.annotations()["authorization.proviso.dev/withheld-status"]; got != "422" {
		t.Errorf("got withheld status %q, want 422", got)
	}
}

// validating is an admission chain: the enforcer, and a plugin after it.
type validating struct{ after error }

func (validating) Handles(admission.Operation) bool { return true }

func (v validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := enforcement.Enforce(ctx, a, o); err != nil {
		return err
	}
	return v.after
}

// TestRefusalsBehindTheConditionsStay has an admission plugin refuse what the conditions have
// allowed: its message is for the user.
func TestRefusalsBehindTheConditionsStay(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(demo.Resource("virtualmachines"), "x", errors.New("the quota is used up"))
	validate := func(ctx context.Context, r *rig) error {
		to := targetOf(ctx)
		return r.admission.(admission.ValidationInterface).Validate(ctx, to.attributes(admission.Update), admission.NewObjectInterfacesFromScheme(scheme))
	}
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		after    error
		behind   func(context.Context, *rig) error
		wantText string
	}{
		{"refused behind the conditions", holds, quota, validate, "the quota is used up"},
		{"refused by the conditions", fails, quota, validate, "description of fails"},
		{"allowed once, and invalid in the next attempt", holds, nil, func(ctx context.Context, r *rig) error {
			if err := validate(ctx, r); err != nil {
				return err
			}
			return invalid // of the version that another client has written meanwhile
		}, "description of holds"},
		{"refused once, and invalid in the next attempt", holds, quota, func(ctx context.Context, r *rig) error {
			_ = validate(ctx, r)
			return invalid
		}, "description of holds"},
		{"refused once, and in the next attempt before its conditions", holds, quota, func(ctx context.Context, r *rig) error {
			_ = validate(ctx, r)
			return apierrors.NewForbidden(demo.Resource("virtualmachines"), "x", errors.New(secret))
		}, "description of holds"},
		{"a text that goes on", holds, quota, func(ctx context.Context, r *rig) error {
			status := validate(ctx, r).(apierrors.APIStatus).Status()
			status.Message += secret
			return &apierrors.StatusError{ErrStatus: status}
		}, "description of holds"},
		{"refused with an error that is no status", holds, errors.New(secret), validate, "description of holds"},
		{"a conflict is attempted again", holds, conflict, func(ctx context.Context, r *rig) error {
			_ = validate(ctx, r)
			return invalid
		}, "description of holds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{chain: chainOf(t, byVerb(map[string]authorization.Decision{"update": tc.decision})), storages: storages,
				admission: validating{after: tc.after}, behind: tc.behind})
			got := r.send(http.MethodPut, oneMachine)
			if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), tc.wantText) || strings.Contains(got.Body.String(), secret) {
				t.Errorf("got %d %s; want 403 with %q", got.Code, got.Body, tc.wantText)
			}
		})
	}
}

// TestRefusalsBehindTheConditionsAreNegotiated shows a refusal in every media type, and no
// warning that an attempt has left.
func TestRefusalsBehindTheConditionsAreNegotiated(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(demo.Resource("virtualmachines"), "x", errors.New("the quota is used up"))
	for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"} {
		r := newRig(t, rigConfig{chain: chainOf(t, byVerb(map[string]authorization.Decision{"update": holds})), storages: storages, admission: validating{after: quota}, behind: func(ctx context.Context, r *rig) error {
			warning.AddWarning(ctx, "", "unknown field "+secret)
			return r.admission.(admission.ValidationInterface).Validate(ctx, targetOf(ctx).attributes(admission.Update), admission.NewObjectInterfacesFromScheme(scheme))
		}})
		got := r.send(http.MethodPut, oneMachine, "Accept", accept)
		if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "the quota is used up") || strings.Contains(fmt.Sprint(got.Header()), secret) {
			t.Errorf("accepting %s: got %d %v %s", accept, got.Code, got.Header(), got.Body)
		}
	}
}

// TestFailingDenyIsForbidden has decisions that come with errors before the body is read.
func TestFailingDenyIsForbidden(t *testing.T) {
	t.Parallel()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	program, err := compiler.Compile(`object.m[object.s] == 1`)
	if err != nil {
		t.Fatal(err)
	}
	_, _, failed := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"m": map[string]any{}, "s": secret}})
	outage := errors.New("connection refused")
	for _, tc := range []struct {
		name     string
		chain    []authorizer.Authorizer
		wantCode int
		wantText string
	}{
		{"a Deny condition fails", []authorizer.Authorizer{always(authorization.Deny("policy p (its condition failed)", failed)), always(allow)}, 403, "policy p (its condition failed): no such key"},
		{"it costs too much", []authorizer.Authorizer{always(authorization.Deny("policy p (its condition failed)", fmt.Errorf("%w: more than 5", cel.ErrCost)))}, 403, "policy p (its condition failed): cost limit exceeded"},
		{"a NoOpinion condition fails", []authorizer.Authorizer{always(authorization.NoOpinion("policy p holds back", failed))}, 403, "policy p holds back: no such key"},
		{"too many conditions", []authorizer.Authorizer{always(authorization.Deny("", fmt.Errorf("%w: 129", authorization.ErrInvalidConditions)))}, 403, "invalid conditions"},
		{"an authorizer is out of reach", []authorizer.Authorizer{always(authorization.Deny("", outage))}, 500, "connection refused"},
		{"both", []authorizer.Authorizer{always(authorization.NoOpinion("", failed)), always(authorization.NoOpinion("", outage))}, 500, "connection refused"},
	} {
		for path, kind := range map[string]string{machines: "conditions are enforced", machines + "/x/none": "conditions are folded"} {
			t.Run(tc.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				got := newRig(t, rigConfig{chain: chainOf(t, tc.chain...), storages: storages}).send(http.MethodPost, path)
				if got.Code != tc.wantCode || !strings.Contains(got.Body.String(), tc.wantText) {
					t.Errorf("got %d %s; want %d with %q", got.Code, got.Body, tc.wantCode, tc.wantText)
				}
				if tc.wantCode == http.StatusForbidden && strings.Contains(got.Body.String(), secret) {
					t.Errorf("the answer quotes a value: %s", got.Body)
				}
			})
		}
	}
}

// TestFailingCreateOfAnUpdateIsForbidden has the create that an update turns into fail.
func TestFailingCreateOfAnUpdateIsForbidden(t *testing.T) {
	t.Parallel()
	failed := authorization.Deny("policy p (its condition failed)", fmt.Errorf("%w: %s", cel.ErrEvaluation, secret))
	r := newRig(t, rigConfig{chain: chainOf(t, byVerb(map[string]authorization.Decision{"update": holds, "create": failed})), storages: storages, behind: func(ctx context.Context, r *rig) error {
		_, reason, err := r.handlers.Authorize(ctx, attributesOf(ctx, "create"))
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return responsewriters.ForbiddenStatusError(attributesOf(ctx, "create"), reason)
	}})
	got := r.send(http.MethodPut, oneMachine)
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "policy p (its condition failed): evaluation failed") || strings.Contains(got.Body.String(), secret) {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}
