/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// TestBarrierOfOwnGroup has another server serve a group of Proviso. The message does not say that Proviso enforces the policy.
func TestBarrierOfOwnGroup(t *testing.T) {
	t.Parallel()
	const own = "Proviso serves it and enforces the policy itself"
	server := enforcementstatus.Server{
		Elsewhere: func(string, []string) bool { return true },
		Barrier: func(string, string, *policyv1alpha1.AuthorizationPolicySpec, bool) *enforcementstatus.Barrier {
			return &enforcementstatus.Barrier{
				Parts:  []enforcementstatus.BarrierPart{{Resources: []string{"virtualmachines.demo.proviso.dev"}, Verbs: []string{"create"}, Reason: own}},
				Result: policyv1alpha1.ResultEnforced,
			}
		},
	}
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: deny, Rules: []policyv1alpha1.PolicyRule{rule("create", "demo.proviso.dev", "virtualmachines", "v1alpha1")}}
	isTold := false
	for _, entry := range server.OfPolicy("team", "a", spec, enforcementstatus.More) {
		isTold = isTold || entry.Result == policyv1alpha1.ResultNotEnforced && strings.Contains(entry.Message, "does not pass these requests on to Proviso")
		if strings.Contains(entry.Message, own) || entry.Result == policyv1alpha1.ResultEnforced {
			t.Errorf("got %+v", entry)
		}
	}
	if !isTold {
		t.Error("no entry tells that Proviso does not get the requests")
	}
}

// TestBarrier says which rules of a Deny policy its barrier enforces, and what becomes of the others.
func TestBarrier(t *testing.T) {
	t.Parallel()
	const more, request = enforcementstatus.More, enforcementstatus.Request
	const enforced, pending, notEnforced = policyv1alpha1.ResultEnforced, policyv1alpha1.ResultPending, policyv1alpha1.ResultNotEnforced
	pods := enforcementstatus.BarrierPart{Resources: []string{"pods"}, Verbs: []string{"create", "delete"}}
	all := enforcementstatus.BarrierPart{Resources: []string{"pods"}, Verbs: []string{"create", "update", "patch", "delete", "deletecollection"}}
	left := enforcementstatus.BarrierPart{Resources: []string{"pods"}, Verbs: []string{"get"}, Reason: "reads do not pass"}
	reads := enforcementstatus.BarrierPart{Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}, Reason: "reads"}
	for _, tc := range []struct {
		name      string
		effect    policyv1alpha1.PolicyEffect
		frontDoor bool
		reads     enforcementstatus.Reads
		rule      policyv1alpha1.PolicyRule
		parts     []enforcementstatus.BarrierPart
		result    policyv1alpha1.EnforcementResult
		message   string
		remote    []string
		audit     bool
		want      []string
		// says is part of the message of the condition Effective.
		reason, says string
	}{
		{name: "loaded", effect: deny, reads: more, rule: rule("create,delete", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			want: []string{"create,delete pods Barrier Enforced"}, reason: "Enforced"},
		{name: "without a condition", effect: deny, reads: request, rule: rule("create,delete", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			want: []string{"create,delete pods Barrier Enforced"}, reason: "Enforced"},
		{name: "not loaded yet", effect: deny, reads: more, rule: rule("create,delete", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: pending, message: "not yet",
			want: []string{"create,delete pods Barrier Pending"}, reason: "Pending", says: "rules[0] (create, delete pods): not yet"},
		{name: "refused", effect: deny, reads: more, rule: rule("create,delete", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: notEnforced, message: "kube-apiserver refuses it",
			want: []string{"create,delete pods Barrier NotEnforced"}, reason: "NotEnforced", says: "rules[0] (create, delete pods): kube-apiserver refuses it"},
		{name: "verbs without translation", effect: deny, reads: more, rule: rule("create,get,delete", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods, left}, result: enforced,
			want: []string{"create,delete pods Barrier Enforced", "get pods Reviews NotEnforced"}, reason: "NotEnforced", says: "reads do not pass, and the front door is disabled, so that only reviews show the policy"},
		{name: "all verbs", effect: deny, reads: more, rule: rule("*", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{all, reads}, result: enforced,
			want: []string{"create,update,patch,delete,deletecollection pods Barrier Enforced", "get,list,watch pods Reviews NotEnforced"}, reason: "NotEnforced"},
		{name: "another resource", effect: deny, reads: more, rule: rule("create", "", "secrets", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			want: []string{"create secrets Reviews NotEnforced"}, reason: "NotEnforced"},
		{name: "another rule", effect: deny, reads: more, rule: rule("create", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{{Rule: 1, Resources: []string{"pods"}, Verbs: []string{"create"}}}, result: enforced,
			want: []string{"create pods Reviews NotEnforced"}, reason: "NotEnforced"},
		{name: "one group is left out", effect: deny, reads: more, rule: rule("create", "apps", "pods", "v1"),
			parts:  []enforcementstatus.BarrierPart{pods, {Resources: []string{"pods.apps"}, Verbs: []string{"create"}, Reason: "the group"}},
			result: enforced, want: []string{"create pods.apps Reviews NotEnforced"}, reason: "NotEnforced", says: "the group"},
		{name: "a group of another server", effect: deny, reads: more, rule: rule("create,get", "example.com", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced, remote: []string{"example.com"},
			want: []string{"get pods.example.com Reviews NotEnforced", "create pods.example.com Reviews NotEnforced"}, reason: "NotEnforced"},
		{name: "all groups", effect: deny, reads: more, rule: rule("create,get", "*", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			want: []string{"create pods.* Barrier Enforced", "get pods.* Reviews NotEnforced"}, reason: "NotEnforced"},
		{name: "all groups, and another server serves two groups", effect: deny, reads: more, rule: rule("create,delete", "*", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			remote: []string{"example.com", "metrics.k8s.io"},
			want:   []string{"create,delete pods.* Barrier Enforced", "create,delete pods.example.com,pods.metrics.k8s.io Reviews NotEnforced"}, reason: "NotEnforced", says: "another server serves these versions"},
		{name: "all groups, and admission policies do not see two resources", effect: deny, reads: more, rule: rule("create,delete", "*", "pods", "v1"), result: enforced,
			parts: []enforcementstatus.BarrierPart{pods, {Resources: []string{"tokenreviews.authentication.k8s.io", "a.b/status"}, Verbs: []string{"create"}, Reason: "they see no reviews"}},
			want:  []string{"create,delete pods.* Barrier Enforced", "create tokenreviews.authentication.k8s.io,a.b/status Reviews NotEnforced"}, reason: "NotEnforced", says: "they see no reviews"},
		{name: "all resources of a group, and admission policies do not see one", effect: deny, reads: more, rule: rule("delete", "example.com", "*", "v1"), result: enforced,
			parts: []enforcementstatus.BarrierPart{{Resources: []string{"*"}, Verbs: []string{"delete"}}, {Resources: []string{"hidden.example.com"}, Verbs: []string{"delete"}, Reason: "they do not see it"}},
			want:  []string{"delete *.example.com Barrier Enforced", "delete hidden.example.com Reviews NotEnforced"}, reason: "NotEnforced", says: "they do not see it"},
		{name: "front door, all groups", effect: deny, frontDoor: true, reads: more, rule: rule("create,delete", "*", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			remote: []string{"example.com"},
			want:   []string{"create,delete pods.* Barrier Enforced", "create,delete pods.example.com FrontDoor DeniesUnconditionally"}, reason: "DeniesUnconditionally"},
		{name: "Allow", effect: allow, reads: more, rule: rule("create", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			want: []string{"create pods Reviews NotEnforced"}, reason: "NotEnforced"},
		{name: "a path", effect: deny, reads: more, rule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}, result: enforced,
			want: []string{"get /metrics Server DeniesUnconditionally", "get /metrics Reviews NotEnforced"}, reason: "DeniesUnconditionally"},
		{name: "front door, loaded", effect: deny, frontDoor: true, reads: more, rule: rule("create,get", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods, left}, result: enforced,
			want: []string{"create pods Barrier Enforced", "get pods FrontDoor DeniesUnconditionally"}, reason: "DeniesUnconditionally", says: "reads do not pass, so that the policy denies all of them"},
		{name: "front door, not loaded yet", effect: deny, frontDoor: true, reads: more, rule: rule("create", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: pending, message: "not yet",
			want: []string{"create pods FrontDoor DeniesUnconditionally"}, reason: "DeniesUnconditionally", says: "the barrier of the policy does not enforce it yet: not yet, so that the policy denies all of them"},
		{name: "front door, without a condition", effect: deny, frontDoor: true, reads: request, rule: rule("create", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: pending,
			want: []string{"create pods FrontDoor Enforced"}, reason: "Enforced"},
		{name: "Audit", effect: deny, reads: more, audit: true, rule: rule("create", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: enforced,
			want: []string{"create pods Barrier Audited"}, reason: "Audit"},
		{name: "a long message", effect: deny, reads: more, rule: rule("create", "", "pods", "v1"), parts: []enforcementstatus.BarrierPart{pods}, result: notEnforced, message: strings.Repeat("ä", policy.MaxEnforcementMessageBytes),
			want: []string{"create pods Barrier NotEnforced"}, reason: "NotEnforced"},
		{name: "a long reason", effect: deny, frontDoor: true, reads: more, rule: rule("create", "", "pods", "v1"), result: enforced,
			parts: []enforcementstatus.BarrierPart{{Resources: []string{"pods"}, Verbs: []string{"create"}, Reason: strings.Repeat("ä", policy.MaxEnforcementMessageBytes)}},
			want:  []string{"create pods FrontDoor DeniesUnconditionally"}, reason: "DeniesUnconditionally"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := enforcementstatus.Server{FrontDoor: tc.frontDoor, Barrier: func(namespace, name string, _ *policyv1alpha1.AuthorizationPolicySpec, _ bool) *enforcementstatus.Barrier {
				if namespace != "team" || name != "a" {
					t.Errorf("got %q, %q", namespace, name)
				}
				return &enforcementstatus.Barrier{Parts: tc.parts, Result: tc.result, Message: tc.message, Remote: func(string) []string { return tc.remote }}
			}}
			spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: tc.effect, Rules: []policyv1alpha1.PolicyRule{tc.rule}}
			if tc.audit {
				spec.Enforcement = policyv1alpha1.PolicyEnforcementAudit
			}
			entries := server.OfPolicy("team", "a", spec, tc.reads)
			if got := text(entries); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			for _, e := range entries {
				if e.Message == "" || len(e.Message) > policy.MaxEnforcementMessageBytes {
					t.Errorf("got a message of %d bytes: %q", len(e.Message), e.Message)
				}
			}
			if got := enforcementstatus.Effective(entries); got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got %s, %q, want %s, %q", got.Reason, got.Message, tc.reason, tc.says)
			}
		})
	}
}
