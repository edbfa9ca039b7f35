/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestNarrower has what bob needs for requests that a question names in part: without a name, without a namespace, and without selectors.
func TestNarrower(t *testing.T) {
	t.Parallel()
	compiler := compilers.Policies(t)
	bob := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "bob"}}
	const (
		owner   = `request.labelSelector.requirements.exists(r, r.key == "owner" && r.operator == "In" && r.values == ["bob"])`
		in      = `request.labelSelector.requirements.exists(r, r.key == "a b" && r.operator == "In" && r.values == ["bob"])`
		byField = `request.fieldSelector.requirements.exists(r, r.key == "type" && r.operator == "NotIn" && r.values == ["Opaque"])`
	)
	type policy struct {
		effect          policyv1alpha1.PolicyEffect
		namespace, when string
		names           []string
	}
	const allow, deny, hold = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion
	for _, tc := range []struct {
		name, verb, namespace, object string
		// role are the names in a role of bob, and roleIn its namespace, for a RoleBinding.
		role            []string
		roleIn          string
		policies        []policy
		isClusterScoped bool
		// want is the answer and what the parts need.
		want string
	}{
		{name: "a label", verb: "list", namespace: "n", policies: []policy{{allow, "n", owner, nil}}, want: "yes-if: Allow -l owner=bob"},
		{name: "a label, for deletecollection", verb: "deletecollection", namespace: "n", policies: []policy{{allow, "n", owner, nil}}, want: "yes-if: Allow -l owner=bob"},
		{name: "a label, for a verb without selectors", verb: "create", namespace: "n", policies: []policy{{allow, "n", owner, nil}}, want: ""},
		{name: "a label that cannot be selected", verb: "list", namespace: "n", policies: []policy{{allow, "n", in, nil}}, want: "yes-if: Allow " + in},
		{name: "a label, for a user whose groups are not known", verb: "list", namespace: "n", policies: []policy{{allow, "n", `!("ops" in request.userInfo.groups) && ` + owner, nil}}, want: `yes-if: Allow !("ops" in request.userInfo.groups) && ` + owner},
		{name: "a label, for a request without a name", verb: "list", namespace: "n", policies: []policy{{allow, "n", `request.name == "" && ` + owner, nil}}, want: `yes-if: Allow request.name == "" && ` + owner},
		{name: "a field", verb: "list", namespace: "n", policies: []policy{{allow, "n", byField, nil}}, want: "yes-if: Allow --field-selector 'type!=Opaque'"},
		{name: "a label or anything", verb: "list", namespace: "n", policies: []policy{{allow, "n", owner + ` || request.namespace == "n"`, nil}}, want: "yes: Allow always"},
		{name: "a Deny without the label", verb: "list", namespace: "n", role: []string{}, roleIn: "n", policies: []policy{{deny, "n", "!" + owner, nil}}, want: "yes-if: Deny !" + owner + "; Allow always"},
		{name: "a Deny with the label", verb: "list", namespace: "n", role: []string{}, roleIn: "n", policies: []policy{{deny, "n", owner, nil}}, want: "yes: Allow always"},
		{name: "held back without the label", verb: "list", namespace: "n", policies: []policy{{hold, "n", "!" + owner, nil}, {allow, "n", "", nil}}, want: "yes-if: NoOpinion !" + owner + "; Allow always"},
		{name: "a label, and always held back", verb: "list", namespace: "n", policies: []policy{{hold, "n", "", nil}, {allow, "n", owner, nil}}, want: "no: NoOpinion always; Allow -l owner=bob"},
		{name: "a label, and always denied", verb: "list", namespace: "n", policies: []policy{{deny, "n", "", nil}, {allow, "n", owner, nil}}, want: "no: Deny always; Allow -l owner=bob"},

		{name: "a name", verb: "get", namespace: "n", role: []string{"db"}, roleIn: "n", want: "yes-if: Allow the name is db"},
		{name: "names", verb: "get", namespace: "n", role: []string{"db", "web"}, roleIn: "n", want: "yes-if: Allow the name is db or web"},
		{name: "a name of a list", verb: "list", namespace: "n", role: []string{"db"}, roleIn: "n", want: "yes-if: Allow --field-selector metadata.name=db"},
		{name: "a name that a shell would run", verb: "list", namespace: "n", role: []string{"$(id)'"}, roleIn: "n", want: `yes-if: Allow --field-selector 'metadata.name=$(id)'\'''`},
		{name: "a name that no create has", verb: "create", namespace: "n", role: []string{"db"}, roleIn: "n", want: ""},
		{name: "the name that is asked about", verb: "get", namespace: "n", object: "db", role: []string{"db"}, roleIn: "n", want: "yes: Allow always"},
		{name: "another name", verb: "get", namespace: "n", object: "x", role: []string{"db"}, roleIn: "n", want: ""},
		{name: "a name, and policies that allow", verb: "get", namespace: "n", role: []string{"db"}, roleIn: "n", policies: []policy{{allow, "n", "", nil}}, want: "yes: Allow the name is db; Allow always"},
		{name: "a name, and policies that are held back", verb: "get", namespace: "n", role: []string{"db"}, roleIn: "n", policies: []policy{{hold, "n", "", nil}, {allow, "n", "", nil}}, want: "yes-if: Allow the name is db; NoOpinion always; Allow always"},
		{name: "a name of a policy with a condition", verb: "update", namespace: "n", policies: []policy{{allow, "n", "object.x == 1", []string{"db"}}}, want: `yes-if: Allow request.name in ["db"] && (object.x == 1)`},
		{name: "a name that is denied", verb: "get", namespace: "n", role: []string{}, roleIn: "n", policies: []policy{{deny, "n", "", []string{"db"}}}, want: "yes-if: Deny the name is db; Allow always"},
		{name: "a condition on the name", verb: "get", namespace: "n", policies: []policy{{allow, "n", `request.name == "db"`, nil}}, want: `yes-if: Allow request.name == "db"`},

		{name: "a namespace", verb: "get", object: "db", role: []string{}, roleIn: "n", want: "yes-if: Allow -n n"},
		{name: "a namespace and a name", verb: "get", role: []string{"db"}, roleIn: "n", want: "yes-if: Allow -n n and the name is db"},
		{name: "a namespace that is denied", verb: "get", object: "db", role: []string{}, policies: []policy{{deny, "n", "", nil}}, want: "yes-if: Deny -n n; Allow always"},
		{name: "a namespace that is denied, and a list of all", verb: "list", role: []string{}, policies: []policy{{deny, "n", "", nil}}, want: "yes: Allow always"},
		{name: "a namespace that is denied, and a permission there", verb: "list", role: []string{}, roleIn: "n", policies: []policy{{deny, "n", "", nil}}, want: "no: Deny -n n; Allow -n n"},
		{name: "a namespace that is denied on a condition, and a permission there", verb: "list", role: []string{}, roleIn: "n", policies: []policy{{deny, "n", owner, nil}}, want: `yes-if: Deny request.namespace == "n" && (` + owner + "); Allow -n n"},
		{name: "another namespace that is denied, and a permission there", verb: "list", role: []string{}, roleIn: "n", policies: []policy{{deny, "m", "", nil}}, want: "yes-if: Allow -n n"},
		{name: "a name that is denied, and a permission for it", verb: "list", role: []string{"db"}, policies: []policy{{deny, "", "", []string{"db"}}}, want: "no: Deny --field-selector metadata.name=db; Allow --field-selector metadata.name=db"},
		{name: "one of two names that is denied", verb: "list", role: []string{"db", "web"}, policies: []policy{{deny, "", "", []string{"db"}}}, want: "yes-if: Deny --field-selector metadata.name=db; Allow --field-selector metadata.name=db or --field-selector metadata.name=web"},
		{name: "a resource without namespaces", verb: "list", isClusterScoped: true, role: []string{}, roleIn: "n", policies: []policy{{allow, "n", "", nil}}, want: ""},
		{name: "a condition on the namespace", verb: "get", object: "db", policies: []policy{{allow, "", `request.namespace == "n"`, nil}}, want: `yes-if: Allow request.namespace == "n"`},
		{name: "a namespace that is known", verb: "get", namespace: "n", object: "db", policies: []policy{{allow, "n", `namespaceObject.metadata.labels["tier"] == "dev"`, nil}}, want: "yes: Allow always"},
		{name: "a namespace that is known, and another one is needed", verb: "get", namespace: "n", object: "db", policies: []policy{{allow, "n", `namespaceObject.metadata.labels["tier"] == "prod"`, nil}}, want: ""},
		{name: "a namespace that is not known", verb: "get", namespace: "m", object: "db", policies: []policy{{allow, "m", `namespaceObject.metadata.labels["tier"] == "dev"`, nil}}, want: `yes-if: Allow namespaceObject.metadata.labels["tier"] == "dev"`},
		{name: "no namespace", verb: "get", object: "db", policies: []policy{{allow, "", `namespaceObject.metadata.labels["tier"] == "dev"`, nil}}, want: `yes-if: Allow namespaceObject.metadata.labels["tier"] == "dev"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			objects := &rbac.Objects{}
			if tc.role != nil {
				verbs, secrets := []string{"*"}, []string{"secrets"}
				ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: "role"}
				objects.ClusterRoles = []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "role"}, Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: secrets, ResourceNames: tc.role}}}}
				if tc.roleIn == "" {
					objects.ClusterRoleBindings = []rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: ref, Subjects: bob}}
				} else {
					objects.RoleBindings = []rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: tc.roleIn}, RoleRef: ref, Subjects: bob}}
				}
			}
			in := &input{isClusterScoped: tc.isClusterScoped, permissions: objects.Permissions(), policies: map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}, namespaces: func(name string) (map[string]any, bool) {
				return map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "dev"}}}, name == "n"
			}}
			for i, p := range tc.policies {
				in.policies[engine.Key{Namespace: p.namespace, Name: fmt.Sprint("p", i)}] = &policyv1alpha1.AuthorizationPolicySpec{
					Effect: p.effect, Subjects: bob, Condition: p.when,
					Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{tc.verb}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}, ResourceNames: p.names}},
				}
			}
			r := reportOf(t.Context(), in, authorizer.AttributesRecord{Verb: tc.verb, APIVersion: "v1", Resource: "secrets", Namespace: tc.namespace, Name: tc.object, ResourceRequest: true}, compiler)
			got := ""
			for _, s := range r.Subjects {
				if s.Name == "bob" {
					var parts []string
					for _, p := range s.Parts {
						parts = append(parts, string(p.Effect)+" "+p.text())
					}
					got = string(s.Answer) + ": " + strings.Join(parts, "; ")
				}
			}
			if got != tc.want || !r.Complete {
				t.Errorf("got %q, want %q (%v)", got, tc.want, r.Gaps)
			}
			if isNarrower := len(r.Narrower) > 0; isNarrower != (strings.Contains(tc.want, "Allow -") || strings.Contains(tc.want, "Allow the") || strings.Contains(tc.want, "Allow request.") || strings.Contains(tc.want, "Allow !") || tc.name == "no namespace" || tc.name == "a label or anything") {
				t.Errorf("narrower is %v", r.Narrower)
			}
		})
	}
}
