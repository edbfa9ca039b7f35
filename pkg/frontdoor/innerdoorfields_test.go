/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/place"
)

func newListedFieldsDecider(tb testing.TB, source *engine.Source, rbac authorizer.UnconditionalAuthorizer) *frontdoor.Decider {
	tb.Helper()
	door, err := frontdoor.New(frontdoor.Config{
		Policies: frontdoor.Policies{Chain: chainOf(tb, source), Source: source}, Places: places{enforces: enforcesMachines, inner: newInnerDoor()}.table(), KubeAPIServer: rbac,
		Fields: &frontdoor.Fields{Check: granular.GranularCheck, KubeAPIServer: rbac},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return door
}

// TestFieldsOfListedResources asks who passes because of permission on fields that the inner door checks, and what kube-apiserver is
// asked for that. alice may get the objects, and has the verb granular, unless a row says otherwise.
func TestFieldsOfListedResources(t *testing.T) {
	t.Parallel()
	const (
		granularOf = "granular persistentvolumeclaims/ demo:"
		passes     = "allowed if the user has permission on every field that changes, which Proviso checks at admission"
		but        = "the permission of the user on fields does not apply to this request: "
		unreadable = but + "the answer may show objects, which the user may not read"
		restricted = but + "a policy denies, or could deny, another request that looks the same at admission"
	)
	read := "get persistentvolumeclaims/ demo:c"
	yes := []string{granularOf, granularOf + "c", "granular persistentvolumeclaims/status demo:c", "granular namespaces/ blue:blue", "granular pods/ demo:c", read, "get namespaces/ blue:blue"}
	blue := func(a *authorizer.AttributesRecord) {
		a.Resource, a.Namespace, a.Name = "namespaces", "blue", "blue"
	}
	for _, tc := range []struct {
		name       string
		policies   map[string]policy
		request    authorizer.AttributesRecord
		allow      []string
		err        error
		client     *place.Client
		want       string
		wantReason string
		wantAsked  []string
	}{
		{name: "patch", request: claim("patch"), want: "Allow", wantReason: passes, wantAsked: []string{granularOf + "c", read}},
		{name: "update", request: claim("update"), want: "Allow", wantReason: passes, wantAsked: []string{granularOf + "c", read}},
		{name: "create, whose answer shows what was sent", request: claim("create"), want: "Allow", wantReason: passes, wantAsked: []string{granularOf}},
		{name: "patch that creates", request: claim("create", named("c")), want: "Allow", wantAsked: []string{granularOf + "c"}},
		{name: "status", request: claim("patch", of("persistentvolumeclaims/status")), want: "Allow", wantAsked: []string{"granular persistentvolumeclaims/status demo:c", read}},
		{name: "a namespace", request: claim("patch", blue), want: "Allow", wantAsked: []string{"granular namespaces/ blue:blue", "get namespaces/ blue:blue"}},

		{name: "without granular", request: claim("patch"), allow: []string{read}, want: "NoOpinion", wantAsked: []string{granularOf + "c"}},
		{name: "an error that says Allow", request: claim("patch"), allow: yes, err: errors.New("x"), want: "NoOpinion", wantAsked: []string{granularOf + "c"}},
		{name: "without get", request: claim("patch"), allow: []string{granularOf + "c"}, want: "NoOpinion", wantReason: unreadable, wantAsked: []string{granularOf + "c", read}},
		{name: "with get of the status only", request: claim("patch", of("persistentvolumeclaims/status")), allow: []string{"granular persistentvolumeclaims/status demo:c", "get persistentvolumeclaims/status demo:c"},
			want: "NoOpinion", wantReason: unreadable, wantAsked: []string{"granular persistentvolumeclaims/status demo:c", read}},
		{name: "get denied", policies: map[string]policy{"d": onVerbs(deny, "", "get")}, request: claim("patch"), want: "NoOpinion", wantReason: unreadable, wantAsked: []string{granularOf + "c"}},

		{name: "delete, which changes no field", request: claim("delete"), want: "NoOpinion"},
		{name: "deletecollection", request: claim("deletecollection"), want: "NoOpinion"},
		{name: "not listed", request: claim("patch", of("pods")), want: "NoOpinion"},
		{name: "all versions", request: claim("patch", func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }), want: "NoOpinion"},
		{name: "marked", request: claim("patch", marked(authorization.DelegationMarker)), want: "NoOpinion"},
		{name: "left out", request: claim("patch", func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "alice", Groups: []string{user.NodesGroup}}
		}), want: "NoOpinion"},
		{name: "another version", request: claim("patch", func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" }), want: "NoOpinion"},
		{name: "another kube-apiserver", request: claim("patch"), client: &place.Client{Certificate: "other"}, want: "NoOpinion"},

		{name: "a policy allows", policies: map[string]policy{"p": {effect: allow}}, request: claim("patch"), want: "Allow", wantReason: "policy=p reason=Allowed: it allows the request"},
		{name: "a policy allows on conditions", policies: map[string]policy{"p": onVerbs(allow, "dryRun", "patch")}, request: claim("patch"), want: "Allow", wantAsked: []string{read}},
		{name: "a policy allows on conditions, and something stands in the way", policies: map[string]policy{"p": onVerbs(allow, "dryRun", "patch")}, request: claim("patch"), allow: []string{granularOf + "c"}, want: "NoOpinion", wantAsked: []string{read}},
		{name: "a policy holds back on conditions", policies: map[string]policy{"p": onVerbs(noOpinion, "dryRun", "patch")}, request: claim("patch"), want: "Allow", wantReason: passes, wantAsked: []string{granularOf + "c", read}},
		{name: "a policy denies", policies: map[string]policy{"p": onVerbs(deny, "", "patch")}, request: claim("patch"), want: "Deny"},
		{name: "a policy denies on conditions", policies: map[string]policy{"p": onVerbs(deny, "dryRun", "patch")}, request: claim("patch"), want: "Deny"},
		{name: "a policy denies what looks the same", policies: map[string]policy{"p": onVerbs(deny, `request.verb == "update"`, "update", "patch")}, request: claim("patch"), want: "NoOpinion", wantReason: restricted, wantAsked: []string{granularOf + "c"}},
		{name: "a policy denies granular", policies: map[string]policy{"p": onVerbs(deny, "", "granular")}, request: claim("patch"), want: "NoOpinion"},
		{name: "policies give granular and get", policies: map[string]policy{"p": onVerbs(allow, "", "granular", "get")}, request: claim("patch"), allow: []string{}, want: "Allow"},
		{name: "a policy reads a selector", policies: map[string]policy{"p": onVerbs(allow, `request.path == "/a"`, "patch")}, request: claim("patch"), want: "Allow", wantReason: passes, wantAsked: []string{granularOf + "c", read}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rbac, client := &others{allow: yes, err: tc.err}, goodClient
			if tc.allow != nil {
				rbac.allow = tc.allow
			}
			if tc.client != nil {
				client = *tc.client
			}
			decision, err := newListedFieldsDecider(t, publish(t, tc.policies), rbac).Decide(frontdoor.WithClient(t.Context(), client), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(decision); got != tc.want || tc.wantReason != "" && decision.Reason() != tc.wantReason {
				t.Errorf("got %s with the reason %q, want %s with %q", got, decision.Reason(), tc.want, tc.wantReason)
			}
			if !slices.Equal(rbac.asked, tc.wantAsked) {
				t.Errorf("kube-apiserver was asked %q, want %q", rbac.asked, tc.wantAsked)
			}
		})
	}
}

// slow answers each check with Allow, at the end of its time or after almost a second.
type slow struct{}

func (slow) Authorize(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
	select {
	case <-ctx.Done():
		return authorizer.DecisionDeny, "", ctx.Err()
	case <-time.After(900 * time.Millisecond):
		return authorizer.DecisionAllow, "", nil
	}
}

// TestFieldsOfListedResourcesInTime has a kube-apiserver that is slow. RBAC may allow the request, so that the front door has no opinion in time.
func TestFieldsOfListedResourcesInTime(t *testing.T) {
	t.Parallel()
	source := publish(t, map[string]policy{"p": {effect: policyv1alpha1.PolicyEffectAllow, rule: policyv1alpha1.PolicyRule{Verbs: []string{"none"}, APIGroups: []string{""}, Resources: []string{"none"}}}})
	synctest.Test(t, func(t *testing.T) {
		door, began := newListedFieldsDecider(t, source, slow{}), time.Now()
		decision, err := door.Decide(frontdoor.WithClient(t.Context(), goodClient), claim("patch"))
		if took := time.Since(began); err != nil || !decision.IsNoOpinion() || took > time.Second {
			t.Errorf("got %s, %v after %s, want NoOpinion after a second", show(decision), err, took)
		}
	})
}
