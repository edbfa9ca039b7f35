/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/conflicts"
)

// rig is a controller with a client that stores objects without validation, as etcd does, and refuses the status of a policy that has changed since
// it was read.
type rig struct {
	client *fake.Clientset
	source *engine.Source
	ready  func() error
}

func newRig(t *testing.T, bound time.Duration, objects ...runtime.Object) *rig {
	t.Helper()
	client := fake.NewSimpleClientset(objects...)
	conflicts.Refuse(t, client)
	return startRig(t, client, bound)
}

func startRig(t *testing.T, client *fake.Clientset, bound time.Duration) *rig {
	t.Helper()
	return startRigWith(t, client, policy.Config{StalenessBound: bound})
}

// startRigWith starts a rig whose configuration lacks what every rig has.
func startRigWith(t *testing.T, client *fake.Clientset, config policy.Config) *rig {
	t.Helper()
	compiler := compilers.Policies(t)
	r := &rig{client: client, source: &engine.Source{}}
	config.Client, config.Compiler, config.Source = client, compiler, r.source
	config.Store = clientstore.LatestPolicies(client)
	config.End = func(cause error) { t.Errorf("it ends the process: %v", cause) }
	c, err := policy.NewController(config)
	if err != nil {
		t.Fatal(err)
	}
	r.ready = func() error { return c.Ready().Check(nil) }
	seen := len(client.Actions())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	r.eventually(t, "it is loaded", func() bool { return r.source.Snapshot() != nil })
	// The client of tests forgets what happens between a list and the watch after it.
	r.eventually(t, "it watches", func() bool {
		watches := 0
		for _, action := range client.Actions()[seen:] {
			if action.GetVerb() == "watch" {
				watches++
			}
		}
		return watches >= 2
	})
	return r
}

func (r *rig) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// decide asks both parts whether alice may create pods.
func (r *rig) decide(t *testing.T) string {
	t.Helper()
	attributes := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
		Verb: "create", APIVersion: "v1", Resource: "pods", Namespace: "n", ResourceRequest: true,
	}
	for _, part := range []engine.Part{engine.Restricting, engine.Granting} {
		d := (&engine.Authorizer{Source: r.source, Part: part}).Decide(t.Context(), attributes)
		if text := textOf(t, d); text != "" {
			return text
		}
	}
	return "no opinion"
}

func textOf(t *testing.T, d authorization.Decision) string {
	t.Helper()
	switch {
	case d.IsAllow():
		return "allow"
	case d.IsDeny():
		return "deny"
	case d.IsNoOpinion():
		return ""
	}
	c := d.Conditions()[0]
	text, err := c.TextFunc()
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Effect) + " if " + text
}

func (r *rig) put(t *testing.T, p *policyv1alpha1.ClusterAuthorizationPolicy) {
	t.Helper()
	policies := r.client.PolicyV1alpha1().ClusterAuthorizationPolicies()
	if _, err := policies.Update(t.Context(), p, metav1.UpdateOptions{}); err == nil {
		return
	}
	if _, err := policies.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) condition(t *testing.T, kind string) *metav1.Condition {
	t.Helper()
	p, err := r.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return meta.FindStatusCondition(p.Status.Conditions, kind)
}

func newPolicy(effect policyv1alpha1.PolicyEffect, condition string) *policyv1alpha1.ClusterAuthorizationPolicy {
	return &policyv1alpha1.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: effect, Condition: condition,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}},
			Rules:    []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}},
		},
	}
}

// TestController follows a policy from its creation to its deletion.
func TestController(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	if got := r.decide(t); got != "no opinion" {
		t.Errorf("without policies: got %s", got)
	}
	r.put(t, newPolicy("Allow", `object.a == request.userInfo.username`))
	r.eventually(t, "the policy takes effect", func() bool { return r.decide(t) == `Allow if object.a == "alice"` })
	r.eventually(t, "its status says so", func() bool {
		ready, effective := r.condition(t, "Ready"), r.condition(t, "Effective")
		return ready != nil && ready.Reason == policyv1alpha1.ReasonCompiled && effective != nil && effective.Reason == string(policyv1alpha1.ResultNotEnforced)
	})
	r.put(t, newPolicy("Deny", ""))
	r.eventually(t, "the change is in force", func() bool { return r.decide(t) == "deny" })
	if err := r.ready(); err != nil {
		t.Errorf("got %v, want ready", err)
	}
	if err := r.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "the deletion is in force", func() bool { return r.decide(t) == "no opinion" })
}

// TestBrokenPolicies breaks stored policies: the last good compilation stays in force, and
// where there is none, as after a restart, they fail closed.
func TestBrokenPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		effect            policyv1alpha1.PolicyEffect
		before, restarted string
	}{
		{"Allow", "Allow if object.a == 1", "no opinion"},
		{"Deny", "Deny if object.a == 1", "deny"},
		{"NoOpinion", "no opinion", "deny"},
	} {
		for name, spoil := range map[string]func(*policyv1alpha1.AuthorizationPolicySpec){
			"expression": func(s *policyv1alpha1.AuthorizationPolicySpec) { s.Condition = "object.a ==" },
			"rule": func(s *policyv1alpha1.AuthorizationPolicySpec) {
				s.Rules = append(s.Rules, policyv1alpha1.PolicyRule{Verbs: []string{""}})
			},
		} {
			t.Run(string(tc.effect)+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, time.Minute)
				good := newPolicy(tc.effect, "object.a == 1")
				r.put(t, good)
				r.eventually(t, "the good one is in force", func() bool { return r.source.Snapshot().Len() == 1 && r.decide(t) == tc.before })
				// The client of tests knows no conflicts: the status of the good one must not be
				// written over the spoilt one.
				r.eventually(t, "its status is written", func() bool { return r.condition(t, "Ready") != nil })
				spoilt := good.DeepCopy()
				spoil(&spoilt.Spec)
				r.put(t, spoilt)
				r.eventually(t, "the status says so", func() bool {
					ready := r.condition(t, "Ready")
					return ready != nil && ready.Reason == policyv1alpha1.ReasonCompileFailed && ready.Status == metav1.ConditionFalse
				})
				if got := r.decide(t); got != tc.before {
					t.Errorf("with an earlier compilation: got %s, want %s", got, tc.before)
				}
				if got := startRig(t, r.client, time.Minute).decide(t); got != tc.restarted {
					t.Errorf("after a restart: got %s, want %s", got, tc.restarted)
				}
			})
		}
	}
}

// TestNamesake replaces a policy by another of its name, as a deletion and a creation do
// that come between two rounds. What is broken must not pass for the one before.
func TestNamesake(t *testing.T) {
	t.Parallel()
	for effect, want := range map[policyv1alpha1.PolicyEffect]string{"Allow": "no opinion", "Deny": "deny"} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, time.Minute)
			first := newPolicy(effect, "object.a == 1")
			first.UID = "first"
			r.put(t, first)
			r.eventually(t, "the first is in force", func() bool {
				return r.condition(t, "Ready") != nil && r.decide(t) == string(effect)+" if object.a == 1"
			})
			broken := newPolicy(effect, "object.a ==")
			broken.UID = "second"
			r.put(t, broken)
			r.eventually(t, "the second fails closed", func() bool { return r.decide(t) == want })
			r.eventually(t, "its status says so", func() bool {
				ready := r.condition(t, "Ready")
				return ready != nil && ready.Reason == policyv1alpha1.ReasonCompileFailed
			})
			// The same where the last good compilation of the one before is in force.
			first.UID = "third"
			r.put(t, first)
			r.eventually(t, "the third is in force", func() bool { return r.decide(t) == string(effect)+" if object.a == 1" })
			broken.UID = "third"
			r.put(t, broken)
			r.eventually(t, "it is broken", func() bool { return r.condition(t, "Ready") != nil })
			if got := r.decide(t); got != string(effect)+" if object.a == 1" {
				t.Errorf("with an earlier compilation: got %s", got)
			}
			broken.UID = "fourth"
			r.put(t, broken)
			r.eventually(t, "the fourth fails closed", func() bool { return r.decide(t) == want })
		})
	}
}

// TestUnknownEffect denies: nobody knows what it was to be.
func TestUnknownEffect(t *testing.T) {
	t.Parallel()
	if got := newRig(t, time.Minute, newPolicy("Permit", "")).decide(t); got != "deny" {
		t.Errorf("got %s, want deny", got)
	}
}

// TestStaleness loses the store for longer than the bound.
func TestStaleness(t *testing.T) {
	t.Parallel()
	for _, effect := range []policyv1alpha1.PolicyEffect{"Allow", "Deny"} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			var (
				mu   sync.Mutex
				gone error
			)
			client := fake.NewSimpleClientset(newPolicy(effect, ""))
			client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				return gone != nil, nil, gone
			})
			lose := func(err error) {
				mu.Lock()
				defer mu.Unlock()
				gone = err
			}
			r := startRig(t, client, 100*time.Millisecond)
			before := strings.ToLower(string(effect))
			r.eventually(t, "it is ready", func() bool { return r.ready() == nil && r.decide(t) == before })
			lose(errors.New("etcd is gone"))
			r.eventually(t, "it is not ready", func() bool { return r.ready() != nil })
			want := map[policyv1alpha1.PolicyEffect]string{"Allow": "no opinion", "Deny": "deny"}[effect]
			if got := r.decide(t); got != want {
				t.Errorf("without the store: got %s, want %s", got, want)
			}
			lose(nil)
			r.eventually(t, "it is ready again", func() bool { return r.ready() == nil && r.decide(t) == before })
		})
	}
}

// TestManyChanges writes many policies at once, and then finds all of them.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	const writers, each = 6, 12
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				p := newPolicy("Allow", "object.a == 1")
				p.Name = fmt.Sprintf("p-%d-%d", w, i)
				if _, err := r.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	r.eventually(t, "all of them are there", func() bool { return r.source.Snapshot().Len() == writers*each })
}
