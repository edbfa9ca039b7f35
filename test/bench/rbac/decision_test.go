/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package rbac_test compares policies with RBAC: how long decisions take with as many bindings, in one run,
// and whether converted roles decide alike.
package rbac_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// matching is how many policies, or bindings, are about the user who asks. The first of
// them that is asked for allows the request.
const matching = 5

// condition leaves something to be evaluated later, and %d makes it one of its own.
const condition = `request.namespace == "n" && object.spec.size < %d`

// conditions are what policies say, from what is decided at once to what leaves most of it.
var conditions = map[string]string{
	"decided":  `request.namespace == "other" && object.spec.size < %d`,
	"residual": condition,
	"object":   `object.spec.size < %d && object.spec.storageClassName == "dev" && has(object.metadata.labels)`,
	"user":     `object.metadata.labels.owner == request.userInfo.username && object.spec.size < %d`,
	"medium": `request.verb in ["create", "update"] && request.userInfo.groups.exists(g, g.startsWith("system:")) && object.spec.size < %d &&
		object.spec.accessModes.all(m, m != "ReadWriteMany" || m == request.namespace) && has(object.metadata.labels)`,
}

// request is a request of alice.
var request authorizer.Attributes = authorizer.AttributesRecord{
	User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
	Verb: "update", APIVersion: "v1", Resource: "persistentvolumeclaims", Namespace: "n", Name: "data", ResourceRequest: true,
}

// userOf is whom policy or binding i of count is about: a few are about alice, evenly
// spread, and each of the others about somebody else.
func userOf(i, count int) string {
	if count <= matching || i%(count/matching) == count/matching-1 {
		return "alice"
	}
	return fmt.Sprintf("user-%d", i)
}

func compiler(b *testing.B) *partial.Compiler {
	b.Helper()
	residuals, err := cel.NewCompiler()
	if err != nil {
		b.Fatal(err)
	}
	policies, err := partial.NewPolicyCompiler(residuals)
	if err != nil {
		b.Fatal(err)
	}
	return policies
}

func newPolicy(b *testing.B, compiler *partial.Compiler, i, count int, condition string) *engine.Policy {
	b.Helper()
	policy, err := engine.New(keyOf(i), &policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Condition: condition,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: userOf(i, count)}},
		Rules:    []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update"}, APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}}},
	}, compiler)
	if err != nil {
		b.Fatal(err)
	}
	return policy
}

func keyOf(i int) engine.Key { return engine.Key{Name: fmt.Sprintf("policy-%d", i)} }

// policies makes policies; those about others are unconditional, as nobody asks them.
func policies(b *testing.B, count int, condition string) map[engine.Key]*engine.Policy {
	b.Helper()
	c, result := compiler(b), make(map[engine.Key]*engine.Policy, count)
	for i := range count {
		text := ""
		if condition != "" && userOf(i, count) == "alice" {
			text = fmt.Sprintf(condition, i+1)
		}
		result[keyOf(i)] = newPolicy(b, c, i, count, text)
	}
	return result
}

// BenchmarkDecision is one decision.
func BenchmarkDecision(b *testing.B) {
	for _, count := range []int{1, 100, 1000, 10000, 100000} {
		b.Run(fmt.Sprintf("policies=%d", count), func(b *testing.B) {
			b.Run("authorizer=policies", func(b *testing.B) { decidePolicies(b, count, "") })
			b.Run("authorizer=conditional-policies", func(b *testing.B) { decidePolicies(b, count, condition) })
			b.Run("authorizer=rbac", func(b *testing.B) { decideRBAC(b, count) })
		})
	}
}

// BenchmarkConditionalDecision is one decision by five policies of a hundred, by what
// their conditions say.
func BenchmarkConditionalDecision(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		b.Run("conditions="+name, func(b *testing.B) { decidePolicies(b, 100, conditions[name]) })
	}
}

func decidePolicies(b *testing.B, count int, condition string) {
	b.Helper()
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(policies(b, count, condition)))
	granting, ctx := &engine.Authorizer{Source: source, Part: engine.Granting}, b.Context()
	first := granting.Decide(ctx, request)
	switch want := min(count, matching); condition {
	case "":
		if !first.IsAllow() {
			b.Fatal("not allowed")
		}
	case conditions["decided"]:
		if !first.IsNoOpinion() {
			b.Fatal("not decided")
		}
	default:
		if len(first.Conditions()) != want {
			b.Fatalf("%d conditions", len(first.Conditions()))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := granting.Decide(ctx, request); d.IsUnconditional() != first.IsUnconditional() {
			b.Fatal(d.Reason())
		}
	}
}

func decideRBAC(b *testing.B, count int) {
	b.Helper()
	rules, ctx := newRBAC(b, count), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if d, reason, err := rules.Authorize(ctx, request); d != authorizer.DecisionAllow || err != nil {
			b.Fatal(d, reason, err)
		}
	}
}

// newRBAC makes the authorizer of kube-apiserver, on listers as there.
func newRBAC(b *testing.B, count int) *rbac.RBACAuthorizer {
	b.Helper()
	stores := [4]cache.Indexer{}
	for i := range stores {
		stores[i] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, roleBindings, clusterRoles, clusterRoleBindings := stores[0], stores[1], stores[2], stores[3]
	add := func(store cache.Indexer, object any) {
		if err := store.Add(object); err != nil {
			b.Fatal(err)
		}
	}
	add(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "volumes"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"create", "update"}, APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}},
	}})
	for i := range count {
		add(clusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%d", i)},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: userOf(i, count)}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "volumes"},
		})
	}
	return rbac.New(
		&rbac.RoleGetter{Lister: rbaclisters.NewRoleLister(roles)},
		&rbac.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(roleBindings)},
		&rbac.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(clusterRoles)},
		&rbac.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(clusterRoleBindings)},
	)
}

// BenchmarkApply is one policy of ten thousand that is replaced. Either each is about a
// user of its own, or all are about one group.
func BenchmarkApply(b *testing.B) {
	const count = 10000
	for _, tc := range []struct {
		name     string
		subjects []rbacv1.Subject
	}{{"subjects=distinct", nil}, {"subjects=one", []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "devs"}}}} {
		b.Run(tc.name, func(b *testing.B) {
			c, all := compiler(b), map[engine.Key]*engine.Policy{}
			for i := range count {
				all[keyOf(i)] = unconditional(b, c, i, tc.subjects)
			}
			builder := engine.NewBuilder()
			builder.Apply(all)
			next := [2]*engine.Policy{unconditional(b, c, 7, tc.subjects), unconditional(b, c, 7, tc.subjects)}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				builder.Apply(map[engine.Key]*engine.Policy{keyOf(7): next[i%2]})
			}
		})
	}
}

func unconditional(b *testing.B, c *partial.Compiler, i int, subjects []rbacv1.Subject) *engine.Policy {
	b.Helper()
	if subjects == nil {
		subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: fmt.Sprintf("user-%d", i)}}
	}
	policy, err := engine.New(keyOf(i), &policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Subjects: subjects,
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update"}, APIGroups: []string{""}, Resources: []string{fmt.Sprintf("resource-%d", i%100)}}},
	}, c)
	if err != nil {
		b.Fatal(err)
	}
	return policy
}

// BenchmarkHeap is what a policy occupies. The conditions of all of them differ.
func BenchmarkHeap(b *testing.B) {
	for _, count := range []int{100, 1000} {
		for name, text := range map[string]string{"unconditional": "", "conditional": condition} {
			b.Run(fmt.Sprintf("policies=%d/%s", count, name), func(b *testing.B) {
				var used float64
				for b.Loop() {
					used = heapPerPolicy(b, count, text)
				}
				b.ReportMetric(used, "heap-B/policy")
			})
		}
	}
}

func heapPerPolicy(b *testing.B, count int, text string) float64 {
	b.Helper()
	c := compiler(b)
	newPolicy(b, c, count, count, fmt.Sprintf(condition, count+1)) // what all share
	before := heap()
	snapshot := snapshotOf(b, c, count, text)
	used := heap() - before
	runtime.KeepAlive(snapshot)
	runtime.KeepAlive(c)
	return used / float64(count)
}

func snapshotOf(b *testing.B, c *partial.Compiler, count int, text string) *engine.Snapshot {
	b.Helper()
	all := map[engine.Key]*engine.Policy{}
	for i := range count {
		own := text
		if own != "" {
			own = fmt.Sprintf(own, i+1)
		}
		all[keyOf(i)] = newPolicy(b, c, i, count, own)
	}
	return engine.NewBuilder().Apply(all)
}

func heap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
