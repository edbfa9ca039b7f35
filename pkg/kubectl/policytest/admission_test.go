/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest_test

import (
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

// TestAdmissionPolicies tries each expectation about admission policies. Package admissionpolicy tries each part of the policies.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	replace := strings.NewReplacer
	for _, tc := range []struct {
		name    string
		policy  *strings.Replacer
		request *strings.Replacer
		objects string
		want    string
	}{
		{name: "a message", policy: replace(), request: replace(), want: "outcome: no, policies: [p], message: \"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: a must be 1\"}"},
		{name: "a validation that is true", policy: replace(), request: replace(`a: "2"`, `a: "1"`), want: passes},
		{name: "an object of the suite", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {tier: prod}}, resourceRules"), request: replace(), objects: namespaceN, want: passes},
		{name: "no binding of this policy denies", policy: replace("[Deny]", "[Warn]"), request: replace(), want: `outcome: yes, warnings: ["a must be 1"], audited: []}`},
		{name: "a failure that is recorded", policy: replace("[Deny]", "[Audit]"), request: replace(), want: `outcome: yes, warnings: [], audited: [p]}`},
		{name: "a failure that denies and is recorded", policy: replace("[Deny]", "[Deny, Audit]"), request: replace(), want: `outcome: no, warnings: [], audited: [p]}`},
		{name: "an audit annotation", policy: replace("  validations", "  auditAnnotations: [{key: k, valueExpression: string(object.data.a)}]\n  validations"), request: replace(`a: "2"`, `a: "1"`), want: `outcome: yes, auditAnnotations: {p/k: "1"}}`},
		{name: "permissions of the test", policy: replace(`object.data.a == "1"`, `authorizer.group("x").resource("y").check("z").allowed()`), request: replace("  data", "  permissions: [{verbs: [create], apiGroups: [''], resources: [configmaps]}]\n  data"), want: denied},
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
		{name: "a policy", policy: replace("failurePolicy", "failurepolicy"), want: `unknown field "spec.failurepolicy"`},
		{name: "a binding", policy: replace("policyName: p", "policyName: q"), want: `ValidatingAdmissionPolicyBinding "b": spec.policyName: Not found: "q"`},
		{name: "an object", objects: "{apiVersion: v1, kind: Secret, metadata: {name: q, namespace: team}}", want: `kind "Secret" of apiVersion "v1" is the paramKind of no policy`},
		{name: "a request", tests: replace("version: v1, ", ""), want: "tests[0]: request.resourceAttributes.version: Required value"},
		{name: "the data of a request", tests: replace("{name: c,", "{name: c, namespace: other,"), want: "tests[0]: data.object: the namespace of the provided object does not match the namespace sent on the request"},
		{name: "a decision that only a server has", policy: replace("{resourceRules", "{namespaceSelector: {matchLabels: {a: b}}, resourceRules"), want: `ValidatingAdmissionPolicy "p": the decision depends on the Namespace of the request`},
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

// TestAdmissionWarnings shows a policy that decides nothing.
func TestAdmissionWarnings(t *testing.T) {
	t.Parallel()
	want := `ValidatingAdmissionPolicy "p": no binding names the policy, so that it decides nothing`
	_, errOut, code := run(t, admission(t, strings.Split(vap, "---")[0], "", strings.Replace(vapTest, `a: "2"`, `a: "1"`, 1)+passes))
	if code != 0 || strings.Count(errOut, "Warning: ") != 1 || !strings.Contains(errOut, want) {
		t.Errorf("exit code %d: %s, want %s", code, errOut, want)
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
