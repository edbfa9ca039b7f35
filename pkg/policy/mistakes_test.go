/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	api "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

func podRule(verbs string) api.PolicyRule {
	return api.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
}

// TestMistakesInConditions writes conditions that cannot be meant as they are written, and some that can.
func TestMistakesInConditions(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	onRule := func(outcome, verbs, consequence string) string {
		return fmt.Sprintf("spec.condition: %s for every request of spec.rules[0] (%s): the policy %s", outcome, verbs, consequence)
	}
	const (
		none    = "allows none of them"
		deleted = "; object is null for a delete, oldObject is the object"
		created = "; oldObject is null for a create, object is the object"
	)
	operation := func(text, meant string) string {
		return fmt.Sprintf("spec.condition: operation is never %q: it is CREATE, UPDATE, DELETE or CONNECT; did you mean %q?", text, meant)
	}
	labelValues := func(list, sorted string) string {
		return fmt.Sprintf("spec.condition: no requirement of request.labelSelector has the values %s: a server sorts them, and keeps each once; compare with %s", list, sorted)
	}
	always := func(consequence string) string {
		return "spec.condition: true for every request of the rules: the policy " + consequence + "; omit the condition if that is meant"
	}
	otherNamespace := func(field, name string) string {
		return fmt.Sprintf("spec.condition: %s is never %q: the policy is about requests in its own namespace, %q; write one in that namespace, or a ClusterAuthorizationPolicy", field, name, "shop")
	}
	ofStatus := func(i int, fields, resource string) string {
		return fmt.Sprintf("spec.rules[0].resources[%d]: the condition reads metadata.%s, which a write of %s/status can change, too: add %[3]s/status to the resources, with a condition that lets writes of the status itself pass", i, fields, resource)
	}
	for _, tc := range []struct {
		name, verbs, condition string
		// namespace is the namespace of the policy, or empty.
		namespace string
		effect    api.PolicyEffect
		resources []string
		variables []api.Variable
		want      []string
	}{
		{name: "a right one", verbs: "create", condition: `object.a == 1`},
		{name: "true", verbs: "create", condition: `true`, want: []string{always("allows all of them")}},
		{name: "or true", verbs: "create,get", condition: `object.a == 1 || true`, want: []string{always("allows all of them")}},
		{name: "or true, denied", verbs: "create", effect: "Deny", condition: `object.a == 1 || 1 == 1`, want: []string{always("denies all of them")}},
		{name: "or true, held back", verbs: "create", effect: "NoOpinion", condition: `true || object.a == 1`, want: []string{always("keeps Allow policies from allowing any of them")}},
		{name: "true for what the rule is about", verbs: "create", condition: `oldObject == null || object.a == oldObject.a`, want: []string{always("allows all of them")}},
		{name: "the rule again", verbs: "create,delete", condition: `request.verb in ["create", "delete"] && operation in ["CREATE", "DELETE"]`},
		{name: "the rule again, for one of two verbs", verbs: "create,update", condition: `oldObject == null || object.a == oldObject.a`},
		{name: "the namespace of the policy", namespace: "shop", verbs: "create", condition: `request.namespace == "shop" && object.metadata.namespace == "shop"`},
		{name: "any namespace", verbs: "create", condition: `request.namespace == "demo"`},
		{name: "another namespace", namespace: "shop", verbs: "create", condition: `request.namespace in ["demo", "shop"] || namespaceObject.metadata.name != "test" || object.metadata.?namespace == optional.of("x")`, want: []string{
			otherNamespace("request.namespace", "demo"), otherNamespace("namespaceObject.metadata.name", "test"),
		}},
		{name: "finalizers that a write of the status can change", verbs: "update,patch", effect: "Deny", resources: []string{"pods", "persistentvolumeclaims"}, condition: `object.metadata.?finalizers.orValue([]) != oldObject.metadata.?finalizers.orValue([])`,
			want: []string{ofStatus(0, "finalizers", "pods"), ofStatus(1, "finalizers", "persistentvolumeclaims")}},
		{name: "all metadata", verbs: "*", effect: "Deny", condition: `oldObject != null && object.metadata == oldObject.metadata`, want: []string{ofStatus(0, "labels, metadata.annotations, metadata.finalizers", "pods")}},
		{name: "finalizers with the status", verbs: "update,patch", effect: "Deny", resources: []string{"pods", "pods/status"}, condition: `"a" in oldObject.metadata.finalizers`},
		{name: "finalizers with every resource", verbs: "update,patch", effect: "Deny", resources: []string{"*"}, condition: `"a" in oldObject.metadata.finalizers`},
		{name: "a field of spec whose type is not known", verbs: "update,patch", effect: "Deny", condition: `object != null && dyn(object).spec.?a.orValue(0) > 1 && (operation == "DELETE" ? dyn(oldObject) : dyn(object)).spec.b == 1`},
		{name: "labels, allowed", verbs: "update,patch", condition: `"a" in oldObject.metadata.labels`},
		{name: "labels of a create", verbs: "create,delete", effect: "Deny", condition: `"a" in object.metadata.labels`, want: []string{onRule("an error", "delete", "denies all of them") + deleted}},
		{name: "labels of a create among updates", verbs: "create,update,patch", effect: "Deny", condition: `operation == "CREATE" && "a" in object.metadata.labels`},
		{name: "labels of the template", verbs: "update,patch", effect: "Deny", condition: `object.spec.metadata.labels == {} && object != null && object.metadata.name == "a"`},
		{name: "owners, which a status of a pod keeps", verbs: "update,patch", effect: "Deny", condition: `object.metadata.ownerReferences.size() > 1`},
		{name: "labels of what has no status with metadata", verbs: "update,patch", effect: "Deny", resources: []string{"secrets"}, condition: `"a" in object.metadata.labels`},
		{name: "without condition", verbs: "create"},
		{name: "every verb", verbs: "*", condition: `operation == "DELETE" ? oldObject.a == 1 : object.a == 1`},
		{name: "one verb of several", verbs: "create,update", condition: `operation == "CREATE"`},
		{name: "false for one verb", verbs: "create,delete", condition: `request.verb == "create" && object.a == 1`},
		{name: "null that is handled", verbs: "create,delete", condition: `object != null && object.a == 1`},
		{name: "an update that creates", verbs: "update", condition: `operation == "CREATE"`},
		{name: "a connection", verbs: "create", resources: []string{"pods/exec"}, condition: `operation == "CONNECT"`},
		{name: "what depends on the user", verbs: "create", condition: `request.userInfo.username == "a" || "b" in request.userInfo.groups`},
		{name: "every resource", verbs: "create", resources: []string{"*"}, condition: `request.resource == "nodes"`},
		{name: "one of several resources", verbs: "create", resources: []string{"nodes", "pods"}, condition: `request.resource == "pods"`},
		{name: "a verb of another authorizer", verbs: "create,granular", condition: `request.verb == "granular"`},
		{name: "false", verbs: "create", condition: `false`, want: []string{onRule("false", "create", none)}},
		{name: "the case of operation", verbs: "create", condition: `operation == "create" && object.a == 1`, want: []string{operation("create", "CREATE"), onRule("false", "create", none)}},
		{name: "the case of operation, excluded", verbs: "create", condition: `operation != "delete"`, want: []string{operation("delete", "DELETE")}},
		{name: "the case of operation, in a variable", verbs: "create,delete", variables: []api.Variable{{Name: "o", Expression: `operation in ["CREATE", "delete"]`}}, condition: `variables.o`,
			want: []string{operation("delete", "DELETE")}},
		{name: "the case of a verb", verbs: "create", condition: `request.verb == "CREATE" || object.a == 1`, want: []string{`spec.condition: request.verb is never "CREATE"; did you mean "create"?`}},
		{name: "the verb of another rule", verbs: "create,update", condition: `request.verb == "delete"`, want: []string{onRule("false", "create, update", none)}},
		{name: "the operation of another rule", verbs: "update,patch", condition: `operation == "DELETE"`, want: []string{onRule("false", "update, patch", none)}},
		{name: "another resource", verbs: "create", condition: `request.resource == "pod"`, want: []string{onRule("false", "create", none)}},
		{name: "another group", verbs: "create", condition: `request.apiGroup == "v1"`, want: []string{onRule("false", "create", none)}},
		{name: "the object of a delete", verbs: "delete,deletecollection", condition: `object.a == 1`, want: []string{onRule("an error", "delete, deletecollection", none) + deleted}},
		{name: "of one verb", verbs: "create,delete", condition: `object.a == 1`, want: []string{onRule("an error", "delete", none) + deleted}},
		{name: "the old object of a create", verbs: "create", condition: `object.a == oldObject.a`, want: []string{onRule("an error", "create", none) + created}},
		{name: "a part that is an error", verbs: "create", condition: `object.a == 1 && oldObject.a == 1`, want: []string{onRule("false or an error", "create", none) + created}},
		{name: "denied", verbs: "create,delete", effect: "Deny", condition: `object.a == 1`, want: []string{onRule("an error", "delete", "denies all of them") + deleted}},
		{name: "denied, false", verbs: "create", effect: "Deny", condition: `request.verb == "get"`, want: []string{onRule("false", "create", "denies none of them")}},
		{name: "denied, false or an error", verbs: "create", effect: "Deny", condition: `object.a == 1 && oldObject.a == 1`, want: []string{onRule("false or an error", "create", "denies those for which it is an error") + created}},
		{name: "held back, false", verbs: "create", effect: "NoOpinion", condition: `request.verb == "get"`, want: []string{onRule("false", "create", "does not apply to them")}},
		{name: "held back, an error", verbs: "delete", effect: "NoOpinion", condition: `object.a == 1`, want: []string{onRule("an error", "delete", "keeps Allow policies from allowing any of them") + deleted}},
		{
			name: "held back, false or an error", verbs: "create", effect: "NoOpinion", condition: `object.a == 1 && oldObject.a == 1`,
			want: []string{onRule("false or an error", "create", "keeps Allow policies from allowing those for which it is an error") + created},
		},
		{name: "values of labels as a server has them", verbs: "list", condition: `request.labelSelector.requirements.exists(r, r.values == ["a", "b"] || r.values == [])`},
		{name: "values of labels that are not sorted", verbs: "list", condition: `request.labelSelector.requirements.exists(r, r.key == "team" && r.values == ["b", "a"])`, want: []string{labelValues(`["b", "a"]`, `["a", "b"]`)}},
		{name: "a value of a label twice, excluded", verbs: "list", condition: `request.labelSelector.requirements.all(r, r.values != ["a", "a"])`, want: []string{labelValues(`["a", "a"]`, `["a"]`)}},
		{name: "many values of a label", verbs: "list", condition: `request.labelSelector.requirements[0].values == ["9", "8", "7", "6", "5", "4", "3", "2", "1"]`,
			want: []string{labelValues(`["9", "8", "7", "6", "5", "4", "3", "2", …]`, `["1", "2", "3", "4", "5", "6", "7", "8", …]`)}},
		{name: "one value of a field", verbs: "list", condition: `request.fieldSelector.requirements.exists(r, r.values == ["b"])`},
		{name: "two values of a field", verbs: "list", condition: `request.fieldSelector.requirements.exists(r, r.key == "spec.nodeName" && r.values == ["a", "b"])`,
			want: []string{`spec.condition: no requirement of request.fieldSelector has the values ["a", "b"]: each has exactly one value`}},
		{name: "no value of a field", verbs: "list", condition: `request.fieldSelector.requirements.exists(r, r.values == [])`,
			want: []string{`spec.condition: no requirement of request.fieldSelector has the values []: each has exactly one value`}},
		{
			name: "denied, the operation of another rule", verbs: "update,patch", effect: "Deny", condition: `operation == "DELETE"`,
			want: []string{onRule("false", "update, patch", "denies none of them")},
		},
		{
			name: "an error for some verbs and false for others", verbs: "create,delete", condition: `request.verb == "delete" && object.a == 1`,
			want: []string{onRule("false or an error", "create, delete", none)},
		},
		{
			name: "an error for one verb, false for another, and right for a third", verbs: "create,update,delete", condition: `request.verb != "create" && object.a == 1`,
			want: []string{onRule("an error", "delete", none) + deleted},
		},
		{name: "an update that is an error if it creates", verbs: "update", condition: `oldObject.a == 1`},
		{
			name: "null and the old object of a create", verbs: "create", condition: `oldObject != null`,
			want: []string{onRule("false", "create", none)},
		},
		{name: "the old object of a delete", verbs: "delete", condition: `oldObject.a == 1`},
		{name: "a read", verbs: "get", condition: `object.a == 1`}, // the condition is not evaluated on an object, which another warning says
		{name: "the object of a subresource", verbs: "create", resources: []string{"pods/eviction"}, condition: `oldObject.a == 1`},
		{
			name: "a resource and its subresource", verbs: "create", resources: []string{"pods", "pods/exec"}, condition: `request.resource == "nodes"`,
			want: []string{onRule("false", "create", none)},
		},
		{
			name: "a subresource that no rule has", verbs: "create", resources: []string{"pods", "pods/exec"}, condition: `request.subresource == "log"`,
			want: []string{onRule("false", "create", none)},
		},
		{name: "a subresource of a rule", verbs: "create", resources: []string{"pods", "pods/exec"}, condition: `request.subresource == "exec" && object.a == 1`},
		{name: "a subresource of any resource", verbs: "create", resources: []string{"*"}, condition: `request.subresource == "exec" && object.a == 1`},
		{name: "a wildcard in a name", verbs: "create", condition: `object.metadata.name in ["a", "b-*"]`, want: []string{`spec.condition: "b-*" is compared literally: names have no wildcards; write startsWith, endsWith or matches`}},
		{name: "a wildcard in another text", verbs: "create", condition: `object.a == "b-*"`},
		{name: "a placeholder", verbs: "create", condition: `object.a == "{{ .Values.a }}"`, want: []string{`spec.condition: a text has {{ and }}, as the placeholder of a template that was not replaced`}},
		{name: "the name of a POST", verbs: "create", condition: `request.name == "a" && object.a == 1`, want: []string{`spec.condition: request.name is empty for a POST, which the rules are about: compare object.metadata.name`}},
		{name: "the name of a POST among others", verbs: "create,update", condition: `request.name == "a" && object.a == 1`},
		{name: "the name of a subresource", verbs: "create", resources: []string{"pods/exec"}, condition: `request.name == "a" && object.a == 1`},
		{
			name: "an operation twice", verbs: "create", condition: `operation == "create" || operation == "create" || object.a == 1`,
			want: []string{operation("create", "CREATE")},
		},
		{
			name: "an operation that is like none", verbs: "create", condition: `operation == "" || object.a == 1`,
			want: []string{`spec.condition: operation is never "": it is CREATE, UPDATE, DELETE or CONNECT`},
		},
		{
			name: "a long operation", verbs: "create", condition: `operation == "` + strings.Repeat("x", 65) + `" || object.a == 1`,
			want: []string{`spec.condition: operation is never "` + strings.Repeat("x", 61) + `…": it is CREATE, UPDATE, DELETE or CONNECT`},
		},
		{
			name: "an operation that just fits", verbs: "create", condition: `operation == "` + strings.Repeat("x", 64) + `" || object.a == 1`,
			want: []string{`spec.condition: operation is never "` + strings.Repeat("x", 64) + `": it is CREATE, UPDATE, DELETE or CONNECT`},
		},
		{
			name: "an operation that is cut within a letter", verbs: "create", condition: `operation == "` + "xx" + strings.Repeat("ß", 32) + `" || object.a == 1`,
			want: []string{`spec.condition: operation is never "xx` + strings.Repeat("ß", 29) + `…": it is CREATE, UPDATE, DELETE or CONNECT`},
		},
		{
			name: "more verbs than are listed", verbs: "create,update,patch,delete,deletecollection,get,list,watch,bind", condition: `false`,
			want: []string{onRule("false", "create, update, patch, delete, deletecollection, get, list, watch", none)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rule := podRule(tc.verbs)
			if tc.resources != nil {
				rule.Resources = tc.resources
			}
			s := &api.AuthorizationPolicySpec{Effect: "Allow", Rules: []api.PolicyRule{rule}, Variables: tc.variables, Condition: tc.condition}
			if tc.effect != "" {
				s.Effect = tc.effect
			}
			if diff := cmp.Diff(tc.want, checker.Warn(t.Context(), engine.Key{Namespace: tc.namespace, Name: "p"}, s)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func denyAll(s *api.AuthorizationPolicySpec) {
	s.Effect, s.Rules[0] = "Deny", api.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
}

// TestSubjectsLeftOut writes policies about identities that kube-apiserver decides about without Proviso.
func TestSubjectsLeftOut(t *testing.T) {
	t.Parallel()
	checker := newCheckerOf(t, enforcementstatus.Server{FrontDoor: true, LeavesOut: manifest.Config{Namespace: "proviso-system"}.LeavesOut})
	const (
		without = " without Proviso, so that the cluster goes on while Proviso is down, and the policy "
		denied  = without + "does not restrict them: take the permission away in RBAC, or write a ValidatingAdmissionPolicy"
	)
	for _, tc := range []struct {
		name     string
		effect   api.PolicyEffect
		group    string
		subjects []rbacv1.Subject
		want     []string
	}{
		{name: "nodes", effect: "Deny", subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}}, want: []string{`spec.subjects[0]: kube-apiserver decides the requests of Group "system:nodes"` + denied}},
		{name: "a node", effect: "NoOpinion", subjects: []rbacv1.Subject{{Kind: "User", Name: "system:node:a"}}, want: []string{`spec.subjects[0]: kube-apiserver decides the requests of User "system:node:a"` + denied}},
		{name: "an account of kube-system beside another", effect: "Allow", subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "dev", Name: "a"}, {Kind: "ServiceAccount", Namespace: "kube-system", Name: "a"}},
			want: []string{`spec.subjects[1]: kube-apiserver decides the requests of ServiceAccount "a"` + without + "allows none of them: write a role of RBAC"}},
		{name: "its user name", effect: "Allow", subjects: []rbacv1.Subject{{Kind: "User", Name: "system:serviceaccount:kube-system:a"}}, want: []string{`spec.subjects[0]: kube-apiserver decides the requests of User "system:serviceaccount:kube-system:a"` + without + "allows none of them: write a role of RBAC"}},
		{name: "Proviso, the scheduler and administrators", effect: "Deny", subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "proviso-system", Name: "proviso-apiserver"}, {Kind: "User", Name: "system:kube-scheduler"}, {Kind: "Group", Name: "system:masters"}},
			want: []string{"spec.subjects[0]", "spec.subjects[1]", "spec.subjects[2]"}},
		{name: "requests that only Proviso gets", effect: "Deny", group: "demo.proviso.dev", subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}}},
		{name: "others", effect: "Deny", subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}, {Kind: "User", Name: "system:nodes"}}, want: []string{`spec.subjects[1].name: "system:nodes" is a group`}},
	} {
		rule := podRule("create")
		rule.APIGroups = []string{tc.group}
		spec := &api.AuthorizationPolicySpec{Effect: tc.effect, Rules: []api.PolicyRule{rule}, Subjects: tc.subjects}
		if got := checker.Warn(t.Context(), engine.Key{Name: "p"}, spec); !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestMistakesInNames writes names that are compared literally.
func TestMistakesInNames(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	for _, tc := range []struct {
		name   string
		change func(*api.AuthorizationPolicySpec)
		want   []string // their beginnings
	}{
		{"right ones", func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}, {Kind: "Group", Name: "system:serviceaccounts:dev"}, {Kind: "Group", Name: "my:team"}, {Kind: "User", Name: "system:node"}}
		}, nil},
		{"a pattern of users", func(s *api.AuthorizationPolicySpec) { s.Subjects = []rbacv1.Subject{{Kind: "User", Name: "dev-*"}} }, []string{`spec.subjects[0].name: "dev-*" is compared literally`}},
		{"a group of kube-apiserver", func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:node"}}
		}, []string{`spec.subjects[0].name: no group of kube-apiserver is "system:node"; did you mean "system:nodes"?`}},
		{"a pattern of names", func(s *api.AuthorizationPolicySpec) {
			s.Rules[0].Verbs, s.Rules[0].ResourceNames = []string{"get"}, []string{"a", "b*"}
		}, []string{`spec.rules[0].resourceNames[1]: "b*" is compared literally`}},
		{"a create by name", func(s *api.AuthorizationPolicySpec) { s.Rules[0].ResourceNames = []string{"a"} }, []string{"spec.rules[0].resourceNames: a POST has no name"}},
		{"a deletecollection by name", func(s *api.AuthorizationPolicySpec) {
			s.Rules[0].Verbs, s.Rules[0].ResourceNames = []string{"deletecollection"}, []string{"a"}
		}, []string{"spec.rules[0].resourceNames: a POST has no name"}},
		{"a get by name", func(s *api.AuthorizationPolicySpec) {
			s.Rules[0].Verbs, s.Rules[0].ResourceNames = []string{"get"}, []string{"a"}
		}, nil},
		{"a list by name", func(s *api.AuthorizationPolicySpec) {
			s.Rules[0].Verbs, s.Rules[0].ResourceNames = []string{"get", "list"}, []string{"a"}
		}, nil},
		{"a Deny of a list by name", func(s *api.AuthorizationPolicySpec) {
			s.Effect, s.Rules[0].Verbs, s.Rules[0].ResourceNames = "Deny", []string{"get", "list"}, []string{"a"}
		}, []string{"spec.rules[0].resourceNames: a list or a watch has no name"}},
		{"a NoOpinion about a watch by name", func(s *api.AuthorizationPolicySpec) {
			s.Effect, s.Rules[0].Verbs, s.Rules[0].ResourceNames = "NoOpinion", []string{"watch"}, []string{"a"}
		}, []string{"spec.rules[0].resourceNames: a list or a watch has no name"}},
		{"a Deny of a list", func(s *api.AuthorizationPolicySpec) { s.Effect, s.Rules[0].Verbs = "Deny", []string{"list"} }, nil},
		{name: "a Deny of update that was stored", change: func(s *api.AuthorizationPolicySpec) { s.Effect, s.Rules[0].Verbs = "Deny", []string{"update"} }, want: []string{"spec.rules[0].verbs: the policy denies patch, too"}},
		{name: "a Deny of both", change: func(s *api.AuthorizationPolicySpec) { s.Effect, s.Rules[0].Verbs = "Deny", []string{"update", "patch"} }},
		{name: "a pattern of groups", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "team"}, {Kind: "Group", Name: "*"}}
		}, want: []string{`spec.subjects[1].name: "*" is compared literally: subjects have no wildcards; the group "system:authenticated" has all users`}},
		{name: "service accounts of a namespace that looks like a group", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:serviceaccounts:authenticate"}}
		}},
		{name: "a group of a component that is like no other", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:cluster-trust-bundles"}}
		}},
		{name: "the group of all service accounts", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:serviceaccount"}}
		}, want: []string{`spec.subjects[0].name: no group of kube-apiserver is "system:serviceaccount"; did you mean "system:serviceaccounts"?`}},
		{name: "a service account that looks like a group", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "n", Name: "system:node"}}
		}},
		{name: "a group as a user", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "User", Name: "system:authenticated"}}
		}, want: []string{`spec.subjects[0].name: "system:authenticated" is a group, and no user has this name: write kind: Group`}},
		{name: "the group of a namespace as a user", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "User", Name: "system:serviceaccounts:dev"}}
		}, want: []string{`spec.subjects[0].name: "system:serviceaccounts:dev" is a group`}},
		{name: "a service account without a part", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "User", Name: "system:serviceaccount:ci"}}
		}, want: []string{`spec.subjects[0].name: no service account has the user name "system:serviceaccount:ci", which is system:serviceaccount:NAMESPACE:NAME: write kind: ServiceAccount`}},
		{name: "a service account as a user, and a user of another component", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "User", Name: "system:serviceaccount:ci:deployer"}, {Kind: "User", Name: "system:serviceaccounting"}}
		}},
		{name: "a service account as a group", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:serviceaccount:ci:deployer"}}
		}, want: []string{`spec.subjects[0].name: "system:serviceaccount:ci:deployer" is the name of a user, and no group: write kind: ServiceAccount`}},
		{name: "a group of service accounts without its s", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:serviceaccount:ci"}}
		}, want: []string{`spec.subjects[0].name: no group of kube-apiserver is "system:serviceaccount:ci": the service accounts of a namespace are the group system:serviceaccounts:NAMESPACE`}},
		{name: "a group of one service account", change: func(s *api.AuthorizationPolicySpec) {
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:serviceaccounts:ci:deployer"}}
		}, want: []string{`spec.subjects[0].name: no group of kube-apiserver is "system:serviceaccounts:ci:deployer"`}},
		{name: "everything denied to everybody", change: denyAll, want: []string{`spec.rules[0]: the policy denies everything to everybody in the cluster: name subjects`}},
		{name: "everything denied to all who are authenticated", change: func(s *api.AuthorizationPolicySpec) {
			denyAll(s)
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}}
		}, want: []string{`spec.rules[0]: the policy denies everything to everybody`}},
		{name: "everything denied to a group", change: func(s *api.AuthorizationPolicySpec) {
			denyAll(s)
			s.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "team"}}
		}},
		{name: "everything denied in Audit", change: func(s *api.AuthorizationPolicySpec) { denyAll(s); s.Enforcement = "Audit" }},
		{name: "everything denied on a condition", change: func(s *api.AuthorizationPolicySpec) { denyAll(s); s.Condition = `request.namespace == "a"` }},
		{name: "all reads denied", change: func(s *api.AuthorizationPolicySpec) { denyAll(s); s.Rules[0].Verbs = []string{"get"} }},
		{name: "everything allowed", change: func(s *api.AuthorizationPolicySpec) { denyAll(s); s.Effect = "Allow" }},
		{name: "any name", change: func(s *api.AuthorizationPolicySpec) {
			s.Rules[0].Verbs, s.Rules[0].ResourceNames = []string{"get"}, []string{"*"}
		}, want: []string{`spec.rules[0].resourceNames[0]: "*" is compared literally: names have no wildcards`}},
		{name: "more names than a status holds", change: func(s *api.AuthorizationPolicySpec) {
			s.Rules[0].Verbs, s.Rules[0].ResourceNames = []string{"get"}, slices.Repeat([]string{"a*"}, 40)
		}, want: slices.Repeat([]string{`spec.rules[0].resourceNames[0]: "a*" is compared literally`}, 32)},
	} {
		s := &api.AuthorizationPolicySpec{Effect: "Allow", Rules: []api.PolicyRule{podRule("create")}}
		tc.change(s)
		got := checker.Warn(t.Context(), engine.Key{Name: "p"}, s)
		if len(got) != len(tc.want) || (len(got) > 0 && !strings.HasPrefix(got[0], tc.want[0])) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestMistakesAreBounded checks that a policy about many kinds of requests is not compiled for each of them.
func TestMistakesAreBounded(t *testing.T) {
	t.Parallel()
	var rules []api.PolicyRule
	for i := range 40 {
		rule := podRule("create")
		rule.Resources = []string{fmt.Sprintf("r%d", i)}
		rules = append(rules, rule)
	}
	s := &api.AuthorizationPolicySpec{Effect: "Allow", Rules: rules, Condition: `request.resource == "x"`}
	if got := newChecker(t).Warn(t.Context(), engine.Key{Name: "p"}, s); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	for n, want := range map[int]int{4: 4, 16: 16, 17: 0} {
		s.Rules = rules[:n]
		if got := newChecker(t).Warn(t.Context(), engine.Key{Name: "p"}, s); len(got) != want {
			t.Errorf("with %d kinds of requests: got %d warnings, want %d", n, len(got), want)
		}
	}
}

// schemasFunc resolves schemas by a function, and knows one kind.
type schemasFunc func() (*spec.Schema, error)

func (f schemasFunc) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) { return f() }

func (schemasFunc) KindsFor(schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"}}, nil
}

// TestWritesDoNotWaitForSchemas warns by schemas that are there, not there in time, or not readable. A write neither waits
// for long nor fails.
func TestWritesDoNotWaitForSchemas(t *testing.T) {
	t.Parallel()
	const late = "spec: not checked completely against the resources and schemas of the cluster: the status of the policy will show the result in typeChecking"
	pod := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{"size": {SchemaProps: spec.SchemaProps{Type: []string{"integer"}}}}}}
	for _, tc := range []struct {
		name    string
		resolve schemasFunc
		want    []string
		wait    time.Duration
	}{
		{"there", func() (*spec.Schema, error) { return pod, nil }, []string{"spec.condition: /v1, Kind=Pod: ERROR: <input>:1:7: undefined field 'sise', did you mean 'size'?"}, 0},
		{"not there in time", func() (*spec.Schema, error) { time.Sleep(time.Minute); return pod, nil }, []string{late}, 2 * time.Second},
		{"not known", func() (*spec.Schema, error) { return nil, resolver.ErrSchemaNotFound }, nil, 0},
		{"an error", func() (*spec.Schema, error) { return nil, errors.New("no answer") }, []string{late}, 0},
		{"a panic", func() (*spec.Schema, error) { panic("odd") }, []string{late}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			compiler := compilers.Policies(t)
			synctest.Test(t, func(t *testing.T) {
				types, err := typechecking.New(tc.resolve, tc.resolve)
				if err != nil {
					t.Fatal(err)
				}
				checker := policy.NewChecker(compiler, enforcementstatus.Server{}, types)
				s := &api.AuthorizationPolicySpec{Effect: "Allow", Rules: []api.PolicyRule{podRule("create")}, Condition: "object.sise == 1"}
				for range 4 { // of which two still wait in the background
					began := time.Now()
					if diff := cmp.Diff(tc.want, checker.Warn(t.Context(), engine.Key{Name: "p"}, s)); diff != "" {
						t.Errorf("warnings (-want +got):\n%s", diff)
					}
					if waited := time.Since(began); waited != tc.wait {
						t.Errorf("waited %s, want %s", waited, tc.wait)
					}
				}
				time.Sleep(10 * time.Minute) // the checks in the background end
			})
		})
	}
}
