/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

func numbered(prefix string, count int) []string {
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

func policyOf(t *testing.T, name string, spec policyv1alpha1.AuthorizationPolicySpec) *Policy {
	t.Helper()
	key := Key{Name: name}
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		key = Key{Namespace: namespace, Name: name}
	}
	spec.Effect = policyv1alpha1.PolicyEffectDeny
	p, err := New(key, &spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKeysOfOnePolicyAreBounded indexes policies whose rules name many verbs, groups and resources, for many subjects.
func TestKeysOfOnePolicyAreBounded(t *testing.T) {
	t.Parallel()
	wide := policyv1alpha1.PolicyRule{Verbs: numbered("verb", 64), APIGroups: numbered("group", 64), Resources: numbered("things", 64)}
	var subjects []rbacv1.Subject
	for _, name := range numbered("user", 256) {
		subjects = append(subjects, rbacv1.Subject{Kind: "User", Name: name})
	}
	ordinary := policyv1alpha1.PolicyRule{Verbs: []string{"create", "delete"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/exec"}}
	for _, tc := range []struct {
		name     string
		rules    []policyv1alpha1.PolicyRule
		subjects []rbacv1.Subject
		want     int
	}{
		{name: "an ordinary policy", rules: []policyv1alpha1.PolicyRule{ordinary}, want: 4},
		{name: "for some users", rules: []policyv1alpha1.PolicyRule{ordinary}, subjects: subjects[:64], want: 4},
		{name: "for many users", rules: []policyv1alpha1.PolicyRule{ordinary}, subjects: subjects, want: 1},
		{name: "one wide rule", rules: []policyv1alpha1.PolicyRule{wide}, want: 1},
		{name: "many wide rules", rules: []policyv1alpha1.PolicyRule{wide, wide, wide, wide}, subjects: subjects, want: 1},
		{name: "paths", rules: []policyv1alpha1.PolicyRule{{Verbs: numbered("verb", 64), NonResourceURLs: numbered("/path", 64)}}, want: 64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := policyOf(t, "n/p", policyv1alpha1.AuthorizationPolicySpec{Rules: tc.rules, Subjects: tc.subjects})
			if got := len(p.keys()); got != tc.want {
				t.Errorf("got %d keys, want %d", got, tc.want)
			}
		})
	}
}

// TestWidePoliciesAreFound finds policies with more than maxKeys among others of the same subject, in their namespace and for
// the requests of their rules only, until they are removed.
func TestWidePoliciesAreFound(t *testing.T) {
	t.Parallel()
	wide := policyv1alpha1.PolicyRule{Verbs: append(numbered("verb", 63), "get"), APIGroups: append(numbered("group", 63), "apps"), Resources: []string{"deployments", "deployments/scale"}}
	paths := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}
	builder, changes := NewBuilder(), map[Key]*Policy{}
	add := func(name string, rules ...policyv1alpha1.PolicyRule) {
		p := policyOf(t, name, policyv1alpha1.AuthorizationPolicySpec{Rules: rules})
		changes[p.key] = p
	}
	for _, name := range numbered("other", linear) {
		add(name, policyv1alpha1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}})
	}
	add("wide", wide, paths)
	add("n/wide", wide)
	snapshot := builder.Apply(changes)
	if snapshot.restricting.everybody.byRequest == nil {
		t.Fatal("the policies are not indexed by requests")
	}
	found := func(s *Snapshot, a authorizer.AttributesRecord) string {
		a.User = &user.DefaultInfo{Name: "alice"}
		var names []string
		for _, m := range s.restricting.find(a, nil) {
			names = append(names, m.policy.key.Namespace+"/"+m.policy.key.Name)
		}
		return strings.Join(names, " ")
	}
	scale := authorizer.AttributesRecord{Verb: "get", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "scale", Namespace: "n", ResourceRequest: true}
	elsewhere, other, everywhere := scale, scale, scale
	elsewhere.Namespace, other.Verb, everywhere.Namespace = "m", "list", ""
	for _, tc := range []struct {
		name       string
		attributes authorizer.AttributesRecord
		want       string
	}{
		{"in the namespace", scale, "/wide n/wide"},
		{"in another namespace", elsewhere, "/wide"},
		{"in all namespaces", everywhere, "/wide"},
		{"another verb", other, ""},
		{"a path", authorizer.AttributesRecord{Verb: "get", Path: "/healthz"}, "/wide"},
		{"another path", authorizer.AttributesRecord{Verb: "get", Path: "/livez"}, ""},
	} {
		if got := found(snapshot, tc.attributes); got != tc.want {
			t.Errorf("%s: found %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := found(builder.Apply(map[Key]*Policy{{Name: "wide"}: nil}), scale); got != "n/wide" {
		t.Errorf("after the removal of one policy: found %q", got)
	}
}

// TestLongListsMatchAsShortOnes matches questions with a rule, and with a rule that has other entries, too.
func TestLongListsMatchAsShortOnes(t *testing.T) {
	t.Parallel()
	long := func(prefix string, entries []string) []string { return append(numbered(prefix, scanLimit), entries...) }
	values := []string{"", "a", "b", "*"}
	resources := []string{"", "a", "b", "*", "a/s", "*/s", "a/*", "*/*"}
	for _, entry := range values {
		for _, resource := range resources {
			short := policyv1alpha1.PolicyRule{Verbs: []string{entry, "b"}, APIGroups: []string{entry}, APIVersions: []string{entry}, Resources: []string{resource}, ResourceNames: []string{entry}}
			extended := policyv1alpha1.PolicyRule{
				Verbs: long("x", short.Verbs), APIGroups: long("x", short.APIGroups), APIVersions: long("x", short.APIVersions),
				Resources: long("x", short.Resources), ResourceNames: long("x", short.ResourceNames),
			}
			one, other := newRule(&short, policyv1alpha1.PolicyEffectDeny), newRule(&extended, policyv1alpha1.PolicyEffectDeny)
			for i := range 4 * 4 * 4 * 4 * 4 * 3 {
				next := func(of []string) string {
					defer func() { i /= len(of) }()
					return of[i%len(of)]
				}
				a := authorizer.AttributesRecord{
					Verb: next(values), APIGroup: next(values), APIVersion: next(values), Resource: next(values), Name: next(values),
					Subresource: next([]string{"", "s", "*"}), ResourceRequest: true,
				}
				if got, want := other.matches(a), one.matches(a); got != want {
					t.Fatalf("%+v: %+v matches %d, and with other entries %d", a, short, want, got)
				}
			}
		}
	}
}

// BenchmarkWidePolicies matches a request with policies that have as many entries as they may have.
func BenchmarkWidePolicies(b *testing.B) {
	spec := policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny}
	for i := range 64 {
		spec.Rules = append(spec.Rules, policyv1alpha1.PolicyRule{
			Verbs: append(numbered("verb", 63), "get"), APIGroups: append(numbered("group", 63), ""), Resources: append(numbered(fmt.Sprint("things", i), 63), "pods/log"),
		})
	}
	p := newPolicy(Key{Namespace: "n", Name: "p"}, &spec)
	a := authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "n", ResourceRequest: true}
	for b.Loop() {
		p.matches(a)
	}
}
