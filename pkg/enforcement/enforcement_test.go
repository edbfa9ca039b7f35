/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/proviso-authz/proviso/apis/demo"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

var errTest = errors.New("made by the test")

// TestRequests sends requests through the filters to admission.
func TestRequests(t *testing.T) {
	t.Parallel()
	panics := func(authorizer.ConditionsData) authorization.Outcome { panic("secret of the object") }
	failing := outcome(authorization.Failed(errTest))
	with := func(decisions ...authorization.Decision) (sets []authorizer.Authorizer) {
		for _, d := range decisions {
			sets = append(sets, always(d))
		}
		return sets
	}
	noOpinionIf := func(o authorization.Outcome) authorization.Decision {
		return authorization.Conditions(
			authorization.Condition{ID: "example.com/n", Effect: authorization.EffectNoOpinion, Type: "example.com/go",
				EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome { return o }},
			authorization.Condition{ID: "example.com/y", Effect: authorization.EffectAllow, Type: "example.com/go",
				EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome { return authorization.True() }})
	}
	for _, tc := range []struct {
		name      string
		chain     []authorizer.Authorizer
		wantCode  int
		wantText  string
		wantAudit string // the decision at admission
	}{
		{"allowed", with(allow), 200, "", ""},
		{"denied", with(authorization.Deny("by the test", nil)), 403, "by the test", ""},
		{"nobody says anything", nil, 403, "", ""},
		{"holds", with(holds), 200, "", "allow"},
		{"does not hold", with(fails), 403, "description of fails", "deny"},
		{"does not hold, and the next allows", with(fails, allow), 200, "", "allow"},
		{"does not hold, and the next does", with(fails, holds), 200, "", "allow"},
		{"does not hold, and the next denies", with(fails, authorization.Deny("by the next", nil), allow), 403, "by the next", "deny"},
		{"is denied before it is allowed", with(denies, allow), 403, "description of denies", "deny"},
		{"can only be denied", with(denies), 403, "no authorizer can allow the request, whatever its object is", ""},
		{"can only be denied, by two", with(denies, authorization.Deny("", nil), allow), 403, "", ""},
		{"Allow fails", with(allowIf("x", failing)), 403, "condition=example.com/x reason=Error", "deny"},
		{"Deny fails", with(conditional(authorization.EffectDeny, "x", failing), allow), 403, "condition=example.com/x reason=Error: description of x: its condition could not be evaluated: evaluation failed", "deny"},
		{"NoOpinion fails", with(noOpinionIf(authorization.Failed(errTest))), 403, "condition=example.com/n reason=Error: its condition could not be evaluated: evaluation failed", "deny"},
		{"NoOpinion holds", with(noOpinionIf(authorization.True())), 403, "", "deny"},
		{"NoOpinion does not hold", with(noOpinionIf(authorization.False())), 200, "", "allow"},
		{"nobody can evaluate it", with(allowIf("x", outcome(authorization.Outcome{}))), 403, "", "deny"},
		{"nobody can evaluate a Deny", with(conditional(authorization.EffectDeny, "x", outcome(authorization.Outcome{})), allow), 403, "", "deny"},
		{"a residual, though all data is there", with(allowIf("x", outcome(authorization.Residual(authorization.Condition{})))), 403, "", "deny"},
		{"panics", with(allowIf("x", panics), allow), 500, "the evaluation of conditions panicked", "deny"},
		{"a reason panics", with(allowIf("x", func(authorizer.ConditionsData) authorization.Outcome {
			return authorization.False().Explained(func() string { panic("secret of the object") })
		})), 500, "the evaluation of conditions panicked", "deny"},
		{"a Deny panics", with(conditional(authorization.EffectDeny, "x", panics), allow), 500, "the evaluation of conditions panicked", "deny"},
		{"a later authorizer panics", append(with(fails), decide(func(context.Context, authorizer.Attributes) authorization.Decision { panic("x") })), 500, "panicked", "deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			written := false
			r := newRig(t, rigConfig{chain: chainOf(t, tc.chain...), storages: storages, behind: func(ctx context.Context, _ *rig) error {
				err := admit(ctx, admission.Create, nil)
				written = err == nil
				return err
			}})
			got := r.send(http.MethodPost, machines)
			if got.Code != tc.wantCode || !strings.Contains(got.Body.String(), tc.wantText) || written != (tc.wantCode == 200) {
				t.Errorf("got %d %s, written %v; want %d with %q", got.Code, got.Body, written, tc.wantCode, tc.wantText)
			}
			if strings.Contains(got.Body.String(), "secret") {
				t.Error("what a panic said was told")
			}
			annotations := r.annotations()
			if annotations["authorization.proviso.dev/decision"] != tc.wantAudit || (annotations["authorization.k8s.io/is-conditional-decision"] == "true") != (tc.wantAudit != "") {
				t.Errorf("got audit annotations %v, want decision %q", annotations, tc.wantAudit)
			}
		})
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	deciding := func(decisions map[string]authorization.Decision) rigConfig {
		return rigConfig{chain: chainOf(t, byVerb(decisions)), storages: storages}
	}
	updateThatCreates := func(ctx context.Context, r *rig) error {
		if d, reason, err := r.handlers.Authorize(ctx, attributesOf(ctx, "create")); d != authorizer.DecisionAllow {
			return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(reason+errString(err)))
		}
		return admit(ctx, admission.Create, nil)
	}
	attempt := 0
	for _, tc := range []struct {
		name         string
		config       rigConfig
		method, path string
		behind       func(context.Context, *rig) error
		want         map[string]string
	}{
		{"unconditional", deciding(map[string]authorization.Decision{"create": allow}), http.MethodPost, machines, admitting(admission.Create), nil},
		{"allowed", deciding(map[string]authorization.Decision{"create": holds}), http.MethodPost, machines, admitting(admission.Create),
			map[string]string{"decision": "allow", "reason": `condition=example.com/holds reason=Allowed: description of holds`, "condition": "example.com/holds"}},
		{"refused by nobody in particular", deciding(map[string]authorization.Decision{"create": fails}), http.MethodPost, machines, admitting(admission.Create),
			map[string]string{"decision": "deny", "reason": `condition=example.com/fails reason=NotMet: description of fails`}},
		{"both decisions of an update that creates", deciding(map[string]authorization.Decision{"update": holds, "create": holds}), http.MethodPut, machines + "/x", updateThatCreates,
			map[string]string{"decision": "allow", "condition": "example.com/holds",
				"reason": `condition=example.com/holds reason=Allowed: description of holds`}},
		{"the create of an update is refused", deciding(map[string]authorization.Decision{"update": holds, "create": fails}), http.MethodPut, machines + "/x", updateThatCreates,
			map[string]string{"decision": "deny", "condition": "example.com/holds",
				"reason": `condition=example.com/holds reason=Allowed: description of holds; condition=example.com/fails reason=NotMet: description of fails`}},
		{"the last attempt counts", deciding(map[string]authorization.Decision{"update": allowIf("first", func(authorizer.ConditionsData) authorization.Outcome {
			attempt++
			return authorization.Bool(attempt == 1)
		})}), http.MethodPut, machines + "/x", func(ctx context.Context, _ *rig) error {
			if err := admit(ctx, admission.Update, nil); err != nil {
				return err
			}
			return admit(ctx, admission.Update, nil)
		}, map[string]string{"decision": "deny", "reason": `condition=example.com/first reason=NotMet: description of first`}},
		{"a collection of which one is refused", deciding(map[string]authorization.Decision{"deletecollection": allowIf("some", func(data authorizer.ConditionsData) authorization.Outcome {
			return authorization.Bool(data.GetName() != "second")
		})}), http.MethodDelete, machines, func(ctx context.Context, _ *rig) (refusal error) {
			for _, name := range []string{"first", "second", "third"} {
				if err := admit(ctx, admission.Delete, func(to *target) { to.name = name }); err != nil {
					refusal = err
				}
			}
			return refusal
		}, map[string]string{"decision": "deny", "reason": `condition=example.com/some reason=NotMet: description of some`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.config.behind = tc.behind
			r := newRig(t, tc.config)
			r.send(tc.method, tc.path)
			got := map[string]string{}
			for key, value := range r.annotations() {
				if name, ok := strings.CutPrefix(key, "authorization.proviso.dev/"); ok && name != "policy-revision" {
					got[name] = value
				}
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestSlot attacks what carries the decision: none of these may be allowed.
func TestSlot(t *testing.T) {
	t.Parallel()
	update := func(change func(*target)) func(context.Context, *rig) error {
		return func(ctx context.Context, _ *rig) error { return admit(ctx, admission.Update, change) }
	}
	var stolen context.Context
	steal := newRig(t, rigConfig{chain: chainOf(t, always(allow)), storages: storages, behind: func(ctx context.Context, _ *rig) error {
		stolen = ctx
		return nil
	}})
	if got := steal.send(http.MethodPut, machines+"/other"); got.Code != 200 {
		t.Fatal(got)
	}
	for name, behind := range map[string]func(context.Context, *rig) error{
		"another name":        update(func(to *target) { to.name = "y" }),
		"another namespace":   update(func(to *target) { to.namespace = "m" }),
		"another group":       update(func(to *target) { to.resource.Group = "g" }),
		"another version":     update(func(to *target) { to.resource.Version = "v1" }),
		"another resource":    update(func(to *target) { to.resource.Resource = "others" }),
		"another subresource": update(func(to *target) { to.subresource = "status" }),
		"another user":        update(func(to *target) { to.user = &user.DefaultInfo{Name: "bob"} }),
		"another operation":   admitting(admission.Delete),
		"no slot": func(ctx context.Context, _ *rig) error {
			return admit(contextWithout{ctx}, admission.Update, nil)
		},
		"the slot of another request": func(ctx context.Context, _ *rig) error {
			return admit(mixedContext{ctx, stolen}, admission.Update, nil)
		},
		"a create that was not authorized":           admitting(admission.Create),
		"an object that cannot be converted":         update(func(to *target) { to.kind = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Unknown"} }),
		"an object of another kind than the request": update(func(to *target) { to.object = &demo.VirtualMachineConsoleOptions{} }),
	} {
		for kind, decision := range map[string]authorization.Decision{"unconditional": allow, "conditional": holds} {
			if kind == "unconditional" && strings.HasPrefix(name, "an object") {
				continue // nobody looks at it
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigConfig{chain: chainOf(t, always(decision)), storages: storages, behind: behind})
				if got := r.send(http.MethodPut, machines+"/x"); got.Code != http.StatusForbidden {
					t.Errorf("got %d %s, want 403", got.Code, got.Body)
				}
			})
		}
	}
	outside := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{Name: "x"})
	if err := admit(outside, admission.Update, nil); !apierrors.IsForbidden(err) {
		t.Errorf("outside of every request: got %v", err)
	}
}

// TestRequestsAreAuthorizedOnce leaves the filter of authorization out, and has it twice.
func TestRequestsAreAuthorizedOnce(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]int{0: 403, 1: 200, 2: 403} {
		r := newRig(t, rigConfig{chain: chainOf(t, always(holds)), storages: storages, authorizations: &times, behind: admitting(admission.Create)})
		if got := r.send(http.MethodPost, machines); got.Code != want {
			t.Errorf("authorized %d times: got %d %s, want %d", times, got.Code, got.Body, want)
		}
	}
}

// TestLogsHaveNothingOfObjects lets an evaluation panic with what it has seen.
func TestLogsHaveNothingOfObjects(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged), textlogger.Verbosity(10)))
	decision := allowIf("x", func(data authorizer.ConditionsData) authorization.Outcome {
		panic(data.GetObject().(*demov1alpha1.VirtualMachine).Spec.Image)
	})
	r := newRig(t, rigConfig{chain: chainOf(t, always(decision)), storages: storages, behind: func(ctx context.Context, _ *rig) error {
		return admit(klog.NewContext(ctx, logger), admission.Create, func(to *target) {
			to.object = &demo.VirtualMachine{Spec: demo.VirtualMachineSpec{Image: "canary"}}
		})
	}})
	got := r.send(http.MethodPost, machines)
	if got.Code != http.StatusInternalServerError || !strings.Contains(logged.String(), "panicked") {
		t.Errorf("got %d %s, log %s", got.Code, got.Body, &logged)
	}
	for place, text := range map[string]string{"log": logged.String(), "answer": got.Body.String(), "audit": fmt.Sprint(r.annotations())} {
		if strings.Contains(text, "canary") {
			t.Errorf("the %s has something of the object: %s", place, text)
		}
	}
}

// mixedContext is one request with the values of another that it does not hide.
type mixedContext struct {
	context.Context
	other context.Context
}

func (c mixedContext) Value(key any) any {
	// The slot has the only key of the package under test.
	if strings.Contains(typeName(key), "enforcement.slotKey") {
		return c.other.Value(key)
	}
	return c.Context.Value(key)
}

// contextWithout is a request without its slot.
type contextWithout struct{ context.Context }

func (c contextWithout) Value(key any) any {
	if strings.Contains(typeName(key), "enforcement.slotKey") {
		return nil
	}
	return c.Context.Value(key)
}

// TestCompoundCreate asks for the create that an update turns into, and for others.
func TestCompoundCreate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		method, path string
		change       func(*authorizer.AttributesRecord)
		create       authorization.Decision
		wantAsked    bool // the handler was allowed to go on
		wantCode     int
	}{
		{"allowed", http.MethodPut, "/x", nil, allow, true, 200},
		{"holds", http.MethodPut, "/x", nil, holds, true, 200},
		{"holds, by a patch", http.MethodPatch, "/x", nil, holds, true, 200},
		{"does not hold", http.MethodPut, "/x", nil, fails, true, 403},
		{"does not hold, by a patch", http.MethodPatch, "/x", nil, fails, true, 403},
		{"denied", http.MethodPut, "/x", nil, authorization.Deny("", nil), false, 403},
		{"can only be denied", http.MethodPut, "/x", nil, denies, false, 403},
		{"no opinion", http.MethodPut, "/x", nil, authorization.NoOpinion("", nil), false, 403},
		{"another name", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.Name = "y" }, holds, false, 403},
		{"no name", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.Name = "" }, holds, false, 403},
		{"another namespace", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.Namespace = "m" }, holds, false, 403},
		{"another user", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "bob"} }, holds, false, 403},
		{"a subresource", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.Subresource = "status" }, holds, false, 403},
		{"another version", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.APIVersion = "v1" }, holds, false, 403},
		{"every version", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }, holds, false, 403},
		{"another verb", http.MethodPut, "/x", func(a *authorizer.AttributesRecord) { a.Verb = "delete" }, holds, false, 403},
		{"not under an update", http.MethodDelete, "/x", nil, holds, false, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked := false
			r := newRig(t, rigConfig{
				chain: chainOf(t, decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
					if asked || a.GetVerb() == "create" {
						return tc.create
					}
					if a.GetVerb() == "delete" && tc.change != nil {
						return holds // what a handler asks besides
					}
					return allow
				})),
				storages: storages,
				behind: func(ctx context.Context, r *rig) error {
					check := attributesOf(ctx, "create")
					if tc.change != nil {
						tc.change(&check)
					}
					if d, _, _ := r.handlers.Authorize(ctx, check); d != authorizer.DecisionAllow {
						return apierrors.NewForbidden(schema.GroupResource{}, "", errTest)
					}
					// A handler that attempts the update again asks again.
					if d, _, _ := r.handlers.Authorize(ctx, check); d != authorizer.DecisionAllow {
						t.Error("asked again: got another answer")
					}
					asked = true
					return admit(ctx, admission.Create, nil)
				},
			})
			if got := r.send(tc.method, machines+tc.path); got.Code != tc.wantCode || asked != tc.wantAsked {
				t.Errorf("got %d %s, handler went on %v, want %d, %v", got.Code, got.Body, asked, tc.wantCode, tc.wantAsked)
			}
		})
	}
}

// TestFoldingAuthorizerIsNotRecorded is a plugin that asks for the very create that an
// update could turn into: it gets a folded answer, and the request is none the wiser.
func TestFoldingAuthorizerIsNotRecorded(t *testing.T) {
	t.Parallel()
	chain := chainOf(t, byVerb(map[string]authorization.Decision{"update": allow, "create": holds}))
	r := newRig(t, rigConfig{chain: chain, storages: storages, behind: func(ctx context.Context, _ *rig) error {
		if d, _, _ := chain.Authorize(ctx, attributesOf(ctx, "create")); d == authorizer.DecisionAllow {
			t.Error("a plugin was allowed on conditions")
		}
		return admit(ctx, admission.Create, nil)
	}})
	if got := r.send(http.MethodPut, machines+"/x"); got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "the verb create was not authorized") {
		t.Errorf("got %d %s, want 403: the create was not authorized", got.Code, got.Body)
	}
}

// TestSecondaryChecksOfHandlersAreFolded asks for the request itself, and other things,
// with the authorizer of the handlers.
func TestSecondaryChecksOfHandlersAreFolded(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"update", "delete", "escalate", "get"} {
		r := newRig(t, rigConfig{chain: chainOf(t, always(holds)), storages: storages, behind: func(ctx context.Context, r *rig) error {
			if d, _, _ := r.handlers.Authorize(ctx, attributesOf(ctx, verb)); d == authorizer.DecisionAllow {
				t.Errorf("%s was allowed on conditions", verb)
			}
			return admit(ctx, admission.Update, nil)
		}})
		if got := r.send(http.MethodPut, machines+"/x"); got.Code != 200 {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
	}
	r := newRig(t, rigConfig{chain: chainOf(t, always(allow)), storages: storages})
	if d, _, _ := r.handlers.Authorize(t.Context(), about("create", "virtualmachines")); d != authorizer.DecisionDeny {
		t.Errorf("outside of every request: got %v", d)
	}
}

// TestUnsafeDelete follows what the handler does before it deletes what it cannot read,
// without admission.
func TestUnsafeDelete(t *testing.T) {
	t.Parallel()
	const unsafe = "unsafe-delete-ignore-read-errors"
	for _, tc := range []struct {
		name         string
		method, path string
		remove, verb authorization.Decision
		change       func(*authorizer.AttributesRecord)
		want         authorizer.Decision
	}{
		{"both unconditional", http.MethodDelete, "/x", allow, allow, nil, authorizer.DecisionAllow},
		{"delete on conditions", http.MethodDelete, "/x", holds, allow, nil, authorizer.DecisionDeny},
		{"its own verb denied", http.MethodDelete, "/x", allow, authorization.Deny("", nil), nil, authorizer.DecisionDeny},
		{"its own verb on conditions", http.MethodDelete, "/x", allow, holds, nil, authorizer.DecisionNoOpinion},
		{"another object", http.MethodDelete, "/x", allow, allow, func(a *authorizer.AttributesRecord) { a.Name = "y" }, authorizer.DecisionDeny},
		{"another user", http.MethodDelete, "/x", allow, allow, func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "bob"} }, authorizer.DecisionDeny},
		{"under an update", http.MethodPut, "/x", allow, allow, nil, authorizer.DecisionDeny},
		{"under a deletecollection", http.MethodDelete, "", allow, allow, nil, authorizer.DecisionDeny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got authorizer.Decision
			r := newRig(t, rigConfig{
				chain: chainOf(t, decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
					if a.GetVerb() == unsafe {
						return tc.verb
					}
					return tc.remove
				})),
				storages: storages,
				behind: func(ctx context.Context, r *rig) error {
					check := attributesOf(ctx, unsafe)
					if tc.change != nil {
						tc.change(&check)
					}
					got, _, _ = r.handlers.Authorize(ctx, check)
					return errTest // conditions are not evaluated, and nothing succeeds
				},
			})
			r.send(tc.method, machines+tc.path)
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestImpersonation lets alice be bob on conditions, or do what bob may do: nothing that is
// decided about alice may count for bob's request.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	for _, constrained := range []bool{false, true} {
		for _, tc := range []struct {
			name        string
			impersonate authorization.Decision
			bob         authorization.Decision
			path        string
			wantCode    int
		}{
			{"both", allow, allow, "/x/exec", 200},
			{"bob on conditions", allow, holds, "/x/exec", 200},
			{"bob on conditions that do not hold", allow, fails, "/x/exec", 403},
			{"bob may not", allow, authorization.Deny("", nil), "/x/exec", 403},
			{"to impersonate on conditions", holds, allow, "/x/exec", 403},
			{"to impersonate on conditions, a machine", holds, allow, "/x", 403},
			{"to impersonate only if not denied", denies, allow, "/x/exec", 403},
		} {
			t.Run(map[bool]string{true: "constrained/", false: "legacy/"}[constrained]+tc.name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigConfig{
					chain: chainOf(t, decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
						switch {
						case strings.HasPrefix(a.GetVerb(), "impersonate"):
							return tc.impersonate
						case a.GetUser().GetName() == "bob":
							return tc.bob
						}
						return allow // alice herself may do everything
					})),
					storages: storages, constrained: constrained,
					behind: func(ctx context.Context, _ *rig) error {
						return admit(ctx, admission.Connect, func(to *target) { to.object = nil })
					},
				})
				method := http.MethodPost
				if tc.path == "/x" {
					method = http.MethodPut
				}
				if got := r.send(method, machines+tc.path, "Impersonate-User", "bob"); got.Code != tc.wantCode {
					t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.wantCode)
				}
			})
		}
	}
}

// TestConnect needs create as well, whatever the method, and enforces both decisions.
func TestConnect(t *testing.T) {
	t.Parallel()
	none := authorization.NoOpinion("", nil)
	for _, tc := range []struct {
		name, method, path string
		verb, create       authorization.Decision
		with, without      int // the answer with and without AuthorizeConnectWithCreate
	}{
		{"both", http.MethodGet, "exec", allow, allow, 200, 200},
		{"no create", http.MethodGet, "exec", allow, none, 403, 200},
		{"create on conditions", http.MethodGet, "exec", allow, holds, 200, 200},
		{"create on conditions that do not hold", http.MethodGet, "exec", allow, fails, 403, 200},
		{"create that can only be denied", http.MethodGet, "exec", allow, denies, 403, 200},
		{"get on conditions", http.MethodGet, "exec", holds, allow, 200, 200},
		{"get on conditions that do not hold", http.MethodGet, "exec", fails, allow, 403, 403},
		{"both on conditions", http.MethodGet, "exec", holds, holds, 200, 200},
		{"only create", http.MethodGet, "exec", none, allow, 403, 403},
		{"create itself", http.MethodPost, "exec", none, holds, 200, 200},
		{"create itself, which does not hold", http.MethodPost, "exec", allow, fails, 403, 403},
		{"a method without a verb", http.MethodOptions, "proxy", allow, none, 403, 200},
		{"a method without a verb, and create", http.MethodOptions, "proxy", allow, allow, 200, 200},
		{"a method without a verb on conditions", http.MethodOptions, "proxy", holds, allow, 403, 403},
		{"a method that does not connect, on conditions", http.MethodPut, "exec", holds, allow, 403, 403},
		{"delete", http.MethodDelete, "proxy", allow, none, 403, 200},
		{"patch", http.MethodPatch, "proxy", holds, fails, 403, 200},
		{"head", http.MethodHead, "proxy", holds, holds, 200, 200},
		{"no connection", http.MethodGet, "status", allow, none, 200, 200},
	} {
		for _, with := range []bool{true, false} {
			t.Run(tc.name+map[bool]string{true: "/with create", false: "/without"}[with], func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigConfig{
					chain: chainOf(t, decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
						if a.GetVerb() == "create" {
							return tc.create
						}
						return tc.verb
					})),
					storages: storages,
					adjust:   func(c *enforcement.Config) { c.ConnectWithCreate = with },
					behind: func(ctx context.Context, _ *rig) error {
						return admit(ctx, admission.Connect, func(to *target) { to.object = nil })
					},
				})
				want := tc.without
				if with {
					want = tc.with
				}
				if got := r.send(tc.method, machines+"/x/"+tc.path); got.Code != want {
					t.Errorf("got %d %s, want %d", got.Code, got.Body, want)
				}
			})
		}
	}
}

// TestGateOff lets nothing pass on conditions, and changes nothing else.
func TestGateOff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		decision        authorization.Decision
		wantOn, wantOff int
	}{
		"allow": {allow, 200, 200}, "deny": {authorization.Deny("", nil), 403, 403}, "no opinion": {authorization.NoOpinion("", nil), 403, 403},
		"holds": {holds, 200, 403}, "fails": {fails, 403, 403}, "denies": {denies, 403, 403},
	} {
		for _, on := range []bool{true, false} {
			r := newRig(t, rigConfig{
				chain: chainOf(t, always(tc.decision)), storages: storages, behind: admitting(admission.Create),
				adjust: func(c *enforcement.Config) { c.Conditional = on },
			})
			want := tc.wantOff
			if on {
				want = tc.wantOn
			}
			if got := r.send(http.MethodPost, machines); got.Code != want {
				t.Errorf("%s, gate %v: got %d %s, want %d", name, on, got.Code, got.Body, want)
			}
		}
	}
}

// TestUncoveredRequestsPassOnNothing sends conditions where nobody would evaluate them.
func TestUncoveredRequestsPassOnNothing(t *testing.T) {
	t.Parallel()
	for _, request := range [][2]string{
		{http.MethodGet, machines + "/x"}, {http.MethodGet, machines}, {http.MethodGet, machines + "?watch=true"}, {http.MethodHead, machines + "/x"},
		{http.MethodPost, machines + "/x/evict"}, {http.MethodPost, machines + "/x/bare"}, {http.MethodPut, machines + "/x/embeds"},
		{http.MethodPost, machines + "/x/unserved"}, {http.MethodPost, "/apis/demo.proviso.dev/v1/namespaces/n/virtualmachines"},
		{http.MethodPost, "/apis/apps/v1/namespaces/n/deployments"}, {http.MethodGet, "/metrics"}, {http.MethodPost, "/healthz"},
		{http.MethodPatch, machines + "/x/status"}, {http.MethodOptions, machines + "/x"}, {"BREW", machines + "/x"},
	} {
		reached := false
		r := newRig(t, rigConfig{chain: chainOf(t, always(holds)), storages: storages, behind: func(context.Context, *rig) error {
			reached = true
			return nil
		}})
		if got := r.send(request[0], request[1]); got.Code != http.StatusForbidden || reached {
			t.Errorf("%s: got %d, reached the handler %v", request, got.Code, reached)
		}
	}
}

// TestNeverEvaluated is a storage that says that it runs admission, and does not. The
// metric must say so, and nothing else.
func TestNeverEvaluated(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	count := func() float64 {
		value, err := testutil.GetCounterMetricValue(enforcement.NeverEvaluated)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	skip := func(context.Context, *rig) error { return nil }
	for _, tc := range []struct {
		name         string
		decision     authorization.Decision
		method, path string
		behind       func(context.Context, *rig) error
		want         float64
	}{
		{"skips", holds, http.MethodPost, "", skip, 1},
		{"skips, and fails", holds, http.MethodPost, "", func(context.Context, *rig) error { return errTest }, 0},
		{"skips what is unconditional", allow, http.MethodPost, "", skip, 0},
		{"does not skip", holds, http.MethodPost, "", admitting(admission.Create), 0},
		{"an empty collection", holds, http.MethodDelete, "", skip, 0},
		{"skips both decisions of a connection", holds, http.MethodGet, "/x/exec", skip, 2},
		{"skips the create of an update", holds, http.MethodPut, "/x", func(ctx context.Context, r *rig) error {
			_, _, err := r.handlers.Authorize(ctx, attributesOf(ctx, "create"))
			return errors.Join(err, admit(ctx, admission.Update, nil))
		}, 1},
		{"nobody looks", holds, http.MethodGet, "/x", skip, 0},
	} {
		before := count()
		newRig(t, rigConfig{chain: chainOf(t, always(tc.decision)), storages: storages, behind: tc.behind}).send(tc.method, machines+tc.path)
		if got := count() - before; got != tc.want {
			t.Errorf("%s: counted %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestSnapshotOfTheDecision moves a later authorizer while admission is on its way.
func TestSnapshotOfTheDecision(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after authorization.Decision
		wantCode      int
	}{
		"tightened": {allow, authorization.Deny("", nil), 200},
		"loosened":  {authorization.Deny("", nil), allow, 403},
	} {
		for _, compound := range []bool{false, true} {
			pinned := &pinning{now: tc.before}
			r := newRig(t, rigConfig{
				chain: chainOf(t, decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
					if compound && a.GetVerb() != "create" {
						return allow
					}
					return fails
				}), pinned),
				storages: storages,
				behind: func(ctx context.Context, r *rig) error {
					pinned.now = tc.after
					if !compound {
						return admit(ctx, admission.Update, nil)
					}
					if d, reason, _ := r.handlers.Authorize(ctx, attributesOf(ctx, "create")); d != authorizer.DecisionAllow {
						return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(reason))
					}
					return admit(ctx, admission.Create, nil)
				},
			})
			if got := r.send(http.MethodPut, machines+"/x"); got.Code != tc.wantCode {
				t.Errorf("%s, compound %v: got %d %s, want %d", name, compound, got.Code, got.Body, tc.wantCode)
			}
		}
	}
}

// pinning decides from what it was pinned to.
type pinning struct {
	decide
	now authorization.Decision
}

type pinKey struct{}

func (p *pinning) Pin(ctx context.Context) context.Context {
	if ctx.Value(pinKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, pinKey{}, p.now)
}

func (p *pinning) ConditionsAwareAuthorize(ctx context.Context, _ authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorization.ToUpstream(ctx.Value(pinKey{}).(authorization.Decision))
}

func (p *pinning) Revision(context.Context) string { return "7" }

// TestContextEnds evaluates in a context that has ended.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]authorization.Decision{"Allow": holds, "Deny": conditional(authorization.EffectDeny, "x", outcome(authorization.False()))} {
		evaluated := false
		r := newRig(t, rigConfig{chain: chainOf(t, always(d), always(allow)), storages: storages, behind: func(ctx context.Context, _ *rig) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			evaluated = true
			return admit(ctx, admission.Create, nil)
		}})
		if got := r.send(http.MethodPost, machines); got.Code != http.StatusForbidden || !evaluated || !strings.Contains(got.Body.String(), "context canceled") {
			t.Errorf("%s: got %d %s, want 403", name, got.Code, got.Body)
		}
	}
}

func TestApplyToNeedsThePlugin(t *testing.T) {
	t.Parallel()
	for _, conditional := range []bool{true, false} {
		enforcer, err := enforcement.New(enforcement.Config{Chain: chainOf(t), Conditional: conditional})
		if err != nil {
			t.Fatal(err)
		}
		if err := enforcer.ApplyTo(&genericapiserver.Config{}); errors.Is(err, enforcement.ErrNotEnforced) != conditional {
			t.Errorf("conditional %v: got %v", conditional, err)
		}
	}
	if _, err := enforcement.New(enforcement.Config{}); err == nil {
		t.Error("an enforcer without a chain was made")
	}
}
