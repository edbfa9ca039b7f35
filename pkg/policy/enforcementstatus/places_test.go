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

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// facts has an inner door for claims and their status, tokens, deployments, and widgets, whose version v2 another server serves.
func facts(lacking ...string) enforcementstatus.Facts {
	writes := func(group, resource, subresource, verbs string) enforcementstatus.Writes {
		return enforcementstatus.Writes{Resource: schema.GroupResource{Group: group, Resource: resource}, Subresource: subresource, Verbs: strings.Split(verbs, ",")}
	}
	return enforcementstatus.Facts{
		InnerDoor: &enforcementstatus.InnerDoor{Probed: true, Lacking: lacking, Writes: []enforcementstatus.Writes{
			writes("", "claims", "", "create,update,patch,delete,deletecollection"), writes("", "claims", "status", "update,patch"),
			writes("", "serviceaccounts", "token", "create"), writes("apps", "deployments", "", "create,update,patch,delete,deletecollection"),
			writes("example.com", "widgets", "", "create,update,patch,delete,deletecollection"), writes("gone.example.com", "things", "", "create"),
		}},
		Versions: map[string]map[string]bool{"": {"v1": true}, "apps": {"v1": true}, "example.com": {"v1": true, "v2": false}},
	}
}

// text returns one line for each entry.
func text(entries []policyv1alpha1.RuleEnforcement) []string {
	var lines []string
	for _, e := range entries {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", strings.Join(e.Verbs, ","), strings.Join(e.Resources, ","), e.At, e.Result))
	}
	return lines
}

// TestStatusInnerDoor says for which requests the inner door evaluates a condition, and why not for the others.
func TestStatusInnerDoor(t *testing.T) {
	t.Parallel()
	const (
		request, namespace, more = enforcementstatus.Request, enforcementstatus.Namespace, enforcementstatus.More
		unseen                   = enforcementstatus.Unseen
	)
	notProbed := facts()
	notProbed.InnerDoor.Probed = false
	for _, tc := range []struct {
		name    string
		effect  policyv1alpha1.PolicyEffect
		reads   enforcementstatus.Reads
		facts   enforcementstatus.Facts
		rule    policyv1alpha1.PolicyRule
		want    []string
		reason  string
		message string // part of the message of the condition Effective
	}{
		{name: "writes", effect: allow, reads: more, facts: facts(), rule: rule("create,update,patch,delete,deletecollection", "", "claims", "v1"),
			want: []string{"create,update,patch,delete,deletecollection claims InnerDoor Enforced"}, reason: "Enforced"},
		{name: "NoOpinion", effect: noOpinion, reads: more, facts: facts(), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor Enforced"}, reason: "Enforced"},
		{name: "Deny", effect: deny, reads: more, facts: facts(), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims FrontDoor DeniesUnconditionally"}, reason: "DeniesUnconditionally", message: "does not call the inner door for requests that another authorizer allows"},
		{name: "an effect of a later version", effect: "Audit", reads: more, facts: facts(), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims FrontDoor DeniesUnconditionally"}, reason: "DeniesUnconditionally"},
		{name: "no condition", effect: allow, reads: request, facts: facts("https://a:6443"), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims FrontDoor Enforced"}, reason: "Enforced"},
		{name: "a condition on the namespace", effect: allow, reads: namespace, facts: facts("https://a:6443"), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims FrontDoor Enforced"}, reason: "Enforced"},
		{name: "reads", effect: allow, reads: more, facts: facts(), rule: rule("get,create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor Enforced", "get claims FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "conditions on objects are not evaluated"},
		{name: "any verb", effect: allow, reads: more, facts: facts(), rule: rule("*", "", "claims/status", "v1"),
			want: []string{"update,patch claims/status InnerDoor Enforced", "get,list,watch claims/status FrontDoor GrantsNothing"}, reason: "GrantsNothing"},
		{name: "a subresource that is created", effect: allow, reads: more, facts: facts(), rule: rule("create,update", "", "serviceaccounts/token", "v1"),
			want: []string{"create serviceaccounts/token InnerDoor Enforced"}, reason: "Enforced"},
		{name: "a write that no request is", effect: allow, reads: more, facts: facts(), rule: rule("create", "", "claims/status", "v1"),
			want: []string{"create claims/status FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "not configured for these writes"},
		{name: "a resource and its subresource", effect: allow, reads: more, facts: facts(), rule: rule("create,update,patch", "", "claims,claims/status", "v1"),
			want: []string{"create,update,patch claims InnerDoor Enforced", "update,patch claims/status InnerDoor Enforced"}, reason: "Enforced"},
		{name: "not listed", effect: allow, reads: more, facts: facts(), rule: rule("create", "", "secrets,claims/scale", "v1"),
			want: []string{"create secrets,claims/scale FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "the inner door is not configured for these writes, so that the policy allows none of them, unless the request or its namespace makes the condition true"},
		{name: "the resource of another group", effect: allow, reads: more, facts: facts(), rule: rule("create", "apps", "claims", "v1"),
			want: []string{"create claims.apps FrontDoor GrantsNothing"}, reason: "GrantsNothing"},
		{name: "a version of another server", effect: allow, reads: more, facts: facts(), rule: rule("create", "example.com", "widgets", "v2"),
			want: []string{"create widgets.example.com FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "not known to serve these versions itself"},
		{name: "versions of two servers", effect: allow, reads: more, facts: facts(), rule: rule("create", "example.com", "widgets", "v1", "v2"),
			want: []string{"create widgets.example.com InnerDoor Enforced", "create widgets.example.com FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "not known to serve these versions itself"},
		{name: "all versions", effect: noOpinion, reads: more, facts: facts(), rule: rule("create", "example.com", "widgets", "*"),
			want: []string{"create widgets.example.com InnerDoor Enforced", "create widgets.example.com FrontDoor WithholdsUnconditionally"}, reason: "WithholdsUnconditionally"},
		{name: "a version that is not registered beside one that is", effect: allow, reads: more, facts: facts(), rule: rule("create", "apps", "deployments", "v1", "v1beta1"),
			want: []string{"create deployments.apps InnerDoor Enforced"}, reason: "Enforced"},
		{name: "a version that is not registered", effect: allow, reads: more, facts: facts(), rule: rule("create", "apps", "deployments", "v2"),
			want: []string{"create deployments.apps FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "not known to serve these versions itself"},
		{name: "a group that is not registered", effect: allow, reads: more, facts: facts(), rule: rule("create", "gone.example.com", "things", "*"),
			want: []string{"create things.gone.example.com FrontDoor GrantsNothing"}, reason: "GrantsNothing", message: "not known to serve these versions itself"},
		{name: "every group", effect: allow, reads: more, facts: facts(), rule: rule("create,get", "*", "claims", "*"),
			want: []string{"create claims.* InnerDoor Enforced", "create,get claims.* FrontDoor GrantsNothing"}, reason: "GrantsNothing"},
		{name: "every resource", effect: allow, reads: more, facts: facts(), rule: rule("create,bind", "", "*", "*"),
			want: []string{"create * InnerDoor Enforced", "create,bind * FrontDoor GrantsNothing"}, reason: "GrantsNothing"},
		{name: "a subresource of every resource", effect: allow, reads: more, facts: facts(), rule: rule("create,patch", "", "*/status", "*"),
			want: []string{"patch */status InnerDoor Enforced", "create,patch */status FrontDoor GrantsNothing"}, reason: "GrantsNothing"},

		{name: "a server that lacks it", effect: allow, reads: more, facts: facts("https://a:6443"), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor InnerDoorUnknown"}, reason: "InnerDoorUnknown", message: "not known to call the inner door: https://a:6443"},
		{name: "many servers that lack it", effect: noOpinion, reads: more, facts: facts("https://a", "https://b", "https://c", "https://d", "https://e"), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor InnerDoorUnknown"}, reason: "InnerDoorUnknown", message: ": https://a, https://b, https://c and 2 more"},
		{name: "not probed yet", effect: allow, reads: more, facts: notProbed, rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor InnerDoorUnknown"}, reason: "InnerDoorUnknown", message: "Proviso has not checked yet that kube-apiserver calls it at admission"},
		{name: "unknown, and a read", effect: allow, reads: more, facts: facts("https://a"), rule: rule("get,create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor InnerDoorUnknown", "get claims FrontDoor GrantsNothing"}, reason: "GrantsNothing"},

		{name: "selectors alone", effect: allow, reads: request | unseen, facts: facts(), rule: rule("create,get", "", "claims", "v1"),
			want: []string{"create claims InnerDoor GrantsNothing", "get claims FrontDoor Enforced"}, reason: "GrantsNothing", message: "the condition reads the path or a selector of the request, which is not seen at admission, so that the policy allows none of them, unless the request alone makes the condition true"},
		{name: "selectors of what is not listed", effect: allow, reads: request | unseen, facts: facts(), rule: rule("delete,get", "", "secrets", "v1"),
			want: []string{"get,delete secrets FrontDoor Enforced"}, reason: "Enforced"},
		{name: "selectors and the namespace", effect: allow, reads: namespace | unseen, facts: facts("https://a"), rule: rule("delete", "example.com", "widgets", "v2"),
			want: []string{"delete widgets.example.com InnerDoor GrantsNothing"}, reason: "GrantsNothing"},
		{name: "selectors and the object", effect: allow, reads: more | unseen, facts: facts("https://a"), rule: rule("delete", "", "claims", "v1"),
			want: []string{"delete claims InnerDoor GrantsNothing"}, reason: "GrantsNothing"},
		{name: "NoOpinion by selectors", effect: noOpinion, reads: request | unseen, facts: facts(), rule: rule("delete", "", "claims", "v1"),
			want: []string{"delete claims FrontDoor Enforced"}, reason: "Enforced"},
		{name: "NoOpinion by selectors and the object", effect: noOpinion, reads: more | unseen, facts: facts(), rule: rule("delete", "", "claims", "v1"),
			want: []string{"delete claims InnerDoor WithholdsUnconditionally"}, reason: "WithholdsUnconditionally", message: "not seen at admission"},
		{name: "Deny by selectors", effect: deny, reads: request | unseen, facts: facts(), rule: rule("delete", "", "claims", "v1"),
			want: []string{"delete claims FrontDoor Enforced"}, reason: "Enforced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			places := enforcementstatus.NewPlaces(tc.facts)
			server := enforcementstatus.Server{Coverage: coverage, FrontDoor: true, Places: func() *enforcementstatus.Places { return places }}
			spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: []policyv1alpha1.PolicyRule{tc.rule}}
			entries := server.Of(spec, tc.reads)
			if got := text(entries); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if got := enforcementstatus.Effective(entries); got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got Effective %s: %s, want %s: %s", got.Reason, got.Message, tc.reason, tc.message)
			}
			if server.FrontDoor = false; slices.ContainsFunc(server.Of(spec, tc.reads), func(e policyv1alpha1.RuleEnforcement) bool { return e.At == policyv1alpha1.EnforcedAtInnerDoor }) {
				t.Error("without a front door, the inner door decides")
			}
		})
	}
}

// TestPlacesOfLongNames bounds what a message says about servers.
func TestPlacesOfLongNames(t *testing.T) {
	t.Parallel()
	var long []string
	for i := range 64 {
		long = append(long, fmt.Sprintf("https://%s%d:65535", strings.Repeat("a", 251), i))
	}
	places := enforcementstatus.NewPlaces(facts(long...))
	server := enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return places }}
	for _, e := range server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: allow, Rules: []policyv1alpha1.PolicyRule{rule("create", "", "claims")}}, enforcementstatus.More) {
		if len(e.Message) > policy.MaxEnforcementMessageBytes {
			t.Errorf("a message has %d bytes", len(e.Message))
		}
	}
}

// TestPlacesEqual distinguishes what the status shows.
func TestPlacesEqual(t *testing.T) {
	t.Parallel()
	one := enforcementstatus.NewPlaces(facts("https://a"))
	var none *enforcementstatus.Places
	if !one.Equal(enforcementstatus.NewPlaces(facts("https://a"))) || !none.Equal(nil) {
		t.Error("equal places differ")
	}
	local := facts("https://a")
	local.Versions["example.com"]["v2"] = true
	for name, other := range map[string]*enforcementstatus.Places{
		"another server": enforcementstatus.NewPlaces(facts("https://b")), "no server": enforcementstatus.NewPlaces(facts()),
		"a version of kube-apiserver": enforcementstatus.NewPlaces(local), "nothing": nil,
	} {
		if one.Equal(other) || other.Equal(one) {
			t.Errorf("%s: equal", name)
		}
	}
}

// TestAggregatedServers says for which requests another aggregated server evaluates a condition.
func TestAggregatedServers(t *testing.T) {
	t.Parallel()
	const more = enforcementstatus.More
	write := func(subresource, verbs, version, configuration string, isEnforced bool) enforcementstatus.Aggregated {
		return enforcementstatus.Aggregated{
			Writes:  enforcementstatus.Writes{Resource: schema.GroupResource{Group: "things.io", Resource: "things"}, Subresource: subresource, Verbs: strings.Split(verbs, ",")},
			Version: version, Configuration: configuration, IsEnforced: isEnforced,
		}
	}
	all := enforcementstatus.Facts{
		Versions: map[string]map[string]bool{"things.io": {"v1": false, "v2": false}},
		Aggregated: []enforcementstatus.Aggregated{
			write("", "create,update", "v1", "a", true), write("", "create,update", "v2", "b", false), write("status", "update,patch", "v1", "a", true),
		},
	}
	withDoor := all
	withDoor.InnerDoor = facts("https://a").InnerDoor
	const server, folded = " things.things.io AggregatedServer Enforced", " things.things.io FrontDoor "
	for _, tc := range []struct {
		name    string
		effect  policyv1alpha1.PolicyEffect
		reads   enforcementstatus.Reads
		rule    policyv1alpha1.PolicyRule
		want    []string
		message string
	}{
		{name: "Allow", effect: allow, reads: more, rule: rule("create,update", "things.io", "things", "v1"), want: []string{"create,update" + server}},
		{name: "Deny", effect: deny, reads: more, rule: rule("create", "things.io", "things", "v1"), want: []string{"create" + server}},
		{name: "NoOpinion", effect: noOpinion, reads: more, rule: rule("create", "things.io", "things", "v1"), want: []string{"create" + server}},
		{name: "selectors and the object", effect: allow, reads: more | enforcementstatus.Unseen, rule: rule("create", "things.io", "things", "v1"), want: []string{"create" + server}},
		{name: "selectors", effect: allow, reads: enforcementstatus.Request | enforcementstatus.Unseen, rule: rule("create", "things.io", "things", "v1"), want: []string{"create" + folded + "Enforced"}},
		{name: "the namespace", effect: deny, reads: enforcementstatus.Namespace, rule: rule("create", "things.io", "things", "v1"), want: []string{"create" + folded + "Enforced"}},
		{name: "a read", effect: allow, reads: more, rule: rule("create,get", "things.io", "things", "v1"), want: []string{"create" + server, "get" + folded + "GrantsNothing"}},
		{name: "a version that does not count", effect: allow, reads: more, rule: rule("create", "things.io", "things", "v2"), want: []string{"create" + folded + "GrantsNothing"},
			message: `EnforcementConfiguration "b" does not count at the moment`},
		{name: "all versions", effect: deny, reads: more, rule: rule("create", "things.io", "things", "*"), want: []string{"create" + server, "create" + folded + "DeniesUnconditionally"},
			message: `EnforcementConfiguration "b" does not count at the moment`},
		{name: "a version that no configuration names", effect: allow, reads: more, rule: rule("create", "things.io", "things", "v3"), want: []string{"create" + folded + "GrantsNothing"}},
		{name: "a subresource", effect: allow, reads: more, rule: rule("update", "things.io", "things/status", "v1"), want: []string{"update things.things.io/status AggregatedServer Enforced"}},
		{name: "another resource", effect: deny, reads: more, rule: rule("create", "things.io", "others", "v1"), want: []string{"create others.things.io FrontDoor DeniesUnconditionally"}},
		{name: "every resource", effect: deny, reads: more, rule: rule("create", "things.io", "*", "v1"), want: []string{"create *.things.io AggregatedServer Enforced", "create *.things.io FrontDoor DeniesUnconditionally"}},
	} {
		for name, facts := range map[string]enforcementstatus.Facts{"no inner door": all, "an inner door": withDoor} {
			places := enforcementstatus.NewPlaces(facts)
			server := enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return places }}
			entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: []policyv1alpha1.PolicyRule{tc.rule}}, tc.reads)
			if got := text(entries); !slices.Equal(got, tc.want) {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", tc.name, name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if got := enforcementstatus.Effective(entries).Message; !strings.Contains(got, tc.message) {
				t.Errorf("%s, %s: got %q, want %q", tc.name, name, got, tc.message)
			}
		}
	}
}

// TestManyResources checks that the places do not multiply what the largest rules cost. A user who may write policies of a namespace
// chooses the rules, and each write of a policy and each change of the places evaluates them. It is not parallel, because it counts allocations.
func TestManyResources(t *testing.T) {
	names := func(format string) (all []string) {
		for i := range policy.MaxRuleEntries {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	facts := enforcementstatus.Facts{InnerDoor: &enforcementstatus.InnerDoor{Probed: true}, Versions: map[string]map[string]bool{"g0": {"v1": true}}}
	for _, resource := range names("r%d") {
		facts.InnerDoor.Writes = append(facts.InnerDoor.Writes, enforcementstatus.Writes{Resource: schema.GroupResource{Group: "g0", Resource: resource}, Verbs: []string{"create", "update", "patch", "delete"}})
	}
	places := enforcementstatus.NewPlaces(facts)
	for name, resources := range map[string][]string{"names": names("r%d"), "subresources of any resource": names("*/s%d")} {
		rule := policyv1alpha1.PolicyRule{APIGroups: names("g%d"), Resources: resources, Verbs: names("v%d"), APIVersions: names("v%d")}
		spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectAllow, Rules: slices.Repeat([]policyv1alpha1.PolicyRule{rule}, 16)}
		allocations := func(p *enforcementstatus.Places) float64 {
			server := enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return p }}
			return testing.AllocsPerRun(1, func() { server.Of(spec, enforcementstatus.More) })
		}
		if without, with := allocations(nil), allocations(places); with > 10*without {
			t.Errorf("%s: %.0f allocations with places, %.0f without", name, with, without)
		}
	}
}

// aggregated are writes to a resource of another server.
func aggregated(group, resource, version string, isEnforced bool) enforcementstatus.Aggregated {
	return enforcementstatus.Aggregated{
		Writes:  enforcementstatus.Writes{Resource: schema.GroupResource{Group: group, Resource: resource}, Verbs: []string{"create", "update"}},
		Version: version, Configuration: "of-" + version, IsEnforced: isEnforced,
	}
}

// TestAreKnown has what is known before and after kube-apiservers have been probed.
func TestAreKnown(t *testing.T) {
	t.Parallel()
	notProbed := facts()
	notProbed.InnerDoor.Probed = false
	for _, tc := range []struct {
		name      string
		places    func() *enforcementstatus.Places
		frontDoor bool
		want      bool
	}{
		{name: "no other components", frontDoor: true, want: true},
		{name: "nil", frontDoor: true, places: func() *enforcementstatus.Places { return nil }, want: true},
		{name: "no inner door", frontDoor: true, places: func() *enforcementstatus.Places { return enforcementstatus.NewPlaces(enforcementstatus.Facts{}) }, want: true},
		{name: "probed", frontDoor: true, places: func() *enforcementstatus.Places { return enforcementstatus.NewPlaces(facts()) }, want: true},
		{name: "probed, and a server lacks it", frontDoor: true, places: func() *enforcementstatus.Places { return enforcementstatus.NewPlaces(facts("https://a")) }, want: true},
		{name: "not probed", frontDoor: true, places: func() *enforcementstatus.Places { return enforcementstatus.NewPlaces(notProbed) }},
		{name: "not probed, without a front door", places: func() *enforcementstatus.Places { return enforcementstatus.NewPlaces(notProbed) }, want: true},
	} {
		if got := (enforcementstatus.Server{FrontDoor: tc.frontDoor, Places: tc.places}).AreKnown(); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}

// TestBothComponents has groups that kube-apiserver and another server serve, in one version each, and rules that match several groups,
// resources or versions.
func TestBothComponents(t *testing.T) {
	t.Parallel()
	const more, unseen = enforcementstatus.More, enforcementstatus.Unseen
	both := facts()
	both.Versions["things.io"] = map[string]bool{"v1": false, "v2": false}
	both.Aggregated = []enforcementstatus.Aggregated{aggregated("example.com", "widgets", "v2", true), aggregated("things.io", "things", "v1", true), aggregated("things.io", "things", "v2", true), aggregated("things.io", "later", "v3", true)}
	statusOnly := facts()
	statusOnly.InnerDoor.Writes = statusOnly.InnerDoor.Writes[1:2]
	third := both
	third.Versions = map[string]map[string]bool{"example.com": {"v1": true, "v2": false, "v3": false}}
	notProbed := facts()
	notProbed.InnerDoor.Probed, notProbed.Versions = false, nil
	withoutDoor := enforcementstatus.Facts{Aggregated: both.Aggregated, Versions: both.Versions}
	for _, tc := range []struct {
		name     string
		facts    enforcementstatus.Facts
		effect   policyv1alpha1.PolicyEffect
		reads    enforcementstatus.Reads
		rule     policyv1alpha1.PolicyRule
		want     []string
		message  string
		unwanted string // is in no message
	}{
		{name: "both versions", facts: both, effect: allow, reads: more, rule: rule("create", "example.com", "widgets", "v1", "v2"),
			want: []string{"create widgets.example.com AggregatedServer Enforced", "create widgets.example.com InnerDoor Enforced"}},
		{name: "no versions are all versions", facts: both, effect: allow, reads: more, rule: rule("create", "example.com", "widgets"),
			want: []string{"create widgets.example.com AggregatedServer Enforced", "create widgets.example.com InnerDoor Enforced"}},
		{name: "no versions, of another server alone", facts: both, effect: deny, reads: more, rule: rule("create", "things.io", "things"), want: []string{"create things.things.io AggregatedServer Enforced"}},
		{name: "a verb that only the inner door knows", facts: both, effect: allow, reads: more, rule: rule("delete", "example.com", "widgets", "v1"), want: []string{"delete widgets.example.com InnerDoor Enforced"}},
		{name: "a version that is not registered, though it counts", facts: both, effect: allow, reads: more, rule: rule("create", "things.io", "later", "v3"), want: []string{"create later.things.io AggregatedServer Enforced"}},
		{name: "a resource without that version", facts: both, effect: deny, reads: more, rule: rule("create", "things.io", "later", "*"),
			want: []string{"create later.things.io AggregatedServer Enforced", "create later.things.io FrontDoor DeniesUnconditionally"}},
		{name: "every resource of a group, with a subresource", facts: both, effect: allow, reads: more, rule: rule("update", "", "*", "v1"), want: []string{"update * InnerDoor Enforced", "update * FrontDoor GrantsNothing"}},
		{name: "every group of a resource that one has", facts: both, effect: allow, reads: more, rule: rule("create", "*", "things", "*"),
			want: []string{"create things.* AggregatedServer Enforced", "create things.* FrontDoor GrantsNothing"}},
		{name: "every resource of a group without any", facts: both, effect: deny, reads: more, rule: rule("create", "none.io", "*", "*"), want: []string{"create *.none.io FrontDoor DeniesUnconditionally"}},
		{name: "every subresource status of a group without any", facts: both, effect: deny, reads: more, rule: rule("update", "things.io", "*/status", "*"), want: []string{"update,patch *.things.io/status FrontDoor DeniesUnconditionally"}},
		{name: "Allow without an inner door", facts: withoutDoor, effect: allow, reads: more, rule: rule("create", "example.com", "widgets", "v1"), want: []string{"create widgets.example.com FrontDoor GrantsNothing"}, unwanted: "inner door"},
		{name: "Deny of what no component knows", facts: both, effect: deny, reads: more, rule: rule("create", "", "secrets", "v1"), want: []string{"create secrets FrontDoor DeniesUnconditionally"}, unwanted: "inner door"},
		{name: "a read of what the inner door knows", facts: both, effect: allow, reads: more, rule: rule("get", "", "claims", "v1"), want: []string{"get claims FrontDoor GrantsNothing"}, unwanted: "inner door"},
		{name: "a read of a subresource", facts: both, effect: allow, reads: more, rule: rule("get,update", "", "claims/status", "v1"), want: []string{"update claims/status InnerDoor Enforced", "get claims/status FrontDoor GrantsNothing"}},
		{name: "a resource that is only created, and its updates", facts: facts(), effect: allow, reads: more, rule: rule("create,update", "gone.example.com", "things", "v1"),
			want: []string{"create things.gone.example.com FrontDoor GrantsNothing", "update things.gone.example.com FrontDoor GrantsNothing"}},
		{name: "not probed, and no versions are known", facts: notProbed, effect: allow, reads: more, rule: rule("create", "example.com", "widgets", "v2"), want: []string{"create widgets.example.com InnerDoor InnerDoorUnknown"},
			message: "Proviso has not checked yet that kube-apiserver calls it at admission", unwanted: "not known to serve"},
		{name: "four servers", facts: facts("https://a", "https://b", "https://c", "https://d"), effect: allow, reads: more, rule: rule("create", "", "claims", "v1"), want: []string{"create claims InnerDoor InnerDoorUnknown"},
			message: "https://a, https://b, https://c and 1 more"},
		{name: "no versions, of kube-apiserver alone", facts: facts(), effect: allow, reads: more, rule: rule("create", "apps", "deployments"), want: []string{"create deployments.apps InnerDoor Enforced"}},
		{name: "no versions, of two servers", facts: facts(), effect: allow, reads: more, rule: rule("create", "example.com", "widgets"),
			want: []string{"create widgets.example.com InnerDoor Enforced", "create widgets.example.com FrontDoor GrantsNothing"}},
		{name: "every resource, where only a subresource is known", facts: statusOnly, effect: allow, reads: more, rule: rule("update", "", "*", "v1"), want: []string{"update * InnerDoor Enforced", "update * FrontDoor GrantsNothing"}},
		{name: "selectors, in the version of another server", facts: both, effect: noOpinion, reads: more | unseen, rule: rule("create", "example.com", "widgets", "v2"), want: []string{"create widgets.example.com AggregatedServer Enforced"}},
		{name: "selectors, in both versions", facts: both, effect: noOpinion, reads: more | unseen, rule: rule("create", "example.com", "widgets", "*"),
			want: []string{"create widgets.example.com AggregatedServer Enforced", "create widgets.example.com InnerDoor WithholdsUnconditionally"}, message: "not seen at admission"},
		{name: "a third version of a server that enforces nothing", facts: third, effect: allow, reads: more, rule: rule("create", "example.com", "widgets", "*"),
			want: []string{"create widgets.example.com AggregatedServer Enforced", "create widgets.example.com InnerDoor Enforced", "create widgets.example.com FrontDoor GrantsNothing"}, message: "not known to serve these versions itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			places := enforcementstatus.NewPlaces(tc.facts)
			server := enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return places }}
			entries := server.Of(&policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: []policyv1alpha1.PolicyRule{tc.rule}}, tc.reads)
			if got := text(entries); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if got := enforcementstatus.Effective(entries).Message; !strings.Contains(got, tc.message) {
				t.Errorf("got %q, want %q", got, tc.message)
			}
			for _, e := range entries {
				if tc.unwanted != "" && strings.Contains(e.Message, tc.unwanted) {
					t.Errorf("got %q, want nothing about %q", e.Message, tc.unwanted)
				}
			}
		})
	}
}
