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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
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
			"rules[1] (create pods): kube-apiserver evaluates no condition of this server, so that all of them are denied for which the request alone does not make the condition false"},
		{"two", []policyv1alpha1.PolicyRule{rule("get", demo, "things"), rule("create", "", "pods")},
			"rules[0] (get things.demo.proviso.dev): this server evaluates the condition on no object for these requests, so that all of them are denied for which the request alone does not make the condition false. The same applies to 1 more, see status.enforcement"},
		{"many names", []policyv1alpha1.PolicyRule{many},
			"rules[0] (get, list, watch, create, update, patch, delete, deletecollection, … a, b, c, d, e, f, g, h, …): kube-apiserver evaluates no condition of this server, so that all of them are denied for which the request alone does not make the condition false"},
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
