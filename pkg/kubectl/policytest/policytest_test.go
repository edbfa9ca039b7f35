/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// seconds are the times in results.
var seconds = regexp.MustCompile(`\d+\.\d\ds`)

// run runs kubectl proviso test, and returns what it prints, without times.
func run(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = kubectl.Run(t.Context(), append([]string{"test"}, args...), streams)
	return seconds.ReplaceAllString(stdout.String(), "0.00s"), stderr.String(), code
}

// write writes the files of a directory, with a policy and a suite.
func write(t *testing.T, policies, suite string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"policies.yaml": policies, "test.yaml": suite} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var examples = filepath.Join("..", "..", "..", "artifacts", "examples")

// TestExamples runs the suites of the examples. Each has the data that tests on a cluster expect to pass, and the data that they expect to be refused.
func TestExamples(t *testing.T) {
	t.Parallel()
	out, errOut, code := run(t, examples)
	if code != 0 || errOut != "" {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	policies, err := filepath.Glob(filepath.Join(examples, "*", "passes.yaml"))
	if err != nil || len(policies) == 0 {
		t.Fatal(err)
	}
	for _, file := range policies {
		suite, err := os.ReadFile(filepath.Join(filepath.Dir(file), "test.yaml"))
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{`File: passes.yaml\n  expect: {decision: (yes|yes-if, outcome: yes)}`, `File: fails.yaml\n  expect: {decision: (no|yes-if, outcome: no)}`} {
			if !regexp.MustCompile(want).Match(suite) {
				t.Errorf("%s: want %q in the suite", file, want)
			}
		}
	}
	if out, errOut, code := run(t, filepath.Join(examples, "storage-class"), "--coverage-threshold=100", "-v"); code != 0 {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// TestTemplates runs the suites of the templates. Each template has one.
func TestTemplates(t *testing.T) {
	t.Parallel()
	templates := filepath.Join("..", "..", "..", "artifacts", "templates")
	out, errOut, code := run(t, templates)
	folders, err := os.ReadDir(templates)
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || errOut != "" || strings.Count("\n"+out, "\nok ") != len(folders) {
		t.Errorf("exit code %d, %d folders: %s%s", code, len(folders), out, errOut)
	}
}

// TestDocument runs the suite of the tutorial, and compares what the tutorial shows.
func TestDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policy-tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	between := func(start, end string) string {
		_, text, found := strings.Cut(string(content), start)
		text, _, ended := strings.Cut(text, end)
		if !found || !ended {
			t.Fatalf("the document has no %q", start)
		}
		return text
	}
	policies, suite, more := between("cat > policies.yaml <<EOF\n", "EOF\n"), between("cat > test.yaml <<EOF\n", "EOF\n"), between("cat >> test.yaml <<EOF\n", "EOF\n")
	for _, tc := range []struct {
		suite, shown string
		code         int
	}{
		{suite: suite, shown: between("what is missing:\n\n```text\n", "```")},
		{suite: suite + more, shown: "2 tests  0.00s  coverage: 100.0%\n"},
		{suite: suite + strings.Replace(more, "outcome: no", "outcome: yes", 1), shown: between("in the last test:\n\n```text\n", "```"), code: 1},
	} {
		dir := write(t, policies, tc.suite)
		out, errOut, code := run(t, dir)
		if out = strings.ReplaceAll(out, dir+"/", ""); code != tc.code || errOut != "" || !strings.Contains(out, tc.shown) {
			t.Errorf("exit code %d: %s%s, want %s", code, out, errOut, tc.shown)
		}
	}
}

const policies = `
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: dev-only}, spec: {description: dev machines only, effect: Allow, subjects: [{kind: User, name: alice}],
 rules: [{verbs: [create, update], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'object.spec.class == "dev"'}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: no-edge}, spec: {description: nothing at the edge, effect: Deny,
 rules: [{verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'has(object.spec.node) && object.spec.node == "edge"'}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: held, namespace: team}, spec: {description: policies allow no updates in team, effect: NoOpinion,
 rules: [{verbs: [update], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'namespaceObject.metadata.labels["tier"] == "prod"'}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: checked}, spec: {description: users who may sign, effect: Allow, subjects: [{kind: User, name: bob}],
 rules: [{verbs: [delete], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'authorizer.group("x").resource("signers").name(oldObject.spec.class).check("sign").allowed()'}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: account-checked}, spec: {effect: Allow, subjects: [{kind: User, name: dave}],
 rules: [{verbs: [delete], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'oldObject.spec.class == "x" || authorizer.serviceAccount("team", "a").group("x").resource("signers").check("sign").allowed()'}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: audited}, spec: {enforcement: Audit, effect: Deny, rules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: health}, spec: {effect: Allow, subjects: [{kind: Group, name: "system:authenticated"}], rules: [{verbs: [get], nonResourceURLs: [/health/*]}]}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: accounts}, spec: {effect: Allow, subjects: [{kind: Group, name: "system:serviceaccounts:team"}], rules: [{verbs: [list], apiGroups: [""], resources: [pods]}]}}
`

// tests have the right expectations for the policies.
const tests = `
apiVersion: test.proviso.dev/v1alpha1
kind: PolicyTest
metadata: {name: several}
policies: [policies.yaml]
tests:
- name: an Allow condition that is true
  request: {user: alice, resourceAttributes: &create {verb: create, group: demo.proviso.dev, version: v1alpha1, resource: virtualmachines, namespace: team}}
  data: {operation: CREATE, object: {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, spec: {class: dev}}}
  expect: {decision: yes-if, outcome: yes, policies: [dev-only]}
- name: an Allow condition that is false
  request: {user: alice, resourceAttributes: *create}
  data: {operation: CREATE, object: {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, spec: {class: prod}}}
  expect: {decision: yes-if, outcome: no, policies: [dev-only]}
- name: a Deny condition that is true
  request: {user: alice, resourceAttributes: *create}
  data: {operation: CREATE, object: {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, spec: {class: dev, node: edge}}}
  expect: {decision: yes-if, outcome: no, policies: [no-edge]}
- name: a Deny condition on a user without permission
  request: {user: carol, resourceAttributes: *create}
  expect: {decision: no}
- name: a Deny condition on a permission of other authorizers
  request: {user: carol, resourceAttributes: *create}
  permissions: &all [{verbs: ["*"], apiGroups: [demo.proviso.dev], resources: ["*"]}]
  data: {operation: CREATE, object: {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, spec: {node: core}}}
  expect: {decision: yes-if, outcome: yes}
- name: a permission for another name
  request: {user: carol, resourceAttributes: {verb: get, group: demo.proviso.dev, version: v1alpha1, resource: virtualmachines, namespace: team, name: a}}
  permissions: [{verbs: [get], apiGroups: [demo.proviso.dev], resources: [virtualmachines], resourceNames: [b]}]
  expect: {decision: no}
- name: a permission on a subresource
  request: {user: carol, resourceAttributes: {verb: get, group: demo.proviso.dev, version: v1alpha1, resource: virtualmachines, subresource: status, namespace: team, name: a}}
  permissions: [{verbs: [get], apiGroups: [demo.proviso.dev], resources: ["*/status"]}]
  expect: {decision: yes}
- name: a permission without the subresource
  request: {user: carol, resourceAttributes: {verb: get, group: demo.proviso.dev, version: v1alpha1, resource: virtualmachines, subresource: status, namespace: team, name: a}}
  permissions: [{verbs: [get], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
  expect: {decision: no}
- name: a permission on a path
  request: {user: carol, nonResourceAttributes: {verb: get, path: /logs/today}}
  permissions: [{verbs: [get], apiGroups: ["*"], resources: ["*"], nonResourceURLs: [/logs/*]}]
  expect: {decision: yes}
- name: a permission on everything, and a path
  request: {user: carol, nonResourceAttributes: {verb: get, path: /logs/today}}
  permissions: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]
  expect: {decision: no}
- name: a NoOpinion condition that is true
  request: {user: alice, resourceAttributes: &update {verb: update, group: demo.proviso.dev, version: v1alpha1, resource: virtualmachines, namespace: team, name: a}}
  data: {operation: UPDATE, object: &dev {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, spec: {class: dev}}, oldObject: *dev, namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: prod}}}}
  expect: {decision: yes-if, outcome: no}
- name: a NoOpinion condition that is false
  request: {user: alice, resourceAttributes: *update}
  data: {operation: UPDATE, object: *dev, oldObject: *dev, namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: dev}}}}
  expect: {decision: yes-if, outcome: yes, policies: [dev-only]}
- name: a check that a permission allows
  request: {user: bob, resourceAttributes: &delete {verb: delete, group: demo.proviso.dev, version: v1alpha1, resource: virtualmachines, namespace: team, name: a}}
  permissions: [{verbs: [sign], apiGroups: [x], resources: [signers], resourceNames: [dev]}]
  data: {operation: DELETE, oldObject: *dev}
  expect: {decision: yes-if, outcome: yes, policies: [checked]}
- name: a check that nothing allows
  request: {user: bob, resourceAttributes: *delete}
  data: {operation: DELETE, oldObject: *dev}
  expect: {decision: yes-if, outcome: no}
- name: a check of another user than the one who has the permission
  request: {user: dave, resourceAttributes: *delete}
  permissions: [{verbs: [sign], apiGroups: [x], resources: [signers]}]
  data: {operation: DELETE, oldObject: *dev}
  expect: {decision: yes-if, outcome: no}
- name: a privileged user
  request: {user: root, groups: [system:masters], resourceAttributes: *create}
  data: {operation: CREATE, object: {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, spec: {node: edge}}}
  expect: {decision: yes, outcome: yes}
- name: a path
  request: {user: carol, nonResourceAttributes: {verb: get, path: /health/live}}
  expect: {decision: yes, policies: [health]}
- name: a path of an anonymous user
  request: {user: "system:anonymous", nonResourceAttributes: {verb: get, path: /health/live}}
  expect: {decision: no}
- name: a group that every service account of a namespace has
  request: {user: "system:serviceaccount:team:a", resourceAttributes: {verb: list, version: v1, resource: pods, namespace: team}}
  expect: {decision: yes, policies: [accounts]}
`

func TestDecisions(t *testing.T) {
	t.Parallel()
	out, errOut, code := run(t, write(t, policies, tests), "-v")
	if code != 0 || errOut != "" {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	if got := strings.Count(out, "--- PASS: "); got != 19 {
		t.Errorf("%d tests passed: %s", got, out)
	}
	for _, want := range []string{
		`AuthorizationPolicy "team/held": never true`, `ClusterAuthorizationPolicy "dev-only": never`, `ClusterAuthorizationPolicy "checked": never`,
	} {
		if strings.Contains(out, want) {
			t.Errorf("got %q in %s", want, out)
		}
	}
}

// wrong turns the expectations of tests, so that each fails.
var wrong = strings.NewReplacer("decision: yes-if, outcome: yes", "decision: yes-if, outcome: no", "decision: yes-if, outcome: no", "decision: yes-if, outcome: yes",
	"decision: yes}", "decision: no}", "decision: no}", "decision: yes}", "decision: yes,", "decision: no,")

// TestDifferences shows wrong expectations, in each format.
func TestDifferences(t *testing.T) {
	t.Parallel()
	dir := write(t, policies, wrong.Replace(tests))
	out, errOut, code := run(t, dir)
	if code != 1 || errOut != "" {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if got := strings.Count(out, "--- FAIL: "); got != 19 {
		t.Errorf("%d tests failed", got)
	}
	golden.Compare(t, filepath.Join("testdata", "differences.golden.txt"), strings.ReplaceAll(out, dir, "DIR"))

	out, _, code = run(t, dir, "-o", "json")
	var results struct {
		Suites []struct {
			Tests []struct {
				Name   string
				Passed bool
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != 1 || len(results.Suites) != 1 || len(results.Suites[0].Tests) != 19 || results.Suites[0].Tests[0].Passed {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	out, _, code = run(t, dir, "-o", "junit")
	var suites struct {
		Suites []struct {
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(out), &suites); err != nil || code != 1 || len(suites.Suites) != 1 || suites.Suites[0].Failures != 19 || suites.Suites[0].Cases[0].Failure == nil {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// TestCoverage counts policies and clauses.
func TestCoverage(t *testing.T) {
	t.Parallel()
	policy := `{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: p}, spec: {effect: Allow, subjects: [{kind: User, name: alice}],
 rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [pods]}], variables: [{name: v, expression: object.spec.b}], condition: 'object.spec.a == 1 && (variables.v == 2 || [1].all(x, x == object.spec.c))'}}`
	suite := func(specs ...string) string {
		text := "{apiVersion: test.proviso.dev/v1alpha1, kind: PolicyTest, policies: [policies.yaml], tests: ["
		for _, spec := range specs {
			text += `{name: "` + spec + `", request: {user: alice, resourceAttributes: {verb: create, version: v1, resource: pods}}, data: {operation: CREATE, object: {apiVersion: v1, kind: Pod, spec: ` + spec + `}}, expect: {decision: yes-if, outcome: ` +
				map[bool]string{true: "yes", false: "no"}[strings.HasPrefix(spec, "{a: 1")] + "}},\n"
		}
		return text + "]}"
	}
	for _, tc := range []struct {
		specs   []string
		percent string
		missing []string
	}{
		{specs: []string{"{a: 1, b: 2, c: 1}"}, percent: "57.1%", missing: []string{"never false: object.spec.a == 1\n", "never false: variables.v == 2\n", "never false: [1].all(x, x == object.spec.c)\n"}},
		{specs: []string{"{a: 1, b: 2, c: 2}", "{a: 2, b: 3, c: 1}"}, percent: "100.0%"},
		// A clause that fails is neither true nor false.
		{specs: []string{"{a: 1, b: 2, c: 1}", "{a: 2, b: 3}"}, percent: "85.7%", missing: []string{"never false: [1].all(x, x == object.spec.c)\n"}},
	} {
		dir := write(t, policy, suite(tc.specs...))
		out, errOut, code := run(t, dir)
		if code != 0 || !strings.HasSuffix(out, "coverage: "+tc.percent+"\n") || strings.Count(out, "not covered") != len(tc.missing) {
			t.Errorf("%q: exit code %d: %s%s", tc.specs, code, out, errOut)
		}
		for _, missing := range tc.missing {
			if !strings.Contains(out, `not covered: ClusterAuthorizationPolicy "p": `+missing) {
				t.Errorf("%q: got %s, want %s", tc.specs, out, missing)
			}
		}
		_, errOut, code = run(t, dir, "--coverage-threshold=90")
		if want := tc.percent != "100.0%"; (code == 1) != want || strings.Contains(errOut, "below the threshold") != want {
			t.Errorf("%q: with a threshold: exit code %d: %s", tc.specs, code, errOut)
		}
	}
}

// TestWarnings shows the warnings that the server gives when such a policy is stored.
func TestWarnings(t *testing.T) {
	t.Parallel()
	dir := write(t, strings.Replace(policies, `object.spec.class == "dev"`, `request.verb == "delete"`, 1),
		`{apiVersion: test.proviso.dev/v1alpha1, kind: PolicyTest, policies: [policies.yaml], tests: [{name: a, request: {user: carol, nonResourceAttributes: {verb: get, path: /x}}, expect: {decision: no}}]}`)
	_, errOut, code := run(t, dir)
	if code != 0 || strings.Count(errOut, "Warning: ") != 1 || !strings.Contains(errOut, "dev-only") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// TestMistakes reads suites that are not complete.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const test = `{name: a, request: {user: alice, resourceAttributes: {verb: get, version: v1, resource: pods}}, expect: {decision: no}}`
	suite := func(tests string) string {
		return "{apiVersion: test.proviso.dev/v1alpha1, kind: PolicyTest, policies: [policies.yaml], tests: [" + tests + "]}"
	}
	for _, tc := range []struct {
		name, policies, suite string
		want                  string
	}{
		{name: "no suite", policies: policies, suite: "{kind: Other}", want: "has no suite: no document of kind PolicyTest"},
		{name: "an unknown field", policies: policies, suite: suite(strings.Replace(test, "expect", "expects: {}, expect", 1)), want: `unknown field "tests[0].expects"`},
		{name: "another version", policies: policies, suite: strings.Replace(suite(test), "v1alpha1", "v9", 1), want: `apiVersion "test.proviso.dev/v9"`},
		{name: "no tests", policies: policies, suite: suite(""), want: "tests: Required value"},
		{name: "two tests of one name", policies: policies, suite: suite(test + "," + test), want: `the name "a" occurs twice`},
		{name: "a policy that does not compile", policies: strings.Replace(policies, "object.spec.class ==", "object.spec.class =", 1), suite: suite(test), want: "spec.condition: Invalid value"},
		{name: "a file that is missing", policies: policies, suite: strings.Replace(suite(test), "[policies.yaml]", "[other.yaml]", 1), want: "other.yaml\" does not exist"},
		{name: "no policies", policies: policies, suite: strings.Replace(suite(test), "[policies.yaml]", "[]", 1), want: "policies: Required value"},
		{name: "another decision", policies: policies, suite: suite(strings.Replace(test, "decision: no", "decision: perhaps", 1)), want: "expect.decision: must be yes, no or yes-if"},
		{name: "an outcome without data", policies: policies, suite: suite(strings.Replace(test, "decision: no", "decision: no, outcome: no", 1)), want: "expect.outcome: must be"},
		{name: "data without an outcome", policies: policies, suite: suite(strings.Replace(test, "expect", "data: {operation: CREATE}, expect", 1)), want: "expect.outcome: must be"},
		{name: "data without an operation", policies: policies, suite: suite(strings.Replace(test, "expect: {", "data: {}, expect: {outcome: no, ", 1)), want: "data.operation: must be"},
		{name: "data of a read", policies: policies, suite: suite(strings.Replace(test, "expect: {", "data: {operation: CREATE}, expect: {outcome: no, ", 1)), want: "tests[0]: data.operation: a request with the verb get has the operation CONNECT, and not CREATE"},
		{
			name: "the operation of another verb", policies: policies, suite: suite(strings.NewReplacer("verb: get", "verb: delete", "expect: {", "data: {operation: UPDATE}, expect: {outcome: no, ").Replace(test)),
			want: "tests[0]: data.operation: a request with the verb delete has the operation DELETE or CONNECT, and not UPDATE",
		},
		{
			name: "a verb that admission does not see", policies: policies, suite: suite(strings.NewReplacer("verb: get", "verb: list", "expect: {", "data: {operation: CONNECT}, expect: {outcome: no, ").Replace(test)),
			want: "tests[0]: data: admission does not decide about requests with the verb list",
		},
		{
			name: "data for a path", policies: policies, suite: suite(`{name: a, request: {user: a, nonResourceAttributes: {verb: get, path: /x}}, data: {operation: CONNECT}, expect: {decision: no, outcome: no}}`),
			want: "tests[0]: data: admission decides about resources only",
		},
		{name: "no user", policies: policies, suite: suite(strings.Replace(test, "user: alice, ", "", 1)), want: "a user or a group is required"},
		{name: "no attributes", policies: policies, suite: suite(`{name: a, request: {user: a}, expect: {decision: no}}`), want: "exactly one of resourceAttributes"},
		{name: "no request", policies: policies, suite: suite(`{name: a, expect: {decision: no}}`), want: "exactly one of request and requestFile"},
		{name: "a file of another kind", policies: policies, suite: suite(`{name: a, requestFile: test.yaml, expect: {decision: no}}`), want: "want one SubjectAccessReview"},
	} {
		out, errOut, code := run(t, write(t, tc.policies, tc.suite))
		if code != 2 || out != "" || !strings.Contains(errOut, tc.want) {
			t.Errorf("%s: exit code %d: %s%s, want %s", tc.name, code, out, errOut, tc.want)
		}
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "error: must specify one directory or file with suites\n"},
		{[]string{"a", "b"}, "error: must specify one directory or file with suites\n"},
		{[]string{"missing"}, "error: the path \"missing\" does not exist\n"},
		{[]string{examples, "-o", "yaml"}, "error: --output must be text, json or junit, not \"yaml\"\n"},
		{[]string{examples, "--coverage-threshold=NaN"}, "error: --coverage-threshold must be between 0 and 100\n"},
		{[]string{examples, "--coverage-threshold=101"}, "error: --coverage-threshold must be between 0 and 100\n"},
	} {
		if out, errOut, code := run(t, tc.args...); code != 2 || out != "" || cmp.Diff(tc.want, errOut) != "" {
			t.Errorf("%q: exit code %d: %s%s", tc.args, code, out, errOut)
		}
	}
}
