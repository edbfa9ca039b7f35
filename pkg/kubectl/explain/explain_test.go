/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain_test

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/nearmiss"
)

const (
	artifacts = "../../../artifacts"
	examples  = artifacts + "/examples"
)

// run runs kubectl proviso explain.
func run(t *testing.T, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectl.Run(t.Context(), append([]string{"explain"}, args...), streams)
	return stdout.String(), stderr.String(), code
}

// explained is what the tests read of -o json.
type explained struct {
	Decision, AtAuthorization, WithObject string
	Chain                                 []struct {
		Name, Opinion string
		Decides       bool
	}
	Because []struct {
		Policy, Text, Result string
		Values               []struct{ Text, Value string }
	}
	NearMiss   *nearmiss.NearMiss
	NoNearMiss string
	Recorded   map[string]string
	Notes      []string
}

func runJSON(t *testing.T, input string, args ...string) (e explained, code int) {
	t.Helper()
	out, errOut, code := run(t, input, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatalf("%v: %v: %d %s%s", args, err, code, out, errOut)
	}
	return e, code
}

// suite is a PolicyTest of an example.
type suite struct {
	Policies, Objects []string
	Permissions       []any
	Tests             []*suiteTest

	file string
}

type suiteTest struct {
	Name, RequestFile, DataFile string
	Request, Data               map[string]any
	Permissions                 []any
	Expect                      struct{ Decision, Outcome any }
}

// expected returns an expected decision: YAML reads yes and no as booleans.
func expected(v any) string {
	switch v {
	case true:
		return "yes"
	case false:
		return "no"
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

// eachTest calls f for each test of the suites in the artifacts: of the examples, the ValidatingAdmissionPolicies and the templates.
func eachTest(t *testing.T, f func(s *suite, tc *suiteTest)) (suites, tests int) {
	t.Helper()
	err := filepath.WalkDir(artifacts, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "test.yaml" {
			return err
		}
		s := &suite{file: path}
		readYAML(t, path, s)
		suites++
		for _, tc := range s.Tests {
			tests++
			f(s, tc)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return suites, tests
}

// isUnconditional has the tests with requests that are refused, and no condition decides about them.
var isUnconditional = map[string]bool{"bob has no permission, so that the request does not reach admission": true, "An auditor reads secrets": true, "a parameter that is missing": true}

// TestDecidesLikeTest checks that the decision that explain explains is the one that kubectl proviso test expects, for all suites of the
// artifacts. Each denial names its deciding parts with values. The near miss passes in a test if it is put into the object.
func TestDecidesLikeTest(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	denials, misses := 0, 0
	suites, count := eachTest(t, func(s *suite, tc *suiteTest) {
		file := s.file
		args := []string{"-f", file, "--test", tc.Name}
		e, code := runJSON(t, "", args...)
		decision, outcome := expected(tc.Expect.Decision), expected(tc.Expect.Outcome)
		if e.AtAuthorization != decision || e.WithObject != outcome {
			t.Errorf("%s: %s: got %s and %q, want %s and %q", file, tc.Name, e.AtAuthorization, e.WithObject, decision, outcome)
		}
		if want := map[string]int{"yes": 0, "no": 1, "yes-if": 3}[e.Decision]; code != want {
			t.Errorf("%s: %s: got the exit code %d, want %d", file, tc.Name, code, want)
		}
		if e.Decision != "no" {
			return
		}
		denials++
		out, _, _ := run(t, "", args...)
		fmt.Fprintf(&printed, "# %s: %s\n%s\n", filepath.Base(filepath.Dir(file)), tc.Name, out)
		values := 0
		for _, b := range e.Because {
			if b.Result == "" || b.Text == "" {
				t.Errorf("%s: %s: got %+v", file, tc.Name, b)
			}
			values += len(b.Values)
		}
		if (values == 0) != isUnconditional[tc.Name] {
			t.Errorf("%s: %s: %d values of parts decide: %s", file, tc.Name, values, out)
		}
		if e.NearMiss == nil {
			return
		}
		misses++
		if code, out := retry(t, s, tc, &e); code != 0 {
			t.Errorf("%s: %s: the near miss %+v does not pass: %d %s", file, tc.Name, *e.NearMiss, code, out)
		}
	})
	t.Logf("%d suites, %d tests, %d denials, %d near misses", suites, count, denials, misses)
	if suites < 28 || count < 90 || denials < 46 || misses < 35 {
		t.Errorf("%d suites, %d tests, %d denials and %d near misses were found, so the test proves little", suites, count, denials, misses)
	}
	golden.Compare(t, filepath.Join("testdata", "denials.golden.txt"), printed.String())
}

// TestAdmissionPoliciesAboutSecrets explains refusals by a ValidatingAdmissionPolicy of a suite, whose message and values quote a Secret: the object, or
// the parameter.
func TestAdmissionPoliciesAboutSecrets(t *testing.T) {
	t.Parallel()
	const secret = `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: demo}, data: {password: aHVudGVyMmh1bnRlcjI=}}`
	const configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: s, namespace: demo}, data: {password: x}}`
	const same = `{expression: "object.data.password == params.data.password", messageExpression: "'not ' + params.data.password"}`
	for name, tc := range map[string]struct{ resource, object, paramKind, validation, want string }{
		"the object": {"secrets", secret, "", `{expression: "variables.size < 9 && object.metadata.name != 'x'", messageExpression: "'too long: ' + object.data.password"}`,
			"object.data.password.size() < 9"},
		"the parameter": {"configmaps", configMap, "paramKind: {apiVersion: v1, kind: Secret},", same, "object.data.password == params.data.password"},
		"a TokenReview as the parameter": {"configmaps", configMap, "paramKind: {apiVersion: authentication.k8s.io/v1, kind: TokenReview},",
			strings.ReplaceAll(same, "params.data.password", "params.spec.token"), "object.data.password == params.spec.token"},
		"a parameter and --hide": {"configmaps", configMap, "paramKind: {apiVersion: v1, kind: ConfigMap},",
			strings.ReplaceAll(same, "object.data.password", "object.metadata.name"), "object.metadata.name == params.data.password"},
		"the parameter in another spelling": {"configmaps", configMap, "paramKind: {apiVersion: /v1, kind: Secret},", same,
			"object.data.password == params.data.password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, paramRef, objects, args := t.TempDir(), "", "", []string(nil)
			if tc.paramKind != "" {
				paramRef, objects = "paramRef: {name: s, parameterNotFoundAction: Deny},", "objects: [parameter.yaml],"
			}
			parameter := secret
			if strings.Contains(tc.paramKind, "ConfigMap") {
				parameter, args = strings.ReplaceAll(secret, "kind: Secret", "kind: ConfigMap"), []string{"--hide=data.password"}
			}
			if strings.Contains(tc.paramKind, "TokenReview") {
				parameter = `{apiVersion: authentication.k8s.io/v1, kind: TokenReview, metadata: {name: s}, spec: {token: aHVudGVyMmh1bnRlcjI=}}`
			}
			for name, content := range map[string]string{
				"parameter.yaml": parameter,
				"policy.yaml": `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: short.example.com}, spec: {` + tc.paramKind + `
matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [` + tc.resource + `]}]},
variables: [{name: size, expression: "object.data.password.size()"}], validations: [` + tc.validation + `]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: short.example.com}, spec: {policyName: short.example.com, ` + paramRef + ` validationActions: [Deny]}}`,
				"test.yaml": `{apiVersion: test.proviso.dev/v1alpha1, kind: PolicyTest, metadata: {name: short}, policies: [policy.yaml], ` + objects + `
permissions: [{verbs: ["*"], apiGroups: [""], resources: ["*"]}], tests: [
{name: refused, request: {user: alice, resourceAttributes: {verb: create, version: v1, resource: ` + tc.resource + `, namespace: demo}},
data: {operation: CREATE, object: ` + tc.object + `}, expect: {decision: "yes", outcome: "no"}}]}`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, format := range []string{"text", "json", "dot", "svg"} {
				out, errOut, code := run(t, "", append(args, "-f", filepath.Join(dir, "test.yaml"), "--test=refused", "-o", format)...)
				if code != 1 || errOut != "" || strings.Contains(out, "aHVudGVy") || strings.Contains(out, "too long") {
					t.Errorf("%s: exit code %d: %s%s", format, code, out, errOut)
				}
				if format == "text" && (!strings.Contains(out, "policy short.example.com refuses: (not shown)") || !strings.Contains(out, tc.want)) {
					t.Errorf("got\n%s", out)
				}
			}
		})
	}
}

// retry runs the test of a suite with the near miss in its object: the request must be allowed.
func retry(t *testing.T, s *suite, tc *suiteTest, e *explained) (code int, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(s.file))); err != nil {
		t.Fatal(err)
	}
	data := tc.Data
	if tc.DataFile != "" {
		review := map[string]any{}
		readYAML(t, filepath.Join(dir, tc.DataFile), &review)
		data = review["request"].(map[string]any)
	}
	test := map[string]any{"name": "retry", "data": data, "expect": map[string]any{"decision": e.AtAuthorization, "outcome": "yes"}}
	request := tc.Request
	if tc.RequestFile != "" {
		review := map[string]any{}
		readYAML(t, filepath.Join(dir, tc.RequestFile), &review)
		request = review["spec"].(map[string]any)
	}
	test["request"] = request
	if e.NearMiss.Action == "select" {
		request["resourceAttributes"].(map[string]any)["labelSelector"] = map[string]any{"rawSelector": strings.TrimPrefix(e.NearMiss.Selectors, "-l ")}
		test["expect"] = map[string]any{"decision": "yes"}
	} else {
		data[e.NearMiss.Object] = e.NearMiss.Apply(t, data[e.NearMiss.Object])
	}
	if permissions := slices.Concat(tc.Permissions, s.Permissions); len(permissions) > 0 {
		test["permissions"] = permissions
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "test.proviso.dev/v1alpha1", "kind": "PolicyTest", "policies": s.Policies, "objects": s.Objects, "tests": []any{test}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "retry.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = kubectl.Run(t.Context(), []string{"test", file}, streams)
	return code, stdout.String() + stderr.String()
}

// write writes an object to a file.
func write(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "object.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// joined joins documents of YAML.
func joined(documents ...string) string { return strings.Join(documents, "\n---\n") }

func policy(name, effect, condition string) string {
	return fmt.Sprintf(`{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: %s}, spec: {effect: %s, subjects: [{kind: User, name: alice}],
rules: [{verbs: ["*"], apiGroups: ["*"], apiVersions: [v1], resources: ["*"]}], condition: %q}}`, name, effect, condition)
}

func review(verb, resource, name string) string {
	return fmt.Sprintf(`{apiVersion: authorization.k8s.io/v1alpha1, kind: SubjectAccessReview, spec: {user: alice, resourceAttributes: {verb: %s, version: v1, resource: %s, namespace: ns, name: %q}}}`, verb, resource, name)
}

func data(operation, objects string) string {
	return fmt.Sprintf(`{apiVersion: authorization.k8s.io/v1alpha1, kind: AuthorizationConditionsReview, request: {operation: %s, %s}}`, operation, objects)
}

// TestNearMiss looks for near misses of single conditions and of policies together.
func TestNearMiss(t *testing.T) {
	t.Parallel()
	const object = `{apiVersion: v1, kind: Thing, metadata: {name: web, labels: {team: red}}, spec: {class: gold, size: 5, host: true, list: [{id: a}, {id: b, lit: true}], names: [x, w], quota: 20Gi}}`
	for _, tc := range []struct {
		name     string
		policies []string
		update   string // the stored object of an update
		args     []string
		want     string
	}{
		{name: "equality", policies: []string{policy("a", "Allow", `object.spec.class == "dev"`)}, want: `set spec.class to "dev"`},
		{name: "the other way round", policies: []string{policy("a", "Allow", `"dev" == object.spec.class`)}, want: `set spec.class to "dev"`},
		{name: "membership", policies: []string{policy("a", "Allow", `object.spec.class in ["dev", "test"]`)}, want: `set spec.class to "dev"`},
		{name: "a field that is missing", policies: []string{policy("a", "Allow", `object.spec.?tier.orValue("") == "dev"`)}, want: `set spec.tier to "dev"`},
		{name: "an error", policies: []string{policy("a", "Allow", `object.spec.tier == "dev"`)}, want: `set spec.tier to "dev"`},
		{name: "a number", policies: []string{policy("a", "Allow", `object.spec.size < 3`)}, want: `set spec.size to 2`},
		{name: "a bool", policies: []string{policy("a", "Allow", `!object.spec.host`)}, want: `set spec.host to false`},
		{name: "a beginning", policies: []string{policy("a", "Allow", `object.spec.class.startsWith("dev-")`)}, want: `set spec.class to "dev-gold"`},
		{name: "an element of a list", policies: []string{policy("a", "Allow", `"z" in object.spec.names`)}, want: `set spec.names to ["x","w","z"]`},
		{name: "an element that must not be there", policies: []string{policy("a", "Allow", `!("x" in object.spec.names)`)}, want: `set spec.names to ["w"]`},
		{name: "a removal", policies: []string{policy("a", "Allow", `!has(object.spec.class)`)}, want: `remove spec.class`},
		{name: "a field of an element", policies: []string{policy("a", "Allow", `object.spec.list.all(e, !e.?lit.orValue(false))`)}, want: `set spec.list[1].lit to false`},
		{name: "a function", policies: []string{policy("a", "Allow", `quantity(object.spec.quota).compareTo(quantity("10Gi")) <= 0`)}, want: `set spec.quota to "10Gi"`},
		{name: "the user of the request", policies: []string{policy("a", "Allow", `object.metadata.labels["owner"] == request.userInfo.username`)}, want: `set metadata.labels.owner to "alice"`},
		{name: "another label", policies: []string{policy("a", "Allow", ""), policy("d", "Deny", `object.metadata.?labels["cost"].orValue("") == ""`)}, want: `set metadata.labels.cost to "example"`},
		{name: "two policies about one field", policies: []string{policy("a", "Allow", `object.spec.class in ["dev", "test"]`), policy("d", "Deny", `object.spec.class == "dev"`)}, want: `set spec.class to "test"`},
		{name: "a NoOpinion policy", policies: []string{policy("a", "Allow", ""), policy("h", "NoOpinion", `object.spec.?class.orValue("") == "gold"`)}, want: `remove spec.class`},
		{name: "a value of a kilobyte", policies: []string{policy("a", "Allow", `object.spec.class == "`+strings.Repeat("k", 1024)+`"`)}, want: `set spec.class to "` + strings.Repeat("k", 1024) + `"`},
		{name: "a value that is too long to be shown", policies: []string{policy("a", "Allow", `object.spec.class == "`+strings.Repeat("k", 3000)+`"`)}, want: "none found"},
		{name: "two changes are none", policies: []string{policy("a", "Allow", `object.spec.class == "dev" && object.spec.size == 1`)}, want: "none found"},
		{name: "a field that is the identity", policies: []string{policy("a", "Allow", `object.kind == "Other"`)}, want: "none found"},
		{name: "RBAC is missing", policies: []string{policy("d", "Deny", `object.spec.class == "gold"`)}, want: "none found"},
		{name: "a condition that fails without the field", policies: []string{policy("d", "Deny", `object.spec.class == "gold"`)}, args: []string{"--rbac-allows"}, want: "none found"},
		{name: "with RBAC", policies: []string{policy("d", "Deny", `object.spec.?class.orValue("") == "gold"`)}, args: []string{"--rbac-allows"}, want: `remove spec.class`},
		{
			name: "the stored value", policies: []string{policy("a", "Allow", `object.spec == oldObject.spec`)},
			update: strings.Replace(object, "gold", "dev", 1), want: `set spec.class to "dev"`,
		},
		{
			name: "a field that was added", policies: []string{policy("a", "Allow", `object.spec == oldObject.spec`)},
			update: strings.Replace(object, "class: gold, ", "", 1), want: `remove spec.class`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request, values := review("create", "things", ""), data("CREATE", "object: "+object)
			if tc.update != "" {
				request, values = review("update", "things", "web"), data("UPDATE", "object: "+object+", oldObject: "+tc.update)
			}
			e, code := runJSON(t, joined(append(tc.policies, request, values)...), append(tc.args, "-f", "-")...)
			got := e.NoNearMiss
			if e.NearMiss != nil {
				got = strings.TrimSuffix(fmt.Sprintf("%s %s to %s", e.NearMiss.Action, e.NearMiss.Field, e.NearMiss.Value), " to ")
			}
			if code != 1 || got != tc.want {
				t.Errorf("got %d %s, want %s", code, got, tc.want)
			}
		})
	}
}

// schemas is a document of OpenAPI v3 with enum values, some behind references, and a required list.
const schemas = `{"openapi": "3.0.0", "info": {"title": "t", "version": "v1"}, "paths": {}, "components": {"schemas": {
  "Thing": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}], "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}}},
  "Spec": {"type": "object", "required": ["names"], "properties": {"names": {"type": "array", "items": {"type": "string", "maxLength": 3}},
    "class": {"type": "string", "enum": ["bronze", "gold", "silver"]}, "list": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string", "enum": ["b", "c"]}}}},
    "modes": {"type": "object", "additionalProperties": {"type": "string", "enum": ["on", "off"]}}}}}}}`

// TestExplainSchemas looks for near misses among the enum values of schemas, and for changes that schemas refuse.
func TestExplainSchemas(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, []byte(schemas), 0o600); err != nil {
		t.Fatal(err)
	}
	const object = `{apiVersion: v1, kind: Thing, metadata: {name: web}, spec: {class: gold, list: [{id: a}], modes: {x: "off"}, names: [x]}}`
	for _, tc := range []struct {
		name, condition string
		kind            string
		args            []string
		want            string
	}{
		{name: "a value that is not denied", condition: `object.spec.class == "gold"`, want: `set spec.class to "bronze"`},
		{name: "a value that no policy denies", condition: `object.spec.class in ["gold", "bronze"]`, want: `set spec.class to "silver"`},
		{name: "a field of an element", condition: `object.spec.list.exists(e, e.id == "a")`, want: `set spec.list[0].id to "b"`},
		{name: "a value of a map", condition: `object.spec.modes.x == "off"`, want: `set spec.modes.x to "on"`},
		{name: "no value is allowed", condition: `object.spec.class in ["gold", "bronze", "silver"]`, want: "none found"},
		{name: "a kind without a schema", kind: "Other", condition: `object.spec.class == "gold"`, want: "none found"},
		{name: "a required list stays", condition: `object.spec.?names.orValue([]) != []`, want: "none found"},
		{name: "without the schema, the list is emptied", kind: "Other", condition: `object.spec.?names.orValue([]) != []`, want: "set spec.names to []"},
		{name: "a text that is not too long", condition: `object.spec.names.exists(n, !(n in ["long", "ok"]))`, want: `set spec.names[0] to "ok"`},
		{name: "without the schema, the text is too long", kind: "Other", condition: `object.spec.names.exists(n, !(n in ["long", "ok"]))`, want: `set spec.names[0] to "long"`},
		{name: "a hidden field", args: []string{"--hide=spec.class"}, condition: `object.spec.class == "gold"`, want: "set spec.class to (not shown)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			values := data("CREATE", "object: "+strings.Replace(object, "Thing", cmp.Or(tc.kind, "Thing"), 1))
			args := slices.Concat(tc.args, []string{"-f", "-", "--rbac-allows", "--openapi", file})
			e, code := runJSON(t, joined(policy("d", "Deny", tc.condition), review("create", "things", ""), values), args...)
			got := e.NoNearMiss
			if e.NearMiss != nil {
				got = fmt.Sprintf("%s %s to %s", e.NearMiss.Action, e.NearMiss.Field, e.NearMiss.Value)
			}
			if got != tc.want || code != 1 {
				t.Errorf("exit code %d: got %s, want %s", code, got, tc.want)
			}
			if isNoted := strings.Contains(strings.Join(e.Notes, "\n"), "the schema of the object is not known"); isNoted != (e.NearMiss != nil && tc.kind == "Other") {
				t.Errorf("got the notes %q", e.Notes)
			}
		})
	}
	if _, errOut, code := run(t, joined(policy("d", "Deny", "true"), review("create", "things", "")), "-f", "-", "--openapi", filepath.Join(examples, "storage-class", "policy.yaml")); code != 2 || !strings.Contains(errOut, "is not a document of OpenAPI v3") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// TestExplainSecretsAreNotShown explains requests about objects with secrets, and looks for them in all formats.
func TestExplainSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret, object = "hunter2hunter2", `{apiVersion: v1, kind: Secret, metadata: {name: s, labels: {team: red}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{hunter2hunter2}", note: plain}},
data: {password: hunter2hunter2, number: "7"}, stringData: {token: hunter2hunter2}}`
	conditions := []string{
		`object.data.password == "x"`, `object.data["password"] + "" == "x"`, `object.data.all(k, object.data[k] == "x")`, `object.data.map(k, object.data[k]) == ["x"]`,
		`object.data.exists(k, v, v == "x")`, `int(object.data.password) == 1`, `object.stringData.token.startsWith("y")`, `object.stringData == object.data`,
		`[object.stringData.token].exists(v, v == "x")`, `object == oldObject`, `object[request.verb == "create" ? "data" : "x"].password == "x"`,
		`object.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] == "x"`, `object.metadata.annotations.exists(k, object.metadata.annotations[k] == "x")`,
		`{"a": object.data.password}["a"] == "x"`, `object.data.password.size() == 1`, `duration(object.data.password) == duration("1s")`, `object.data[object.data.password] == "x"`,
		`quantity(object.data.password).isGreaterThan(quantity("1"))`, `object.?data[?"password"].orValue("") == "x"`, `dyn(object).data.password in ["x"]`,
	}
	for _, condition := range conditions {
		for kind, resource := range map[string]string{"Secret": "things", "Other": "secrets"} {
			for _, format := range []string{"text", "json", "dot", "svg"} {
				input := joined(policy("a", "Allow", condition), review("create", resource, ""), data("CREATE", "object: "+strings.Replace(object, "kind: Secret", "kind: "+kind, 1)))
				out, errOut, code := run(t, input, "-f", "-", "-o", format)
				if code != 1 || strings.Contains(out+errOut, secret) {
					t.Errorf("%s: %s: %s: got %d:\n%s%s", condition, kind, format, code, out, errOut)
				}
			}
		}
	}
	shown, _, _ := run(t, joined(policy("a", "Allow", `object.metadata.labels.team == "blue" && object.data.password == "x"`), review("create", "secrets", ""), data("CREATE", "object: "+object)), "-f", "-")
	if !strings.Contains(shown, `object.metadata.labels.team = "red"`) || !strings.Contains(shown, "object.data.password = (not shown)") {
		t.Errorf("got\n%s", shown)
	}
	// The stored value of a near miss is a secret, too.
	old := strings.Replace(object, "password: hunter2hunter2", "password: hunter3hunter3", 1)
	update := joined(policy("a", "Allow", `object.data.password == oldObject.data.password`), review("update", "secrets", "s"), data("UPDATE", "object: "+object+", oldObject: "+old))
	miss, _, _ := run(t, update, "-f", "-")
	if strings.Contains(miss, "hunter") || !strings.Contains(miss, "near miss: set data.password to (not shown) (now (not shown))") {
		t.Errorf("got\n%s", miss)
	}
	// The value of a near miss for another field may be a secret.
	for _, condition := range []string{
		`object.metadata.labels.team == object.data.password + ""`, `object.metadata.labels.team == oldObject.data.password`, `object.metadata.labels.team in [oldObject.data.password]`,
		`oldObject.data.password.startsWith(object.metadata.labels.team)`, `object.metadata.labels.team in oldObject.data.map(k, oldObject.data[k])`,
	} {
		input := joined(policy("a", "Allow", condition), review("update", "secrets", "s"), data("UPDATE", "object: "+object+", oldObject: "+old))
		for _, format := range []string{"text", "json", "dot", "svg"} {
			if out, errOut, code := run(t, input, "-f", "-", "-o", format); code != 1 || strings.Contains(out+errOut, "hunter") {
				t.Errorf("%s: %s: got %d:\n%s%s", condition, format, code, out, errOut)
			}
		}
	}
	hidden := joined(policy("a", "Allow", `object.spec.password == "x" && object.spec.host == "y"`), review("create", "things", ""),
		data("CREATE", "object: {apiVersion: v1, kind: Thing, spec: {password: hunter2hunter2, host: visible}}"))
	out, _, _ := run(t, hidden, "-f", "-", "--hide=spec.password")
	if strings.Contains(out, secret) || !strings.Contains(out, "visible") {
		t.Errorf("got\n%s", out)
	}
	if out, _, _ := run(t, hidden, "-f", "-"); !strings.Contains(out, secret) {
		t.Errorf("without --hide, got\n%s", out)
	}
	near := joined(policy("a", "Allow", `object.spec.host == object.spec.password + ""`), review("create", "things", ""),
		data("CREATE", "object: {apiVersion: v1, kind: Thing, spec: {password: hunter2hunter2, host: visible}}"))
	if out, _, _ := run(t, near, "-f", "-", "--hide=spec.password"); strings.Contains(out, secret) || !strings.Contains(out, "visible") {
		t.Errorf("got\n%s", out)
	}
}

// event is an event of an audit log.
func event(id string, code int, verb, more string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":%q,"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/n/things?labelSelector=a%%3Db","verb":%q,`+
		`"user":{"username":"bob"},"impersonatedUser":{"username":"alice","groups":["g"]},"objectRef":{"resource":"things","namespace":"n","name":"web","apiVersion":"v1"},"responseStatus":{"code":%d}%s}`+"\n", id, verb, code, more)
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	content := joined(policy("a", "Allow", `object.spec.class == "dev" && request.name == ""`),
		strings.Replace(policy("u", "Allow", `object.spec.class == "dev" && (object.spec.size == 1 || oldObject.spec.size == 2)`), `verbs: ["*"]`, "verbs: [update]", 1))
	content = strings.Replace(content, `verbs: ["*"]`, "verbs: [create]", 1)
	if err := os.WriteFile(policies, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	object := func(class string) string {
		return fmt.Sprintf(`,"requestObject":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"web"},"spec":{"class":%q}}`, class)
	}
	for _, tc := range []struct {
		name, log    string
		args         []string
		code         int
		decision     string
		near, reason string
		note         string
	}{
		{name: "the last refusal", log: event("1", 403, "create", object("a")) + event("2", 403, "create", object("gold")) + event("3", 201, "create", object("dev")), code: 1, decision: "no", near: "spec.class"},
		{name: "by its ID", log: event("1", 201, "create", object("dev")) + event("2", 403, "create", object("gold")), args: []string{"--audit-id=1"}, code: 0, decision: "yes"},
		{name: "without an object", log: event("1", 403, "create", ""), code: 3, decision: "yes-if", reason: "the request has no object that could be changed", note: "the audit event has no object"},
		{name: "an update that the new object decides", log: event("1", 403, "update", object("gold")), code: 1, decision: "no", reason: "none found", note: "does not have the stored object"},
		{name: "an update that needs the stored object", log: event("1", 403, "update", object("dev")), code: 3, decision: "yes-if", reason: "not all data of the request are known", note: "does not have the stored object"},
		{name: "a patch", log: event("1", 403, "patch", ""), code: 1, decision: "no", reason: "the request has no object that could be changed", note: "does not have the stored object"},
		{
			name: "RBAC allows", log: event("1", 403, "create", object("gold")+`,"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by RoleBinding","x/other":"y"}`),
			code: 0, decision: "yes",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, code := runJSON(t, tc.log, append(tc.args, "--audit-log=-", "-f", policies)...)
			near := ""
			if e.NearMiss != nil {
				near = e.NearMiss.Field
			}
			if code != tc.code || e.Decision != tc.decision || near != tc.near || e.NoNearMiss != tc.reason || !strings.Contains(strings.Join(e.Notes, "\n"), tc.note) {
				t.Errorf("got %d %+v", code, e)
			}
			if e.Recorded["x/other"] != "" || strings.Contains(tc.log, "RBAC") != (e.Recorded["authorization.k8s.io/decision"] == "allow") {
				t.Errorf("got the annotations %v", e.Recorded)
			}
		})
	}
	stored := write(t, map[string]any{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview", "request": map[string]any{
		"operation": "UPDATE", "object": map[string]any{"apiVersion": "v1", "kind": "Thing", "spec": map[string]any{"class": "dev"}},
		"oldObject": map[string]any{"apiVersion": "v1", "kind": "Thing", "spec": map[string]any{"size": 2}},
	}})
	if e, code := runJSON(t, event("1", 403, "update", object("dev")), "--audit-log=-", "-f", policies, "-f", stored); code != 0 || e.Decision != "yes" {
		t.Errorf("with the stored object: got %d %+v", code, e)
	}
}

// TestExplainMistakes checks the messages about bad input.
func TestExplainMistakes(t *testing.T) {
	t.Parallel()
	good := []string{policy("a", "Allow", "object.a == 1"), review("create", "things", ""), data("CREATE", "object: {apiVersion: v1, kind: Thing}")}
	for _, tc := range []struct {
		name, input string
		args        []string
		want        string
	}{
		{name: "nothing", want: "must specify a request by its verb, with -f or with --audit-log"},
		{name: "a verb alone", args: []string{"create"}, want: "must specify TYPE, or a file with the object"},
		{name: "three arguments", args: []string{"create", "pods", "a"}, want: "want at most two arguments"},
		{name: "a verb and a test", args: []string{"create", "pods", "--test=x"}, want: "cannot be given together with --test or --audit-log"},
		{name: "a subresource without a verb", args: []string{"-f", "-", "--subresource=log"}, want: "cannot be set without a verb"},
		{name: "a verb and no user", input: good[0], args: []string{"create", "things.v1.", "-n", "n", "-f", "-"}, want: "--as must name the user"},
		{name: "a verb and no namespace", input: good[0], args: []string{"create", "things.v1.", "--as=alice", "-f", "-"}, want: "you must specify --namespace or --all-namespaces"},
		{name: "an object for a list", input: joined(good[0], "{apiVersion: v1, kind: Thing}"), args: []string{"list", "things.v1.", "--as=alice", "-f", "-"}, want: "only create, update, patch and delete have an object"},
		{name: "an object of another type", input: joined(good[0], "{apiVersion: v1, kind: Pod}"), args: []string{"create", "secrets", "--as=alice", "-f", "-"}, want: "the object is of the resource pods, and not of secrets"},
		{name: "two objects for a create", input: joined(good[0], "{apiVersion: v1, kind: Pod}", "{apiVersion: v1, kind: Pod}"), args: []string{"create", "--as=alice", "-n", "n", "-f", "-"}, want: "want the object of the request and, for an update"},
		{name: "an empty verb", args: []string{"", "pods"}, want: "must not be empty"},
		{name: "a format", args: []string{"-f", "-", "-o", "x"}, want: `--output must be text, json, dot or svg, not "x"`},
		{name: "a file that is missing", args: []string{"-f", "missing.yaml"}, want: `the path "missing.yaml" does not exist`},
		{name: "a log that is missing", args: []string{"--audit-log=missing.log"}, want: "missing.log: no such file"},
		{name: "an ID without a log", args: []string{"-f", "-", "--audit-id=x"}, want: "--audit-id cannot be set without --audit-log"},
		{name: "no request", input: good[0], args: []string{"-f", "-"}, want: "the files have no request"},
		{name: "two requests", input: joined(good[0], good[1], good[1]), args: []string{"-f", "-"}, want: "only one request can be given"},
		{name: "another kind", input: joined(good[0], good[1], "{apiVersion: v1, kind: Pod}"), args: []string{"-f", "-"}, want: "is not a policy: want ClusterAuthorizationPolicy or AuthorizationPolicy of policy.proviso.dev/v1alpha1; to explain a request with this object, name the verb"},
		{name: "no user", input: joined(good[0], strings.Replace(good[1], "user: alice, ", "", 1)), args: []string{"-f", "-"}, want: "a user or a group is required"},
		{name: "an unknown field", input: joined(good[0], strings.Replace(good[1], "user:", "usr:", 1)), args: []string{"-f", "-"}, want: `unknown field "spec.usr"`},
		{name: "an object without a kind", input: joined(good[0], good[1], data("CREATE", "object: {apiVersion: v1, data: {x: hunter2}}")), args: []string{"-f", "-"}, want: "an object must have apiVersion and kind"},
		{name: "a suite without a test", args: []string{"-f", filepath.Join(examples, "storage-class", "test.yaml")}, want: "--test must name the test"},
		{name: "a test that is missing", args: []string{"-f", filepath.Join(examples, "storage-class", "test.yaml"), "--test=x"}, want: `has no test "x"`},
		{name: "a test without a suite", input: joined(good...), args: []string{"-f", "-", "--test=x"}, want: "--test cannot be set without a PolicyTest"},
		{name: "a field to hide", input: joined(good...), args: []string{"-f", "-", "--hide=a..b"}, want: "--hide must be a field"},
		{name: "no audit log", input: `{"password": "hunter2"}`, args: []string{"--audit-log=-"}, want: "line 1: is not an audit log"},
		{name: "no refusal", input: event("1", 200, "create", ""), args: []string{"--audit-log=-"}, want: "has no refused request"},
		{name: "no such ID", input: event("1", 403, "create", ""), args: []string{"--audit-log=-", "--audit-id=2"}, want: `with the ID "2"`},
		{name: "no cluster", input: good[1], args: []string{"-f", "-", "--kubeconfig=missing"}, want: "missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, errOut, code := run(t, tc.input, tc.args...)
			if code != 2 || out != "" || !strings.HasPrefix(errOut, "error: ") || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, tc.want) || strings.Contains(errOut, "hunter2") {
				t.Errorf("got %d %q %q, want %q", code, out, errOut, tc.want)
			}
		})
	}
}

// TestFormats prints an explanation with texts that could break a format, in all of them.
func TestFormats(t *testing.T) {
	t.Parallel()
	input := joined(policy("a", "Allow", `object.spec.class == "<dev>\"\\"`), review("create", "things", ""), data("CREATE", `object: {apiVersion: v1, kind: Thing, spec: {class: "a\e[2J</text>\"\\\n& ]]>"}}`))
	for _, format := range []string{"text", "json", "dot", "svg"} {
		out, errOut, code := run(t, input, "-f", "-", "-o", format)
		if code != 1 || errOut != "" || strings.ContainsRune(out, '\x1b') {
			t.Errorf("%s: got %d %q", format, code, errOut)
		}
		golden.Compare(t, filepath.Join("testdata", "format.golden."+format), out)
		if format != "svg" {
			continue
		}
		decoder := xml.NewDecoder(strings.NewReader(out))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
		}
		if strings.Count(out, "</text>") < 6 || !strings.Contains(out, "prefers-color-scheme: dark") {
			t.Errorf("got\n%s", out)
		}
	}
}

// TestBounds explains a condition with many parts, and with long values.
func TestBounds(t *testing.T) {
	t.Parallel()
	var terms []string
	for i := range 150 {
		terms = append(terms, fmt.Sprintf(`object.f%d == "x"`, i))
	}
	long := strings.Repeat("z", 5000)
	input := joined(policy("a", "Allow", strings.Join(terms, " || ")), review("create", "things", ""), data("CREATE", `object: {apiVersion: v1, kind: Thing, f1: `+long+`, f2: [`+long+`]}`))
	for _, format := range []string{"text", "dot", "svg"} {
		out, _, code := run(t, input, "-f", "-", "-o", format)
		if code != 1 || strings.Contains(out, long[:500]) || strings.Count(out, "\n") > 1000 || !strings.Contains(out, "…") {
			t.Errorf("%s: got %d with %d lines", format, code, strings.Count(out, "\n"))
		}
	}
}

// TestDocument compares the output in the document with the output of the command.
func TestDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../docs/kubectl-proviso.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Explain\n")
	_, want, _ := strings.Cut(section, "```text\n")
	want, _, _ = strings.Cut(want, "```")
	file := func(name string) string { return filepath.Join(examples, "storage-class", name) }
	if out, _, _ := run(t, "", "-f", file("review.yaml"), "-f", file("fails.yaml"), "-f", file("policy.yaml")); out != want {
		t.Errorf("the document has\n%s\nand the command prints\n%s", want, out)
	}
}
