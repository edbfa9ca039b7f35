/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/testutil"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

var compiler = sync.OnceValues(cel.NewCompiler)

// knowingCEL lets a server evaluate conditions in CEL.
func knowingCEL(tb testing.TB) func(*enforcement.Config) {
	tb.Helper()
	conditions, err := compiler()
	if err != nil {
		tb.Fatal(err)
	}
	return func(c *enforcement.Config) { c.Conditions = conditions }
}

// denyIf is a set that denies on a condition in CEL.
func denyIf(texts ...string) []authorization.Set {
	var sets []authorization.Set
	for i, text := range texts {
		sets = append(sets, authorization.Set{AuthorizerName: fmt.Sprint(i), Decision: authorization.Conditions(authorization.Condition{
			ID: "example.com/denied", Effect: authorization.EffectDeny, Type: authorization.ConditionTypeCEL, Text: text, Description: "description of the residual",
		})})
	}
	return sets
}

func machine(name string) runtime.Object {
	return &demo.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

const badOnes = `[object, oldObject].exists(o, o != null && o.metadata.name == "bad")`

// TestEnforceResidual sends requests that are restricted through the filters to admission.
func TestEnforceResidual(t *testing.T) {
	t.Parallel()
	deny := []authorization.Set{{Decision: authorization.Deny("cannot be read", nil)}}
	// Handlers turn an update into a create, and delete the objects of a collection one by one.
	upsert := func(ctx context.Context, r *rig, object string) error {
		if d, _, _ := r.handlers.Authorize(ctx, attributesOf(ctx, "create")); d != authorizer.DecisionAllow {
			return apierrors.NewForbidden(schema.GroupResource{}, "", errTest)
		}
		return admit(ctx, admission.Create, func(to *target) { to.object = machine(object) })
	}
	writes := func(operation admission.Operation) func(context.Context, *rig, string) error {
		return func(ctx context.Context, _ *rig, object string) error {
			return admit(ctx, operation, func(to *target) {
				switch operation {
				case admission.Delete:
					to.object, to.old = nil, machine(object)
				case admission.Update:
					to.object, to.old = machine("x"), machine(object)
				case admission.Connect:
					to.object = nil
				default:
					to.object = machine(object)
				}
			})
		}
	}
	collection := func(ctx context.Context, r *rig, object string) error {
		for _, name := range []string{"x", "y", object, "z"} {
			if err := writes(admission.Delete)(ctx, r, name); err != nil {
				return err
			}
		}
		return nil
	}
	nothing := func(context.Context, *rig, string) error { return nil }
	for _, tc := range []struct {
		name         string
		method, path string
		by           []authorization.Set
		chain        authorization.Decision
		behind       func(ctx context.Context, r *rig, object string) error
		adjust       func(*enforcement.Config)
		// good and bad are the answers for such an object.
		good, bad int
	}{
		{name: "not restricted", method: http.MethodPost, chain: allow, behind: writes(admission.Create), good: 200, bad: 200},
		{name: "not restricted get", method: http.MethodGet, path: "/x", chain: allow, behind: nothing, good: 200, bad: 200},

		{name: "create", method: http.MethodPost, by: denyIf(badOnes), chain: allow, behind: writes(admission.Create), good: 200, bad: 403},
		{name: "create on conditions", method: http.MethodPost, by: denyIf(badOnes), chain: holds, behind: writes(admission.Create), good: 200, bad: 403},
		{name: "create on conditions that do not hold", method: http.MethodPost, by: denyIf(badOnes), chain: fails, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "create that nobody allows", method: http.MethodPost, by: denyIf(badOnes), chain: authorization.NoOpinion("", nil), behind: writes(admission.Create), good: 403, bad: 403},
		{name: "create that is denied", method: http.MethodPost, by: denyIf(badOnes), chain: authorization.Deny("", nil), behind: writes(admission.Create), good: 403, bad: 403},
		{name: "update", method: http.MethodPut, path: "/x", by: denyIf(badOnes), chain: allow, behind: writes(admission.Update), good: 200, bad: 403},
		{name: "patch", method: http.MethodPatch, path: "/x", by: denyIf(badOnes), chain: allow, behind: writes(admission.Update), good: 200, bad: 403},
		{name: "update that creates", method: http.MethodPut, path: "/x", by: denyIf(badOnes), chain: allow, behind: upsert, good: 200, bad: 403},
		{name: "update that creates on conditions", method: http.MethodPut, path: "/x", by: denyIf(badOnes), chain: holds, behind: upsert, good: 200, bad: 403},
		{name: "patch that creates", method: http.MethodPatch, path: "/x", by: denyIf(badOnes), chain: allow, behind: upsert, good: 200, bad: 403},
		{name: "delete", method: http.MethodDelete, path: "/x", by: denyIf(badOnes), chain: allow, behind: writes(admission.Delete), good: 200, bad: 403},
		{name: "deletecollection", method: http.MethodDelete, by: denyIf(badOnes), chain: allow, behind: collection, good: 200, bad: 403},
		{name: "status", method: http.MethodPut, path: "/x/embeds", by: denyIf(badOnes), chain: allow, behind: nothing, good: 403, bad: 403},
		{name: "connect", method: http.MethodGet, path: "/x/exec", by: denyIf(`operation != "CONNECT"`), chain: allow, behind: writes(admission.Connect), good: 200, bad: 200},
		{name: "connect, denied", method: http.MethodGet, path: "/x/exec", by: denyIf(`operation == "CONNECT"`), chain: allow, behind: writes(admission.Connect), good: 403, bad: 403},
		{name: "a method without a verb", method: http.MethodOptions, path: "/x/proxy", by: denyIf("false"), chain: allow, behind: writes(admission.Connect), good: 403, bad: 403},

		// Where nobody sees the object, whoever is restricted may do nothing.
		{name: "get", method: http.MethodGet, path: "/x", by: denyIf("false"), chain: allow, behind: nothing, good: 403, bad: 403},
		{name: "list", method: http.MethodGet, by: denyIf("false"), chain: allow, behind: nothing, good: 403, bad: 403},
		{name: "watch", method: http.MethodGet, path: "?watch=true", by: denyIf("false"), chain: allow, behind: nothing, good: 403, bad: 403},
		{name: "another group", method: http.MethodPost, path: "/../../../../../apps/v1/deployments", by: denyIf("false"), chain: allow, behind: nothing, good: 403, bad: 403},
		{name: "the gate is off", method: http.MethodPost, by: denyIf("false"), chain: allow, behind: writes(admission.Create), adjust: func(c *enforcement.Config) { c.Conditional = false }, good: 403, bad: 403},
		{name: "the gate is off, not restricted", method: http.MethodPost, chain: allow, behind: writes(admission.Create), adjust: func(c *enforcement.Config) { c.Conditional = false }, good: 200, bad: 200},

		// Several, and those that fail.
		{name: "the second denies", method: http.MethodPost, by: denyIf("false", badOnes, "false"), chain: allow, behind: writes(admission.Create), good: 200, bad: 403},
		{name: "as many as there may be", method: http.MethodPost, by: denyIf(append(slices.Repeat([]string{"false"}, authorizationapi.MaxConditionSets-1), badOnes)...), chain: allow, behind: writes(admission.Create), good: 200, bad: 403},
		{name: "more than there may be", method: http.MethodPost, by: denyIf(slices.Repeat([]string{"false"}, authorizationapi.MaxConditionSets+1)...), chain: allow, behind: writes(admission.Create), good: 500, bad: 500},
		{name: "fails on the object", method: http.MethodPost, by: denyIf("object.metadata.missing == 1"), chain: allow, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "does not compile", method: http.MethodPost, by: denyIf("&&"), chain: allow, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "reads what there is not", method: http.MethodPost, by: denyIf(`impersonatedUser.username == "x"`), chain: allow, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "of another type", method: http.MethodPost, by: []authorization.Set{{Decision: authorization.Conditions(authorization.Condition{ID: "example.com/x", Effect: authorization.EffectDeny, Type: "example.com/rego", Text: "x"})}}, chain: allow, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "a server that knows no CEL", method: http.MethodPost, by: denyIf("false"), chain: allow, behind: writes(admission.Create), adjust: func(c *enforcement.Config) { c.Conditions = nil }, good: 403, bad: 403},
		{name: "without an opinion", method: http.MethodPost, by: []authorization.Set{{Decision: authorization.NoOpinion("", nil)}}, chain: allow, behind: writes(admission.Create), good: 200, bad: 200},

		// What cannot be read denies whatever the request is.
		{name: "denied create", method: http.MethodPost, by: deny, chain: allow, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "denied get", method: http.MethodGet, path: "/x", by: deny, chain: allow, behind: nothing, good: 403, bad: 403},
		{name: "denied behind conditions", method: http.MethodPost, by: append(denyIf("false"), deny...), chain: allow, behind: writes(admission.Create), good: 403, bad: 403},
		{name: "the zero value", method: http.MethodPost, by: []authorization.Set{{}}, chain: allow, behind: writes(admission.Create), good: 403, bad: 403},

		// Nothing that could allow restricts.
		{name: "an Allow", method: http.MethodPost, by: []authorization.Set{{Decision: authorization.Allow("", nil)}}, chain: allow, behind: writes(admission.Create), good: 500, bad: 500},
		{name: "an Allow on conditions behind a denial", method: http.MethodPost, by: append(denyIf("false"), authorization.Set{Decision: holds}), chain: allow, behind: writes(admission.Create), good: 500, bad: 500},
		{name: "a nested Allow", method: http.MethodPost, by: []authorization.Set{{Decision: authorization.Chained(denyIf("false")[0], authorization.Set{Decision: authorization.Allow("", nil)})}}, chain: allow, behind: writes(admission.Create), good: 500, bad: 500},
	} {
		for object, want := range map[string]int{"good": tc.good, "bad": tc.bad} {
			t.Run(tc.name+"/"+object, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigConfig{
					chain: chainOf(t, always(tc.chain)), storages: storages, residual: tc.by,
					behind: func(ctx context.Context, r *rig) error { return tc.behind(ctx, r, object) },
					adjust: func(c *enforcement.Config) {
						knowingCEL(t)(c)
						if tc.adjust != nil {
							tc.adjust(c)
						}
					},
				})
				if got := r.send(tc.method, machines+tc.path); got.Code != want {
					t.Errorf("got %d %s, want %d", got.Code, got.Body, want)
				} else if want == 403 && tc.good == 200 && !strings.Contains(got.Body.String(), "description of the residual") {
					t.Errorf("the refusal does not say why: %s", got.Body)
				}
			})
		}
	}
}

// TestResidualOfPrivilegedGroups: those who need no permission are restricted, too.
func TestResidualOfPrivilegedGroups(t *testing.T) {
	t.Parallel()
	privileged := decide(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
		if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) || a.GetPath() == "/healthz" {
			return allow
		}
		return authorization.NoOpinion("", nil)
	})
	for _, tc := range []struct {
		name, method, path string
		wantCode           int
	}{
		{"create", http.MethodPost, machines, 403}, {"path", http.MethodGet, "/healthz", 403}, {"get", http.MethodGet, machines + "/x", 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for restricted, want := range map[bool]int{true: tc.wantCode, false: 200} {
				config := rigConfig{chain: chainOf(t, privileged, always(allow)), storages: storages, adjust: knowingCEL(t), behind: func(ctx context.Context, _ *rig) error {
					if tc.method == http.MethodGet {
						return nil
					}
					return admit(ctx, admission.Create, nil)
				}}
				if restricted {
					config.residual = denyIf("true")
				}
				if got := newRig(t, config).send(tc.method, tc.path, "Impersonate-User", "root", "Impersonate-Group", user.SystemPrivilegedGroup); got.Code != want {
					t.Errorf("restricted %v: got %d %s, want %d", restricted, got.Code, got.Body, want)
				}
			}
		})
	}
}

// TestReservedExtra: where nobody has read what the reserved extra says, whoever has it may do
// nothing, whatever its case, and nobody may leave it behind by becoming another user.
func TestReservedExtra(t *testing.T) {
	t.Parallel()
	const reserved, mixed = "authorization.proviso.dev/impersonation-conditions", "Authorization.Proviso.dev/impersonation-Conditions"
	for _, tc := range []struct {
		name     string
		headers  []string
		wantCode int
	}{
		{"another extra", []string{"X-Test-Extra", "k"}, 200},
		{"another extra, impersonating", []string{"X-Test-Extra", "k", "Impersonate-User", "bob"}, 200},
		{"the requester", []string{"X-Test-Extra", reserved}, 403},
		{"the requester, in another case", []string{"X-Test-Extra", mixed}, 403},
		{"the requester, impersonating", []string{"X-Test-Extra", reserved, "Impersonate-User", "bob"}, 403},
		{"the requester, in another case, impersonating", []string{"X-Test-Extra", mixed, "Impersonate-User", "bob"}, 403},
		{"impersonated", []string{"Impersonate-User", "bob", "Impersonate-Extra-" + mixed, "[]"}, 403},
	} {
		for _, constrained := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", tc.name, constrained), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigConfig{chain: chainOf(t, always(allow)), storages: storages, constrained: constrained})
				if got := r.send(http.MethodGet, machines+"/x", tc.headers...); got.Code != tc.wantCode || got.Code == 403 && !strings.Contains(got.Body.String(), "has not accepted it from a trusted front proxy") {
					t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.wantCode)
				}
			})
		}
	}
}

// TestEnforceResidualBeforeAuthorization: a request can be restricted until it is authorized, and not elsewhere.
func TestEnforceResidualBeforeAuthorization(t *testing.T) {
	t.Parallel()
	if err := enforcement.EnforceResidual(t.Context(), denyIf("false")...); err == nil {
		t.Error("something that is no request was restricted")
	}
	var late error
	r := newRig(t, rigConfig{chain: chainOf(t, always(allow)), storages: storages, adjust: knowingCEL(t), behind: func(ctx context.Context, _ *rig) error {
		late = enforcement.EnforceResidual(ctx, denyIf("true")...)
		return admit(ctx, admission.Create, nil)
	}})
	if got := r.send(http.MethodPost, machines); got.Code != 200 || late == nil {
		t.Errorf("got %d, %v: a request was restricted after it was authorized", got.Code, late)
	}

	// What is added in two times is bounded together, and one that is refused adds nothing.
	for second, want := range map[int]bool{authorizationapi.MaxConditionSets - 20: true, authorizationapi.MaxConditionSets - 19: false} {
		var errs []error
		r := newRig(t, rigConfig{chain: chainOf(t, decide(func(ctx context.Context, a authorizer.Attributes) authorization.Decision {
			if a.GetVerb() == "impersonate" {
				errs = append(errs, enforcement.EnforceResidual(ctx, denyIf(slices.Repeat([]string{"false"}, 20)...)...), enforcement.EnforceResidual(ctx, denyIf(slices.Repeat([]string{"false"}, second)...)...),
					enforcement.EnforceResidual(ctx, authorization.Set{Decision: allow}))
				if forwarded := enforcement.ResidualToForward(ctx); want && len(forwarded) != authorizationapi.MaxConditionSets || !want && len(forwarded) != 20 {
					t.Errorf("%d sets restrict the request", len(forwarded))
				}
			}
			return allow
		})), storages: storages, adjust: knowingCEL(t), behind: admitting(admission.Create)})
		if got := r.send(http.MethodPost, machines, "Impersonate-User", "bob"); got.Code != 200 {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
		if len(errs) != 3 || errs[0] != nil || (errs[1] == nil) != want || errs[2] == nil {
			t.Errorf("%d sets after 20: got %v, want %v", second, errs, want)
		}
	}
}

// TestHandlersOfRestrictedRequests: what handlers ask besides is not restricted, but they do not delete an
// object that nobody can read.
func TestHandlersOfRestrictedRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path, verb string
		want               authorizer.Decision
	}{
		{http.MethodPut, "/x", "escalate", authorizer.DecisionAllow},
		{http.MethodPut, "/x", "get", authorizer.DecisionAllow},
		{http.MethodPut, "/x", "create", authorizer.DecisionAllow}, // on the condition, at admission
		{http.MethodDelete, "/x", "unsafe-delete-ignore-read-errors", authorizer.DecisionDeny},
	} {
		var got authorizer.Decision
		r := newRig(t, rigConfig{chain: chainOf(t, always(allow)), storages: storages, adjust: knowingCEL(t), residual: denyIf("true"), behind: func(ctx context.Context, r *rig) error {
			got, _, _ = r.handlers.Authorize(ctx, attributesOf(ctx, tc.verb))
			return admit(ctx, admission.Create, nil)
		}})
		if answer := r.send(tc.method, machines+tc.path); got != tc.want || answer.Code != 403 {
			t.Errorf("%s: got %v, want %v; the answer is %d", tc.verb, got, tc.want, answer.Code)
		}
	}
}

// TestForwardedRequests follows requests that are passed on to another server. The metric says where
// somebody forgot what they carry.
func TestForwardedRequests(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	count := func() float64 {
		value, err := testutil.GetCounterMetricValue(enforcement.NeverEvaluated)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := enforcement.ResidualToForward(t.Context()); got != nil {
		t.Errorf("outside of every request: got %v", got)
	}
	took := func(want int) func(context.Context, *rig) error {
		return func(ctx context.Context, _ *rig) error {
			if got := enforcement.ResidualToForward(ctx); len(got) != want {
				t.Errorf("carries %d sets, want %d", len(got), want)
			}
			return nil
		}
	}
	forgot := func(context.Context, *rig) error { return nil }
	isGet := func(a authorizer.Attributes) bool { return a.GetVerb() == "get" }
	isCreate := func(a authorizer.Attributes) bool { return a.GetVerb() == "create" }
	isAnything := func(authorizer.Attributes) bool { return true }
	two := denyIf("true", "true")
	for _, tc := range []struct {
		name         string
		forwards     func(authorizer.Attributes) bool
		by           []authorization.Set
		chain        authorization.Decision
		method, path string
		behind       func(context.Context, *rig) error
		wantCode     int
		wantCounted  float64
	}{
		{"taken", isGet, two, allow, http.MethodGet, "/x", took(2), 200, 0},
		{"forgotten", isGet, two, allow, http.MethodGet, "/x", forgot, 200, 1},
		{"forgotten by a request that fails", isGet, two, allow, http.MethodGet, "/x", func(context.Context, *rig) error { return errTest }, 500, 0},
		{"nothing to be taken", isGet, nil, allow, http.MethodGet, "/x", took(0), 200, 0},
		{"nothing to be forgotten", isGet, nil, allow, http.MethodGet, "/x", forgot, 200, 0},
		{"not allowed", isGet, two, authorization.NoOpinion("", nil), http.MethodGet, "/x", took(2), 403, 0},
		{"not passed on", isGet, two, allow, http.MethodDelete, "/x", took(2), 200, 1}, // nobody evaluates it either
		{"not passed on, and evaluated", isGet, two, allow, http.MethodPost, "", admitting(admission.Create), 403, 0},
		{"passed on, and not evaluated here", isAnything, two, holds, http.MethodPost, "", func(ctx context.Context, r *rig) error {
			_ = took(2)(ctx, r)
			return admit(ctx, admission.Create, nil)
		}, 200, 0},
		{"nobody passes anything on", nil, two, allow, http.MethodGet, "/x", forgot, 403, 0},
		{"a connection, with the create that it needs", isGet, two, allow, http.MethodGet, "/x/exec", func(ctx context.Context, r *rig) error {
			_ = took(2)(ctx, r)
			return admit(ctx, admission.Connect, func(to *target) { to.object = nil })
		}, 200, 0},
		{"a connection, of which only the create would be passed on", isCreate, two, allow, http.MethodGet, "/x/exec", func(ctx context.Context, r *rig) error {
			_ = took(2)(ctx, r)
			return admit(ctx, admission.Connect, func(to *target) { to.object = nil })
		}, 403, 0},
		{"an update, of which only the create would be passed on", isCreate, denyIf(`operation == "CREATE"`), allow, http.MethodPut, "/x", func(ctx context.Context, r *rig) error {
			if d, _, _ := r.handlers.Authorize(ctx, attributesOf(ctx, "create")); d != authorizer.DecisionAllow {
				return errTest
			}
			return admit(ctx, admission.Create, nil)
		}, 403, 0},
	} {
		before := count()
		r := newRig(t, rigConfig{chain: chainOf(t, always(tc.chain)), storages: storages, adjust: knowingCEL(t), residual: tc.by, behind: tc.behind})
		r.enforcer.SetForwards(tc.forwards)
		if got := r.send(tc.method, machines+tc.path); got.Code != tc.wantCode {
			t.Errorf("%s: got %d %s, want %d", tc.name, got.Code, got.Body, tc.wantCode)
		}
		if got := count() - before; got != tc.wantCounted {
			t.Errorf("%s: counted %v, want %v", tc.name, got, tc.wantCounted)
		}
	}
}

// TestResidualToForwardIsACopy: whoever passes a request on cannot take away what restricts it.
func TestResidualToForwardIsACopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{chain: chainOf(t, always(allow)), storages: storages, adjust: knowingCEL(t), residual: denyIf("true"), behind: func(ctx context.Context, _ *rig) error {
		enforcement.ResidualToForward(ctx)[0] = authorization.Set{Decision: allow}
		if enforcement.ResidualToForward(ctx)[0].Decision.IsAllow() {
			t.Error("what restricts the request was changed")
		}
		return admit(ctx, admission.Create, nil)
	}})
	if got := r.send(http.MethodPost, machines); got.Code != 403 {
		t.Errorf("got %d", got.Code)
	}
}
