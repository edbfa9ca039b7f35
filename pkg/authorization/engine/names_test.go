/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestNamesOfSnapshot collects the names of the policies that match a request whatever its name is.
func TestNamesOfSnapshot(t *testing.T) {
	t.Parallel()
	named := func(verb, resource string, names ...string) []rule {
		return []rule{{Verbs: []string{verb}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}, ResourceNames: names}}
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	alice := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}}
	yes, no, none := authorization.Allow("", nil), authorization.Deny("", nil), authorization.NoOpinion("", nil)
	for _, tc := range []struct {
		name  string
		specs map[string]spec
		// decision is the one on a request without a name. If nil, it depends on conditions.
		decision *authorization.Decision
		want     string
	}{
		{name: "no policy"},
		{name: "no names", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods")}}},
		{name: "two policies", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "b", "a")}, "q": {Effect: deny, Rules: named("*", "*", "b", "c")}}, want: "a b c"},
		{name: "another verb", specs: map[string]spec{"p": {Effect: deny, Rules: named("delete", "pods", "a")}}},
		{name: "another resource", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods/log", "a")}}},
		{name: "another rule", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: append(named("get", "pods"), named("get", "secrets", "a")...)}}},
		{name: "another user", specs: map[string]spec{"p": {Effect: allow, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "bob"}}, Rules: named("get", "pods", "a")}}},
		{name: "the user", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "a")}}, want: "a"},
		{name: "in Audit", specs: map[string]spec{"p": {Effect: deny, Enforcement: policyv1alpha1.PolicyEnforcementAudit, Rules: named("get", "pods", "a")}}},
		{name: "a condition on the name", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods"), Condition: `request.name.startsWith("a")`}}, want: " others p"},
		{name: "another condition", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "a"), Condition: `request.namespace == "a"`}}, want: "a"},
		{name: "many names", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", many...)}}, want: strings.Join(many[:16], " ") + " others "},
		{name: "long names", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "a", strings.Repeat("b", 127), "c")}}, want: "a " + strings.Repeat("b", 127) + " others "},
		{name: "Deny where nothing allows", specs: map[string]spec{"p": {Effect: deny, Rules: named("get", "pods", "a")}}, decision: &none},
		{name: "Deny of a name where something allows", specs: map[string]spec{"p": {Effect: deny, Rules: named("get", "pods", "a")}}, decision: &yes, want: "a"},
		{name: "a Deny that compares, where nothing allows", specs: map[string]spec{"p": {Effect: deny, Rules: named("get", "pods"), Condition: `request.name == "a"`}}, decision: &none},
		{name: "a Deny that compares, and may have denied", specs: map[string]spec{"p": {Effect: deny, Rules: named("get", "pods"), Condition: `request.name != "a"`}}, decision: &no, want: " others p"},
		{name: "a NoOpinion that compares, and may hold back", specs: map[string]spec{"p": {Effect: noOpinion, Rules: named("get", "pods"), Condition: `request.name != "a"`}}, decision: &none, want: " others p"},
		{name: "Allow where something allows", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "a"), Condition: `request.name == "a"`}}, decision: &yes},
		{name: "Allow where nothing allows", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "a")}}, decision: &none, want: "a"},
		{name: "Allow where a policy denies", specs: map[string]spec{"p": {Effect: allow, Subjects: alice, Rules: named("get", "pods", "a")}}, decision: &no},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decision := authorization.Conditions(authorization.Condition{ID: "cluster.policy.proviso.dev/other", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "object.a == 1"})
			if tc.decision != nil {
				decision = *tc.decision
			}
			n := publish(t, tc.specs).Snapshot().Names(authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "alice"}, Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "n", ResourceRequest: true,
			}, decision)
			got := strings.Join(n.Names, " ")
			if n.IsOpen {
				got += " others " + n.By
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
