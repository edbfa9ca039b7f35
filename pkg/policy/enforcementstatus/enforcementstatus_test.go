/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// coverage has things in v1, whose creations and updates are enforced, and their console, and reviews.
func coverage(a authorizer.Attributes, versions []string) (enforced, folded sets.Set[string]) {
	in := func(pattern string, values ...string) bool { return pattern == "*" || slices.Contains(values, pattern) }
	has := func(version string) bool {
		return len(versions) == 0 || slices.ContainsFunc(versions, func(pattern string) bool { return in(pattern, version) })
	}
	if a.GetAPIGroup() == "authorization.k8s.io" && has("v1alpha1") {
		return sets.New("create"), nil
	}
	if !a.IsResourceRequest() || !in(a.GetAPIGroup(), "demo.proviso.dev") || !has("v1") || !in(a.GetResource(), "things") {
		return nil, nil
	}
	enforced = sets.New[string]()
	if in(a.GetSubresource(), "") {
		enforced.Insert("create", "update")
		folded = sets.New("get", "list")
	}
	if in(a.GetSubresource(), "console") {
		enforced.Insert("get")
	}
	return enforced, folded
}

const (
	allow, deny, noOpinion = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion
	demo                   = "demo.proviso.dev"
)

// rule has comma-separated verbs, groups and resources, and versions if there are any.
func rule(verbs, groups, resources string, versions ...string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{
		Verbs: strings.Split(verbs, ","), APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","), APIVersions: versions,
	}
}

func path(verbs, paths string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: strings.Split(verbs, ","), NonResourceURLs: strings.Split(paths, ",")}
}

// TestOf compares what the status says about rules.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		effect      policyv1alpha1.PolicyEffect
		reads       enforcementstatus.Reads
		noFrontDoor bool
		rules       []policyv1alpha1.PolicyRule
		want        []string
		wantReason  string
	}{
		{name: "no condition, served here", effect: allow, rules: []policyv1alpha1.PolicyRule{rule("get", demo, "things")},
			want: []string{"0 get things.demo.proviso.dev Server Enforced"}, wantReason: "Enforced"},
		{name: "no condition, served here, any verb", effect: deny, rules: []policyv1alpha1.PolicyRule{rule("*", demo, "things")},
			want: []string{"0 * things.demo.proviso.dev Server Enforced"}, wantReason: "Enforced"},
		{name: "no condition, served elsewhere", effect: allow, rules: []policyv1alpha1.PolicyRule{rule("get", "", "pods,pods/log")},
			want: []string{"0 get pods,pods/log FrontDoor Enforced"}, wantReason: "Enforced"},
		{name: "no condition, served elsewhere, no front door", effect: allow, noFrontDoor: true, rules: []policyv1alpha1.PolicyRule{rule("get", "apps", "deployments,deployments/scale")},
			want: []string{"0 get deployments.apps,deployments.apps/scale Reviews NotEnforced"}, wantReason: "NotEnforced"},
		{name: "reviews of every version, which kube-apiserver serves but for one", effect: allow, rules: []policyv1alpha1.PolicyRule{rule("create", "authorization.k8s.io", "subjectaccessreviews")},
			want: []string{"0 create subjectaccessreviews.authorization.k8s.io Server Enforced", "0 create subjectaccessreviews.authorization.k8s.io FrontDoor Enforced"}, wantReason: "Enforced"},
		{name: "reviews of this server", effect: allow, rules: []policyv1alpha1.PolicyRule{rule("create", "authorization.k8s.io", "subjectaccessreviews", "v1alpha1")},
			want: []string{"0 create subjectaccessreviews.authorization.k8s.io Server Enforced"}, wantReason: "Enforced"},
		{name: "condition on the object, reviews of two servers", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create", "authorization.k8s.io", "subjectaccessreviews", "v1", "v1alpha1")},
			want: []string{"0 create subjectaccessreviews.authorization.k8s.io Server Enforced", "0 create subjectaccessreviews.authorization.k8s.io FrontDoor DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{name: "no condition, everything", effect: allow, rules: []policyv1alpha1.PolicyRule{rule("*", "*", "*")},
			want: []string{"0 * *.* Server Enforced", "0 * *.* FrontDoor Enforced"}, wantReason: "Enforced"},
		{name: "no condition, everything, no front door", effect: allow, noFrontDoor: true, rules: []policyv1alpha1.PolicyRule{rule("*", "*", "*")},
			want: []string{"0 * *.* Server Enforced", "0 * *.* Reviews NotEnforced"}, wantReason: "NotEnforced"},
		{name: "no condition, paths", effect: allow, rules: []policyv1alpha1.PolicyRule{path("get", "/metrics,/healthz")},
			want: []string{"0 get /metrics,/healthz Server Enforced", "0 get /metrics,/healthz FrontDoor Enforced"}, wantReason: "Enforced"},

		{name: "writes", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create,update", demo, "things")},
			want: []string{"0 create,update things.demo.proviso.dev Server Enforced"}, wantReason: "Enforced"},
		{name: "a connection", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("get", demo, "things/console")},
			want: []string{"0 get things.demo.proviso.dev/console Server Enforced"}, wantReason: "Enforced"},
		{name: "a version too many", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create", demo, "things", "v1", "v2")},
			want: []string{"0 create things.demo.proviso.dev Server Enforced"}, wantReason: "Enforced"},
		{name: "another version", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create", demo, "things", "v2")},
			want: []string{"0 create things.demo.proviso.dev Server GrantsNothing"}, wantReason: "GrantsNothing"},
		{name: "reads and writes", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("get,create,list", demo, "things")},
			want: []string{"0 create things.demo.proviso.dev Server Enforced", "0 get,list things.demo.proviso.dev Server GrantsNothing"}, wantReason: "GrantsNothing"},
		{name: "any verb", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("*", demo, "things")},
			want: []string{"0 create,update things.demo.proviso.dev Server Enforced", "0 get,list things.demo.proviso.dev Server DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{name: "any verb of what is not served", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("*", demo, "thing")},
			want: []string{"0 * thing.demo.proviso.dev Server DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{name: "a verb of no request", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create,bind", demo, "things")},
			want: []string{"0 create things.demo.proviso.dev Server Enforced", "0 bind things.demo.proviso.dev Server GrantsNothing"}, wantReason: "GrantsNothing"},
		{name: "resources with the same verbs", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("get", demo, "things,others,things/console")},
			want:       []string{"0 get things.demo.proviso.dev/console Server Enforced", "0 get things.demo.proviso.dev,others.demo.proviso.dev Server GrantsNothing"},
			wantReason: "GrantsNothing"},
		{name: "a group that is served, and one that is not", effect: noOpinion, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create", demo+",apps", "things")},
			want:       []string{"0 create things.demo.proviso.dev Server Enforced", "0 create things.apps FrontDoor WithholdsUnconditionally"},
			wantReason: "WithholdsUnconditionally"},
		{name: "every group", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create,get", "*", "*")},
			want:       []string{"0 create,get *.* Server Enforced", "0 get *.* Server DeniesUnconditionally", "0 create,get *.* FrontDoor DeniesUnconditionally"},
			wantReason: "DeniesUnconditionally"},
		{name: "Deny elsewhere", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create", "", "secrets")},
			want: []string{"0 create secrets FrontDoor DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{name: "a Deny of update, which is one of patch", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("update", "", "secrets")},
			want: []string{"0 update,patch secrets FrontDoor DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{name: "Deny elsewhere, no front door", effect: deny, reads: enforcementstatus.More, noFrontDoor: true, rules: []policyv1alpha1.PolicyRule{rule("create", "", "secrets")},
			want: []string{"0 create secrets Reviews NotEnforced"}, wantReason: "NotEnforced"},
		{name: "paths", effect: allow, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{path("get", "/metrics")},
			want: []string{"0 get /metrics Server GrantsNothing", "0 get /metrics FrontDoor GrantsNothing"}, wantReason: "GrantsNothing"},
		{name: "a condition on the namespace, elsewhere", effect: deny, reads: enforcementstatus.Namespace, rules: []policyv1alpha1.PolicyRule{rule("get,create", "", "secrets")},
			want: []string{"0 get,create secrets FrontDoor Enforced"}, wantReason: "Enforced"},
		{name: "a condition on the namespace, served here", effect: deny, reads: enforcementstatus.Namespace, rules: []policyv1alpha1.PolicyRule{rule("get,create", demo, "things")},
			want: []string{"0 create things.demo.proviso.dev Server Enforced", "0 get things.demo.proviso.dev Server DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{name: "a condition on the namespace, no front door", effect: deny, reads: enforcementstatus.Namespace, noFrontDoor: true, rules: []policyv1alpha1.PolicyRule{rule("get", "", "secrets")},
			want: []string{"0 get secrets Reviews NotEnforced"}, wantReason: "NotEnforced"},
		{name: "the second rule", effect: deny, reads: enforcementstatus.More, rules: []policyv1alpha1.PolicyRule{rule("create", demo, "things"), rule("create", "", "pods")},
			want: []string{"0 create things.demo.proviso.dev Server Enforced", "1 create pods FrontDoor DeniesUnconditionally"}, wantReason: "DeniesUnconditionally"},
		{
			name: "a resource and a group twice", effect: allow, reads: enforcementstatus.More,
			rules: []policyv1alpha1.PolicyRule{rule("get,create", demo+","+demo, "things,things")},
			want:  []string{"0 create things.demo.proviso.dev Server Enforced", "0 get things.demo.proviso.dev Server GrantsNothing"}, wantReason: "GrantsNothing",
		},
		{
			name: "a path twice", effect: allow, rules: []policyv1alpha1.PolicyRule{path("get,post", "/metrics,/metrics")},
			want: []string{"0 get,post /metrics Server Enforced", "0 get,post /metrics FrontDoor Enforced"}, wantReason: "Enforced",
		},
		{
			name: "resources of several groups with other verbs", effect: deny, reads: enforcementstatus.More,
			rules: []policyv1alpha1.PolicyRule{rule("get,create", demo, "things,things/console,others")},
			want: []string{
				"0 create things.demo.proviso.dev Server Enforced", "0 get things.demo.proviso.dev/console Server Enforced",
				"0 get things.demo.proviso.dev Server DeniesUnconditionally", "0 create things.demo.proviso.dev/console Server DeniesUnconditionally",
				"0 get,create others.demo.proviso.dev Server DeniesUnconditionally",
			},
			wantReason: "DeniesUnconditionally",
		},
		{
			name: "any verb beside one that is named", effect: allow, reads: enforcementstatus.More,
			rules: []policyv1alpha1.PolicyRule{rule("create,*", demo, "things")},
			want:  []string{"0 create,update things.demo.proviso.dev Server Enforced", "0 get,list things.demo.proviso.dev Server GrantsNothing"}, wantReason: "GrantsNothing",
		},
		{
			name: "any verb of every group", effect: allow, reads: enforcementstatus.More,
			rules: []policyv1alpha1.PolicyRule{rule("*", "*", "things")},
			want: []string{
				"0 create,update things.* Server Enforced", "0 get,list things.* Server GrantsNothing", "0 * things.* FrontDoor GrantsNothing",
			},
			wantReason: "GrantsNothing",
		},
		{
			name: "a verb of every group that this server does not have", effect: deny, reads: enforcementstatus.More,
			rules: []policyv1alpha1.PolicyRule{rule("deletecollection", "*", "things")},
			want:  []string{"0 deletecollection things.* FrontDoor DeniesUnconditionally"}, wantReason: "DeniesUnconditionally",
		},
		{
			name: "verbs that this server only folds", effect: noOpinion, reads: enforcementstatus.More,
			rules: []policyv1alpha1.PolicyRule{rule("get,list", demo, "things")},
			want:  []string{"0 get,list things.demo.proviso.dev Server WithholdsUnconditionally"}, wantReason: "WithholdsUnconditionally",
		},
		{
			name: "policies and reviews of Proviso, served here", effect: deny, rules: []policyv1alpha1.PolicyRule{rule("create", "policy.proviso.dev,authorization.proviso.dev", "x")},
			want: []string{"0 create x.policy.proviso.dev,x.authorization.proviso.dev Server Enforced"}, wantReason: "Enforced",
		},
		{
			name: "a group that ends like one of this server", effect: deny, rules: []policyv1alpha1.PolicyRule{rule("create", "sub.demo.proviso.dev", "things")},
			want: []string{"0 create things.sub.demo.proviso.dev FrontDoor Enforced"}, wantReason: "Enforced",
		},
		{
			name: "reviews of kube-apiserver", effect: deny, reads: enforcementstatus.Namespace, rules: []policyv1alpha1.PolicyRule{rule("create", "authorization.k8s.io", "subjectaccessreviews", "v1")},
			want: []string{"0 create subjectaccessreviews.authorization.k8s.io Server DeniesUnconditionally", "0 create subjectaccessreviews.authorization.k8s.io FrontDoor Enforced"}, wantReason: "DeniesUnconditionally",
		},
		{
			name: "a condition on the namespace, paths", effect: allow, reads: enforcementstatus.Namespace, rules: []policyv1alpha1.PolicyRule{path("get", "/metrics")},
			want: []string{"0 get /metrics Server GrantsNothing", "0 get /metrics FrontDoor Enforced"}, wantReason: "GrantsNothing",
		},
		{name: "no rule", effect: deny, reads: enforcementstatus.More, wantReason: "Enforced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := enforcementstatus.Server{Coverage: coverage, FrontDoor: !tc.noFrontDoor}
			entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: tc.rules}, tc.reads)
			var got []string
			for _, e := range entries {
				got = append(got, fmt.Sprintf("%d %s %s %s %s", e.Rule, strings.Join(e.Verbs, ","), strings.Join(e.Resources, ","), e.At, e.Result))
				if e.Message == "" || len(e.Message) > policy.MaxEnforcementMessageBytes {
					t.Errorf("%v has message %q", e, e.Message)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			effective := enforcementstatus.Effective(entries)
			if effective.Reason != tc.wantReason || (effective.Status == metav1.ConditionTrue) != (tc.wantReason == "Enforced") {
				t.Errorf("got Effective %s %s, want %s", effective.Status, effective.Reason, tc.wantReason)
			}
		})
	}
}

// TestEffectiveMessage compares the message of the condition with what it sums up.
func TestEffectiveMessage(t *testing.T) {
	t.Parallel()
	server := enforcementstatus.Server{Coverage: coverage, FrontDoor: true}
	many := rule("get,list,watch,create,update,patch,delete,deletecollection,bind", "", "a,b,c,d,e,f,g,h,i")
	for _, tc := range []struct {
		name  string
		rules []policyv1alpha1.PolicyRule
		want  string
	}{
		{"enforced", []policyv1alpha1.PolicyRule{rule("create", demo, "things")}, "all requests that the rules describe are decided by the policy"},
		{"one", []policyv1alpha1.PolicyRule{rule("create", demo, "things"), rule("create", "", "pods")},
			"rules[1] (create pods): conditions on objects are not evaluated for these requests to kube-apiserver, so that the policy denies all of them, unless the request or its namespace makes the condition false"},
		{"two", []policyv1alpha1.PolicyRule{rule("get", demo, "things"), rule("create", "", "pods")},
			"rules[0] (get things.demo.proviso.dev): conditions on objects are not evaluated for these requests to Proviso, so that the policy denies all of them, unless the request alone makes the condition false. The same applies to 1 more, see status.enforcement"},
		{"many names", []policyv1alpha1.PolicyRule{many},
			"rules[0] (get, list, watch, create, update, patch, delete, deletecollection, … a, b, c, d, e, f, g, h, …): conditions on objects are not evaluated for these requests to kube-apiserver, so that the policy denies all of them, unless the request or its namespace makes the condition false"},
	} {
		entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: deny, Rules: tc.rules}, enforcementstatus.More)
		if got := enforcementstatus.Effective(entries).Message; got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}

// TestBounds gives a policy the greatest number of entries that it may have.
func reversed(entries []policyv1alpha1.RuleEnforcement) []policyv1alpha1.RuleEnforcement {
	entries = slices.Clone(entries)
	slices.Reverse(entries)
	return entries
}

// TestEffectiveHasTheWorstResult has entries with several results: the reason and the message are about the worst.
func TestEffectiveHasTheWorstResult(t *testing.T) {
	t.Parallel()
	results := []policyv1alpha1.EnforcementResult{
		policyv1alpha1.ResultEnforced, policyv1alpha1.ResultNotEnforced, policyv1alpha1.ResultGrantsNothing,
		policyv1alpha1.ResultWithholdsUnconditionally, policyv1alpha1.ResultDeniesUnconditionally,
	}
	for i, worst := range results {
		var entries []policyv1alpha1.RuleEnforcement
		for j, result := range results[:i+1] {
			entries = append(entries, policyv1alpha1.RuleEnforcement{Rule: int32(j), Verbs: []string{"get"}, Resources: []string{"pods"}, Result: result, Message: string(result)})
		}
		for _, order := range [][]policyv1alpha1.RuleEnforcement{entries, reversed(entries)} {
			got := enforcementstatus.Effective(order)
			if got.Reason != string(worst) || (got.Status == metav1.ConditionTrue) != (i == 0) || i > 0 && !strings.Contains(got.Message, string(worst)) {
				t.Errorf("of %q: got %s with the reason %s: %s, want %s", results[:i+1], got.Status, got.Reason, got.Message, worst)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range policy.MaxRuleEntries {
		names = append(names, fmt.Sprint("things", i))
	}
	large := policyv1alpha1.PolicyRule{Verbs: []string{"get", "create"}, APIGroups: []string{"a", "b"}, Resources: names}
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: deny}
	for range policy.MaxRules {
		spec.Rules = append(spec.Rules, large)
	}
	entries := enforcementstatus.Server{FrontDoor: true}.Of(spec, enforcementstatus.More)
	if len(entries) != 2*policy.MaxRules {
		t.Errorf("got %d entries, want two for each rule, since one lists at most %d resources", len(entries), policy.MaxRuleEntries)
	}
	for _, e := range entries {
		if len(e.Resources) > policy.MaxRuleEntries || len(e.Verbs) > policy.MaxRuleEntries {
			t.Errorf("an entry has %d resources and %d verbs", len(e.Resources), len(e.Verbs))
		}
	}
	if got := enforcementstatus.Bounded(entries); len(got) != policy.MaxRuleEnforcements {
		t.Errorf("got %d entries of a status, want %d", len(got), policy.MaxRuleEnforcements)
	}
	if got := enforcementstatus.Effective(entries).Message; !strings.HasSuffix(got, "The same applies to 127 more, see status.enforcement") {
		t.Errorf("got %s", got)
	}
}

// TestWorkIsBounded describes a policy with as many names in its rules as they may have. What the server serves is asked for once
// for each resource in each group, and the entries for resources with the same verbs share their list.
func TestWorkIsBounded(t *testing.T) {
	numbered := func(name string) []string {
		var names []string
		for i := range policy.MaxRuleEntries {
			names = append(names, fmt.Sprint(name, i))
		}
		return names
	}
	served := policyv1alpha1.PolicyRule{Verbs: numbered("verb"), APIGroups: []string{"*", demo, "policy.proviso.dev", "authorization.k8s.io"}, APIVersions: numbered("v"), Resources: numbered("things")}
	others := policyv1alpha1.PolicyRule{Verbs: numbered("verb"), APIGroups: numbered("group"), Resources: numbered("things")}
	questions := 0
	server := enforcementstatus.Server{FrontDoor: true, Coverage: func(a authorizer.Attributes, versions []string) (enforced, folded sets.Set[string]) {
		questions++
		return coverage(a, versions)
	}}
	server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: deny, Rules: []policyv1alpha1.PolicyRule{served, served}}, enforcementstatus.More)
	if want := 2 * 4 * policy.MaxRuleEntries; questions != want {
		t.Errorf("%d questions, want %d", questions, want)
	}
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: deny, Rules: []policyv1alpha1.PolicyRule{others}}
	allocations := testing.AllocsPerRun(1, func() { server.Of(spec, enforcementstatus.More) })
	if most := 6.0 * policy.MaxRuleEntries * policy.MaxRuleEntries; allocations > most {
		t.Errorf("%.0f allocations for %d resources, want at most %.0f", allocations, policy.MaxRuleEntries*policy.MaxRuleEntries, most)
	}
}

// TestServerWithoutCoverage enforces nothing: every condition on the object is folded.
func TestServerWithoutCoverage(t *testing.T) {
	t.Parallel()
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: deny, Rules: []policyv1alpha1.PolicyRule{rule("create,*", demo, "things")}}
	for reads, want := range map[enforcementstatus.Reads]policyv1alpha1.EnforcementResult{
		enforcementstatus.Request: policyv1alpha1.ResultEnforced, enforcementstatus.Namespace: policyv1alpha1.ResultDeniesUnconditionally, enforcementstatus.More: policyv1alpha1.ResultDeniesUnconditionally,
	} {
		entries := enforcementstatus.Server{}.Of(spec, reads)
		if len(entries) != 1 || entries[0].Result != want || !slices.Equal(entries[0].Verbs, []string{"create", "*"}) {
			t.Errorf("a condition that reads %d: got %+v, want %s", reads, entries, want)
		}
	}
}

// TestMessages compares the message of each outcome with docs/policy-reference.md: where requests are decided, and what the policy does to them.
func TestMessages(t *testing.T) {
	t.Parallel()
	const (
		atServer    = "conditions on objects are not evaluated for these requests to Proviso, so that "
		atFrontDoor = "conditions on objects are not evaluated for these requests to kube-apiserver, so that "
		none        = "the policy allows none of them, unless the request alone makes the condition true"
		noneThere   = "the policy allows none of them, unless the request or its namespace makes the condition true"
		held        = "no Allow policy allows any of them, unless the request alone makes the condition false"
		heldThere   = "no Allow policy allows any of them, unless the request or its namespace makes the condition false"
		denied      = "the policy denies all of them, unless the request alone makes the condition false"
		deniedThere = "the policy denies all of them, unless the request or its namespace makes the condition false"
	)
	elsewhere, here := rule("create", "", "pods"), rule("get", demo, "things")
	for _, tc := range []struct {
		name        string
		effect      policyv1alpha1.PolicyEffect
		reads       enforcementstatus.Reads
		noFrontDoor bool
		rule        policyv1alpha1.PolicyRule
		want        string
	}{
		{name: "no condition, here", effect: allow, rule: here, want: "requests are decided at authorization"},
		{name: "no condition, at the front door", effect: allow, rule: elsewhere, want: "requests are decided at authorization"},
		{name: "a condition on the object, here", effect: allow, reads: enforcementstatus.More, rule: rule("create", demo, "things"), want: "the condition is evaluated at admission"},
		{name: "a condition on the namespace, here", effect: allow, reads: enforcementstatus.Namespace, rule: rule("create", demo, "things"), want: "the condition is evaluated at admission"},
		{
			name: "a condition on the namespace, at the front door", effect: allow, reads: enforcementstatus.Namespace, rule: elsewhere,
			want: "requests are decided at authorization, once the namespace is in the cache of this server",
		},
		{name: "Allow, folded here", effect: allow, reads: enforcementstatus.More, rule: here, want: atServer + none},
		{name: "NoOpinion, folded here", effect: noOpinion, reads: enforcementstatus.More, rule: here, want: atServer + held},
		{name: "Deny, folded here", effect: deny, reads: enforcementstatus.More, rule: here, want: atServer + denied},
		{name: "Allow, folded at the front door", effect: allow, reads: enforcementstatus.More, rule: elsewhere, want: atFrontDoor + noneThere},
		{name: "NoOpinion, folded at the front door", effect: noOpinion, reads: enforcementstatus.More, rule: elsewhere, want: atFrontDoor + heldThere},
		{name: "Deny, folded at the front door", effect: deny, reads: enforcementstatus.More, rule: elsewhere, want: atFrontDoor + deniedThere},
		{name: "an effect of a later version", effect: "Audit", reads: enforcementstatus.More, rule: elsewhere, want: atFrontDoor + deniedThere},
		{name: "no front door", effect: deny, noFrontDoor: true, rule: elsewhere, want: "the front door is disabled, so that only reviews show the policy"},
	} {
		server := enforcementstatus.Server{Coverage: coverage, FrontDoor: !tc.noFrontDoor}
		entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: []policyv1alpha1.PolicyRule{tc.rule}}, tc.reads)
		if len(entries) != 1 || entries[0].Message != tc.want {
			t.Errorf("%s: got %+v\nwant %s", tc.name, entries, tc.want)
		}
	}
}

// TestListsAtTheirBound shows eight names in a message, and says that there are more only if there are.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	server := enforcementstatus.Server{Coverage: coverage, FrontDoor: true, LeavesOut: manifest.Config{}.LeavesOut}
	node, alice := rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:nodes"}, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "alice"}
	const without = "kube-apiserver decides all requests of these subjects without Proviso, and barriers exempt them, so that the policy does not apply"
	for _, tc := range []struct {
		name     string
		subjects []rbacv1.Subject
		group    string
		spec     policyv1alpha1.AuthorizationPolicySpec
		want     metav1.ConditionStatus
	}{
		{name: "all subjects", subjects: []rbacv1.Subject{node, {Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "a"}}, want: metav1.ConditionFalse},
		{name: "in Audit", subjects: []rbacv1.Subject{node}, spec: policyv1alpha1.AuthorizationPolicySpec{Enforcement: policyv1alpha1.PolicyEnforcementAudit}, want: metav1.ConditionFalse},
		{name: "some subjects", subjects: []rbacv1.Subject{node, alice}, want: metav1.ConditionTrue},
		{name: "everybody", want: metav1.ConditionTrue},
		{name: "requests that only this server gets", subjects: []rbacv1.Subject{node}, group: demo, want: metav1.ConditionTrue},
	} {
		spec := tc.spec
		spec.Effect, spec.Subjects, spec.Rules = deny, tc.subjects, []policyv1alpha1.PolicyRule{rule("create", tc.group, "pods")}
		effective := enforcementstatus.Effective(server.Of(&spec, enforcementstatus.Request))
		if effective.Status != tc.want || effective.Status == metav1.ConditionFalse && effective.Message != "rules[0] (create pods): "+without {
			t.Errorf("%s: got %+v", tc.name, effective)
		}
	}
}

func TestListsAtTheirBound(t *testing.T) {
	t.Parallel()
	names := strings.Split("a,b,c,d,e,f,g,h,i", ",")
	for n, want := range map[int]string{1: "a", 2: "a, b", 8: "a, b, c, d, e, f, g, h", 9: "a, b, c, d, e, f, g, h, …"} {
		e := &policyv1alpha1.RuleEnforcement{Rule: 3, Verbs: names[:n], Resources: names[:1], Message: "m"}
		if got, want := enforcementstatus.Text(e), "rules[3] ("+want+" a): m"; got != want {
			t.Errorf("%d names: got %s, want %s", n, got, want)
		}
		if !slices.Equal(e.Verbs, names[:n]) {
			t.Errorf("%d names: the entry has %q now", n, e.Verbs)
		}
	}
}

// readsOnly is a condition that reads some variables.
type readsOnly []cel.Variable

func (r readsOnly) ReadsOnly(variables ...cel.Variable) bool {
	return !slices.ContainsFunc(r, func(v cel.Variable) bool { return !slices.Contains(variables, v) })
}

// TestReadsOf says how much a condition depends on. What is not known at authorization is more than the namespace.
func TestReadsOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		reads readsOnly
		want  enforcementstatus.Reads
	}{
		{name: "nothing", want: enforcementstatus.Request},
		{name: "the request", reads: readsOnly{cel.Request}, want: enforcementstatus.Request},
		{name: "the namespace", reads: readsOnly{cel.NamespaceObject}, want: enforcementstatus.Namespace},
		{name: "both", reads: readsOnly{cel.NamespaceObject, cel.Request}, want: enforcementstatus.Namespace},
		{name: "the object", reads: readsOnly{cel.Object}, want: enforcementstatus.More},
		{name: "the request and the old object", reads: readsOnly{cel.Request, cel.OldObject}, want: enforcementstatus.More},
		{name: "everything", reads: readsOnly{cel.Request, cel.NamespaceObject, cel.Object}, want: enforcementstatus.More},
		{name: "an unknown variable", reads: readsOnly{"x"}, want: enforcementstatus.More},
	} {
		if got := enforcementstatus.ReadsOf(tc.reads); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestInputsStay describes a rule whose list of verbs has room for more. Who changes an entry must not change the rule.
func TestInputsStay(t *testing.T) {
	t.Parallel()
	verbs := append(make([]string, 0, 8), "get", "create")
	r := policyv1alpha1.PolicyRule{Verbs: verbs, APIGroups: []string{demo}, Resources: []string{"things", "things/console", "others", "things"}}
	server := enforcementstatus.Server{Coverage: coverage, FrontDoor: true}
	entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: allow, Rules: []policyv1alpha1.PolicyRule{r, r}}, enforcementstatus.Request)
	for i := range entries {
		entries[i].Verbs[0] = "changed"
		entries[i].Verbs = append(entries[i].Verbs, "delete")
	}
	if got := verbs[:cap(verbs)]; got[0] != "get" || got[2] != "" {
		t.Errorf("the verbs of the rule are %q now", got)
	}
}

// TestAudit has the same entries with the enforcement Audit as with Enforce, but none of them says that a request is decided.
func TestAudit(t *testing.T) {
	t.Parallel()
	for _, frontDoor := range []bool{true, false} {
		server := enforcementstatus.Server{FrontDoor: frontDoor}
		spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: deny, Rules: []policyv1alpha1.PolicyRule{
			{Verbs: []string{"create"}, APIGroups: []string{"", "policy.proviso.dev"}, Resources: []string{"secrets"}, APIVersions: []string{"v1"}},
		}}
		enforced := server.Of(spec, enforcementstatus.More)
		spec.Enforcement = policyv1alpha1.PolicyEnforcementAudit
		audited := server.Of(spec, enforcementstatus.More)
		if len(audited) != len(enforced) || len(audited) < 2 {
			t.Fatalf("got %+v, want one for each of %+v", audited, enforced)
		}
		for i, e := range audited {
			want, message := policyv1alpha1.ResultAudited, "are counted. With the enforcement Enforce: "+enforced[i].Message
			if enforced[i].Result == policyv1alpha1.ResultNotEnforced {
				want, message = policyv1alpha1.ResultNotEnforced, "no request to other servers is counted"
			}
			if e.Result != want || !strings.Contains(e.Message, message) || e.At != enforced[i].At {
				t.Errorf("got %+v, want %s with %q", e, want, message)
			}
		}
		effective := enforcementstatus.Effective(audited)
		if effective.Status != "False" || effective.Reason != "Audit" || !strings.Contains(effective.Message, "status.audit") {
			t.Errorf("got %+v", effective)
		}
	}
}

// TestServedElsewhere has a group of this server of which kube-apiserver passes a version on to another server. There the policy does what it does for
// all other servers.
func TestServedElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := func(group string, versions []string) bool { return group == demo && slices.Contains(versions, "v1") }
	for _, tc := range []struct {
		name      string
		frontDoor bool
		rule      policyv1alpha1.PolicyRule
		want      []string
	}{
		{name: "the version", rule: rule("create", demo, "things", "v1"), want: []string{"create things.demo.proviso.dev Server Enforced", "create things.demo.proviso.dev Reviews NotEnforced"}},
		{name: "front door", frontDoor: true, rule: rule("create", demo, "things", "v1"), want: []string{"create things.demo.proviso.dev Server Enforced", "create things.demo.proviso.dev FrontDoor DeniesUnconditionally"}},
		{name: "another group", rule: rule("create", "policy.proviso.dev", "clusterauthorizationpolicies", "v1"), want: []string{"create clusterauthorizationpolicies.policy.proviso.dev Server DeniesUnconditionally"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := enforcementstatus.Server{Coverage: coverage, FrontDoor: tc.frontDoor, Elsewhere: elsewhere}
			entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Rules: []policyv1alpha1.PolicyRule{tc.rule}}, enforcementstatus.More)
			if got := text(entries); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}
