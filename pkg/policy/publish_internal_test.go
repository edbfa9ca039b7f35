/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// stepper is a controller that does not run: the test fills its caches and makes its steps.
type stepper struct {
	*Controller
	source *engine.Source
}

func newCompiler(t *testing.T) *partial.Compiler {
	t.Helper()
	compiler := compilers.Policies(t)
	return compiler
}

func newStepper(t *testing.T) *stepper {
	t.Helper()
	s := &stepper{source: &engine.Source{}}
	client := fake.NewSimpleClientset()
	var err error
	s.Controller, err = NewController(Config{
		Client: client, Compiler: newCompiler(t), Source: s.source, StalenessBound: time.Minute,
		Store: clientstore.LatestPolicies(client), End: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put stores a policy on secrets of its namespace.
func (s *stepper) put(t *testing.T, key engine.Key, uid string, effect policyv1alpha1.PolicyEffect, condition string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(uid)}
	spec := policyv1alpha1.AuthorizationPolicySpec{
		Effect: effect, Condition: condition, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: user.AllAuthenticated}},
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
	}
	var err error
	if key.Namespace == "" {
		p := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: meta, Spec: spec}
		err = s.informers[0].GetIndexer().Add(p)
		s.observe(p)
	} else {
		p := &policyv1alpha1.AuthorizationPolicy{ObjectMeta: meta, Spec: spec}
		err = s.informers[1].GetIndexer().Add(p)
		s.observe(p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// decide returns the decision of both parts on a get of a secret in a namespace.
func (s *stepper) decide(t *testing.T, namespace string) string {
	t.Helper()
	attributes := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
		Verb: "get", APIVersion: "v1", Resource: "secrets", Name: "s", Namespace: namespace, ResourceRequest: true,
	}
	for _, part := range []engine.Part{engine.Restricting, engine.Granting} {
		d := (&engine.Authorizer{Source: s.source, Part: part}).Decide(t.Context(), attributes)
		switch {
		case d.IsAllow():
			return "allow"
		case d.IsDeny():
			return "deny"
		}
	}
	return "no opinion"
}

// large is a long condition: a step has room for three of its length, and the first step for 50.
var large = `request.name == "x" || ` + strings.Repeat(" ", 10000) + "false"

// TestSlowPoliciesDoNotHoldUpOthers starts with more policies of one namespace than one snapshot has time for, and changes another.
func TestSlowPoliciesDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	const allow, deny = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny
	for i := range 60 {
		s.put(t, engine.Key{Namespace: "a-slow", Name: fmt.Sprintf("p%d", i)}, "1", allow, large)
	}
	s.put(t, engine.Key{Namespace: "a-slow", Name: "z-deny"}, "1", deny, large)
	s.put(t, engine.Key{Namespace: "b", Name: "allow"}, "1", allow, "true")
	s.put(t, engine.Key{Name: "cluster"}, "1", deny, `request.namespace == "c"`)

	if !s.publishStep(t.Context()) {
		t.Fatal("one snapshot has all policies, want some to be left over")
	}
	for namespace, want := range map[string]string{"a-slow": "no opinion", "b": "allow", "c": "deny", "d": "no opinion"} {
		if got := s.decide(t, namespace); got != want {
			t.Errorf("in the first snapshot: %s: got %s, want %s", namespace, got, want)
		}
	}
	pending := len(s.pending)
	if pending == 0 || pending > 20 {
		t.Errorf("got %d policies that wait, want a few", pending)
	}
	s.put(t, engine.Key{Namespace: "e", Name: "deny"}, "1", deny, "true")
	s.put(t, engine.Key{Name: "later"}, "1", deny, `request.namespace == "d"`)
	if !s.publishStep(t.Context()) {
		t.Fatal("the second snapshot has all policies")
	}
	for namespace, want := range map[string]string{"d": "deny", "e": "deny"} {
		if got := s.decide(t, namespace); got != want {
			t.Errorf("changed while others wait: %s: got %s, want %s", namespace, got, want)
		}
	}
	s.publish(t.Context())
	if len(s.pending) > 0 || len(s.dirty) > 0 || len(s.results) != 65 {
		t.Errorf("got %d policies that wait, %d to be looked at, and %d results, want 0, 0 and 65", len(s.pending), len(s.dirty), len(s.results))
	}
}

// TestWaitingPoliciesFailClosed looks at policies that one step leaves over.
func TestWaitingPoliciesFailClosed(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	const allow, deny, noOpinion = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion
	s.put(t, engine.Key{Namespace: "known", Name: "allow"}, "1", allow, "true")
	s.put(t, engine.Key{Namespace: "replaced", Name: "allow"}, "1", allow, "true")
	s.put(t, engine.Key{Namespace: "gone", Name: "deny"}, "1", deny, "true")
	s.publish(t.Context())

	for i := range 4 { // of the cluster, so that they are compiled first
		s.put(t, engine.Key{Name: fmt.Sprintf("p%d", i)}, "1", allow, large)
	}
	s.put(t, engine.Key{Namespace: "known", Name: "allow"}, "1", allow, "1 == 2")
	s.put(t, engine.Key{Namespace: "replaced", Name: "allow"}, "2", allow, "1 == 2")
	s.put(t, engine.Key{Namespace: "new-deny", Name: "p"}, "1", deny, "1 == 2")
	s.put(t, engine.Key{Namespace: "new-hold", Name: "p"}, "1", noOpinion, "1 == 2")
	s.put(t, engine.Key{Namespace: "new-allow", Name: "p"}, "1", allow, "true")
	for _, obj := range s.informers[1].GetStore().List() {
		if p := obj.(*policyv1alpha1.AuthorizationPolicy); p.Namespace == "gone" {
			if err := s.informers[1].GetIndexer().Delete(p); err != nil {
				t.Fatal(err)
			}
			s.observe(p)
		}
	}
	check := func(what string, want map[string]string) {
		t.Helper()
		for namespace, answer := range want {
			if got := s.decide(t, namespace); got != answer {
				t.Errorf("%s: %s: got %s, want %s", what, namespace, got, answer)
			}
		}
	}
	if !s.publishStep(t.Context()) {
		t.Fatal("one step has compiled all, want some to be left over")
	}
	check("waiting", map[string]string{
		"known": "allow", "replaced": "no opinion", "gone": "no opinion", "new-deny": "deny", "new-hold": "deny", "new-allow": "no opinion",
	})
	s.publish(t.Context())
	check("compiled", map[string]string{
		"known": "no opinion", "replaced": "no opinion", "gone": "no opinion", "new-deny": "no opinion", "new-hold": "no opinion", "new-allow": "allow",
	})
}

// TestSmallPoliciesAreNotCheap changes policies of 240 bytes whose variables double an expression.
func TestSmallPoliciesAreNotCheap(t *testing.T) {
	t.Parallel()
	for name, condition := range map[string]string{"a condition": "variables.v8", "a condition that does not compile": "variables.v8 == 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStepper(t)
			spec := policyv1alpha1.AuthorizationPolicySpec{
				Effect: policyv1alpha1.PolicyEffectDeny, Condition: condition,
				Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
				Variables: []policyv1alpha1.Variable{{Name: "v0", Expression: "[1].all(x, dryRun)"}},
			}
			for i := range 8 {
				spec.Variables = append(spec.Variables, policyv1alpha1.Variable{Name: fmt.Sprintf("v%d", i+1), Expression: fmt.Sprintf("variables.v%[1]d || variables.v%[1]d", i)})
			}
			s.publish(t.Context()) // the first snapshot
			const policies = 20    // 5 KB: a step has room for 32 KB of ordinary ones
			for i := range policies {
				p := &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i), UID: "1"}, Spec: spec}
				if err := s.informers[1].GetIndexer().Add(p); err != nil {
					t.Fatal(err)
				}
				s.observe(p)
			}
			if more := s.publishStep(t.Context()); !more || len(s.results) == 0 || len(s.results) > policies/2 {
				t.Errorf("the step has compiled %d policies, and has left some over: %t; want at most %d", len(s.results), more, policies/2)
			}
		})
	}
}

// TestOrderOfPolicies looks at the order in which policies are compiled.
func TestOrderOfPolicies(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	const allow, deny = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny
	for _, p := range []struct {
		namespace, name string
		effect          policyv1alpha1.PolicyEffect
	}{{"a", "1", allow}, {"a", "2", deny}, {"a", "3", deny}, {"b", "1", allow}, {"c", "1", deny}, {"", "1", allow}, {"", "2", deny}} {
		s.put(t, engine.Key{Namespace: p.namespace, Name: p.name}, "1", p.effect, "true")
	}
	var got []string
	for _, w := range s.waiting(nil) {
		got = append(got, w.key.Namespace+"/"+w.key.Name)
	}
	if want := []string{"/2", "/1", "a/2", "c/1", "b/1", "a/3", "a/1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMistakesAreLookedForOnce makes the status of a policy several times, as the controller does after every change of the
// object and every five minutes.
func TestMistakesAreLookedForOnce(t *testing.T) {
	s, key := newStepper(t), engine.Key{Namespace: "n", Name: "p"}
	s.put(t, key, "1", policyv1alpha1.PolicyEffectDeny, `lists.range(100).all(i, i >= 0) && object.a == request.verb && 1 == 2`)
	s.publish(t.Context())
	r, p := s.results[key], s.get(key)
	again := testing.AllocsPerRun(1, func() {
		status, err := s.statusOf(p, r)
		if err != nil || status.TypeChecking == nil || len(status.TypeChecking.ExpressionWarnings) != 1 {
			t.Errorf("got %+v, %v", status.TypeChecking, err)
		}
	})
	once := testing.AllocsPerRun(1, func() { mistakesOf(t.Context(), s.config.Server, "", p.spec, s.builder.Get(key).Expression()) })
	if again > once/10 {
		t.Errorf("%.0f allocations for a status, and %.0f to look for mistakes", again, once)
	}
}
