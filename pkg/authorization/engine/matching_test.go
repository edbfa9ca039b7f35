/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// both runs a request against an index that is searched one by one and one that is not.
func both(tb testing.TB, specs map[string]spec, a authorizer.Attributes) string {
	tb.Helper()
	buffer := decided(tb, publish(tb, specs), a)
	more := map[string]spec{}
	for name, s := range specs {
		more[name] = s
		for i := range 40 { // of the same subjects, and of no request
			other := s
			other.Rules = []rule{{Verbs: []string{"never"}, APIGroups: []string{"never"}, Resources: []string{"never"}}}
			more[fmt.Sprintf("%s-%d", name, i)] = other
		}
	}
	if many := decided(tb, publish(tb, more), a); many != buffer {
		tb.Errorf("among few policies %s, among many %s", buffer, many)
	}
	return buffer
}

// TestVersions asks that a request in another version than the condition was written for
// is not allowed by an Allow policy, and is matched by others whatever the condition says.
func TestVersions(t *testing.T) {
	t.Parallel()
	versioned := []rule{{Verbs: []string{"*"}, APIGroups: []string{""}, APIVersions: []string{"v1", "v1beta1"}, Resources: []string{"pods"}}}
	for _, tc := range []struct {
		name    string
		effect  policyv1alpha1.PolicyEffect
		version string
		want    string
	}{
		{"Allow within", allow, "v1", "NoOpinion, [Allow p: object.a == 1]"},
		{"Allow within the second", allow, "v1beta1", "NoOpinion, [Allow p: object.a == 1]"},
		{"Allow outside", allow, "v2", "NoOpinion, NoOpinion"},
		{"Allow of all", allow, "*", "NoOpinion, [Allow p: false]"},
		{"Allow of none", allow, "", "NoOpinion, [Allow p: false]"},
		{"Deny within", deny, "v1", "[Deny p: object.a == 1], NoOpinion"},
		{"Deny outside", deny, "v2", "Deny, NoOpinion"},
		{"Deny of all", deny, "*", "[Deny p: true], NoOpinion"},
		{"Deny of none", deny, "", "[Deny p: true], NoOpinion"},
		{"NoOpinion within", noOpinion, "v1", "NoOpinion, [NoOpinion p: object.a == 1; Allow yes: true]"},
		{"NoOpinion outside", noOpinion, "v2", "NoOpinion, NoOpinion"},
		{"NoOpinion of all", noOpinion, "*", "NoOpinion, [NoOpinion p: true; Allow yes: true]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			specs := map[string]spec{"p": {Effect: tc.effect, Rules: versioned, Condition: "object.a == 1"}}
			if tc.effect == noOpinion {
				specs["yes"] = spec{Effect: allow}
			}
			a := podsOf("update")
			a.APIVersion = tc.version
			if got := both(t, specs, a); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestReviewsOfAllVersions asks that a policy for some versions makes an answer about all of them depend on a
// condition, so that a reason can name the policy, and that the folded answer allows nothing.
func TestReviewsOfAllVersions(t *testing.T) {
	t.Parallel()
	some := []rule{{Verbs: []string{"*"}, APIGroups: []string{""}, APIVersions: []string{"v1", "v1beta1"}, Resources: []string{"pods"}}}
	for _, tc := range []struct {
		name       string
		specs      map[string]spec
		want, fold string
	}{
		{"Allow without a condition", map[string]spec{"p": {Effect: allow, Rules: some}}, "NoOpinion, [Allow p: false]", "NoOpinion"},
		{"Deny without a condition", map[string]spec{"p": {Effect: deny, Rules: some}}, "Deny, NoOpinion", "Deny"},
		{"NoOpinion without a condition", map[string]spec{"p": {Effect: noOpinion, Rules: some}, "yes": {Effect: allow}}, "NoOpinion, NoOpinion", "NoOpinion"},
		{"Deny on a condition, and Allow", map[string]spec{"p": {Effect: deny, Rules: some, Condition: "object.a == 1"}, "yes": {Effect: allow}}, "[Deny p: true], Allow", "Deny"},
		{"NoOpinion on a condition, and Allow", map[string]spec{"p": {Effect: noOpinion, Rules: some, Condition: "object.a == 1"}, "yes": {Effect: allow}}, "NoOpinion, [NoOpinion p: true; Allow yes: true]", "NoOpinion"},
		{"Allow of some, and Allow of all", map[string]spec{"p": {Effect: allow, Rules: some}, "yes": {Effect: allow}}, "NoOpinion, Allow", "Allow"},
	} {
		for _, version := range []string{"*", ""} {
			t.Run(tc.name+"/"+version, func(t *testing.T) {
				t.Parallel()
				a := podsOf("update")
				a.APIVersion = version
				if got := both(t, tc.specs, a); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if got := show(t, chainFrom(t, publish(t, tc.specs)).Decide(t.Context(), a).Fold()); got != tc.fold {
					t.Errorf("folded: got %s, want %s", got, tc.fold)
				}
			})
		}
	}
}

// TestVersionsOfSeveralRules asks that the rule that was written for the version decides.
func TestVersionsOfSeveralRules(t *testing.T) {
	t.Parallel()
	rules := []rule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, APIVersions: []string{"v1"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, APIVersions: []string{"v2"}, Resources: []string{"*"}},
	}
	a := podsOf("update")
	for version, want := range map[string]string{"v1": "[Deny p: object.a == 1], NoOpinion", "v2": "[Deny p: object.a == 1], NoOpinion", "v3": "Deny, NoOpinion"} {
		a.APIVersion = version
		if got := both(t, map[string]spec{"p": {Effect: deny, Rules: rules, Condition: "object.a == 1"}}, a); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

// TestDenyOfUpdateOrPatch denies both verbs by a policy about one of them.
func TestDenyOfUpdateOrPatch(t *testing.T) {
	t.Parallel()
	for verb, other := range map[string]string{"update": "patch", "patch": "update"} {
		rules := []rule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}}
		for effect, want := range map[policyv1alpha1.PolicyEffect]string{deny: "Deny, NoOpinion", allow: "NoOpinion, NoOpinion"} {
			if got := both(t, map[string]spec{"p": {Effect: effect, Rules: rules}}, podsOf(other)); got != want {
				t.Errorf("%s of %s: %s is %s, want %s", effect, verb, other, got, want)
			}
		}
	}
}

// TestRules checks that a rule matches the requests that a rule of RBAC with the same fields matches. A review about every value
// of a field must match only if the rule has every value.
func TestRules(t *testing.T) {
	t.Parallel()
	with := func(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		a := podsOf("get")
		change(&a)
		return a
	}
	of := func(resource, subresource string) authorizer.AttributesRecord {
		return with(func(a *authorizer.AttributesRecord) { a.Resource, a.Subresource = resource, subresource })
	}
	for _, tc := range []struct {
		name  string
		rule  rule
		a     authorizer.AttributesRecord
		match bool
	}{
		{"resource", rule{Resources: []string{"pods"}}, of("pods", ""), true},
		{"other resource", rule{Resources: []string{"pods"}}, of("nodes", ""), false},
		{"no subresource of a resource", rule{Resources: []string{"pods"}}, of("pods", "exec"), false},
		{"subresource", rule{Resources: []string{"pods/exec"}}, of("pods", "exec"), true},
		{"not the resource of a subresource", rule{Resources: []string{"pods/exec"}}, of("pods", ""), false},
		{"other subresource", rule{Resources: []string{"pods/exec"}}, of("pods", "log"), false},
		{"subresource of another", rule{Resources: []string{"pods/exec"}}, of("nodes", "exec"), false},
		{"all resources", rule{Resources: []string{"*"}}, of("pods", ""), true},
		{"all resources have subresources", rule{Resources: []string{"*"}}, of("pods", "exec"), true},
		{"a subresource of all", rule{Resources: []string{"*/scale"}}, of("deployments", "scale"), true},
		{"a subresource of all is no resource", rule{Resources: []string{"*/scale"}}, of("deployments", ""), false},
		{"a subresource of all is no other", rule{Resources: []string{"*/scale"}}, of("deployments", "status"), false},
		{"subresource with a slash", rule{Resources: []string{"userextras/a/b"}}, of("userextras", "a/b"), true},
		{"slash without subresource", rule{Resources: []string{"pods/"}}, of("pods", ""), false},
		{"asked about all resources", rule{Resources: []string{"pods"}}, of("*", ""), false},
		{"asked about all resources by all", rule{Resources: []string{"*"}}, of("*", ""), true},
		{"asked about a subresource of all", rule{Resources: []string{"*/scale"}}, of("*", "scale"), true},
		{"asked about all subresources", rule{Resources: []string{"pods/exec", "*/scale"}}, of("pods", "*"), false},
		{"asked about all resources for one of all", rule{Resources: []string{"*/scale"}}, of("*", ""), false},
		{"asked about no resource", rule{Resources: []string{"pods"}}, of("", ""), false},
		{"verb", rule{Verbs: []string{"get", "list"}}, podsOf("list"), true},
		{"other verb", rule{Verbs: []string{"get"}}, podsOf("list"), false},
		{"verb in another case", rule{Verbs: []string{"get"}}, podsOf("GET"), false},
		{"asked about all verbs", rule{Verbs: []string{"get"}}, podsOf("*"), false},
		{"asked about all verbs by all", rule{Verbs: []string{"*"}}, podsOf("*"), true},
		{"asked about no verb", rule{Verbs: []string{"get"}}, podsOf(""), false},
		{"group", rule{APIGroups: []string{"apps"}}, with(func(a *authorizer.AttributesRecord) { a.APIGroup = "apps" }), true},
		{"other group", rule{APIGroups: []string{"apps"}}, podsOf("get"), false},
		{"asked about all groups", rule{APIGroups: []string{"", "apps"}}, with(func(a *authorizer.AttributesRecord) { a.APIGroup = "*" }), false},
		{"asked about all groups by all", rule{APIGroups: []string{"*"}}, with(func(a *authorizer.AttributesRecord) { a.APIGroup = "*" }), true},
		{"name", rule{ResourceNames: []string{"o", "p"}}, podsOf("get"), true},
		{"other name", rule{ResourceNames: []string{"o"}}, podsOf("get"), false},
		{"no name", rule{ResourceNames: []string{"p"}}, with(func(a *authorizer.AttributesRecord) { a.Name = "" }), false},
		{"a name is no wildcard", rule{ResourceNames: []string{"*"}}, podsOf("get"), false},
		{"a path is no resource", rule{}, authorizer.AttributesRecord{User: podsOf("").User, Verb: "get", Path: "/pods"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := map[bool]string{true: "Deny, Allow", false: "NoOpinion, NoOpinion"}[tc.match]
			rules := []rule{withDefaults(tc.rule)}
			if got := both(t, map[string]spec{"a": {Effect: allow, Rules: rules}, "d": {Effect: deny, Rules: rules}}, tc.a); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func withDefaults(r rule) rule {
	for _, values := range []*[]string{&r.Verbs, &r.APIGroups, &r.Resources} {
		if *values == nil {
			*values = []string{"*"}
		}
	}
	return r
}

// TestPaths checks that a rule matches the paths that a rule of RBAC matches, and that a rule about resources matches no path.
func TestPaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, path string
		match         bool
	}{
		{"/healthz", "/healthz", true},
		{"/healthz", "/healthz/etcd", false},
		{"/healthz/*", "/healthz/etcd", true},
		{"/healthz/*", "/healthz/", true},
		{"/healthz/*", "/healthz", false},
		{"/healthz*", "/healthzy", true},
		{"/healthz**", "/healthz", true},
		{"*", "/healthz", true},
		{"/*/etcd", "/healthz/etcd", false},
	} {
		t.Run(tc.pattern+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			rules := []rule{{Verbs: []string{"get"}, NonResourceURLs: []string{tc.pattern}}}
			want := map[bool]string{true: "Deny, Allow", false: "NoOpinion, NoOpinion"}[tc.match]
			specs := map[string]spec{"a": {Effect: allow, Rules: rules}, "d": {Effect: deny, Rules: rules}, "resources": {Effect: deny}}
			if got := both(t, specs, authorizer.AttributesRecord{User: podsOf("").User, Verb: "get", Path: tc.path}); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestNamespaces asks that a namespaced policy is about the requests in its namespace.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		namespace string
		path      bool
		want      string
	}{
		{"own", "n", false, "Deny, Allow"},
		{"other", "o", false, "NoOpinion, NoOpinion"},
		{"none", "", false, "NoOpinion, NoOpinion"},
		{"all", "*", false, "NoOpinion, NoOpinion"},
		{"path", "n", true, "NoOpinion, NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := podsOf("get")
			a.Namespace, a.ResourceRequest, a.Path = tc.namespace, !tc.path, "/x"
			rules := append(append([]rule(nil), anything...), anyPath...)
			if got := both(t, map[string]spec{"n/a": {Effect: allow, Rules: rules}, "n/d": {Effect: deny, Rules: rules}}, a); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSubjects asks whom a policy is about.
func TestSubjects(t *testing.T) {
	t.Parallel()
	named := func(name string, groups ...string) user.Info { return &user.DefaultInfo{Name: name, Groups: groups} }
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "n", Name: "robot"}
	for _, tc := range []struct {
		name     string
		subjects []rbacv1.Subject
		user     user.Info
		want     string
	}{
		{"user", []rbacv1.Subject{{Kind: "User", Name: "alice"}}, named("alice"), "Deny, Allow"},
		{"other user", []rbacv1.Subject{{Kind: "User", Name: "alice"}}, named("Alice"), "NoOpinion, NoOpinion"},
		{"user as a group", []rbacv1.Subject{{Kind: "User", Name: "alice"}}, named("bob", "alice"), "NoOpinion, NoOpinion"},
		{"group", []rbacv1.Subject{{Kind: "Group", Name: "devs"}}, named("bob", "ops", "devs"), "Deny, Allow"},
		{"group twice", []rbacv1.Subject{{Kind: "Group", Name: "devs"}, {Kind: "User", Name: "bob"}}, named("bob", "devs", "devs"), "Deny, Allow"},
		{"group as a user", []rbacv1.Subject{{Kind: "Group", Name: "devs"}}, named("devs"), "NoOpinion, NoOpinion"},
		{"service account", []rbacv1.Subject{account}, named("system:serviceaccount:n:robot"), "Deny, Allow"},
		{"service account elsewhere", []rbacv1.Subject{account}, named("system:serviceaccount:m:robot"), "NoOpinion, NoOpinion"},
		{"service account by its bare name", []rbacv1.Subject{account}, named("robot"), "NoOpinion, NoOpinion"},
		{"second of several", []rbacv1.Subject{account, {Kind: "User", Name: "alice"}}, named("alice"), "Deny, Allow"},
		{"a group is no wildcard", []rbacv1.Subject{{Kind: "Group", Name: "*"}}, named("bob", "devs"), "NoOpinion, NoOpinion"},
		{"a user is no wildcard", []rbacv1.Subject{{Kind: "User", Name: "*"}}, named("bob", "devs"), "NoOpinion, NoOpinion"},
		{"omitted, authenticated", nil, named("bob", user.AllAuthenticated), "Deny, Allow"},
		{"omitted, anonymous", nil, named(user.Anonymous, user.AllUnauthenticated), "Deny, NoOpinion"},
		{"omitted, nobody", nil, nil, "Deny, NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := podsOf("get")
			a.User = tc.user
			got := both(t, map[string]spec{"a": {Effect: allow, Subjects: tc.subjects}, "d": {Effect: deny, Subjects: tc.subjects}}, a)
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestWideReviews asks that a review about many requests has no conditions when it is
// folded, and that only what holds for all of them is unconditional.
func TestWideReviews(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*authorizer.AttributesRecord){
		"every verb": func(a *authorizer.AttributesRecord) { a.Verb = "*" }, "no verb": func(a *authorizer.AttributesRecord) { a.Verb = "" },
		"every group":   func(a *authorizer.AttributesRecord) { a.APIGroup = "*" },
		"every version": func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }, "no version": func(a *authorizer.AttributesRecord) { a.APIVersion = "" },
		"every resource": func(a *authorizer.AttributesRecord) { a.Resource = "*" }, "no resource": func(a *authorizer.AttributesRecord) { a.Resource = "" },
		"every subresource": func(a *authorizer.AttributesRecord) { a.Subresource = "*" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := podsOf("get")
			change(&a)
			// A condition that would be true of the review may be false of a request.
			for effect, want := range map[policyv1alpha1.PolicyEffect]string{allow: "NoOpinion, NoOpinion", deny: "Deny, NoOpinion", noOpinion: "NoOpinion, NoOpinion"} {
				source := publish(t, map[string]spec{"p": {Effect: effect, Condition: `request.name == "p"`}})
				got := show(t, partOf(source, false).Decide(t.Context(), a).Fold()) + ", " + show(t, partOf(source, true).Decide(t.Context(), a).Fold())
				if got != want {
					t.Errorf("%s: got %s, want %s", effect, got, want)
				}
			}
			if got := both(t, map[string]spec{"p": {Effect: allow}}, a); got != "NoOpinion, Allow" {
				t.Errorf("what allows everything: got %s", got)
			}
		})
	}
}

// TestBroken asks that a policy that cannot be compiled denies what its rules match, and
// grants nothing if its effect is Allow.
func TestBroken(t *testing.T) {
	t.Parallel()
	only := []rule{{Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	for effect, want := range map[policyv1alpha1.PolicyEffect]string{allow: "NoOpinion, Allow", deny: "Deny, Allow", noOpinion: "Deny, Allow", "Other": "Deny, Allow"} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			policies := compiled(t, map[string]spec{"yes": {Effect: allow}})
			key := keyOf("broken")
			policies[key] = engine.Broken(key, &spec{Effect: effect, Rules: only, Condition: "no CEL"}, errors.New("does not compile"))
			source := &engine.Source{}
			source.Publish(engine.NewBuilder().Apply(policies))
			if got := decided(t, source, podsOf("get")); got != want {
				t.Errorf("what its rules match: got %s, want %s", got, want)
			}
			if got := decided(t, source, podsOf("list")); got != "NoOpinion, Allow" {
				t.Errorf("what its rules do not match: got %s", got)
			}
			if d := partOf(source, false).Decide(t.Context(), podsOf("get")); d.IsDeny() && d.Reason() != "policy=broken reason=Error: its condition does not compile" {
				t.Errorf("got the reason %q, want one that does not quote the condition", d.Reason())
			}
			policies[key] = engine.Broken(key, &spec{Effect: effect, Rules: only, Condition: "no CEL"}, fmt.Errorf("policy: %w", engine.ErrPending))
			source.Publish(engine.NewBuilder().Apply(policies))
			if d := partOf(source, false).Decide(t.Context(), podsOf("get")); d.IsDeny() && d.Reason() != "policy=broken reason=Error: it has not been compiled yet" {
				t.Errorf("got the reason %q of a policy that waits", d.Reason())
			}
		})
	}
}

// TestBrokenAllow asks that nothing comes of an Allow policy that cannot be compiled.
func TestBrokenAllow(t *testing.T) {
	t.Parallel()
	key := keyOf("broken")
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{
		key: engine.Broken(key, &spec{Effect: allow, Rules: anything}, errors.New("does not compile")),
	}))
	if got := decided(t, source, podsOf("get")); got != "NoOpinion, NoOpinion" {
		t.Errorf("got %s", got)
	}
}

// TestNew asks that what cannot be compiled, or has no effect that is known, is an error.
func TestNew(t *testing.T) {
	t.Parallel()
	compiler := newPolicyCompiler(t)
	for name, s := range map[string]spec{
		"condition": {Effect: allow, Rules: anything, Condition: "object."},
		"type":      {Effect: allow, Rules: anything, Condition: `"true"`},
		"effect":    {Effect: "Perhaps", Rules: anything},
		"variable":  {Effect: deny, Rules: anything, Condition: "variables.a", Variables: []policyv1alpha1.Variable{{Name: "b", Expression: "true"}}},
	} {
		if _, err := engine.New(keyOf("p"), &s, compiler); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestNotLoaded asks that everything is denied before there are policies, with a reason.
func TestNotLoaded(t *testing.T) {
	t.Parallel()
	for _, granting := range []bool{false, true} {
		d := partOf(&engine.Source{}, granting).Decide(t.Context(), podsOf("get"))
		if !d.IsDeny() || !strings.Contains(d.Reason(), "not been loaded") {
			t.Errorf("got %s, %q", show(t, d), d.Reason())
		}
	}
	if got := decided(t, publish(t, nil), podsOf("get")); got != "NoOpinion, NoOpinion" {
		t.Errorf("without policies: got %s", got)
	}
}

// TestStale asks that Allow policies grant nothing while the snapshot may be out of date,
// and that the others stay in force.
func TestStale(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		specs         map[string]spec
		before, stale string
	}{
		"Allow":             {map[string]spec{"p": {Effect: allow}}, "NoOpinion, Allow", "NoOpinion, NoOpinion"},
		"conditional Allow": {map[string]spec{"p": {Effect: allow, Condition: "object.a == 1"}}, "NoOpinion, [Allow p: object.a == 1]", "NoOpinion, NoOpinion"},
		"Deny":              {map[string]spec{"p": {Effect: deny}}, "Deny, NoOpinion", "Deny, NoOpinion"},
		"conditional Deny":  {map[string]spec{"p": {Effect: deny, Condition: "object.a == 1"}}, "[Deny p: object.a == 1], NoOpinion", "[Deny p: object.a == 1], NoOpinion"},
		"NoOpinion":         {map[string]spec{"p": {Effect: noOpinion}, "q": {Effect: allow}}, "NoOpinion, NoOpinion", "NoOpinion, NoOpinion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := publish(t, tc.specs)
			for _, step := range []struct{ stale, want string }{{"", tc.before}, {"no news", tc.stale}, {"", tc.before}} {
				source.SetStale(step.stale)
				if got := decided(t, source, podsOf("get")); got != step.want || source.Stale() != step.stale {
					t.Errorf("stale %q: got %s, want %s", step.stale, got, step.want)
				}
			}
		})
	}
}
