/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// result is what a command printed, and its exit code.
type result struct {
	out, errOut string
	code        int
}

// run runs kubectl proviso render. No kubeconfig of the machine is read.
func run(t *testing.T, input string, args ...string) result {
	t.Helper()
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code := kubectl.Run(t.Context(), append([]string{"render", "--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, args...), streams)
	return result{out: out.String(), errOut: errOut.String(), code: code}
}

// mustRun is run for a command that succeeds.
func mustRun(t *testing.T, input string, args ...string) result {
	t.Helper()
	r := run(t, input, args...)
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.errOut)
	}
	return r
}

// decodeAll decodes manifests as kubectl does.
func decodeAll(t *testing.T, manifests string) (objects []unstructured.Unstructured) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// TestGolden renders the policies of each file in testdata/golden.
func TestGolden(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("found %v, %v", inputs, err)
	}
	expected := map[string]bool{}
	for _, input := range inputs {
		base := strings.TrimSuffix(input, ".yaml")
		if strings.HasSuffix(base, ".manifests") {
			continue
		}
		for _, suffix := range []string{".yaml", ".manifests.yaml", ".report.txt", ".report.json"} {
			expected[base+suffix] = true
		}
		t.Run(filepath.Base(base), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report.json")
			r := mustRun(t, "", "-f", input)
			golden.Compare(t, base+".manifests.yaml", r.out)
			golden.Compare(t, base+".report.txt", r.errOut)
			mustRun(t, "", "-f", input, "--report", file, "--report-format=json")
			report, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, base+".report.json", string(report))
			checkForms(t, input, r.out)
		})
	}
	t.Cleanup(func() {
		files, err := filepath.Glob("testdata/golden/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !expected[filepath.ToSlash(file)] {
				t.Errorf("%s belongs to no input", file)
			}
		}
	})
}

// checkForms checks that manifests are the same in YAML and JSON, in whatever order the policies are, and have nothing that servers set.
func checkForms(t *testing.T, input, manifests string) {
	t.Helper()
	content, err := os.ReadFile(input)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(content), "\n---\n")
	slices.Reverse(documents)
	if got := mustRun(t, strings.Join(documents, "\n---\n"), "-f", "-").out; got != manifests {
		t.Errorf("the order of policies changes the manifests: %s", cmp.Diff(manifests, got))
	}
	var list struct{ Items []unstructured.Unstructured }
	if err := json.Unmarshal([]byte(mustRun(t, "", "-f", input, "-o", "json").out), &list); err != nil {
		t.Fatal(err)
	}
	objects := decodeAll(t, manifests)
	if diff := cmp.Diff(list.Items, objects); len(objects) > 0 && diff != "" {
		t.Errorf("YAML (+) differs from JSON (-): %s", diff)
	}
	if len(list.Items) != len(objects) {
		t.Errorf("got %d objects as JSON, and %d as YAML", len(list.Items), len(objects))
	}
	for i, object := range objects {
		if want := []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}[i%2]; object.GetKind() != want {
			t.Errorf("object %d is a %s, want a %s", i, object.GetKind(), want)
		}
		for _, set := range []string{"status"} {
			if _, ok := object.Object[set]; ok {
				t.Errorf("%s has %s", object.GetName(), set)
			}
		}
		if _, ok := object.Object["metadata"].(map[string]any)["creationTimestamp"]; ok {
			t.Errorf("%s has a creationTimestamp", object.GetName())
		}
	}
}

// TestNoControlCharacters looks for characters that control a terminal or the direction of text in everything that is printed about hostile policies.
func TestNoControlCharacters(t *testing.T) {
	t.Parallel()
	const input = "testdata/golden/hostile.yaml"
	dir := t.TempDir()
	strange := filepath.Join(dir, "a\x1b[2J\nerror: b\u202e.yaml")
	invalid := "apiVersion: \"\\e[2J\"\nkind: \"A\\u202eB\"\nmetadata: {name: \"\\e]0;\\a\"}\n"
	if err := os.WriteFile(strange, []byte(invalid), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []result{
		run(t, "", "-f", input),
		run(t, "", "-f", input, "-o", "json", "--report-format=json"),
		run(t, "", "-f", dir),
		run(t, invalid, "-f", "-"),
		run(t, policyOf("\"\\e[2J\"", "Deny"), "-f", "-"),
		run(t, strings.Replace(policyOf("a", "Deny"), "effect", "\"\\e[2J\\nerror: x\"", 1), "-f", "-"),
		run(t, strings.Replace(policyOf("a", "Deny"), "[create]", "[\"\\e\"]", 1), "-f", "-"),
		run(t, "", "-f", "\x1b[2J\u202e"),
		run(t, "", "--\x1b[2J"),
	} {
		for _, text := range []string{r.errOut, r.out} {
			if i := strings.IndexFunc(text, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
				t.Errorf("has a character that cannot be printed at %d: %q", i, text)
			}
		}
		for line := range strings.Lines(r.errOut) {
			if strings.HasPrefix(line, "error: b") || strings.HasPrefix(line, "error: x") {
				t.Errorf("an input can write an error of its own: %q", r.errOut)
			}
		}
	}
}

// policyOf is a valid policy of the cluster if its arguments are.
func policyOf(name, effect string) string {
	return `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: ` + name + `}
spec:
  effect: ` + effect + `
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
`
}

// mappingOf returns a mapping that excludes some values of a field.
func mappingOf(name, newValues string) string {
	return fmt.Sprintf("apiVersion: policy.proviso.dev/v1alpha1\nkind: FieldPermissionMapping\nmetadata: {name: %s}\nspec:\n  description: one\n  resources: [{apiGroup: apps, resource: deployments}]\n"+
		"  fields: [{path: spec.paused, permission: pauses, exclusion: {newValues: %q}}]\n", name, newValues)
}

// namespacedOf is a valid policy of a namespace, or without one.
func namespacedOf(metadata string) string {
	return strings.NewReplacer("ClusterAuthorizationPolicy", "AuthorizationPolicy", "{name: x}", metadata).Replace(policyOf("x", "Deny"))
}

// TestRenderErrors checks that each mistake is reported with its place, and that nothing is printed then.
func TestRenderErrors(t *testing.T) {
	t.Parallel()
	good := policyOf("good", "Deny")
	for _, tc := range []struct {
		name  string
		input string
		args  []string
		want  []string
		// isUntranslated says that the exit code is 1, and that there is a report.
		isUntranslated bool
	}{
		{name: "an unknown field", input: strings.Replace(good, "effect:", "efect: Deny\n  effect:", 1), want: []string{`standard input, document 1: `, `unknown field "spec.efect"`}},
		{name: "a field in another case", input: strings.Replace(good, "effect:", "Effect: Allow\n  effect:", 1), want: []string{`unknown field "spec.Effect"`}},
		{name: "an unknown field of the metadata", input: strings.Replace(good, "{name", "{nam: x, name", 1), want: []string{`unknown field "metadata.nam"`}},
		{name: "a key twice", input: strings.Replace(good, "effect: Deny", "effect: Deny\n  effect: Deny", 1), want: []string{`key "effect" already set in map`}},
		{name: "a key twice in JSON", input: `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterAuthorizationPolicy","metadata":{"name":"a"},"spec":{"effect":"Deny","effect":"Allow"}}`,
			want: []string{`duplicate field "spec.effect"`}},
		{name: "a key twice in a list of JSON", input: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterAuthorizationPolicy","metadata":{"name":"a","name":"b"},"spec":{}}]}`,
			want: []string{"document 1, item 1: ", `duplicate field "metadata.name"`}},
		{name: "an unknown field of a list", input: `{"apiVersion":"v1","kind":"List","item":[]}`, want: []string{`unknown field "item"`}},
		{name: "a list in a list", input: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[]}]}`, want: []string{"document 1, item 1: a list in a list"}},
		{name: "another kind", input: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", want: []string{`document 1: kind "Secret" of apiVersion "v1" is not a policy`}},
		{name: "a group that is misspelt", input: good + "---\n" + strings.Replace(policyOf("a", "Deny"), "policy.proviso.dev", "policy.provisio.dev", 1), want: []string{`document 2: kind "ClusterAuthorizationPolicy" of apiVersion "policy.provisio.dev/v1alpha1" is not a policy`}},
		{name: "a kind that is misspelt", input: good + "---\n" + strings.Replace(policyOf("a", "Deny"), "ClusterAuthorizationPolicy", "ClusterAuthorisationPolicy", 1), want: []string{`document 2: kind "ClusterAuthorisationPolicy"`}},
		{name: "no object beside a policy", input: good + "---\nmetadata: {name: a}\n", want: []string{"document 2: is not an object with apiVersion and kind"}},
		{name: "another kind of the group", input: "apiVersion: policy.proviso.dev/v1alpha1\nkind: EnforcementConfiguration\nmetadata: {name: a}\nspec: {}\n", want: []string{`kind "EnforcementConfiguration"`, "is not a policy"}},
		{name: "an invalid mapping", input: "apiVersion: policy.proviso.dev/v1alpha1\nkind: FieldPermissionMapping\nmetadata: {name: a}\nspec: {}\n", want: []string{`FieldPermissionMapping "a": spec.resources: Required value`}},
		{name: "a mapping with an invalid expression", input: mappingOf("a", "value =="), want: []string{`FieldPermissionMapping "a": spec.fields[0].exclusion.newValues`}},
		{name: "the same mapping twice", input: mappingOf("a", "value == 1") + "---\n" + mappingOf("a", "value == 1"), want: []string{"the same mapping is in"}},
		{name: "another version", input: strings.Replace(good, "v1alpha1", "v9", 1), want: []string{`of apiVersion "policy.proviso.dev/v9" is not a policy`}},
		{name: "no kind", input: "metadata: {name: a}\n", want: []string{"is not an object with apiVersion and kind"}},
		{name: "a text", input: "hello\n", want: []string{"document 1: is not an object"}},
		{name: "a list of YAML", input: "[1]\n", want: []string{"document 1: is not an object"}},
		{name: "bad YAML", input: "a: {", want: []string{"standard input, document 1: yaml: "}},
		{name: "a separator with a text", input: good + "--- kind\n", want: []string{"invalid Yaml document separator"}},
		{name: "a document after the end of one", input: good + "...\n" + policyOf("hidden", "Deny"), want: []string{"document 1: has another YAML document within"}},
		{name: "a document after a line separator", input: good + "\u2028---\u2028" + strings.ReplaceAll(policyOf("hidden", "Deny"), "\n", "\u2028"), want: []string{"standard input, document 1: "}},
		{name: "a document after a carriage return", input: strings.ReplaceAll(good+"---"+policyOf("hidden", "Deny"), "\n", "\r"), want: []string{"document 1: has another YAML document within"}},
		{name: "not UTF-8", input: good + "# \xff\n", want: []string{"standard input: must be UTF-8"}},
		{name: "UTF-16", input: "\xff\xfea\x00", want: []string{"must be UTF-8"}},
		{name: "too long", input: strings.Repeat("#", 64<<20+1), want: []string{"has more than 67108864 bytes"}},
		{name: "nothing", input: "# nothing\n---\n", want: []string{"there are no policies in the files"}},
		{name: "an empty list", input: "apiVersion: v1\nkind: List\nitems: []\n", want: []string{"there are no policies in the files"}},

		{name: "an invalid policy", input: policyOf("a", "Forbid"), want: []string{`standard input, document 1: ClusterAuthorizationPolicy "a": spec.effect: Unsupported value: "Forbid"`}},
		{name: "an invalid policy that has no barrier", input: strings.Replace(policyOf("a", "Allow"), "[create]", "[]", 1), want: []string{"spec.rules[0].verbs: Required value"}},
		{name: "a condition that does not compile", input: good + "  condition: objekt.metadata.name == ''\n",
			want: []string{`ClusterAuthorizationPolicy "good": spec.condition: Invalid value: `, "undeclared reference to 'objekt'"}},
		{name: "a condition of an Allow policy", input: policyOf("a", "Allow") + "  condition: objekt.metadata.name == ''\n", want: []string{"undeclared reference to 'objekt'"}},
		{name: "a condition that the server refuses", input: good + "  condition: request.name == 'a'\n", want: []string{"spec.condition: Forbidden: reads request.name"}},
		{name: "no versions", input: strings.Replace(good, "apiVersions: [v1], ", "", 1) + "  condition: object.metadata.name == 'a'\n", want: []string{"spec.rules[0].apiVersions: Required value"}},
		{name: "two mistakes", input: policyOf("a", "Forbid") + "---" + policyOf("b", "Ban"), want: []string{`document 1: ClusterAuthorizationPolicy "a"`, `document 2: ClusterAuthorizationPolicy "b"`}},
		{name: "no name", input: policyOf("''", "Deny"), want: []string{"metadata.name: Required value"}},
		{name: "a generated name", input: strings.Replace(good, "name:", "generateName:", 1), want: []string{"metadata.name: Required value: the server would generate the name"}},
		{name: "the same name twice", input: good + "---" + policyOf("good", "Allow"), want: []string{`document 2: ClusterAuthorizationPolicy "good": the same policy is in standard input, document 1, too`}},
		{name: "a namespace in the cluster", input: strings.Replace(good, "{name", "{namespace: a, name", 1), want: []string{"metadata.namespace"}},
		{name: "no namespace", input: namespacedOf("{name: a}"), want: []string{`AuthorizationPolicy "a": metadata.namespace: Required value: set it, or the flag --namespace`}},
		{name: "another namespace", input: namespacedOf("{name: a, namespace: b}"), args: []string{"-n", "c"}, want: []string{`AuthorizationPolicy "b/a": the namespace is not "c", the value of --namespace`}},
		{name: "the same name twice by the flag", input: namespacedOf("{name: a, namespace: b}") + "---" + namespacedOf("{name: a}"), args: []string{"-n", "b"}, want: []string{`the same policy is in`}},

		{name: "no file", args: []string{"-f", "testdata/none.yaml"}, want: []string{`the path "testdata/none.yaml" does not exist`}},
		{name: "a bad pattern", args: []string{"-f", "testdata/[.yaml"}, want: []string{"syntax error in pattern"}},
		{name: "an empty directory", args: []string{"-f", t.TempDir()}, want: []string{"has no file with the extension .json, .yaml, .yml"}},
		{name: "a URL", args: []string{"-f", "https://example.com/policies.yaml"}, want: []string{"https://example.com/policies.yaml: URLs are not read: download the file first"}},
		{name: "standard input twice", input: good, args: []string{"-f", "-"}, want: []string{"standard input can be read once only"}},
		{name: "an error and a good file", input: good, args: []string{"-f", "testdata/none.yaml"}, want: []string{"does not exist"}},

		{name: "a format", input: good, args: []string{"-o", "name"}, want: []string{`--output must be yaml or json, not "name"`}},
		{name: "a format of the report", input: good, args: []string{"--report-format=csv"}, want: []string{`--report-format must be table or json, not "csv"`}},
		{name: "a report that cannot be written", input: good, args: []string{"--report=testdata/none/report"}, want: []string{"--report: open testdata/none/report"}},
		{name: "an empty user", input: good, args: []string{"--exempt-user="}, want: []string{"must not be empty"}},
		{name: "an empty group", input: good, args: []string{"--exempt-group="}, want: []string{"must not be empty"}},
		{name: "a namespace without effect", input: good, args: []string{"--exempt-user=a", "--proviso-namespace=b"}, want: []string{"--proviso-namespace cannot be used with --exempt-user"}},
		{name: "an unknown flag", input: good, args: []string{"--stric"}, want: []string{"unknown flag: --stric; see 'kubectl proviso render --help'"}},
		{name: "an argument", input: good, args: []string{"file.yaml"}, want: []string{`unknown command "file.yaml"`}},
		{name: "an output with check", input: good, args: []string{"--check", "-o", "yaml"}, want: []string{"--output cannot be used with --check"}},
		{name: "a report with check", input: good, args: []string{"--check", "--report=-"}, want: []string{"--report=- cannot be used with --check"}},
		{name: "an invalid policy with check", input: policyOf("a", "Forbid"), args: []string{"--check"}, want: []string{"spec.effect"}},
		{name: "no cluster", input: good, args: []string{"--check", "--kubeconfig=/dev/null", "--server=http://127.0.0.1:1"}, want: []string{"127.0.0.1:1"}},
		{name: "no kubeconfig", input: good, args: []string{"--check"}, want: []string{"error: "}},
		{name: "strict", input: strings.Replace(good, "[create]", "[create, get]", 1), args: []string{"--strict"}, want: []string{"--strict: 1 part of Deny policies is not translated", "admission sees"}, isUntranslated: true},
		{name: "strict with check", input: strings.Replace(good, "[create]", "[create, get]", 1), args: []string{"--strict", "--check"}, want: []string{"--strict: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := tc.args
			if tc.input != "" {
				args = append([]string{"-f", "-"}, args...)
			}
			r := run(t, tc.input, args...)
			if r.code != 2 && (r.code != 1 || !tc.isUntranslated) {
				t.Errorf("exit code %d", r.code)
			}
			if r.out != "" {
				t.Errorf("printed %q", r.out)
			}
			for _, want := range tc.want {
				if !strings.Contains(r.errOut, want) {
					t.Errorf("got %q, want %q in it", r.errOut, want)
				}
			}
			for line := range strings.Lines(r.errOut) {
				if !tc.isUntranslated && !strings.HasPrefix(line, "error: ") && !strings.HasPrefix(line, "  ") {
					t.Errorf("got the line %q", line)
				}
			}
		})
	}
	if r := run(t, ""); r.code != 2 || !strings.Contains(r.errOut, "must specify a file") {
		t.Errorf("without -f: got %+v", r)
	}
}

// TestInputs reads the same two policies in all ways.
func TestInputs(t *testing.T) {
	t.Parallel()
	a, b := policyOf("a", "Deny"), policyOf("b", "Deny")
	toJSON := func(text string) string {
		converted, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(converted)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"policies/a.yaml": a, "policies/b.json": toJSON(b), "policies/README.md": "no policy", "policies/empty.yml": "# nothing\n",
		"deep/a.yml": a, "deep/below/b.yaml": b, "policy": a + "---" + b,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "deep", "below", "b.yaml"), filepath.Join(dir, "deep", "linked.yaml")); err != nil {
		t.Fatal(err)
	}
	want := mustRun(t, a+"---"+b, "-f", "-").out
	if len(decodeAll(t, want)) != 4 {
		t.Fatalf("got %s", want)
	}
	fromServer := strings.Replace(toJSON(a), `"metadata":{`, `"status":{"observedGeneration":1},"metadata":{"uid":"1","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"managedFields":[],`, 1)
	item := func(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }
	for name, r := range map[string]result{
		"documents with comments":     mustRun(t, "# first\n---\n# second\n---"+a+"\n---\n\n--- # third\n"+b+"---\n", "-f", "-"),
		"Windows":                     mustRun(t, "\ufeff"+strings.ReplaceAll(a+"---"+b, "\n", "\r\n"), "-f", "-"),
		"JSON, one after the other":   mustRun(t, toJSON(a)+toJSON(b), "-f", "-"),
		"JSON, between separators":    mustRun(t, toJSON(a)+"\n---\n"+toJSON(b), "-f", "-"),
		"JSON, then YAML":             mustRun(t, toJSON(a)+"\n---\n"+b, "-f", "-"),
		"YAML in braces":              mustRun(t, strings.ReplaceAll(toJSON(a), `"`, `'`)+"\n---\n"+b, "-f", "-"),
		"a list":                      mustRun(t, `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[`+fromServer+`,`+toJSON(b)+`]}`, "-f", "-"),
		"a list in YAML":              mustRun(t, "apiVersion: v1\nkind: List\nitems:\n-"+item(a)+"\n-"+item(b), "-f", "-"),
		"a list of policies":          mustRun(t, `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterAuthorizationPolicyList","items":[`+toJSON(a)+`,`+toJSON(b)+`]}`, "-f", "-"),
		"a directory":                 mustRun(t, "", "-f", filepath.Join(dir, "policies")),
		"a file without an extension": mustRun(t, "", "-f", filepath.Join(dir, "policy")),
		"two files":                   mustRun(t, "", "-f", filepath.Join(dir, "policies/b.json"), "-f", filepath.Join(dir, "policies/a.yaml")),
		"two files in one flag":       mustRun(t, "", "-f", filepath.Join(dir, "policies/b.json")+","+filepath.Join(dir, "policies/a.yaml")),
		"a file and standard input":   mustRun(t, a, "-f", filepath.Join(dir, "policies/b.json"), "-f", "-"),
		"a pattern":                   mustRun(t, "", "-f", filepath.Join(dir, "policies/[ab].*")),
		"a link":                      mustRun(t, "", "-f", filepath.Join(dir, "deep")),
	} {
		if r.out != want {
			t.Errorf("%s: %s", name, cmp.Diff(want, r.out))
		}
	}
	if r := run(t, "", "-R", "-f", filepath.Join(dir, "deep")); r.code != 2 || !strings.Contains(r.errOut, "the same policy is in") {
		t.Errorf("recursively, a link and its file: got %+v", r)
	}
	if err := os.Remove(filepath.Join(dir, "deep", "linked.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, "", "-R", "-f", filepath.Join(dir, "deep")).out; got != want {
		t.Errorf("recursively: %s", cmp.Diff(want, got))
	}
}

// TestNamespace uses the flag for policies that name no namespace.
func TestNamespace(t *testing.T) {
	t.Parallel()
	want := mustRun(t, namespacedOf("{name: a, namespace: b}"), "-f", "-").out
	if !strings.Contains(want, "policy.proviso.dev/policy: b/a") {
		t.Fatalf("got %s", want)
	}
	for name, r := range map[string]result{
		"a policy without a namespace":   mustRun(t, namespacedOf("{name: a}"), "-f", "-", "-n", "b"),
		"a policy of the namespace":      mustRun(t, namespacedOf("{name: a, namespace: b}"), "-f", "-", "--namespace=b"),
		"a list of policies without one": mustRun(t, "apiVersion: policy.proviso.dev/v1alpha1\nkind: AuthorizationPolicyList\nitems:\n-"+strings.ReplaceAll(namespacedOf("{name: a}"), "\n", "\n  "), "-f", "-", "-n", "b"),
	} {
		if r.out != want {
			t.Errorf("%s: %s", name, cmp.Diff(want, r.out))
		}
	}
}

// TestExempt sets the identities that no barrier refuses.
func TestExempt(t *testing.T) {
	t.Parallel()
	const master, user, group = `"system:masters"`, `"system:serviceaccount:proviso-system:proviso-apiserver"`, `"system:serviceaccounts:kube-system"`
	for _, tc := range []struct {
		name          string
		args          []string
		want, wantNot []string
	}{
		{name: "by default", want: []string{user, group, `"system:kube-controller-manager"`, `"system:nodes"`}},
		{name: "users", args: []string{"--exempt-user=eve", "--exempt-user=a,b"}, want: []string{`in ["eve", "a,b"]`, group}, wantNot: []string{user}},
		{name: "groups", args: []string{"--exempt-group=backup"}, want: []string{user, `"backup"`}, wantNot: []string{group}},
		{name: "another namespace", args: []string{"--proviso-namespace=auth"}, want: []string{`"system:serviceaccount:auth:proviso-apiserver"`, group}, wantNot: []string{user}},
		{name: "a text that looks like CEL", args: []string{`--exempt-user=a"]) || true || ("`}, want: []string{`"a\"]) || true || (\""`}},
	} {
		var expression string
		for _, object := range decodeAll(t, mustRun(t, policyOf("a", "Deny"), append(tc.args, "-f", "-")...).out) {
			if conditions, ok, _ := unstructured.NestedSlice(object.Object, "spec", "matchConditions"); ok {
				expression, _, _ = unstructured.NestedString(conditions[0].(map[string]any), "expression")
			}
		}
		for _, want := range append(tc.want, master) {
			if !strings.Contains(expression, want) {
				t.Errorf("%s: got %s, want %s in it", tc.name, expression, want)
			}
		}
		for _, text := range tc.wantNot {
			if strings.Contains(expression, text) {
				t.Errorf("%s: got %s, want no %s in it", tc.name, expression, text)
			}
		}
	}
}

// TestReport sends the report and the manifests to different places.
func TestReport(t *testing.T) {
	t.Parallel()
	input := policyOf("a", "Deny")
	both := mustRun(t, input, "-f", "-")
	if !strings.Contains(both.errOut, "POLICY") || strings.Contains(both.out, "POLICY") {
		t.Fatalf("got %+v", both)
	}
	if got := mustRun(t, input, "-f", "-", "--report=-"); got.out != both.errOut || got.errOut != "" {
		t.Errorf("--report=-: got %+v", got)
	}
	file := filepath.Join(t.TempDir(), "report")
	if got := mustRun(t, input, "-f", "-", "--report", file); got.out != both.out || got.errOut != "" {
		t.Errorf("--report=FILE: got %+v", got)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != both.errOut {
		t.Errorf("the file has %q, %v", content, err)
	}
	if got := mustRun(t, input, "-f", "-", "--strict"); got.out != both.out {
		t.Errorf("--strict: got %+v", got)
	}
	var decoded struct{ Policies []map[string]any }
	if err := json.Unmarshal([]byte(mustRun(t, input, "-f", "-", "--report=-", "--report-format=json").out), &decoded); err != nil || len(decoded.Policies) != 1 {
		t.Errorf("got %v, %v", decoded, err)
	}
	strict := run(t, strings.Replace(input, "[create]", "[create, get]", 1), "-f", "-", "--strict", "--report=-")
	if strict.code != 1 || !strings.Contains(strict.out, "admission sees") || strings.Contains(strict.out, "kind:") {
		t.Errorf("--strict with the report: got %+v", strict)
	}
}

// TestWarnings prints the mistakes that the server would warn of.
func TestWarnings(t *testing.T) {
	t.Parallel()
	r := mustRun(t, policyOf("a", "Deny")+"  condition: operation == 'create'\n", "-f", "-")
	if want := `Warning: standard input, document 1: ClusterAuthorizationPolicy "a": spec.condition: `; !strings.HasPrefix(r.errOut, want) {
		t.Errorf("got %q, want %q", r.errOut, want)
	}
}

// TestBrokenOutput fails if the manifests cannot be printed.
func TestBrokenOutput(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(policyOf("a", "Deny")), Out: broken{}, ErrOut: &errOut}
	if code := kubectl.Run(t.Context(), []string{"render", "-f", "-"}, streams); code != 2 || !strings.Contains(errOut.String(), "error: the disk is full") {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
