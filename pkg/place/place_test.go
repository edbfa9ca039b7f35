/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package place_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

var (
	allows  = onCondition("a", authorization.EffectAllow)
	denies  = onCondition("d", authorization.EffectDeny)
	errBusy = errors.New("busy")
	// webhook is a decision on a condition of a webhook.
	webhook = authorization.Chained(authorization.Set{AuthorizerName: "webhooks.example.com", Decision: authorization.Conditions(authorization.Condition{
		ID: "example.com/c", Effect: authorization.EffectAllow, Type: "example.com/literal", Text: "true",
	})})
)

func onCondition(name string, effect authorization.Effect) authorization.Decision {
	return authorization.Chained(authorization.Set{AuthorizerName: engine.RestrictingName, Decision: authorization.Conditions(authorization.Condition{
		ID: engine.Key{Name: name}.ConditionID(), Effect: effect, Type: "example.com/literal", Text: "true",
	})})
}

// asked answers the questions of places.
type asked struct {
	decision authorization.Decision
	err      error
	mayRead  bool
	verbs    []string
}

func (a *asked) ByPolicies(_ context.Context, r *place.Request) (authorization.Decision, error) {
	a.verbs = append(a.verbs, strings.TrimSuffix(r.Attributes.GetVerb()+" "+r.Attributes.GetName(), " "))
	return a.decision, a.err
}

func (a *asked) IsAllowed(_ context.Context, r *place.Request) bool {
	a.verbs = append(a.verbs, "read by "+r.Attributes.GetVerb())
	return a.mayRead
}

// newTable has all places. This server serves machines. Another server serves things, and enforces conditions when one is created. kube-apiserver serves the
// core group, handles conditions if asked, and calls the inner door for pods.
func newTable(t *testing.T, allHandle bool) *place.Table {
	t.Helper()
	is := func(resource string) func(authorizer.Attributes) bool {
		return func(a authorizer.Attributes) bool { return a.GetResource() == resource }
	}
	isLocal := func(version schema.GroupVersion) bool { return version == schema.GroupVersion{Version: "v1"} }
	leavesOut := func(u user.Info) bool { return u.GetName() == "node" }
	table, err := place.NewTable(
		&place.Barriers{
			Covers: func(id string, _ authorizer.Attributes) bool { return id == engine.Key{Name: "d"}.ConditionID() },
			Audits: func(string, authorizer.Attributes) bool { return false }, LeavesOut: leavesOut, IsLocal: isLocal,
			Known:  func(client *place.Client) bool { return client == nil || client.Certificate == "known" },
			Canary: func(*place.Client, authorizer.Attributes) bool { return false },
		},
		&place.Server{Enforces: is("machines")},
		&place.AggregatedServer{
			Enforces:      func(a authorizer.Attributes) bool { return a.GetResource() == "things" && a.GetVerb() == "create" },
			Configuration: func(a authorizer.Attributes) string { return map[string]string{"things": "things"}[a.GetResource()] },
		},
		&place.Unenforced{Serves: is("machines/console")},
		&place.KubeAPIServer{IsLocal: isLocal, Excludes: func(r schema.GroupVersionResource) bool { return r.Resource == "secrets" }, AllHandle: func() bool { return allHandle }},
		&place.InnerDoor{
			Listed: func(r innerdoor.Resource) bool { return r.Resource == "pods" }, LeavesOut: leavesOut, IsLocal: isLocal,
			Known:  func(client *place.Client) bool { return client == nil || client.Certificate == "known" },
			Canary: func(*place.Client, authorizer.Attributes) bool { return false },
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestEvaluated has the places of requests, whether conditions on them are evaluated, and what stands against it.
func TestEvaluated(t *testing.T) {
	t.Parallel()
	known, other := &place.Client{Certificate: "known"}, &place.Client{Certificate: "other"}
	for _, tc := range []struct {
		verb, resource, version, user string
		client                        *place.Client
		handles, allHandle            bool
		decision                      authorization.Decision
		asked                         *asked
		at                            policyv1alpha1.EnforcementPlace
		want                          string // a part of the problem, or "yes"
		verbs                         []string
	}{
		{verb: "create", resource: "machines", decision: denies, at: policyv1alpha1.EnforcedAtServer, want: "yes"},
		{verb: "create", resource: "things", decision: denies, at: policyv1alpha1.EnforcedAtAggregatedServer, want: "yes"},
		{verb: "create", resource: "machines", decision: webhook, at: policyv1alpha1.EnforcedAtServer, want: "yes"},
		{verb: "create", resource: "things", decision: webhook, at: policyv1alpha1.EnforcedAtAggregatedServer, want: "of other authorizers"},
		{verb: "create", resource: "services", allHandle: true, decision: webhook, at: policyv1alpha1.EnforcedAtKubeAPIServer, want: "of other authorizers"},
		{verb: "delete", resource: "things", version: "v2", decision: denies, at: policyv1alpha1.EnforcedAtFrontDoor, want: `EnforcementConfiguration "things" does not count`},
		{verb: "get", resource: "machines/console", decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "create", resource: "services", client: known, handles: true, decision: denies, at: policyv1alpha1.EnforcedAtKubeAPIServer, want: "yes"},
		{verb: "update", resource: "services", client: known, handles: true, decision: allows, at: policyv1alpha1.EnforcedAtKubeAPIServer, want: "the answer may show objects", verbs: []string{"read by get"}},
		{verb: "get", resource: "services", client: known, handles: true, decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "create", resource: "secrets", client: known, handles: true, decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "create", resource: "services", client: known, decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "create", resource: "services", allHandle: true, decision: denies, at: policyv1alpha1.EnforcedAtKubeAPIServer, want: "yes"},
		{verb: "create", resource: "services", decision: denies, at: policyv1alpha1.EnforcedAtFrontDoor, want: "yes"}, // by the barrier
		{verb: "create", resource: "services", client: other, decision: denies, at: policyv1alpha1.EnforcedAtFrontDoor, want: "the client certificate of a kube-apiserver is not known"},
		{verb: "create", resource: "services", client: other, decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "create", resource: "services", user: "node", decision: denies, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "create", resource: "pods", decision: allows, at: policyv1alpha1.EnforcedAtInnerDoor, want: "yes", verbs: []string{"create", "patch"}},
		{verb: "create", resource: "pods", user: "node", decision: allows, at: policyv1alpha1.EnforcedAtInnerDoor, want: "does not decide for this user"},
		{verb: "create", resource: "pods", version: "v2", decision: allows, at: policyv1alpha1.EnforcedAtInnerDoor, want: "not known to serve this version"},
		{verb: "create", resource: "pods", client: other, decision: allows, at: policyv1alpha1.EnforcedAtInnerDoor, want: "this kube-apiserver is not known"},
		{verb: "create", resource: "pods", decision: allows, asked: &asked{decision: denies}, at: policyv1alpha1.EnforcedAtInnerDoor, want: "another request that looks the same", verbs: []string{"create"}},
		{verb: "create", resource: "pods", decision: allows, asked: &asked{err: errBusy}, at: policyv1alpha1.EnforcedAtInnerDoor, want: "another request that looks the same", verbs: []string{"create"}},
		{verb: "delete", resource: "pods", decision: allows, at: policyv1alpha1.EnforcedAtInnerDoor, want: "the answer may show objects", verbs: []string{"read by get"}},
		{verb: "delete", resource: "pods", decision: allows, asked: &asked{mayRead: true}, at: policyv1alpha1.EnforcedAtInnerDoor, want: "yes", verbs: []string{"read by get"}},
		{verb: "create", resource: "pods", client: other, decision: denies, at: policyv1alpha1.EnforcedAtInnerDoor, want: "a condition could deny"},
		{verb: "create", resource: "pods", decision: denies, at: policyv1alpha1.EnforcedAtInnerDoor, want: "yes"}, // by the barrier
		{verb: "patch", resource: "pods", decision: allows, asked: &asked{mayRead: true}, at: policyv1alpha1.EnforcedAtFrontDoor, want: "yes", verbs: []string{"read by get"}},
		{verb: "get", resource: "pods", decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
		{verb: "*", resource: "machines", decision: allows, at: policyv1alpha1.EnforcedAtFrontDoor},
	} {
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "dana"}, Verb: tc.verb, APIVersion: "v1", Resource: tc.resource, Namespace: "n", ResourceRequest: true}
		if tc.verb == "update" || tc.verb == "delete" {
			a.Name = "x"
		}
		if tc.version != "" {
			a.APIVersion = tc.version
		}
		if tc.user != "" {
			a.User = &user.DefaultInfo{Name: tc.user}
		}
		asks := tc.asked
		if asks == nil {
			asks = &asked{decision: authorization.NoOpinion("", nil)}
		}
		table, r := newTable(t, tc.allHandle), &place.Request{Attributes: a, Client: tc.client, HandlesConditions: tc.handles}
		if got := table.Of(r).Terms().At; got != tc.at {
			t.Errorf("%s %s: got the place %s, want %s", tc.verb, tc.resource, got, tc.at)
		}
		isEvaluated, problem := table.Evaluated(t.Context(), r, tc.decision, asks)
		if isEvaluated != (tc.want == "yes") || !isEvaluated && (!strings.Contains(problem, tc.want) || (problem == "") != (tc.want == "")) {
			t.Errorf("%s %s as %s: got %t, %q, want %q", tc.verb, tc.resource, a.User.GetName(), isEvaluated, problem, tc.want)
		}
		if !slices.Equal(asks.verbs, tc.verbs) {
			t.Errorf("%s %s: it asked %q, want %q", tc.verb, tc.resource, asks.verbs, tc.verbs)
		}
	}
}
