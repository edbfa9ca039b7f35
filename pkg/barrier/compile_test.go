/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
)

var everyWrite = []string{"create", "update", "patch", "delete", "deletecollection"}

func ruleFor(verbs []string, resources ...string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources}
}

func denial(condition string, rules ...policyv1alpha1.PolicyRule) *policyv1alpha1.AuthorizationPolicySpec {
	return &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Rules: rules, Condition: condition}
}

func compile(tb testing.TB, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) *barrier.Barrier {
	tb.Helper()
	return compileWith(tb, newCompiler(), key, spec)
}

func compileWith(tb testing.TB, compiler *barrier.Compiler, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) *barrier.Barrier {
	tb.Helper()
	compiled, err := compiler.Compile(key, spec)
	if err != nil {
		tb.Fatal(err)
	}
	return compiled
}

// TestCompileAgain compiles specifications for several keys in turn. The cache distinguishes them.
func TestCompileAgain(t *testing.T) {
	compiler := newCompiler()
	key, other := engine.Key{Namespace: "a", Name: "p"}, engine.Key{Namespace: "b", Name: "p"}
	labels, names := denial("has(object.metadata.labels)", ruleFor(everyWrite, "pods")), denial(`object.metadata.name == "a"`, ruleFor(everyWrite, "pods"))
	broken := denial("object.", ruleFor(everyWrite, "pods"))
	for i, step := range []struct {
		key  engine.Key
		spec *policyv1alpha1.AuthorizationPolicySpec
	}{{key, labels}, {key, names}, {key, labels}, {other, names}, {other, labels}, {key, broken}, {key, broken}, {key, names}} {
		got, err := compiler.Compile(step.key, step.spec)
		if step.spec == broken {
			if err == nil {
				t.Errorf("step %d: want an error", i)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want := compile(t, step.key, step.spec)
		if diff := cmp.Diff(want.Policy, got.Policy) + cmp.Diff(want.Binding, got.Binding) + cmp.Diff(want.Report, got.Report); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		if again := compileWith(t, compiler, step.key, step.spec.DeepCopy()); again != got {
			t.Errorf("step %d: the same specification is compiled again", i)
		}
	}
	spec := labels.DeepCopy()
	first := compileWith(t, compiler, key, spec)
	spec.Condition = names.Condition
	if second := compileWith(t, compiler, key, spec); cmp.Equal(first.Policy, second.Policy) {
		t.Error("a specification that its owner changes is not compiled again")
	}
}

// TestSpecificationsHaveNoPointers keeps the keys of cached barriers apart: memo.KeyOf does not distinguish nil from a pointer to a zero value.
func TestSpecificationsHaveNoPointers(t *testing.T) {
	var check func(path string, of reflect.Type)
	check = func(path string, of reflect.Type) {
		switch of.Kind() {
		case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		case reflect.Slice:
			check(path+"[]", of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				if !of.Field(i).IsExported() {
					t.Errorf("%s.%s is no part of the key", path, of.Field(i).Name)
				}
				check(path+"."+of.Field(i).Name, of.Field(i).Type)
			}
		default:
			t.Errorf("%s is a %s", path, of)
		}
	}
	check("key", reflect.TypeFor[engine.Key]())
	check("spec", reflect.TypeFor[policyv1alpha1.AuthorizationPolicySpec]())
	check("variables", reflect.TypeFor[[]cel.NamedExpression]())
}

// BenchmarkCompile compares a specification that is cached with one that is not.
func BenchmarkCompile(b *testing.B) {
	spec := denial(`object.spec.containers.exists(c, c.image.startsWith("registry.example.com/"))`, ruleFor(everyWrite, "pods"))
	for _, cached := range []bool{true, false} {
		b.Run(fmt.Sprintf("cached=%t", cached), func(b *testing.B) {
			compiler, n := newCompiler(), 0
			for b.Loop() {
				key := engine.Key{Namespace: "a", Name: "p"}
				if n++; !cached {
					key.Name = fmt.Sprintf("p-%d", n)
				}
				compileWith(b, compiler, key, spec)
			}
		})
	}
}

func TestBarrierReport(t *testing.T) {
	for _, test := range []struct {
		name      string
		key       engine.Key
		condition string
		rule      policyv1alpha1.PolicyRule
		// want has a text of the reason by verb. It is empty for a verb with a translation.
		want map[string]string
	}{
		{
			name: "writes", condition: `object.metadata.name == "a"`, rule: ruleFor(everyWrite, "secrets"),
			want: map[string]string{"create": "", "update": "", "patch": "", "delete": "", "deletecollection": ""},
		},
		{
			name: "all verbs", rule: ruleFor([]string{"*"}, "secrets"),
			want: map[string]string{"create": "", "update": "", "patch": "", "delete": "", "deletecollection": "", "get": "requests that read", "list": "requests that read", "watch": "requests that read"},
		},
		{name: "verbs that admission does not see", rule: ruleFor([]string{"get", "impersonate"}, "secrets"), want: map[string]string{"get": "admission sees", "impersonate": "admission sees"}},
		{name: "update alone", rule: ruleFor([]string{"update"}, "secrets/status"), want: map[string]string{"update": "", "patch": ""}},
		{name: "patch alone", rule: ruleFor([]string{"patch"}, "secrets/status"), want: map[string]string{"update": "", "patch": ""}},
		{
			name: "a condition that differs between update and patch", condition: `request.verb == "patch"`, rule: ruleFor([]string{"create", "update", "patch"}, "secrets/status"),
			want: map[string]string{"create": "", "update": "differs between update and patch", "patch": "differs between update and patch"},
		},
		{
			name: "updates that create", condition: `object.metadata.name == "a"`, rule: ruleFor([]string{"update", "patch"}, "secrets"),
			want: map[string]string{"update": "is not false then: name the verb create, too, or begin", "patch": "is not false then: name the verb create, too, or begin"},
		},
		{
			name: "named updates that create", condition: `object.metadata.name == "a"`,
			rule: policyv1alpha1.PolicyRule{Verbs: []string{"update", "patch"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}},
			want: map[string]string{"update": "is not false then: begin the condition", "patch": "is not false then: begin the condition"},
		},
		{
			name: "updates that create and are not denied then", condition: `operation == "UPDATE" && object.metadata.name == "a"`, rule: ruleFor([]string{"update", "patch"}, "secrets"),
			want: map[string]string{"update": "", "patch": ""},
		},
		{name: "updates of a subresource create nothing", condition: `object.metadata.name == "a"`, rule: ruleFor([]string{"update", "patch"}, "pods/status"), want: map[string]string{"update": "", "patch": ""}},
		{
			name: "updates that create in another version", condition: `oldObject != null`,
			rule: policyv1alpha1.PolicyRule{Verbs: []string{"update", "patch"}, APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			want: map[string]string{"update": "in a version that the rule does not name", "patch": "in a version that the rule does not name"},
		},
		{
			name: "names of what is created", rule: policyv1alpha1.PolicyRule{Verbs: []string{"create", "delete"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}},
			want: map[string]string{"create": "resourceNames", "delete": ""},
		},
		{
			name: "the name in the condition", condition: `request.name == "a"`, rule: ruleFor([]string{"create", "delete"}, "secrets"),
			want: map[string]string{"create": "reads request.name", "delete": ""},
		},
		{name: "a subresource that is created by name", condition: `request.name == "a"`, rule: ruleFor([]string{"create"}, "serviceaccounts/token"), want: map[string]string{"create": ""}},
		{name: "a test for a field that every request has", condition: `has(request.userInfo.uid) && has(request.name)`, rule: ruleFor([]string{"delete"}, "secrets"), want: map[string]string{"delete": ""}},
		{name: "the path", condition: `request.path == "/"`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": "reads request.path"}},
		{name: "a selector", condition: `request.labelSelector.requirements.size() > 0`, rule: ruleFor([]string{"deletecollection"}, "secrets"), want: map[string]string{"deletecollection": "reads a selector"}},
		{name: "the user as a whole", condition: `dyn(request.userInfo) == object.user`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": "as a whole"}},
		{name: "impersonation", condition: `impersonatedUser.username == "a"`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": "impersonation"}},
		{name: "the UID of the namespace", condition: `namespaceObject.metadata.uid == "a"`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": "reads more of namespaceObject"}},
		{name: "the labels of the namespace", condition: `namespaceObject.metadata.labels.tier == "a"`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": ""}},
		{name: "the namespace of namespaces", condition: `namespaceObject.metadata.name == "a"`, rule: ruleFor([]string{"delete"}, "namespaces"), want: map[string]string{"delete": "includes namespaces"}},
		{name: "the name of the namespace that is created", condition: `request.namespace == "a"`, rule: ruleFor([]string{"create"}, "namespaces"), want: map[string]string{"create": "request.namespace of namespaces"}},
		{name: "namespaces in a policy of one", key: engine.Key{Namespace: "demo", Name: "p"}, rule: ruleFor([]string{"create", "delete"}, "namespaces"), want: map[string]string{"create": "is in no namespace", "delete": ""}},
		{name: "values in errors, of what is created", condition: `int(object.metadata.labels.number) > 1`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": ""}},
		{
			name: "values in errors, of what is stored", condition: `int(oldObject.metadata.labels.number) > 1`, rule: ruleFor([]string{"delete"}, "secrets"),
			want: map[string]string{"delete": "an error of int would quote stored data"},
		},
		{
			name: "keys in errors", condition: `oldObject.metadata.labels.exists(k, oldObject.metadata.annotations[k] == "a")`, rule: ruleFor([]string{"delete"}, "secrets"),
			want: map[string]string{"delete": "an error of [] would quote stored data"},
		},
		{name: "keys of maps", condition: `{object.metadata.name: 1}.size() == 1`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": "a key that is not a literal"}},
		{
			name: "keys of maps that macros make", condition: `[object.metadata.name].transformMapEntry(i, v, {v: i}).size() == 1`, rule: ruleFor([]string{"create"}, "secrets"),
			want: map[string]string{"create": "a key that is not a literal"},
		},
		{name: "keys of maps that are literals", condition: `object.metadata.name in {"a": 1} && object.metadata.labels.transformMap(k, v, k).size() == 1`, rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": ""}},
		{name: "connections with one verb", rule: ruleFor([]string{"create"}, "pods/exec"), want: map[string]string{"create": "a connection is made with get or create"}},
		{name: "connections", condition: `object.container == "a"`, rule: ruleFor([]string{"create", "get"}, "pods/exec"), want: map[string]string{"create": "", "get": ""}},
		{name: "proxies", rule: ruleFor([]string{"create", "get"}, "services/proxy"), want: map[string]string{"create": "no rules for this subresource", "get": "no rules for this subresource"}},
		{
			name: "paths", rule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
			want: map[string]string{"get": "requests for paths"},
		},
		{
			name: "reviews", rule: policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
			want: map[string]string{"create": "do not see reviews"},
		},
		{
			name: "what Proviso serves", rule: policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"policy.proviso.dev"}, Resources: []string{"*"}},
			want: map[string]string{"create": "Proviso serves it"},
		},
		{
			name: "admission policies", rule: policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicies"}},
			want: map[string]string{"create": "do not see"},
		},
		{name: "a condition that is longer when it is translated", condition: strings.Repeat(`request.userInfo.username == "a" || `, 200) + "false", rule: ruleFor([]string{"create"}, "secrets"), want: map[string]string{"create": "longer than 10240 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.key.Name == "" {
				test.key.Name = "p"
			}
			got := map[string]string{}
			for _, entry := range compile(t, test.key, denial(test.condition, test.rule)).Report {
				for _, verb := range entry.Verbs {
					if reason, ok := got[verb]; ok && reason != entry.Reason {
						t.Errorf("%s has two reasons, %q and %q", verb, reason, entry.Reason)
					}
					got[verb] = entry.Reason
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("report %v, want %v", got, test.want)
			}
			for verb, want := range test.want {
				if reason, ok := got[verb]; !ok || (want == "") != (reason == "") || !strings.Contains(reason, want) {
					t.Errorf("%s: reason %q, want %q", verb, reason, want)
				}
			}
		})
	}
}

// TestReportOfSeveralRules has rules that have a translation alone, and none beside another rule.
func TestReportOfBindings(t *testing.T) {
	report := compile(t, engine.Key{Name: "p"}, denial("", ruleFor([]string{"create", "update", "patch"}, "resourceclaims/status", "resourceclaims/binding"))).Report
	want := []barrier.RuleReport{
		{Verbs: []string{"create", "patch", "update"}, Resources: []string{"resourceclaims/status"}},
		{Verbs: []string{"create"}, Resources: []string{"resourceclaims/binding"}},
		{Verbs: []string{"patch", "update"}, Resources: []string{"resourceclaims/binding"}, Reason: "kube-apiserver authorizes them without a request that passes through admission"},
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Error(diff)
	}
}

func TestReportOfSeveralRules(t *testing.T) {
	some := policyv1alpha1.PolicyRule{Verbs: everyWrite, APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}}
	creating := policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"*"}, Resources: []string{"widgets"}}
	updating := policyv1alpha1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"example.com"}, Resources: []string{"*"}}
	elsewhere := policyv1alpha1.PolicyRule{Verbs: []string{"create", "update"}, APIGroups: []string{"example.com"}, Resources: []string{"gadgets"}}
	for _, test := range []struct {
		name  string
		other policyv1alpha1.PolicyRule
		want  string
	}{
		{"a rule that creates in all versions", creating, "in a version for which only another rule names the verb create"},
		{"a rule without translation", updating, "another rule for the same requests cannot be translated"},
		{"a rule for another resource", elsewhere, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, entry := range compile(t, engine.Key{Name: "p"}, denial(`dryRun`, some, test.other)).Report {
				if entry.Rule != 0 || !slices.Contains(entry.Verbs, "update") {
					continue
				}
				if (entry.Reason == "") != (test.want == "") || !strings.Contains(entry.Reason, test.want) {
					t.Errorf("report %+v, want %q", entry, test.want)
				}
			}
		})
	}
}

func TestCovers(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice"}
	spec := denial(`oldObject != null && oldObject.metadata.name == "a"`,
		ruleFor([]string{"update", "patch", "delete", "get"}, "secrets", "pods/exec"), ruleFor([]string{"update"}, "configmaps"), ruleFor([]string{"*"}, "services", "services/*"))
	covered := compile(t, engine.Key{Name: "p"}, spec)
	request := func(verb, resource string) authorizer.AttributesRecord {
		resource, subresource, _ := strings.Cut(resource, "/")
		return authorizer.AttributesRecord{User: alice, Verb: verb, APIVersion: "v1", Resource: resource, Subresource: subresource, Namespace: "demo", Name: "a", ResourceRequest: true}
	}
	with := func(a authorizer.AttributesRecord, change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		change(&a)
		return a
	}
	for _, test := range []struct {
		name    string
		request authorizer.AttributesRecord
		want    bool
	}{
		{"an update", request("update", "secrets"), true},
		{"a patch", request("patch", "secrets"), true},
		{"a deletion", request("delete", "secrets"), true},
		{"a verb that the rules do not name", request("create", "secrets"), false},
		{"a verb that admission does not see", request("get", "secrets"), false},
		{"a resource that no rule names", request("update", "pods"), false},
		{"a connection with one of its verbs", request("get", "pods/exec"), false},
		{"an update by a rule without patch", request("update", "configmaps"), true},
		{"a patch by a rule without patch", request("patch", "configmaps"), true},
		{"a rule for all verbs", request("deletecollection", "services"), true},
		{"a read by a rule for all verbs", request("list", "services"), false},
		{"another version, where the policy denies without its condition", with(request("delete", "secrets"), func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" }), true},
		{"a privileged user", with(request("update", "secrets"), func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
		}), false},
		{"an exempt user", with(request("update", "secrets"), func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "system:kube-scheduler"} }), false},
		{"no user", with(request("update", "secrets"), func(a *authorizer.AttributesRecord) { a.User = nil }), false},
		{"a path", authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/metrics"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := covered.Sees(test.request); got != test.want {
				t.Errorf("Sees returns %v, want %v", got, test.want)
			}
		})
	}

	if unseen := compile(t, engine.Key{Name: "p"}, denial("", policyv1alpha1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}})); true {
		for _, path := range []string{"pods/eviction", "nodes/proxy", "pods/whatever"} {
			if unseen.Sees(request("create", path)) {
				t.Errorf("a barrier covers %s, which components authorize without a request", path)
			}
		}
		// An update of the status of a ResourceClaim is authorized as one of this subresource, too, and admission never sees that.
		for _, compiled := range []*barrier.Barrier{unseen, compile(t, engine.Key{Name: "p"}, denial("", policyv1alpha1.PolicyRule{
			Verbs: []string{"create", "update", "patch"}, APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/status", "resourceclaims/binding"},
		}))} {
			for subresource, want := range map[string]bool{"binding": false, "status": true} {
				a := request("update", "resourceclaims/"+subresource)
				if a.APIGroup = "resource.k8s.io"; compiled.Sees(a) != want {
					t.Errorf("resourceclaims/%s: Covers returns %v: %+v", subresource, !want, compiled.Report)
				}
			}
		}
		if !unseen.Sees(request("create", "pods/binding")) {
			t.Error("a barrier does not cover the binding of pods")
		}
		if !unseen.Sees(with(request("update", "validatingwebhookconfigurations"), func(a *authorizer.AttributesRecord) { a.APIGroup = "admissionregistration.k8s.io" })) {
			t.Error("a barrier does not cover webhook configurations")
		}
	}
}

// TestBarrierUnseen has each kind of requests that admission policies do not see. No barrier covers them, alone or beside others, and the report says why.
func TestBarrierUnseen(t *testing.T) {
	t.Parallel()
	const policies, reviews, own = "admission policies do not see other admission policies and their bindings", "admission policies do not see reviews", "Proviso serves it and enforces the policy itself"
	everything := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	for _, test := range []struct{ group, resource, want string }{
		{"admissionregistration.k8s.io", "mutatingadmissionpolicies", policies},
		{"admissionregistration.k8s.io", "mutatingadmissionpolicybindings", policies},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", policies},
		{"admissionregistration.k8s.io", "validatingadmissionpolicybindings", policies},
		{"authentication.k8s.io", "tokenreviews", reviews},
		{"authorization.k8s.io", "subjectaccessreviews", reviews},
		{"authorization.proviso.dev", "authorizationconditionsreviews", own},
		{"demo.proviso.dev", "things", own},
		{"policy.proviso.dev", "clusterauthorizationpolicies", own},
	} {
		t.Run(test.resource+"."+test.group, func(t *testing.T) {
			t.Parallel()
			request := authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "alice"}, Verb: "create", APIGroup: test.group, APIVersion: "v1", Resource: test.resource, ResourceRequest: true,
			}
			named := policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{test.group}, Resources: []string{test.resource}}
			alone, beside := compile(t, engine.Key{Name: "p"}, denial("", named)), compile(t, engine.Key{Name: "p"}, denial("", everything))
			if alone.Policy != nil || alone.Sees(request) || beside.Sees(request) {
				t.Errorf("the policy has a barrier: %v; it sees the request: %v; the barrier of the policy with all resources sees it: %v", alone.Policy != nil, alone.Sees(request), beside.Sees(request))
			}
			if len(alone.Report) != 1 || alone.Report[0].Reason != test.want {
				t.Errorf("report %+v, want the reason %q", alone.Report, test.want)
			}
		})
	}
}

// TestUnseenOfAllGroups verifies that the report names the requests that a rule for all groups matches and admission policies do not see.
func TestUnseenOfAllGroups(t *testing.T) {
	t.Parallel()
	const policies, reviews = "admission policies do not see other admission policies and their bindings", "admission policies do not see reviews"
	for _, test := range []struct {
		name  string
		group string
		paths []string
		want  map[string]string
	}{
		{"all resources", "", []string{"*"}, map[string]string{
			"validatingadmissionpolicies.admissionregistration.k8s.io": policies, "mutatingadmissionpolicybindings.admissionregistration.k8s.io": policies,
			"tokenreviews.authentication.k8s.io": reviews, "selfsubjectreviews.authentication.k8s.io": reviews, "subjectaccessreviews.authorization.k8s.io": reviews,
		}},
		{"some resources", "", []string{"configmaps", "subjectaccessreviews"}, map[string]string{"subjectaccessreviews.authorization.k8s.io": reviews, "tokenreviews.authentication.k8s.io": ""}},
		{"all subresources", "", []string{"*/status"}, map[string]string{"validatingadmissionpolicies.admissionregistration.k8s.io/status": policies}},
		{"a subresource", "", []string{"validatingadmissionpolicies/status"}, map[string]string{"validatingadmissionpolicies.admissionregistration.k8s.io/status": policies, "tokenreviews.authentication.k8s.io": ""}},
		{"all resources of their group", "admissionregistration.k8s.io", []string{"*"}, map[string]string{
			"validatingadmissionpolicies.admissionregistration.k8s.io": policies, "mutatingadmissionpolicies.admissionregistration.k8s.io": policies,
		}},
		{"a subresource in their group", "admissionregistration.k8s.io", []string{"validatingadmissionpolicies/status", "validatingwebhookconfigurations"}, map[string]string{
			"validatingadmissionpolicies.admissionregistration.k8s.io/status": policies,
		}},
		{"a resource that they see", "", []string{"configmaps"}, map[string]string{"tokenreviews.authentication.k8s.io": "", "validatingadmissionpolicies.admissionregistration.k8s.io": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rule := policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"*"}, Resources: test.paths}
			if test.group != "" {
				rule.APIGroups = []string{test.group}
			}
			report := compile(t, engine.Key{Name: "p"}, denial("", rule)).Report
			for resource, want := range test.want {
				got := ""
				for _, entry := range report {
					if slices.Contains(entry.Resources, resource) {
						got = entry.Reason
					}
				}
				if got != want {
					t.Errorf("%s: reason %q, want %q: %+v", resource, got, want, report)
				}
			}
		})
	}
}

// TestNamespaceSelector verifies that a barrier of a policy of one namespace sees the requests of no other namespace, so that its author
// slows none, and that it never goes by the labels of the object.
func TestNamespaceSelector(t *testing.T) {
	key := engine.Key{Namespace: "demo", Name: "p"}
	for _, resources := range [][]string{{"secrets"}, {"*"}, {"*/status"}, {"secrets", "namespaces"}} {
		compiled := compile(t, key, denial("", ruleFor(everyWrite, resources...)))
		constraints := compiled.Policy.Spec.MatchConstraints
		if selector := constraints.NamespaceSelector; selector == nil || selector.MatchLabels["kubernetes.io/metadata.name"] != "demo" {
			t.Errorf("%q: selector %v", resources, selector)
		}
		for _, rule := range constraints.ResourceRules {
			if rule.Scope == nil || *rule.Scope != admissionregistrationv1.NamespacedScope || slices.Contains(rule.Resources, "namespaces") {
				t.Errorf("%q: rule %+v", resources, rule)
			}
		}
		namespace := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "update", APIVersion: "v1", Resource: "namespaces", Name: "demo", Namespace: "demo", ResourceRequest: true}
		for _, namespace.Subresource = range []string{"", "status"} {
			if compiled.Sees(namespace) {
				t.Errorf("%q: the barrier covers namespaces/%s", resources, namespace.Subresource)
			}
		}
		isReported := slices.ContainsFunc(compiled.Report, func(r barrier.RuleReport) bool { return strings.Contains(r.Reason, "the namespace itself") })
		if wantReported := !slices.Equal(resources, []string{"secrets"}); isReported != wantReported {
			t.Errorf("%q: report %+v", resources, compiled.Report)
		}
	}
	for _, resource := range []string{"namespaces", "namespaces/status"} {
		if selector := compile(t, key, denial("", ruleFor(everyWrite, resource))).Policy.Spec.MatchConstraints.NamespaceSelector; selector != nil {
			t.Errorf("%s: selector %v", resource, selector)
		}
	}
}

func TestAuditRefusesNothing(t *testing.T) {
	spec := denial("", ruleFor([]string{"delete"}, "secrets"))
	spec.Enforcement = policyv1alpha1.PolicyEnforcementAudit
	compiled := compile(t, engine.Key{Name: "p"}, spec)
	if *compiled.Policy.Spec.FailurePolicy != admissionregistrationv1.Ignore {
		t.Error("the policy does not ignore failures")
	}
	if want := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}; !slices.Equal(compiled.Binding.Spec.ValidationActions, want) {
		t.Errorf("actions %v, want %v", compiled.Binding.Spec.ValidationActions, want)
	}
}

func TestCompileErrors(t *testing.T) {
	for name, spec := range map[string]*policyv1alpha1.AuthorizationPolicySpec{
		"Allow":                   {Effect: policyv1alpha1.PolicyEffectAllow, Rules: []policyv1alpha1.PolicyRule{ruleFor(everyWrite, "secrets")}},
		"a syntax error":          denial("object.", ruleFor(everyWrite, "secrets")),
		"a variable that is none": denial("variables.x", ruleFor(everyWrite, "secrets")),
	} {
		if compiled, err := newCompiler().Compile(engine.Key{Name: "p"}, spec); err == nil || compiled != nil {
			t.Errorf("%s: compiled %v, error %v", name, compiled, err)
		}
	}
	if _, err := barrier.NewCompiler(barrier.Config{}); err == nil {
		t.Error("a compiler without a compiler of policies")
	}
}

// TestBarrierBounds compiles policies of the largest sizes. They have no barrier, or one within the bounds of kube-apiserver.
func TestBarrierBounds(t *testing.T) {
	long := denial("object.x in ["+strings.Repeat(`"aaaaaaaaaaaaaaaa", `, 480)+`"b"]`, ruleFor(everyWrite, "secrets"))
	if compiled := compile(t, engine.Key{Name: "p"}, long); compiled.Policy == nil || len(compiled.Policy.Spec.Variables[0].Expression) < 9000 {
		t.Errorf("a condition of ten thousand bytes has no barrier: %+v", compiled.Report)
	}
	huge := denial("")
	for i := range 64 {
		rule := ruleFor(everyWrite, "secrets")
		rule.Verbs = []string{"delete"}
		for j := range 256 {
			rule.ResourceNames = append(rule.ResourceNames, fmt.Sprintf("name-%d-%d", i, j))
		}
		huge.Rules = append(huge.Rules, rule)
	}
	compiled := compile(t, engine.Key{Name: "p"}, huge)
	if compiled.Policy != nil || compiled.Sees(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "a"}, Verb: "delete", APIVersion: "v1", Resource: "secrets", Name: "name-1-1", ResourceRequest: true}) {
		t.Error("a policy over the bound has a barrier")
	}
	if len(compiled.Report) != 64 || !strings.Contains(compiled.Report[0].Reason, "more than") {
		t.Errorf("report %+v", compiled.Report)
	}
	described := denial("", ruleFor([]string{"delete"}, "secrets"))
	described.Description = strings.Repeat("ä\n", 3000)
	message := compile(t, engine.Key{Name: "p"}, described).Policy.Spec.Validations[0].Message
	if len(message) > 5*1024 || strings.Contains(message, "\n") || !utf8.ValidString(message) {
		t.Errorf("message of %d bytes", len(message))
	}
}

// TestBoundsOfCompiling compiles policies of the largest sizes, whose rules are for some versions: for each of them, an expression has the
// matches of all others. Their author must not use up the memory or the time of a replica.
func TestBoundsOfCompiling(t *testing.T) {
	entries := func(prefix string, rule, number, size int) (list []string) {
		for i := range number {
			list = append(list, fmt.Sprintf("%s%d-%d", prefix, rule, i)+strings.Repeat("a", size))
		}
		return list
	}
	verbs := [][]string{{"create", "update", "patch", "delete"}, {"delete", "deletecollection"}, {"create", "update", "patch"}, everyWrite}
	large, chain, versions := denial("object.x == oldObject.x"), denial("object.x == oldObject.x"), denial("object.x == 1")
	for i := range 64 {
		versioned := ruleFor(everyWrite, fmt.Sprintf("r%d", i))
		versioned.APIGroups, versioned.APIVersions = []string{"shared"}, entries("v", i, 64, 55)
		versions.Rules = append(versions.Rules, versioned)
		rule := ruleFor(verbs[i%len(verbs)], entries("r", i, 64, 100)...)
		rule.APIGroups = append(entries("g", i, 63, 100), "shared")
		large.Rules = append(large.Rules, rule)
		// Each rule shares a resource with the next. The last has no translation, so that none has, one after the other.
		linked := ruleFor(everyWrite, append(entries("", i, 30, 0), fmt.Sprintf("s%d", i), fmt.Sprintf("s%d", i+1))...)
		linked.APIGroups = append(entries("", i, 30, 0), "shared")
		if i == 63 {
			linked.ResourceNames = []string{"a"}
		}
		chain.Rules = append(chain.Rules, linked)
	}
	for name, spec := range map[string]*policyv1alpha1.AuthorizationPolicySpec{"large": large, "a chain": chain, "versions": versions} {
		compiler := newCompiler()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		if _, err := compiler.Compile(engine.Key{Namespace: "demo", Name: "p"}, spec); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB in %v", name, allocated, time.Since(began))
		if allocated > 200 {
			t.Errorf("%s: compiling allocates %d MiB", name, allocated)
		}
	}
}

// TestNames verifies that no two policies share a barrier, and that kube-apiserver accepts the names.
func TestNames(t *testing.T) {
	names := map[string]engine.Key{}
	for _, key := range []engine.Key{{Name: "a"}, {Namespace: "a", Name: "a"}, {Name: "a.a.namespace"}, {Namespace: "b", Name: "a.a"}, {Name: "b.a"}, {Namespace: "a", Name: "b"}, {Name: strings.Repeat("x", 63), Namespace: strings.Repeat("y", 63)}} {
		name := barrier.Name(key)
		if other, ok := names[name]; ok || len(name) > 253 || strings.ContainsAny(name, "/_ ") {
			t.Errorf("%v has the name %q, and so does %v", key, name, other)
		}
		names[name] = key
	}
}

// TestDeterministic compiles policies twice.
func TestDeterministic(t *testing.T) {
	for i := range 50 {
		g := barrierlaw.NewGenerator(*lawSeed, uint64(i))
		key, spec := g.Policy()
		before := spec.DeepCopy()
		first, second := compile(t, key, spec), compile(t, key, spec)
		if diff := cmp.Diff(first.Policy, second.Policy); diff != "" {
			t.Errorf("compiled again: %s", diff)
		}
		if diff := cmp.Diff(before, spec); diff != "" {
			t.Errorf("the specification has changed: %s", diff)
		}
	}
}

// FuzzNames verifies that no name in a policy becomes syntax of its barrier: the barrier refuses the user, and only the user, whom the
// policy names.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"alice", `' || 'a' == 'a`, `"`, "\\", "\n", "\\u0041", "ä\u2028", "\x00", "{}"} {
		f.Add(text)
	}
	l := newLaw(f)
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || text == "" {
			return
		}
		spec := denial(fmt.Sprintf("object.metadata.name in [%q, 'x'] || true", "a"), ruleFor([]string{"create", "delete"}, "secrets"))
		spec.Subjects, spec.Description = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: text}, {Kind: rbacv1.GroupKind, Name: text}}, text
		spec.Rules = append(spec.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{text}, APIVersions: []string{text}, Resources: []string{text}, ResourceNames: []string{text}})
		var writes []*barrierlaw.Write
		for _, u := range []user.Info{&user.DefaultInfo{Name: text}, &user.DefaultInfo{Name: "other", Groups: []string{text}}, &user.DefaultInfo{Name: "other"}} {
			writes = append(writes, &barrierlaw.Write{
				AttributesRecord: authorizer.AttributesRecord{User: u, Verb: "delete", APIVersion: "v1", Resource: "secrets", Namespace: "demo", Name: "a", ResourceRequest: true},
				Operation:        admission.Delete, ObjectName: "a", OldObject: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, Options: &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}},
			})
			writes[len(writes)-1].Kind.Version, writes[len(writes)-1].Kind.Kind = "v1", "Secret"
		}
		l.compare(t, engine.Key{Name: "p"}, spec, writes)
	})
}
