/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// separate is a Proviso with an etcd of its own, which a test may break.
type separate struct {
	*cluster.Instance
	client versioned.Interface
	http   *http.Client
}

func newSeparate(t *testing.T, name string, args ...string) *separate {
	t.Helper()
	instance, err := stack.NewInstance(name, args...)
	must(t, err)
	t.Cleanup(func() {
		instance.Stop()
		if log, err := instance.Log(); t.Failed() {
			t.Logf("the log of the server (%v): %s", err, log)
		}
	})
	must(t, instance.StartEtcd(t.Context()))
	must(t, instance.StartProviso(t.Context(), "/readyz"))
	s := &separate{Instance: instance}
	if s.client, err = versioned.NewForConfig(instance.Client("admin")); err != nil {
		t.Fatal(err)
	}
	if s.http, err = rest.HTTPClientFor(instance.Client("admin")); err != nil {
		t.Fatal(err)
	}
	return s
}

// restart kills the server and starts it again.
func (s *separate) restart(t *testing.T, path string) {
	t.Helper()
	must(t, s.KillProviso())
	must(t, s.StartProviso(t.Context(), path))
}

// get reads a path of the server as the admin.
func (s *separate) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
	must(t, err)
	return sent(t, s.http, request)
}

// metric returns the value of a metric, as it is printed.
func (s *separate) metric(t *testing.T, name string) string {
	t.Helper()
	_, body := s.get(t, "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ask returns what a user may do with a resource that nobody but policies knows.
func (s *separate) ask(t *testing.T, user, verb, resource string) (string, authorizationv1alpha1.SubjectAccessReviewStatus) {
	t.Helper()
	answer, err := s.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: "faults.example.com", Version: "v1", Resource: resource, Namespace: "demo"},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	switch {
	case answer.Status.Allowed:
		return "allowed", answer.Status
	case answer.Status.Denied:
		return "denied", answer.Status
	}
	return "no opinion", answer.Status
}

// asked is what the user of a policy may get and list, and what somebody else may list.
func (s *separate) asked(t *testing.T, resource string) string {
	t.Helper()
	get, _ := s.ask(t, "dana", "get", resource)
	list, _ := s.ask(t, "dana", "list", resource)
	other, _ := s.ask(t, "erin", "list", resource)
	return get + ", " + list + ", " + other
}

func (s *separate) ready(t *testing.T, name string) metav1.Condition {
	t.Helper()
	p, err := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	if condition := meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyReady); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// store is a client of the instance's etcd.
func (s *separate) store(t *testing.T) *clientv3.Client {
	t.Helper()
	store, err := s.Store(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func keyOf(name string) string {
	return "/registry/proviso/policy.proviso.dev/clusterauthorizationpolicies/" + name
}

// spoil changes what is stored of a policy, past the server.
func spoil(t *testing.T, store *clientv3.Client, name string, change func(spec map[string]any)) {
	t.Helper()
	spoilKey(t, store, keyOf(name), change)
}

func spoilKey(t *testing.T, store *clientv3.Client, key string, change func(spec map[string]any)) {
	t.Helper()
	got, err := store.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("reading what is stored as %s: %v, %v", key, got, err)
	}
	var stored map[string]any
	must(t, json.Unmarshal(got.Kvs[0].Value, &stored))
	change(stored["spec"].(map[string]any))
	broken, err := json.Marshal(stored)
	must(t, err)
	if _, err := store.Put(t.Context(), key, string(broken)); err != nil {
		t.Fatal(err)
	}
}

// newFaulty makes a policy about dana and a resource of its name: it applies to get and not
// to list, though its rules match both.
func newFaulty(name string, effect policyv1alpha1.PolicyEffect) *policyv1alpha1.ClusterAuthorizationPolicy {
	return &policyv1alpha1.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: effect, Condition: `request.verb == "get"`,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "dana"}},
			Rules:    []policyv1alpha1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{"faults.example.com"}, APIVersions: []string{"v1"}, Resources: []string{name}}},
		},
	}
}

// TestPoliciesBrokenInEtcd breaks policies by hand, past the server that would refuse them.
// What was compiled last stays in force; after a restart, there is none, and they fail closed.
func TestPoliciesBrokenInEtcd(t *testing.T) {
	t.Parallel()
	const (
		granting    = "allowed, no opinion, no opinion"
		nothing     = "no opinion, no opinion, no opinion"
		restricting = "denied, no opinion, no opinion"
		closed      = "denied, denied, no opinion"
		everybody   = "denied, denied, denied"
	)
	s := newSeparate(t, "broken")
	store := s.store(t)
	rows := []struct {
		name    string
		effect  policyv1alpha1.PolicyEffect
		spoil   func(spec map[string]any)
		message string
		// before is in force until a restart, and after the repair.
		before, restarted string
	}{
		{"allow-expression", "Allow", spoilExpression, "Syntax error", granting, nothing},
		{"deny-expression", "Deny", spoilExpression, "Syntax error", restricting, closed},
		{"allow-effect", "Allow", spoilEffect, `"Permit"`, granting, closed}, // nobody knows what it was to be
		{"deny-effect", "Deny", spoilEffect, `"Permit"`, restricting, closed},
		{"allow-rule", "Allow", spoilRule, "spec.rules[1]", granting, nothing},
		{"deny-rule", "Deny", spoilRule, "spec.rules[1]", restricting, closed},
		{"allow-subject", "Allow", spoilSubject, `"Robot"`, granting, nothing},
		{"deny-subject", "Deny", spoilSubject, `"Robot"`, restricting, everybody},
	}
	policies := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies()
	for _, row := range rows {
		if _, err := policies.Create(t.Context(), newFaulty(row.name, row.effect), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	states := func(ready, lastGood, broken int) func() bool {
		want := fmt.Sprint(ready, " ", lastGood, " ", broken)
		return func() bool {
			return s.metric(t, `proviso_policy_policies{state="ready"}`)+" "+s.metric(t, `proviso_policy_policies{state="last_good"}`)+" "+s.metric(t, `proviso_policy_policies{state="broken"}`) == want
		}
	}
	poll.Holds(t, "all are in force", states(len(rows), 0, 0))
	check := func(when string, want func(i int) string) {
		t.Helper()
		for i, row := range rows {
			if got := s.asked(t, row.name); got != want(i) {
				t.Errorf("%s: %s: got %s, want %s", row.name, when, got, want(i))
			}
		}
	}
	before, restarted := func(i int) string { return rows[i].before }, func(i int) string { return rows[i].restarted }
	checkStatus := func(when string) {
		t.Helper()
		for _, row := range rows {
			poll.Holds(t, row.name+": "+when+": its status says that it is broken", func() bool {
				ready := s.ready(t, row.name)
				return ready.Status == metav1.ConditionFalse && ready.Reason == "CompileFailed" && strings.Contains(ready.Message, row.message)
			})
		}
	}
	check("as they were made", before)

	for _, row := range rows {
		spoil(t, store, row.name, row.spoil)
	}
	poll.Holds(t, "the metric counts the broken ones", states(0, len(rows), 0))
	checkStatus("broken")
	check("broken", before)
	if got := s.metric(t, "proviso_policy_compile_failures_total"); got != fmt.Sprint(len(rows)) {
		t.Errorf("%s failures were counted, want %d", got, len(rows))
	}

	s.restart(t, "/readyz")
	check("restarted", restarted)
	poll.Holds(t, "the metric counts them as broken", states(0, 0, len(rows)))
	checkStatus("restarted")

	for _, row := range rows {
		repaired, err := policies.Get(t.Context(), row.name, metav1.GetOptions{})
		must(t, err)
		repaired.Spec = newFaulty(row.name, row.effect).Spec
		if _, err := policies.Update(t.Context(), repaired, metav1.UpdateOptions{}); err != nil {
			t.Errorf("%s: it cannot be repaired: %v", row.name, err)
		}
	}
	poll.Holds(t, "the metric counts them as ready", states(len(rows), 0, 0))
	for _, row := range rows {
		poll.Holds(t, row.name+": its status says that it is in force", func() bool { return s.ready(t, row.name).Status == metav1.ConditionTrue })
	}
	check("repaired", before)
	if log, err := s.Log(); err != nil || strings.Contains(log, "panic") {
		t.Errorf("the log: %v: %s", err, log)
	}
}

func spoilExpression(spec map[string]any) { spec["condition"] = "request.verb ==" }
func spoilEffect(spec map[string]any)     { spec["effect"] = "Permit" }
func spoilRule(spec map[string]any) {
	spec["rules"] = append(spec["rules"].([]any), map[string]any{"verbs": []any{""}})
}
func spoilSubject(spec map[string]any) {
	spec["subjects"] = []any{map[string]any{"kind": "Robot", "name": "dana"}}
}

// withStaleness makes an instance with a policy of each effect, named after it, in force.
func withStaleness(t *testing.T, name string) *separate {
	t.Helper()
	s := newSeparate(t, name, "--policy-staleness-bound=1s")
	for _, effect := range []policyv1alpha1.PolicyEffect{"Allow", "Deny"} {
		p := newFaulty(strings.ToLower(string(effect)), effect)
		if _, err := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.waitUntilInForce(t)
	return s
}

func (s *separate) waitUntilInForce(t *testing.T) {
	t.Helper()
	poll.Holds(t, "the policies are in force and the server is ready", func() bool {
		return !s.isUnready(t) && s.asked(t, "allow") == "allowed, no opinion, no opinion" && s.asked(t, "deny") == "denied, no opinion, no opinion"
	})
}

// isUnready reports whether the server is not ready because of the policies.
func (s *separate) isUnready(t *testing.T) bool {
	t.Helper()
	code, body := s.get(t, "/readyz")
	return code == http.StatusInternalServerError && strings.Contains(body, "[-]policies failed")
}

// checkStale asks for what holds without a store: Allow grants nothing and says why, Deny
// stays, and what kube-apiserver allows is allowed.
func (s *separate) checkStale(t *testing.T) {
	t.Helper()
	if got, status := s.ask(t, "dana", "get", "allow"); got != "no opinion" || !strings.Contains(status.Reason, "Allow policies grant nothing") {
		t.Errorf("Allow: got %s, %+v, want that it grants nothing, and why", got, status)
	}
	if got := s.asked(t, "deny"); got != "denied, no opinion, no opinion" {
		t.Errorf("Deny: got %s, want that it stays as it was", got)
	}
	answer, err := s.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{User: "bob", Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"}},
	}, metav1.CreateOptions{})
	if err != nil || !answer.Status.Allowed {
		t.Errorf("what RBAC allows: got %+v, %v", answer, err)
	}
}

// TestListsWaitForTheCache asks that lists of policies wait until the cache of their kind has seen all changes. The probe of
// the store depends on it: a cache that stopped at an object that cannot be decoded makes such a list fail. The lists do not
// wait if the server could not ask etcd for what it supports.
func TestListsWaitForTheCache(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		s := newSeparate(t, fmt.Sprintf("consistent-%d", i), "--policy-staleness-bound=1s")
		poll.Holds(t, "the server knows the admin", func() bool { code, _ := s.get(t, "/metrics"); return code == http.StatusOK })
		poll.Holds(t, "a list has waited", func() bool {
			_, metrics := s.get(t, "/metrics")
			return regexp.MustCompile(`(?m)^apiserver_watch_cache_consistent_read_total\{.*group="policy.proviso.dev".*success="true"\} [1-9]`).MatchString(metrics)
		})
		s.Stop()
	}
}

// becomesUnready waits until the server is not ready because of the policies, which must be soon after the bound of staleness.
func (s *separate) becomesUnready(t *testing.T) {
	t.Helper()
	if !poll.Until(t.Context(), 30*time.Second, func() bool { return s.isUnready(t) }) {
		t.Fatal("the server is still ready, in spite of the policies")
	}
}

// TestStoreOfPoliciesIsGone stops etcd for longer than the bound of staleness.
func TestStoreOfPoliciesIsGone(t *testing.T) {
	t.Parallel()
	s := withStaleness(t, "gone")
	must(t, s.KillEtcd())
	s.becomesUnready(t)
	s.checkStale(t)
	if !s.Running() {
		t.Error("the server ended")
	}
	must(t, s.StartEtcd(t.Context()))
	s.waitUntilInForce(t)
}

// TestStoreOfPoliciesIsRestored restores etcd from a backup while the server runs. The server ends, since its caches have
// objects that the store does not have; once it is started again, it decides from the store.
func TestStoreOfPoliciesIsRestored(t *testing.T) {
	t.Parallel()
	s := withStaleness(t, "restored")
	must(t, s.KillEtcd())
	must(t, s.BackUpEtcd())
	must(t, s.StartEtcd(t.Context()))
	s.waitUntilInForce(t)
	for i := range 20 { // the revision of the backup is not reached again soon
		late := newFaulty(fmt.Sprintf("late-%d", i), "Allow")
		if _, err := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	poll.Holds(t, "a policy that is not in the backup decides", func() bool { return s.asked(t, "late-19") == "allowed, no opinion, no opinion" })
	must(t, s.KillEtcd())
	must(t, s.RestoreEtcd())
	must(t, s.StartEtcd(t.Context()))
	poll.Holds(t, "the server has ended", func() bool { return !s.Running() })
	if log, err := s.Log(); err != nil || !strings.Contains(log, "the store has gone back to an earlier revision") {
		t.Errorf("the log does not say why: %v", err)
	}
	must(t, s.StartProviso(t.Context(), "/readyz"))
	s.waitUntilInForce(t)
	if got := s.asked(t, "late-19"); got != "no opinion, no opinion, no opinion" {
		t.Errorf("a policy that is not in the backup: got %s, want that it grants nothing", got)
	}
}

// TestRestartKnowsClients has a client send requests with its certificate, also over connections that it opens while a server starts. It is never anonymous.
func TestRestartKnowsClients(t *testing.T) {
	t.Parallel()
	s := newSeparate(t, "clients")
	var mu sync.Mutex
	codes, ctx := map[int]int{}, t.Context()
	ended, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range 4 {
		client, err := rest.HTTPClientFor(s.Client("admin")) // connections of its own
		must(t, err)
		group.Go(func() {
			for ended.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies", nil)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := client.Do(request)
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				body, _ := io.ReadAll(answer.Body) // the server may be killed meanwhile
				_ = answer.Body.Close()
				mu.Lock()
				codes[answer.StatusCode]++
				mu.Unlock()
				if strings.Contains(string(body), "system:anonymous") {
					t.Errorf("got %d %s", answer.StatusCode, body)
				}
			}
		})
	}
	for range 5 {
		s.restart(t, "/readyz")
	}
	end()
	group.Wait()
	t.Logf("codes: %v", codes)
	if codes[http.StatusOK] == 0 || codes[http.StatusServiceUnavailable] == 0 {
		t.Errorf("got the codes %v: no request came early, or none succeeded", codes)
	}
}

// TestUndecodablePolicy stores what is no policy, and no object at all. It cannot be listed, and
// with it no other of its kind can. The server goes on with what it has, as if the store were
// gone; after a restart it has nothing, and denies.
func TestUndecodablePolicy(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"cluster":    keyOf("undecodable"),
		"namespaced": "/registry/proviso/policy.proviso.dev/authorizationpolicies/demo/undecodable",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withStaleness(t, "undecodable-"+name)
			store := s.store(t)
			if _, err := store.Put(t.Context(), key, "{not json"); err != nil {
				t.Fatal(err)
			}
			s.becomesUnready(t)
			s.checkStale(t)
			// The lease on the policies may end before the check of the store has failed, which is what is logged.
			poll.Holds(t, "the log says so", func() bool {
				log, err := s.Log()
				return err == nil && strings.Contains(log, "Policies may be out of date")
			})
			// After half a minute the watch cache gives up, and kube-apiserver's library answers some lists from the store.
			for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				if !s.isUnready(t) {
					t.Fatal("the policies count as up to date, although nothing can watch them")
				}
			}

			// It is alive, but not ready. Who the admin is, it learns from kube-apiserver.
			s.restart(t, "/livez")
			poll.Holds(t, "it knows the admin", func() bool { code, _ := s.get(t, "/metrics"); return code == http.StatusOK })
			if !s.isUnready(t) {
				t.Error("after a restart: it is ready")
			}
			for _, resource := range []string{"allow", "deny"} {
				if got := s.asked(t, resource); got != "denied, denied, denied" {
					t.Errorf("after a restart: %s: got %s, want that everybody is denied", resource, got)
				}
			}
			poll.Holds(t, "the log names what cannot be read", func() bool {
				log, err := s.Log()
				return err == nil && strings.Contains(log, "Key: "+key)
			})

			// What the server cannot read, it cannot delete.
			if _, err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			s.waitUntilInForce(t)
		})
	}
}
