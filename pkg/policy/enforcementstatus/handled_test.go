/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// writesLeft returns the writes of resources that kube-apiserver gets conditions about in these tests.
func writesLeft(group, resource, subresource string) []string {
	switch {
	case group == "authorization.k8s.io" || resource == "nodes" && subresource != "":
		return nil
	case subresource == "":
		return []string{"create", "update", "patch", "delete", "deletecollection"}
	case subresource == "status":
		return []string{"update", "patch"}
	}
	return nil
}

// TestHandled says for which requests kube-apiserver enforces conditions itself. facts has claims, secrets and so on in v1, which kube-apiserver
// serves, and widgets, whose version v2 another server serves.
func TestHandled(t *testing.T) {
	t.Parallel()
	const enforced = "KubeAPIServer Enforced"
	all := func(inner bool, problem string, excluded ...schema.GroupResource) enforcementstatus.Facts {
		f := facts("https://a:6443")
		if !inner {
			f.InnerDoor = nil
		}
		f.KubeAPIServers = &enforcementstatus.KubeAPIServers{Probed: true, Problem: problem, Excluded: excluded}
		return f
	}
	alone, excluded := all(false, ""), schema.GroupResource{Resource: "secrets"}
	notProbed := all(false, "")
	notProbed.KubeAPIServers.Probed = false
	innerNotProbed := all(true, "")
	innerNotProbed.InnerDoor.Probed = false
	for _, tc := range []struct {
		name    string
		effect  policyv1alpha1.PolicyEffect
		reads   enforcementstatus.Reads
		facts   enforcementstatus.Facts
		rule    policyv1alpha1.PolicyRule
		want    []string
		message string // part of the message of the condition Effective
	}{
		{name: "Allow", effect: allow, reads: enforcementstatus.More, facts: alone, rule: rule("create,delete", "", "secrets", "v1"), want: []string{"create,delete secrets " + enforced},
			message: "kube-apiserver enforces its condition itself"},
		{name: "Deny", effect: deny, reads: enforcementstatus.More, facts: alone, rule: rule("create", "", "secrets", "v1"), want: []string{"create secrets " + enforced}},
		{name: "NoOpinion", effect: noOpinion, reads: enforcementstatus.More, facts: alone, rule: rule("create", "", "secrets", "v1"), want: []string{"create secrets " + enforced}},
		{name: "selectors and the object", effect: allow, reads: enforcementstatus.More | enforcementstatus.Unseen, facts: all(true, ""), rule: rule("delete", "", "claims", "v1"), want: []string{"delete claims " + enforced}},
		{name: "the namespace", effect: allow, reads: enforcementstatus.Namespace, facts: alone, rule: rule("create", "", "secrets", "v1"), want: []string{"create secrets FrontDoor Enforced"}},
		{name: "a read", effect: deny, reads: enforcementstatus.More, facts: alone, rule: rule("get,create", "", "secrets", "v1"),
			want: []string{"create secrets " + enforced, "get secrets FrontDoor DeniesUnconditionally"}, message: "conditions on objects are not evaluated"},
		{name: "every verb", effect: allow, reads: enforcementstatus.More, facts: alone, rule: rule("*", "", "claims/status", "v1"),
			want: []string{"update,patch claims/status " + enforced, "get,list,watch,create,delete,deletecollection claims/status FrontDoor GrantsNothing"}},
		{name: "a connection", effect: allow, reads: enforcementstatus.More, facts: alone, rule: rule("create", "", "pods/exec", "v1"), want: []string{"create pods/exec FrontDoor GrantsNothing"}},
		{name: "reviews", effect: allow, reads: enforcementstatus.More, facts: alone, rule: rule("create", "authorization.k8s.io", "subjectaccessreviews", "v1"),
			want: []string{"create subjectaccessreviews.authorization.k8s.io FrontDoor GrantsNothing", "create subjectaccessreviews.authorization.k8s.io Server GrantsNothing"}},
		{name: "versions of two servers", effect: deny, reads: enforcementstatus.More, facts: alone, rule: rule("create", "example.com", "widgets", "*"),
			want: []string{"create widgets.example.com " + enforced, "create widgets.example.com FrontDoor DeniesUnconditionally"}, message: "not known to serve these versions itself"},
		{name: "a version of another server", effect: deny, reads: enforcementstatus.More, facts: alone, rule: rule("create", "example.com", "widgets", "v2"),
			want: []string{"create widgets.example.com FrontDoor DeniesUnconditionally"}, message: "not known to serve these versions itself"},
		{name: "a group that is not registered", effect: allow, reads: enforcementstatus.More, facts: alone, rule: rule("create", "gone.example.com", "things", "v1"),
			want: []string{"create things.gone.example.com FrontDoor GrantsNothing"}, message: "not known to serve these versions itself"},
		{name: "every group", effect: allow, reads: enforcementstatus.More, facts: alone, rule: rule("create", "*", "*", "*"),
			want: []string{"create *.* " + enforced, "create *.* FrontDoor GrantsNothing", "create *.* Server Enforced"}},
		{name: "excluded fields", effect: allow, reads: enforcementstatus.More, facts: all(false, "", excluded), rule: rule("create", "", "secrets", "v1"),
			want: []string{"create secrets FrontDoor GrantsNothing"}, message: "fields of the resource are excluded"},
		{name: "excluded fields of another resource", effect: allow, reads: enforcementstatus.More, facts: all(false, "", excluded), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims " + enforced}},
		{name: "mappings that are not loaded", effect: allow, reads: enforcementstatus.More, facts: all(false, "", schema.GroupResource{Group: "*", Resource: "*"}), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims FrontDoor GrantsNothing"}},
		{name: "excluded fields, at the inner door", effect: allow, reads: enforcementstatus.More, facts: all(true, "", schema.GroupResource{Resource: "claims"}), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor InnerDoorUnknown"}},
		{name: "an inner door that is not needed", effect: allow, reads: enforcementstatus.More, facts: all(true, ""), rule: rule("create", "", "claims,secrets", "v1"), want: []string{"create claims,secrets " + enforced}},
		{name: "an inner door that is not probed", effect: deny, reads: enforcementstatus.More, facts: innerNotProbed, rule: rule("create", "example.com", "widgets", "v2"),
			want: []string{"create widgets.example.com FrontDoor DeniesUnconditionally"}},
		{name: "one server that does not handle", effect: allow, reads: enforcementstatus.More, facts: all(false, "https://b:6443"), rule: rule("get,create", "", "secrets", "v1"),
			want: []string{"get secrets FrontDoor GrantsNothing", "create secrets FrontDoor GrantsNothing"}, message: "so that the policy allows none of them"},
		{name: "the message of such a server", effect: deny, reads: enforcementstatus.More, facts: all(false, "https://b:6443"), rule: rule("create", "", "secrets", "v1"),
			want: []string{"create secrets FrontDoor DeniesUnconditionally"}, message: "not every kube-apiserver is known to handle conditions: https://b:6443, so that the policy denies all"},
		{name: "one server that does not handle, and an inner door", effect: allow, reads: enforcementstatus.More, facts: all(true, "https://b:6443"), rule: rule("create", "", "claims", "v1"),
			want: []string{"create claims InnerDoor InnerDoorUnknown"}, message: "https://a:6443"},
		{name: "not probed", effect: allow, reads: enforcementstatus.More, facts: notProbed, rule: rule("create", "", "secrets", "v1"), want: []string{"create secrets FrontDoor GrantsNothing"}, message: "not been probed yet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			places := enforcementstatus.NewPlaces(tc.facts)
			server := enforcementstatus.Server{Coverage: coverage, FrontDoor: true, Places: func() *enforcementstatus.Places { return places }, Writes: writesLeft}
			spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: []policyv1alpha1.PolicyRule{tc.rule}}
			entries := server.Of(spec, tc.reads)
			got, want := slices.Sorted(slices.Values(text(entries))), slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if got := enforcementstatus.Effective(entries); !strings.Contains(got.Message, tc.message) {
				t.Errorf("got Effective %s: %s, want %s", got.Reason, got.Message, tc.message)
			}
			if server.FrontDoor = false; slices.ContainsFunc(server.Of(spec, tc.reads), func(e policyv1alpha1.RuleEnforcement) bool { return e.At == policyv1alpha1.EnforcedAtKubeAPIServer }) {
				t.Error("without a front door, kube-apiserver gets conditions")
			}
		})
	}
}

// TestHandlingIsKnown knows the facts once kube-apiservers have been probed.
func TestHandlingIsKnown(t *testing.T) {
	t.Parallel()
	known := facts()
	known.InnerDoor, known.KubeAPIServers = nil, &enforcementstatus.KubeAPIServers{Probed: true}
	places := enforcementstatus.NewPlaces(known)
	server := enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places { return places }}
	if !server.AreKnown() {
		t.Error("the facts are not known")
	}
	known.KubeAPIServers = &enforcementstatus.KubeAPIServers{}
	if places = enforcementstatus.NewPlaces(known); server.AreKnown() {
		t.Error("the facts are known before kube-apiservers have been probed")
	}
}
