/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// policiesOf returns policies about alice's creates of claims, by their effects.
func policiesOf(t *testing.T, effects ...policyv1alpha1.PolicyEffect) *engine.Source {
	t.Helper()
	compiler := compilers.Policies(t)
	compiled := map[engine.Key]*engine.Policy{}
	for _, effect := range effects {
		key := engine.Key{Name: strings.ToLower(string(effect))}
		var err error
		compiled[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: effect, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}}},
		}, compiler)
		if err != nil {
			t.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return source
}

// answering is kube-apiserver, which counts the questions.
type answering struct {
	decision authorization.Decision
	asked    int
}

func (a *answering) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	a.asked++
	return a.decision
}

// TestChainOfTheInnerDoor asks in which order the authorizers decide at the inner door: what kube-apiserver's other authorizers
// say counts only if policies have no opinion.
func TestChainOfTheInnerDoor(t *testing.T) {
	t.Parallel()
	type effect = policyv1alpha1.PolicyEffect
	const allow, deny, hold = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion
	yes, no, open := authorization.Allow("RBAC", nil), authorization.Deny("a webhook", nil), authorization.NoOpinion("", nil)
	for _, tc := range []struct {
		name    string
		effects []effect
		others  authorization.Decision
		groups  []string
		want    bool
		asked   int
	}{
		{name: "no authorizer allows", others: open, asked: 1},
		{name: "a policy allows", effects: []effect{allow}, others: open, want: true},
		{name: "a policy allows, and a webhook after Proviso denies", effects: []effect{allow}, others: no, want: true},
		{name: "RBAC allows", others: yes, want: true, asked: 1},
		{name: "RBAC allows, and a policy denies", effects: []effect{deny}, others: yes},
		{name: "a policy allows, and another denies", effects: []effect{allow, deny}, others: yes},
		{name: "RBAC allows, and a policy holds policies back", effects: []effect{allow, hold}, others: yes, want: true, asked: 1},
		{name: "a policy is held back", effects: []effect{allow, hold}, others: open, asked: 1},
		{name: "an error of kube-apiserver", others: authorization.Deny("", context.DeadlineExceeded), asked: 1},
		{name: "a privileged group is for kube-apiserver to know", others: open, groups: []string{"system:masters"}, asked: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			never := &answering{decision: authorization.Allow("the chain for requests", nil)}
			others := &answering{decision: tc.others}
			chains, err := NewChains(AuthorizerConfig{
				AlwaysAllowGroups: []string{"system:masters"}, AlwaysAllowPaths: []string{"/healthz"},
				Fresh: never, Cached: never, InnerDoor: others, Policies: policiesOf(t, tc.effects...), Node: never,
			})
			if err != nil {
				t.Fatal(err)
			}
			attributes := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice", Groups: tc.groups}, Verb: "create", APIVersion: "v1", Resource: "persistentvolumeclaims", Namespace: "demo", ResourceRequest: true}
			lazy := chains.InnerDoor.Begin(t.Context(), attributes)
			if got := lazy.Evaluate(t.Context(), nil); got.IsAllow() != tc.want || others.asked != tc.asked || never.asked != 0 {
				t.Errorf("got Allow %t (%s: %v) after %d questions, and %d to others, want %t after %d", got.IsAllow(), got.Reason(), got.Err(), others.asked, never.asked, tc.want, tc.asked)
			}
		})
	}
	chains, err := NewChains(AuthorizerConfig{Fresh: &answering{}, Cached: &answering{}, Policies: &engine.Source{}})
	if err != nil || chains.InnerDoor != nil {
		t.Errorf("without an inner door: got %v: %v, want no chain", chains.InnerDoor, err)
	}
}

// TestInnerDoorIsServed asks under which paths the inner door answers, and what it needs.
func TestInnerDoorIsServed(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	config := &FrontDoorConfig{InnerDoor: &manifest.Config{URL: "https://a:1", CABundle: []byte("ca"), Namespace: "proviso-system", Resources: []innerdoor.Resource{{Resource: "pods"}}}}
	c := CompletedConfig{&completedConfig{}}
	if _, err := c.innerDoor(config); err == nil {
		t.Error("an inner door without a chain is served")
	}
	c.extra.Chains.InnerDoor = chain
	if _, err := c.innerDoor(&FrontDoorConfig{InnerDoor: &manifest.Config{}}); err == nil {
		t.Error("an inner door without a manifest is served")
	}
	route, err := c.innerDoor(config)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := manifest.Digest(*config.InnerDoor)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(route.Pattern, route.Handler)
	const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}`
	for path, want := range map[string]string{manifest.AdmitPath + digest: "no requestResource", manifest.AdmitPath + "0": "another one"} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(review))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), `"allowed":true`) {
			t.Errorf("%s: got %d %s, want %q", path, w.Code, w.Body, want)
		}
	}
}
