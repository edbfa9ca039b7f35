/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// TestAdmissionPolicyExamples runs the suites of ValidatingAdmissionPolicies. A test of the end-to-end tests makes the same requests to a kube-apiserver.
func TestAdmissionPolicyExamples(t *testing.T) {
	t.Parallel()
	if out, errOut, code := run(t, filepath.Join(examples, "admission-policies"), "--coverage-threshold=100"); code != 0 || errOut != "" || strings.Count(out, "ok  ") != 9 {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// TestAdmissionDocument runs the suite that docs/policy-tests.md shows.
func TestAdmissionDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policy-tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := regexp.MustCompile(`(?s)cat > admission/(\w+\.yaml) <<EOF\n(.*?)EOF\n`).FindAllStringSubmatch(string(content), -1)
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, errOut, code := run(t, dir, "--coverage-threshold=100"); len(files) != 3 || code != 0 || errOut != "" || !strings.Contains(out, "2 tests") {
		t.Errorf("%d files, exit code %d: %s%s", len(files), code, out, errOut)
	}
}

// admission writes a suite with admission policies in policies.yaml, and objects in objects.yaml.
func admission(t *testing.T, policies, objects, tests string) string {
	t.Helper()
	suite := "apiVersion: test.proviso.dev/v1alpha1\nkind: PolicyTest\npolicies: [policies.yaml]\npermissions: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]\n"
	if objects != "" {
		suite += "objects: [objects.yaml]\n"
	}
	dir := write(t, policies, suite+"tests:\n"+tests)
	if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// vap is a policy about ConfigMaps with a binding. Tests replace parts of it.
const vap = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: 'object.data.a == "1"', message: a must be 1}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`

// vapTest is a test of the request that creates a ConfigMap in the namespace team. The expectation follows.
const vapTest = `
- name: a
  request: {user: alice, resourceAttributes: {verb: create, version: v1, resource: configmaps, namespace: team}}
  data: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: "2"}}}
  expect: {decision: yes, `

const (
	namespaceN = "{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: test}}}\n"
	denied     = "outcome: no, policies: [p]}"
	passes     = "outcome: yes}"
)

// params turns the policy into one with a parameter of a kind, and the binding into one with a reference.
func params(kind, ref string) *strings.Replacer {
	return strings.NewReplacer("  failurePolicy", "  paramKind: "+kind+"\n  failurePolicy", `object.data.a == "1"`, `params == null || object.data.a == params.data.a`, "{policyName: p,", "{policyName: p, paramRef: "+ref+",")
}

// TestAdmissionPolicies tries each part of policies and bindings.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	const configMap = "{apiVersion: v1, kind: ConfigMap}"
	replace := strings.NewReplacer
	request := replace("resource: configmaps", "resource: configmaps") // the request as it is
	for _, tc := range []struct {
		name    string
		policy  *strings.Replacer
		request *strings.Replacer
		objects string
		want    string
	}{
		{name: "a validation that is false", policy: replace(), request: request, want: "outcome: no, policies: [p], message: \"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: a must be 1\"}"},
		{name: "a validation that is true", policy: replace(), request: replace(`a: "2"`, `a: "1"`), want: passes},
		{name: "another operation", policy: replace("CREATE, ", ""), request: request, want: passes},
		{name: "another scope", policy: replace("resources: [configmaps]", "resources: [configmaps], scope: Cluster"), request: request, want: passes},
		{name: "another name", policy: replace("resources: [configmaps]", "resources: [configmaps], resourceNames: [d]"), request: request, want: passes},
		{name: "the name of the object", policy: replace("resources: [configmaps]", "resources: [configmaps], resourceNames: [c]"), request: request, want: denied},
		{name: "an excluded rule", policy: replace("{resourceRules", `{excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps]}], resourceRules`), request: request, want: passes},
		{name: "an object selector", policy: replace("{resourceRules", "{objectSelector: {matchLabels: {l: other}}, resourceRules"), request: request, want: passes},
		{name: "an object selector of a binding", policy: replace("{policyName: p,", "{policyName: p, matchResources: {objectSelector: {matchLabels: {l: other}}},"), request: request, want: passes},
		{name: "a namespace selector", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {tier: prod}}, resourceRules"), request: request, objects: namespaceN, want: passes},
		{name: "a namespace selector that selects", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}, resourceRules"), request: request, objects: namespaceN, want: denied},
		{
			name: "the Namespace of the data comes first", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {tier: prod}}, resourceRules"),
			request: replace("{operation: CREATE", "{namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: prod}}}, operation: CREATE"), objects: namespaceN, want: denied,
		},
		{name: "an expression about the Namespace", policy: replace(`object.data.a == "1"`, `namespaceObject.metadata.labels.tier == "test"`), request: request, objects: namespaceN, want: passes},
		{name: "an expression that fails", policy: replace("object.data.a", "object.data.b"), request: request, want: "outcome: no, policies: [p], message: 'no such key: b'}"},
		{name: "an expression that fails, and is ignored", policy: replace("object.data.a", "object.data.b", "failurePolicy: Fail", "failurePolicy: Ignore"), request: request, want: passes},
		{name: "failurePolicy has the default Fail", policy: replace("object.data.a", "object.data.b", "  failurePolicy: Fail\n", ""), request: request, want: denied},
		{name: "a match condition that fails", policy: replace("  validations", "  matchConditions: [{name: m, expression: object.data.b == '1'}]\n  validations"), request: request, want: denied},
		{name: "a match condition that fails, of a policy without validations", policy: replace(`[{expression: 'object.data.a == "1"', message: a must be 1}]`, "[]\n  auditAnnotations: [{key: k, valueExpression: string(object.data.a)}]\n  matchConditions: [{name: m, expression: object.data.b == '1'}]"), request: request, want: denied},
		{name: "a match condition that is false", policy: replace("  validations", "  matchConditions: [{name: m, expression: object.data.a == '1'}]\n  validations"), request: request, want: passes},
		{name: "no binding of this policy denies", policy: replace("[Deny]", "[Warn]"), request: request, want: `outcome: yes, warnings: ["a must be 1"], audited: []}`},
		{name: "a failure that is recorded", policy: replace("[Deny]", "[Audit]"), request: request, want: `outcome: yes, warnings: [], audited: [p]}`},
		{name: "a failure that denies and is recorded", policy: replace("[Deny]", "[Deny, Audit]"), request: request, want: `outcome: no, warnings: [], audited: [p]}`},
		{name: "an audit annotation that fails denies", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.b)}]\n  validations"), request: replace(`a: "2"`, `a: "1"`), want: denied},
		{name: "an audit annotation", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.a)}]\n  validations"), request: replace(`a: "2"`, `a: "1"`), want: `outcome: yes, auditAnnotations: {p/k: "1"}}`},
		{name: "the variables of the request", policy: replace(`object.data.a == "1"`, `request.userInfo.username == "alice" && "system:authenticated" in request.userInfo.groups && request.operation == "CREATE" && request.namespace == "team" && request.name == "c" && request.dryRun && oldObject == null`), request: replace("{operation", "{dryRun: true, operation"), want: passes},
		{name: "a check that RBAC allows", policy: replace(`object.data.a == "1"`, `authorizer.group("x").resource("y").check("z").allowed()`), request: request, want: passes},
		{name: "a check that RBAC does not allow", policy: replace(`object.data.a == "1"`, `authorizer.group("x").resource("y").check("z").allowed()`), request: replace("  data", "  permissions: [{verbs: [create], apiGroups: [''], resources: [configmaps]}]\n  data"), want: denied},
		{name: "a check of a service account without permissions", policy: replace(`object.data.a == "1"`, `authorizer.serviceAccount("team", "s").group("x").resource("y").check("z").allowed()`), request: request, want: denied},
		{name: "the old object", policy: replace("object.data.a", "oldObject.data.a"), request: replace("verb: create", "name: c, verb: delete", "operation: CREATE, object", "operation: DELETE, oldObject"), want: denied},
		{name: "64 match conditions and 20 audit annotations", policy: replace("  validations", "  matchConditions: ["+numbered(64, "{name: m%d, expression: 'true'}")+"]\n  auditAnnotations: ["+numbered(20, "{key: k%d, valueExpression: \"'x'\"}")+"]\n  validations"), request: request, want: denied},
		{name: "one resource and all, which kube-apiserver accepts in this order", policy: replace("[configmaps]", `[configmaps, "*"]`), request: request, want: denied},
		{name: "all resources and a subresource", policy: replace("[configmaps]", `["*", pods/exec]`), request: request, want: denied},
		{name: "a policy with a namespace, which kube-apiserver takes away", policy: replace("{name: p}", "{name: p, namespace: team}"), request: request, want: denied},
		{
			name: "an object has the namespace of the request", policy: replace(`object.data.a == "1"`, `object.metadata.namespace == "team"`), request: request, want: passes,
		},
		{
			name: "the stored object has the namespace of the request", policy: replace(`object.data.a == "1"`, `oldObject.metadata.namespace == "team"`),
			request: replace("verb: create", "name: c, verb: delete", "operation: CREATE, object", "operation: DELETE, oldObject"), want: passes,
		},
		{
			name: "a custom resource has the namespace of the request", policy: replace(`[""]`, "[x.example.com]", "[configmaps]", "[qs]", `object.data.a == "1"`, `object.metadata.namespace == "team"`),
			request: replace("version: v1, resource: configmaps", "group: x.example.com, version: v1, resource: qs", "apiVersion: v1, kind: ConfigMap", "apiVersion: x.example.com/v1, kind: Q"), want: passes,
		},
		{
			name: "a cluster-scoped object has no namespace", policy: replace("configmaps", "nodes", `object.data.a == "1"`, `!has(object.metadata.namespace)`),
			request: replace("resource: configmaps, namespace: team", "resource: nodes", "kind: ConfigMap", "kind: Node", "{name: c,", "{name: c, namespace: team,", ", data: {a: \"2\"}", ""), want: passes,
		},
		{
			name: "a Namespace is in itself, and its object is not", policy: replace("configmaps", "namespaces", `object.data.a == "1"`, `request.namespace == "c" && !has(object.metadata.namespace)`),
			request: replace("verb: create, version: v1, resource: configmaps, namespace: team", "verb: update, version: v1, resource: namespaces, namespace: c, name: c", "operation: CREATE, object", "operation: UPDATE, oldObject: {apiVersion: v1, kind: Namespace, metadata: {name: c}}, object", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: passes,
		},
		{
			name: "the status of a Namespace is in the Namespace", policy: replace("configmaps", "namespaces/status", `object.data.a == "1"`, `request.namespace == "c"`),
			request: replace("verb: create, version: v1, resource: configmaps, namespace: team", "verb: update, version: v1, resource: namespaces, subresource: status, name: c", "operation: CREATE, object", "operation: UPDATE, oldObject: {apiVersion: v1, kind: Namespace, metadata: {name: c}}, object", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: passes,
		},
		{
			name: "the label with the name of a Namespace cannot be another", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}, resourceRules"), request: request,
			objects: "{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {kubernetes.io/metadata.name: other}}}", want: denied,
		},
		{
			name: "a connection with the verb get", policy: replace("CREATE", "CREATE, CONNECT", "configmaps", "pods/exec", "object.data.a", "object.kind"),
			request: replace("verb: create, version: v1, resource: configmaps", "verb: get, version: v1, resource: pods, subresource: exec, name: c", "operation: CREATE", "operation: CONNECT", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}}", "{apiVersion: v1, kind: PodExecOptions}"), want: denied,
		},
		{name: "a patch that creates", policy: replace(), request: replace("verb: create", "name: c, verb: patch"), want: denied},
		{
			name: "an object of a collection has no name in the request", policy: replace(`object.data.a == "1"`, `!has(request.name) || request.name == ""`),
			request: replace("verb: create", "verb: deletecollection", "operation: CREATE, object", "operation: DELETE, oldObject"), want: passes,
		},
		{
			name: "a rule with names matches no object of a collection", policy: replace("resources: [configmaps]", "resources: [configmaps], resourceNames: [c]", "object.data.a", "oldObject.data.a"),
			request: replace("verb: create", "verb: deletecollection", "operation: CREATE, object", "operation: DELETE, oldObject"), want: passes,
		},
		{name: "another version than the rule, with matchPolicy Exact", policy: replace("apiVersions: [v1]", "apiVersions: [v2]", "{resourceRules", "{matchPolicy: Exact, resourceRules"), request: request, want: passes},
		{name: "all versions", policy: replace("apiVersions: [v1]", `apiVersions: ["*"]`), request: request, want: denied},
		{name: "a resource that no admission policy of the API decides about", policy: replace(`[""]`, `["*"]`, "[configmaps]", `["*"]`, "object.data.a", "object.metadata.name"), request: replace("{verb: create, version: v1, resource: configmaps, namespace: team}", "{verb: create, group: authentication.k8s.io, version: v1, resource: tokenreviews}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}}", "{apiVersion: authentication.k8s.io/v1, kind: TokenReview}"), want: passes},

		{name: "the options of the request", policy: replace(`object.data.a == "1"`, `request.options.fieldManager == "kubectl"`), request: replace("{operation", "{options: {apiVersion: meta.k8s.io/v1, kind: CreateOptions, fieldManager: kubectl}, operation"), want: passes},
		{
			name:    "a new Namespace has its label, and is in itself",
			policy:  replace("configmaps", "namespaces", "{resourceRules", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: c}}, resourceRules", `object.data.a == "1"`, `request.namespace != "c" || namespaceObject != null`),
			request: replace("resource: configmaps, namespace: team", "resource: namespaces", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: denied,
		},
		{
			name: "a Namespace that is deleted", policy: replace("configmaps", "namespaces", "{resourceRules", "{namespaceSelector: {matchLabels: {l: x}}, resourceRules", `object.data.a == "1"`, "false"),
			request: replace("verb: create, version: v1, resource: configmaps, namespace: team", "verb: delete, version: v1, resource: namespaces, name: c", "operation: CREATE, object", "operation: DELETE, oldObject", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: denied,
		},

		{name: "a parameter", policy: params(configMap, "{name: q, namespace: team, parameterNotFoundAction: Deny}"), request: request, objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, data: {a: '2'}}", want: passes},
		{name: "a parameter that differs", policy: params(configMap, "{name: q, namespace: team, parameterNotFoundAction: Deny}"), request: request, objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, data: {a: '3'}}", want: denied},
		{name: "a parameter in the namespace of the request", policy: params(configMap, "{name: q, parameterNotFoundAction: Deny}"), request: request, objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, data: {a: '2'}}", want: passes},
		{name: "a parameter in another namespace", policy: params(configMap, "{name: q, parameterNotFoundAction: Deny}"), request: request, objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: m}, data: {a: '2'}}", want: "outcome: no, policies: [p], message: no params found}"},
		{name: "a parameter that may be missing", policy: params(configMap, "{name: q, parameterNotFoundAction: Allow}"), request: request, want: passes},
		{name: "no reference", policy: replace("  failurePolicy", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy", `object.data.a == "1"`, "params != null"), request: request, want: denied},
		{
			name: "all selected parameters must hold", policy: params(configMap, "{selector: {matchLabels: {q: x}}, parameterNotFoundAction: Deny}"), request: request,
			objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q1, namespace: team, labels: {q: x}}, data: {a: '2'}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: q2, namespace: team, labels: {q: x}}, data: {a: '3'}}", want: denied,
		},
		{
			name: "a parameter that is not selected", policy: params(configMap, "{selector: {matchLabels: {q: x}}, parameterNotFoundAction: Deny}"), request: request,
			objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q1, namespace: team, labels: {q: x}}, data: {a: '2'}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: q2, namespace: team, labels: {q: other}}, data: {a: '3'}}", want: passes,
		},
		{name: "a custom resource without a namespace", policy: params("{apiVersion: x.example.com/v1, kind: Q}", "{name: q, parameterNotFoundAction: Deny}"), request: request, objects: "{apiVersion: x.example.com/v1, kind: Q, metadata: {name: q}, data: {a: '2'}}", want: passes},
		{name: "a custom resource in a namespace", policy: params("{apiVersion: x.example.com/v1, kind: Q}", "{name: q, parameterNotFoundAction: Deny}"), request: request, objects: "{apiVersion: x.example.com/v1, kind: Q, metadata: {name: q, namespace: team}, data: {a: '2'}}", want: passes},
		{name: "the kind of a parameter", policy: replace("  failurePolicy", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy", `object.data.a == "1"`, `params.kind == "ConfigMap" && params.apiVersion == "v1"`, "{policyName: p,", "{policyName: p, paramRef: {name: q, parameterNotFoundAction: Deny},"), request: request, objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}}", want: passes},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, errOut, code := run(t, admission(t, tc.policy.Replace(vap), tc.objects, tc.request.Replace(vapTest)+tc.want))
			if code != 0 || errOut != "" {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

// TestAdmissionDifferences shows wrong expectations about admission policies.
func TestAdmissionDifferences(t *testing.T) {
	t.Parallel()
	policies := vap + "---" + strings.NewReplacer("name: p}", "name: warned}", "policyName: p", "policyName: warned", "name: b}", "name: warned}", "[Deny]", "[Warn, Audit]",
		"  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.a)}]\n  validations").Replace(vap)
	var tests strings.Builder
	for i, want := range []string{
		"outcome: yes}", "outcome: no, policies: [other]}", "outcome: no, message: another text}", "outcome: no, warnings: []}", "outcome: no, warnings: [a must be 1, a must be 1]}", "outcome: no, audited: [p]}",
		"outcome: no, auditAnnotations: {warned/k: '3', p/k: '2'}}",
	} {
		tests.WriteString(strings.Replace(vapTest, "name: a\n", "name: "+string(rune('a'+i))+"\n", 1) + want)
	}
	dir := admission(t, policies, "", tests.String())
	out, errOut, code := run(t, dir)
	if code != 1 || errOut != "" {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	golden.Compare(t, filepath.Join("testdata", "admission.golden.txt"), strings.ReplaceAll(out, dir, "DIR"))
}

// TestAdmissionMistakes reads suites with mistakes in admission policies, and tests whose result only a server knows.
func TestAdmissionMistakes(t *testing.T) {
	t.Parallel()
	replace := strings.NewReplacer
	for _, tc := range []struct {
		name          string
		policy, tests *strings.Replacer
		objects       string
		want          string
	}{
		{name: "a binding of an unknown policy", policy: replace("policyName: p", "policyName: q"), want: `ValidatingAdmissionPolicyBinding "b": spec.policyName: Not found: "q"`},
		{name: "an expression that does not compile", policy: replace("object.data.a ==", "objekt.data.a =="), want: `ValidatingAdmissionPolicy "p": spec.validations[0].expression: Invalid value: "objekt.data.a == \"1\"": compilation failed: ERROR: <input>:1:1: undeclared reference to 'objekt'`},
		{name: "a validation that is no bool", policy: replace(`object.data.a == "1"`, `"1"`), want: "must evaluate to bool"},
		{name: "a match condition with a variable", policy: replace("  validations", "  variables: [{name: v, expression: 'true'}]\n  matchConditions: [{name: m, expression: variables.v}]\n  validations"), want: "spec.matchConditions[0].expression: Invalid value"},
		{name: "a message with the authorizer", policy: replace("message: a must be 1", "messageExpression: string(authorizer.path('/x').check('get').allowed())"), want: "spec.validations[0].messageExpression: Invalid value"},
		{name: "a parameter that is not declared", policy: replace("object.data.a", "params.data.a"), want: "undeclared reference to 'params'"},
		{name: "an unknown field", policy: replace("failurePolicy", "failurepolicy"), want: `unknown field "spec.failurepolicy"`},
		{name: "an unknown failure policy", policy: replace("failurePolicy: Fail", "failurePolicy: Warn"), want: `spec.failurePolicy: Unsupported value: "Warn"`},
		{name: "an unknown operation", policy: replace("CREATE", "PATCH"), want: `operations[0]: Unsupported value: "PATCH"`},
		{name: "no rules", policy: replace("{resourceRules: [{operations: [CREATE, UPDATE, DELETE], apiGroups: [\"\"], apiVersions: [v1], resources: [configmaps]}]}", "{}"), want: "spec.matchConstraints.resourceRules: Required value"},
		{name: "two match conditions of one name", policy: replace("  validations", "  matchConditions: [{name: m, expression: 'true'}, {name: m, expression: 'true'}]\n  validations"), want: `spec.matchConditions[1].name: Duplicate value: "m"`},
		{name: "too many match conditions", policy: replace("  validations", "  matchConditions: ["+numbered(65, "{name: m%d, expression: 'true'}")+"]\n  validations"), want: "spec.matchConditions: Too many: 65: must have at most 64 items"},
		{name: "too many audit annotations", policy: replace("  validations", "  auditAnnotations: ["+numbered(21, "{key: k%d, valueExpression: \"'x'\"}")+"]\n  validations"), want: "spec.auditAnnotations: Too many: 21: must have at most 20 items"},
		{name: "a long audit annotation", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: \"'"+strings.Repeat("x", 5*1024)+"'\"}]\n  validations"), want: "spec.auditAnnotations[0].valueExpression: Too long"},
		{name: "a blank message", policy: replace("message: a must be 1", "message: '  '"), want: `spec.validations[0].message: Invalid value: "  ": must not be blank`},
		{name: "a reserved word as the name of a variable", policy: replace("  validations", "  variables: [{name: package, expression: 'true'}]\n  validations"), want: `spec.variables[0].name: Invalid value: "package"`},
		{name: "all resources and one", policy: replace("[configmaps]", `["*", configmaps]`), want: "resources: Invalid value"},
		{name: "all resources and subresources, and one", policy: replace("[configmaps]", `["*/*", configmaps]`), want: "resources: Invalid value"},
		{name: "all subresources and one", policy: replace("[configmaps]", "[pods/*, pods/exec]"), want: "resources[1]: Invalid value"},
		{name: "a subresource of all resources and of one", policy: replace("[configmaps]", `["*/status", pods/status]`), want: "resources[1]: Invalid value"},
		{name: "a name of an object twice", policy: replace("[configmaps]", "[configmaps], resourceNames: [a, a]"), want: `resourceNames[1]: Duplicate value: "a"`},
		{name: "a name that no object can have", policy: replace("[configmaps]", "[configmaps], resourceNames: [a/b]"), want: `resourceNames[0]: Invalid value: "a/b"`},
		{name: "a bad name of a policy", policy: replace("{name: p}", "{name: P_p}", "policyName: p", "policyName: P_p"), want: `ValidatingAdmissionPolicy "P_p": metadata.name: Invalid value: "P_p"`},
		{name: "a bad label of a policy", policy: replace("{name: p}", "{name: p, labels: {'a b': c}}"), want: "metadata.labels: Invalid value"},
		{name: "a bad name of a binding", policy: replace("{name: b}", "{name: B_b}"), want: `ValidatingAdmissionPolicyBinding "B_b": metadata.name: Invalid value: "B_b"`},
		{name: "a bad name in a binding", policy: replace("{policyName: p", "{policyName: P_p"), want: `spec.policyName: Invalid value: "P_p"`},
		{name: "a bad name of a parameter", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: a/b, parameterNotFoundAction: Deny}"), want: `spec.paramRef.name: Invalid value: "a/b"`},
		{name: "a bad kind of parameters", policy: params("{apiVersion: v1, kind: Config_Map}", "{name: q, parameterNotFoundAction: Deny}"), want: `spec.paramKind.kind: Invalid value: "Config_Map"`},
		{name: "a bad group of parameters", policy: params("{apiVersion: X_x/v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), want: "spec.paramKind.apiVersion: Invalid value"},
		{name: "no versions", policy: replace("apiVersions: [v1]", "apiVersions: []"), want: "apiVersions: Required value"},
		{name: "no validations", policy: replace(`[{expression: 'object.data.a == "1"', message: a must be 1}]`, "[]"), want: "spec.validations: Required value"},
		{name: "no actions", policy: replace("[Deny]", "[]"), want: "spec.validationActions: Required value"},
		{name: "actions that exclude each other", policy: replace("[Deny]", "[Deny, Warn]"), want: "must not contain both Deny and Warn"},
		{name: "an unknown action", policy: replace("[Deny]", "[Refuse]"), want: `spec.validationActions[0]: Unsupported value: "Refuse"`},
		{name: "a reference to no parameter", policy: params("{apiVersion: v1, kind: ConfigMap}", "{parameterNotFoundAction: Deny}"), want: "exactly one of name and selector is required"},
		{name: "a reference without an action", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q}"), want: "spec.paramRef.parameterNotFoundAction: Required value"},
		{name: "a selector that is not valid", policy: replace("{resourceRules", "{objectSelector: {matchExpressions: [{key: a, operator: Is}]}, resourceRules"), want: "objectSelector.matchExpressions[0].operator"},
		{name: "two policies of one name", policy: replace("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p, validationActions: [Deny]}\n", strings.Split(vap, "---")[0]), want: `ValidatingAdmissionPolicy "p": the same object is in`},
		{name: "another version of the API", policy: replace("admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"), want: `apiVersion "admissionregistration.k8s.io/v1beta1" is not read`},
		{name: "a webhook", policy: replace("kind: ValidatingAdmissionPolicyBinding", "kind: ValidatingWebhookConfiguration"), want: `kind "ValidatingWebhookConfiguration" of apiVersion "admissionregistration.k8s.io/v1" is not read`},
		{name: "a parameter of another kind", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: Secret, metadata: {name: q, namespace: team}}", want: `kind "Secret" of apiVersion "v1" is the paramKind of no policy`},
		{name: "a parameter without a namespace", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q}}", want: "metadata.namespace: Required value: the kind is namespaced"},
		{name: "a parameter with a mistake", policy: params("{apiVersion: v1, kind: ConfigMap}", "{name: q, parameterNotFoundAction: Deny}"), objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: team}, date: {}}", want: `unknown field "date"`},
		{name: "a selector without the Namespace", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {a: b}}, resourceRules"), want: `ValidatingAdmissionPolicy "p": the decision depends on the Namespace of the request`},
		{name: "a selector of a binding without the Namespace", policy: replace("{policyName: p,", "{policyName: p, matchResources: {namespaceSelector: {matchLabels: {a: b}}},"), want: "the decision depends on the Namespace of the request"},
		{name: "an expression about the Namespace without it", policy: replace(`object.data.a == "1"`, `namespaceObject.metadata.name == "team"`), want: "the decision depends on the Namespace of the request"},
		{name: "an expression about the options without them", policy: replace(`object.data.a == "1"`, `request.options.fieldManager == "kubectl"`), want: "the decision depends on the options of the request"},
		{name: "another version of the resource in a rule", policy: replace("apiVersions: [v1]", "apiVersions: [v2]"), want: "whether a server has the objects as configmaps of v2, too"},
		{name: "another version of the resource in an excluded rule", policy: replace("{resourceRules", `{excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: [v2], resources: [configmaps]}], resourceRules`), want: "whether a server has the objects as configmaps of v2, too"},
		{
			name: "events, which are in two groups", policy: replace(`[""]`, "[events.k8s.io]", "configmaps", "events"), tests: replace("configmaps", "events", "kind: ConfigMap", "kind: Event", "metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}", "metadata: {name: c}"),
			want: "whether a server has the objects as events of events.k8s.io/v1, too",
		},
		{name: "an object of another namespace", tests: replace("{name: c,", "{name: c, namespace: other,"), want: "tests[0]: data.object: the namespace of the provided object does not match the namespace sent on the request"},
		{
			name: "a stored object of another namespace", tests: replace("verb: create", "name: c, verb: delete", "operation: CREATE, object", "operation: DELETE, oldObject", "{name: c,", "{name: c, namespace: other,"),
			want: "tests[0]: data.oldObject: the namespace of the provided object does not match the namespace sent on the request",
		},
		{name: "a Namespace in another one", tests: replace("resource: configmaps", "resource: namespaces", "kind: ConfigMap", "kind: Namespace", ", data: {a: \"2\"}", ""), want: `tests[0]: request.resourceAttributes.namespace: a Namespace is in itself: must be "c" or empty`},
		{name: "a name beside a collection", tests: replace("verb: create", "name: c, verb: deletecollection", "operation: CREATE, object", "operation: DELETE, oldObject"), want: "tests[0]: deletecollection is about a collection: request.resourceAttributes.name and data.name must be empty"},
		{name: "no version", tests: replace("version: v1, ", ""), want: "tests[0]: request.resourceAttributes.version: Required value"},
		{name: "no object", tests: replace("{operation: CREATE, object", "{operation: CREATE, options"), want: "tests[0]: data.object: Required value"},
		{name: "no old object", tests: replace("{operation: CREATE", "{operation: DELETE", "verb: create", "verb: delete"), want: "tests[0]: data.oldObject: Required value"},
		{name: "an object of another group", tests: replace("apiVersion: v1, kind: ConfigMap", "apiVersion: apps/v1, kind: Deployment", ", data: {a: \"2\"}", ""), want: "tests[0]: data: the objects are of apps/v1, and the request is for v1"},
		{name: "an object with an unknown field", tests: replace("data: {a:", "date: {a:"), want: `tests[0]: data.object: strict decoding error: unknown field "date"`},
		{name: "the Namespace of another request", tests: replace("{operation", "{namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: m}}, operation"), want: `data.namespaceObject: must be the Namespace "team" of v1`},
		{name: "an expectation without data", tests: replace("  data: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: \"2\"}}}\n", "", denied, "warnings: []}"), want: "tests[0]: expect: message, warnings, audited and auditAnnotations need data"},
	} {
		if tc.policy == nil {
			tc.policy = replace()
		}
		if tc.tests == nil {
			tc.tests = replace()
		}
		out, errOut, code := run(t, admission(t, tc.policy.Replace(vap), tc.objects, tc.tests.Replace(vapTest+denied)))
		if code != 2 || out != "" || !strings.Contains(errOut, tc.want) {
			t.Errorf("%s: exit code %d: %s%s, want %s", tc.name, code, out, errOut, tc.want)
		}
	}
}

// numbered returns the entries of a list, each with its number.
func numbered(count int, format string) string {
	entries := make([]string, count)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(entries, ", ")
}

// TestAdmissionWarnings shows policies that decide nothing.
func TestAdmissionWarnings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policies string
		want     string
	}{
		{strings.Split(vap, "---")[0], `ValidatingAdmissionPolicy "p": no binding names the policy, so that it decides nothing`},
		{strings.Replace(vap, "{policyName: p,", "{policyName: p, paramRef: {name: q, parameterNotFoundAction: Deny},", 1), `ValidatingAdmissionPolicyBinding "b": paramRef is ignored`},
	} {
		_, errOut, code := run(t, admission(t, tc.policies, "", strings.Replace(vapTest, `a: "2"`, `a: "1"`, 1)+passes))
		if code != 0 || strings.Count(errOut, "Warning: ") != 1 || !strings.Contains(errOut, tc.want) {
			t.Errorf("exit code %d: %s, want %s", code, errOut, tc.want)
		}
	}
}

// TestAdmissionCoverage counts match conditions and validations.
func TestAdmissionCoverage(t *testing.T) {
	t.Parallel()
	policies := strings.NewReplacer("  validations: [", "  matchConditions: [{name: m, expression: object.data.m == '1'}]\n  validations: [{expression: object.data.x == '1'}, ").Replace(vap)
	suite := func(data ...string) (tests string) {
		for _, d := range data {
			outcome := denied
			if !strings.Contains(d, "m: '1'") || strings.Contains(d, "a: '1', x: '1'") {
				outcome = passes
			}
			tests += strings.NewReplacer("name: a\n", "name: \""+d+"\"\n", `{a: "2"}`, d).Replace(vapTest) + outcome
		}
		return tests
	}
	for _, tc := range []struct {
		data    []string
		percent string
		missing []string
	}{
		{data: []string{"{m: '1', a: '1', x: '1'}"}, percent: "57.1%", missing: []string{"never false: object.data.m == '1'\n", "never false: object.data.x == '1'\n", "never false: object.data.a == \"1\"\n"}},
		{data: []string{"{m: '2'}"}, percent: "14.3%", missing: []string{"no request matches it\n"}},
		{data: []string{"{m: '1', a: '1', x: '1'}", "{m: '1', a: '2', x: '2'}", "{m: '2'}"}, percent: "100.0%"},
		// A validation that fails is neither true nor false.
		{data: []string{"{m: '1', a: '1', x: '1'}", "{m: '1', a: '2'}", "{m: '2'}"}, percent: "85.7%", missing: []string{"never false: object.data.x == '1'\n"}},
	} {
		out, errOut, code := run(t, admission(t, policies, "", suite(tc.data...)))
		if code != 0 || !strings.HasSuffix(out, "coverage: "+tc.percent+"\n") || strings.Count(out, "not covered") != len(tc.missing) {
			t.Errorf("%q: exit code %d: %s%s", tc.data, code, out, errOut)
		}
		for _, missing := range tc.missing {
			if !strings.Contains(out, `not covered: ValidatingAdmissionPolicy "p": `+missing) {
				t.Errorf("%q: got %s, want %s", tc.data, out, missing)
			}
		}
	}
}
