/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package convert_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/convert"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// permission returns a ClusterRoleBinding with which alice gets and lists pods.
func permission(name string) *rbac.Permission {
	return &rbac.Permission{
		Kind: rbac.KindClusterRoleBinding, Name: name, Role: rbacv1.RoleRef{Kind: rbac.KindClusterRole, Name: "r"},
		Spec: &policyv1alpha1.AuthorizationPolicySpec{
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
			Rules:    []policyv1alpha1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
		},
	}
}

// requests returns the requests that policies or bindings allow: each subject with each combination of the entries of a rule.
func requests(specs ...*policyv1alpha1.AuthorizationPolicySpec) map[string]bool {
	all := map[string]bool{}
	orNone := func(entries []string) []string {
		if len(entries) == 0 {
			return []string{"-"}
		}
		return entries
	}
	for _, spec := range specs {
		for _, s := range spec.Subjects {
			for _, r := range spec.Rules {
				for _, verb := range r.Verbs {
					for _, group := range orNone(r.APIGroups) {
						for _, resource := range orNone(r.Resources) {
							for _, name := range orNone(r.ResourceNames) {
								for _, url := range orNone(r.NonResourceURLs) {
									all[strings.Join([]string{s.Kind, s.Namespace, s.Name, verb, group, resource, name, url}, " ")] = true
								}
							}
						}
					}
				}
			}
		}
	}
	return all
}

// TestEntries converts bindings with entries that a policy may not have. No policy allows more than its binding.
func TestEntries(t *testing.T) {
	t.Parallel()
	const alice = "User  alice "
	rule := func(change func(*policyv1alpha1.PolicyRule)) func(*rbac.Permission) {
		return func(p *rbac.Permission) { change(&p.Spec.Rules[0]) }
	}
	for _, tc := range []struct {
		name    string
		change  func(*rbac.Permission)
		want    []string // requests
		leftOut []string // how the reports of what is left out begin
	}{
		{"nothing", func(*rbac.Permission) {}, []string{alice + "get  pods - -", alice + "list  pods - -"}, nil},
		{"all verbs", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs = []string{"*"} }), []string{alice + "*  pods - -"}, nil},
		{"a verb in capital letters", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs = []string{"GET", "list"} }), []string{alice + "list  pods - -"}, []string{`the verb "GET": `}},
		{"no verb that is left", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs = []string{"GET"} }), nil, []string{`the verb "GET": `}},
		{"a verb twice", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs = []string{"get", "get"} }), []string{alice + "get  pods - -"}, nil},
		{"an API group that is none", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs, r.APIGroups = []string{"get"}, []string{"a b", "apps"} }), []string{alice + "get apps pods - -"}, []string{`the API group "a b": `}},
		{"no API group that is left", rule(func(r *policyv1alpha1.PolicyRule) { r.APIGroups = []string{"a b"} }), nil, []string{`the API group "a b": `}},
		{"all subresources", rule(func(r *policyv1alpha1.PolicyRule) {
			r.Verbs, r.Resources = []string{"get"}, []string{"pods/*", "*/scale"}
		}), []string{alice + "get  */scale - -"}, []string{`the resource "pods/*": `}},
		{"no resource that is left", rule(func(r *policyv1alpha1.PolicyRule) { r.Resources = []string{"pods/*"} }), nil, []string{`the resource "pods/*": `}},
		{"a name", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs, r.ResourceNames = []string{"get"}, []string{"a"} }), []string{alice + "get  pods a -"}, nil},
		{"a wildcard as a name", rule(func(r *policyv1alpha1.PolicyRule) { r.Verbs, r.ResourceNames = []string{"get"}, []string{"*", "a"} }), []string{alice + "get  pods a -"}, []string{`the resource name "*": `}},
		{"no name that is left", rule(func(r *policyv1alpha1.PolicyRule) { r.ResourceNames = []string{"*"} }), nil, []string{`the resource name "*": `}},
		{"two rules, one of them without verbs that can be converted", func(p *rbac.Permission) {
			p.Spec.Rules = append(p.Spec.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"GET"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
		}, []string{alice + "get  pods - -", alice + "list  pods - -"}, []string{`the verb "GET": `}},
		{"URLs", rule(func(r *policyv1alpha1.PolicyRule) {
			*r = policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/a", "/b*", "/c/***", "*", "/d*e"}}
		}), []string{alice + "get - - - /a", alice + "get - - - /b*", alice + "get - - - /c/*", alice + "get - - - *"}, []string{`the URL "/d*e": `}},
		{"no URL that is left", rule(func(r *policyv1alpha1.PolicyRule) {
			*r = policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"a"}}
		}), nil, []string{`the URL "a": `}},
		{"a subject without a name", func(p *rbac.Permission) {
			p.Spec.Rules[0].Verbs = []string{"get"}
			p.Spec.Subjects = append(p.Spec.Subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName})
		}, []string{alice + "get  pods - -"}, []string{`Group "" of namespace "": `}},
		{"no subject that is left", func(p *rbac.Permission) { p.Spec.Subjects[0].Name = strings.Repeat("a", 1025) }, nil, []string{`User "aaa`}},
		{"a service account", func(p *rbac.Permission) {
			p.Spec.Rules[0].Verbs = []string{"get"}
			p.Spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "n", Name: "s"}}
		}, []string{"ServiceAccount n s get  pods - -"}, nil},
		{"the same mistake twice", func(p *rbac.Permission) {
			p.Spec.Rules = []policyv1alpha1.PolicyRule{{Verbs: []string{"GET"}, APIGroups: []string{""}, Resources: []string{"a"}}, {Verbs: []string{"GET"}, APIGroups: []string{""}, Resources: []string{"b"}}}
		}, nil, []string{`the verb "GET": `}},
		{"in a namespace", func(p *rbac.Permission) { p.Kind, p.Namespace = rbac.KindRoleBinding, "n" }, []string{alice + "get  pods - -", alice + "list  pods - -"}, nil},
		{"a description that is too long", func(p *rbac.Permission) { p.Role.Name = strings.Repeat("r", 1024) }, nil, []string{"description: Too long"}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := permission("b")
			tc.change(p)
			policies, results := convert.Policies([]*rbac.Permission{p})
			var specs []*policyv1alpha1.AuthorizationPolicySpec
			for _, made := range policies {
				specs = append(specs, made.Spec)
				if made.Key != (engine.Key{Namespace: p.Namespace, Name: "b"}) || made.Spec.Effect != policyv1alpha1.PolicyEffectAllow {
					t.Errorf("got %v with the effect %s", made.Key, made.Spec.Effect)
				}
			}
			want := map[string]bool{}
			for _, request := range tc.want {
				want[request] = true
			}
			if diff := cmp.Diff(want, requests(specs...)); diff != "" {
				t.Errorf("other requests (-want +got):\n%s", diff)
			}
			if len(results) != 1 || len(results[0].LeftOut) != len(tc.leftOut) || len(results[0].Policies) != len(policies) {
				t.Fatalf("got %+v", results)
			}
			for i, begin := range tc.leftOut {
				if !strings.HasPrefix(results[0].LeftOut[i], begin) {
					t.Errorf("left out: got %q, want %q", results[0].LeftOut[i], begin)
				}
			}
		})
	}
}

// TestNothing converts bindings that allow nothing, or whose role is not known. There is no policy, and the result says why.
func TestNothing(t *testing.T) {
	t.Parallel()
	const empty = "the binding has no subjects, or its role no rules: it allows nothing"
	for _, tc := range []struct {
		name   string
		change func(*rbac.Permission)
		want   convert.Result
	}{
		{"no subjects", func(p *rbac.Permission) { p.Spec.Subjects = nil }, convert.Result{Remarks: []string{empty}}},
		{"no rules, with a remark", func(p *rbac.Permission) { p.Spec.Rules, p.Remarks = nil, []string{"x"} }, convert.Result{Remarks: []string{"x", empty}}},
		{"an unknown role", func(p *rbac.Permission) { p.Unknown, p.Spec.Rules, p.Remarks = true, nil, []string{"x"} }, convert.Result{LeftOut: []string{"x"}}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := permission("b")
			tc.change(p)
			policies, results := convert.Policies([]*rbac.Permission{p})
			tc.want.Source = `ClusterRoleBinding "b"`
			if diff := cmp.Diff([]convert.Result{tc.want}, results); diff != "" || len(policies) > 0 {
				t.Errorf("got %d policies, -want +got:\n%s", len(policies), diff)
			}
		})
	}
	if policies, results := convert.Policies(nil); policies != nil || results != nil {
		t.Errorf("of nothing: got %v, %v", policies, results)
	}
}

// TestLarge converts bindings with more entries than one policy may have. All policies together allow the same requests.
func TestLarge(t *testing.T) {
	t.Parallel()
	entries := func(n int, format string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	for _, tc := range []struct {
		name   string
		change func(*rbac.Permission)
		want   int // policies
	}{
		{"as many verbs as fit", func(p *rbac.Permission) { p.Spec.Rules[0].Verbs = entries(64, "v%d") }, 1},
		{"verbs and resources", func(p *rbac.Permission) {
			p.Spec.Rules[0].Verbs, p.Spec.Rules[0].Resources = entries(65, "v%d"), entries(129, "r%d")
		}, 1},
		{"groups and names", func(p *rbac.Permission) {
			p.Spec.Rules[0].APIGroups, p.Spec.Rules[0].ResourceNames = entries(65, "g%d"), entries(257, "n%d")
		}, 1},
		{"URLs", func(p *rbac.Permission) {
			p.Spec.Rules[0] = policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: entries(65, "/u%d")}
		}, 1},
		{"rules that become too many", func(p *rbac.Permission) {
			p.Spec.Rules = slices.Repeat([]policyv1alpha1.PolicyRule{{Verbs: entries(65, "v%d"), APIGroups: []string{""}, Resources: entries(2, "r%d")}}, 33)
		}, 2},
		{"subjects and rules", func(p *rbac.Permission) {
			p.Spec.Subjects = nil
			for i := range 257 {
				p.Spec.Subjects = append(p.Spec.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: fmt.Sprint("u", i)})
			}
			p.Spec.Rules = nil
			for i := range 65 {
				p.Spec.Rules = append(p.Spec.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", i)}})
			}
		}, 4},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := permission("b")
			tc.change(p)
			policies, results := convert.Policies([]*rbac.Permission{p})
			if len(policies) != tc.want || len(results[0].LeftOut) > 0 {
				t.Fatalf("got %d policies, left out %q, want %d", len(policies), results[0].LeftOut, tc.want)
			}
			var specs []*policyv1alpha1.AuthorizationPolicySpec
			names := map[string]bool{}
			for _, made := range policies {
				specs, names[made.Key.Name] = append(specs, made.Spec), true
			}
			if want, got := requests(p.Spec), requests(specs...); !maps.Equal(want, got) {
				t.Errorf("got %d requests, want %d", len(got), len(want))
			}
			if len(names) != len(policies) || !names["b"] {
				t.Errorf("got the names %v, want the one of the binding and others", names)
			}
		})
	}
}

// TestNames checks which names of bindings policies keep, and that no two policies have one name.
func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	generated := func(name string) string { // of a single binding
		policies, _ := convert.Policies([]*rbac.Permission{permission(name)})
		return policies[0].Key.Name
	}
	for _, tc := range []struct{ name, binding, want string }{
		{"a name that a policy may have", "a.b-c", "a.b-c"},
		{"the longest name", long, long},
		{"a longer name", long + "a", long[:40] + "-"},
		{"a name with a colon", "system:node", "system-node-"},
		{"capital letters", "TeamA", "teama-"},
		{"signs at the ends", ":a:", "a-"},
		{"a sign where the name is cut", strings.Repeat("a", 39) + ":b", strings.Repeat("a", 39) + "-"},
		{"only signs", "::", ""},
		{"other letters", "ä\n", ""},
	} {
		got := generated(tc.binding)
		if kept := got == tc.binding; kept && got != tc.want || !kept && (!strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+8) {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
		if again := generated(tc.binding); again != got {
			t.Errorf("%s: got %s, and then %s", tc.name, got, again)
		}
	}
	taken := generated("a:b") // another binding has this name, and keeps it
	policies, results := convert.Policies([]*rbac.Permission{permission("a:b"), permission("a_b"), permission(taken)})
	names := map[string]bool{}
	for _, p := range policies {
		names[p.Key.Name] = true
	}
	if len(names) != 3 || results[2].Policies[0] != taken || results[0].Policies[0] == taken {
		t.Errorf("got %+v, want three names", results)
	}
	other := permission(taken) // in a namespace, the name is free
	other.Namespace = "n"
	if _, results := convert.Policies([]*rbac.Permission{permission("a:b"), other}); results[0].Policies[0] != taken {
		t.Errorf("got %+v, want the name %s", results, taken)
	}
}
