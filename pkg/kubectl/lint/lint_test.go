/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package lint_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
)

// run runs kubectl proviso lint.
func run(t *testing.T, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectl.Run(t.Context(), append([]string{"lint"}, args...), streams)
	return stdout.String(), stderr.String(), code
}

// policy returns a policy. The rest of its specification is a flow mapping of YAML without braces.
func policy(name, effect, rest string) string {
	kind, namespace := "ClusterAuthorizationPolicy", ""
	if in, short, ok := strings.Cut(name, "/"); ok {
		kind, namespace, name = "AuthorizationPolicy", ", namespace: "+in, short
	}
	return fmt.Sprintf("{apiVersion: policy.proviso.dev/v1alpha1, kind: %s, metadata: {name: %s%s}, spec: {effect: %s, %s}}", kind, name, namespace, effect, rest)
}

const (
	alice = `subjects: [{kind: User, name: alice}]`
	pods  = `rules: [{verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [pods]}]`
	more  = `rules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]`
	dev   = `condition: 'object.metadata.name == "dev"'`
)

func join(parts ...string) string { return strings.Join(parts, ", ") }

// TestShadowed finds policies that change no decision, and only these.
func TestShadowed(t *testing.T) {
	t.Parallel()
	conditional := policy("q", "Allow", join(alice, pods, dev))
	for _, tc := range []struct {
		name     string
		policies []string
		want     string // the policies that are reported, with those that decide
	}{
		{name: "a Deny of more", policies: []string{conditional, policy("p", "Deny", join(alice, more))}, want: "q by p"},
		{name: "a Deny of all users", policies: []string{conditional, policy("p", "Deny", more)}, want: "q by p"},
		{name: "a NoOpinion of more", policies: []string{conditional, policy("p", "NoOpinion", join(alice, more))}, want: "q by p"},
		{name: "an Allow of more", policies: []string{conditional, policy("p", "Allow", join(alice, more))}, want: "q by p"},
		{name: "an Allow of all authenticated users", policies: []string{conditional, policy("p", "Allow", join(`subjects: [{kind: Group, name: "system:authenticated"}]`, more))}, want: "q by p"},
		{name: "the same twice", policies: []string{policy("q", "Allow", join(alice, pods)), policy("p", "Allow", join(alice, pods))}, want: "q by p"},
		{name: "two together", policies: []string{
			conditional, policy("p", "Deny", join(alice, strings.Replace(pods, "create, update, patch", "create", 1))),
			policy("r", "Deny", join(alice, strings.Replace(pods, "create, update, patch", "update, patch, get", 1))),
		}, want: "q by p, r"},
		{name: "a Deny in a namespace by one of the cluster", policies: []string{policy("team/q", "Deny", join(alice, pods, dev)), policy("p", "Deny", join(alice, pods))}, want: "team/q by p"},
		{name: "a path", policies: []string{
			policy("q", "Allow", join(alice, `rules: [{verbs: [get], nonResourceURLs: ["/metrics/a"]}]`)), policy("p", "Deny", join(alice, `rules: [{verbs: ["*"], nonResourceURLs: ["/metrics/*"]}]`)),
		}, want: "q by p"},

		{name: "a Deny with a condition", policies: []string{conditional, policy("p", "Deny", join(alice, pods, dev))}},
		{name: "a Deny with a condition on the request", policies: []string{conditional, policy("p", "Deny", join(alice, pods, `condition: 'request.namespace != "dev"'`))}},
		{name: "a Deny in Audit", policies: []string{conditional, policy("p", "Deny", join(alice, more, "enforcement: Audit"))}},
		{name: "a policy in Audit", policies: []string{policy("q", "Allow", join(alice, pods, dev, "enforcement: Audit")), policy("p", "Deny", more)}},
		{name: "a Deny of another user", policies: []string{conditional, policy("p", "Deny", join(strings.Replace(alice, "alice", "bob", 1), more))}},
		{name: "a Deny of a group", policies: []string{conditional, policy("p", "Deny", join(`subjects: [{kind: Group, name: devs}]`, more))}},
		{name: "a Deny of one verb", policies: []string{conditional, policy("p", "Deny", join(alice, strings.Replace(pods, "create, update, patch", "create", 1)))}},
		{name: "a Deny of one name", policies: []string{conditional, policy("p", "Deny", join(alice, `rules: [{verbs: [update, patch], apiGroups: [""], resources: [pods], resourceNames: [a]}]`))}},
		{name: "a Deny of one namespace", policies: []string{conditional, policy("team/p", "Deny", join(alice, pods))}},
		{name: "a Deny of a subresource", policies: []string{conditional, policy("p", "Deny", join(alice, strings.Replace(pods, "[pods]", "[pods/status]", 1)))}},
		{name: "an Allow does not shadow a Deny", policies: []string{policy("q", "Deny", join(alice, pods, dev)), policy("p", "Allow", join(alice, more))}},
		{name: "a NoOpinion does not shadow a Deny", policies: []string{policy("q", "Deny", join(alice, pods, dev)), policy("p", "NoOpinion", join(alice, more))}},
		{name: "a Deny of authenticated users leaves others", policies: []string{policy("q", "Deny", join(pods, dev)), policy("p", "Deny", join(`subjects: [{kind: Group, name: "system:authenticated"}]`, more))}},
		{name: "a wildcard is more than a list", policies: []string{policy("q", "Allow", join(alice, more)), policy("p", "Deny", join(alice, `rules: [{verbs: [get, list, watch, create, update, patch, delete, deletecollection], apiGroups: ["*"], resources: ["*"]}]`))}},
		{name: "too many requests", policies: []string{policy("p", "Deny", join(alice, more)), policy("q", "Allow", join(alice, `rules: [{verbs: [get, list, watch, update, patch, delete, a, b], apiGroups: [""], resources: [pods], resourceNames: [`+names(256)+`]}]`))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, errOut, code := run(t, strings.Join(tc.policies, "\n---\n"), "-f", "-", "-o", "json")
			var findings []struct{ Policy, Message string }
			if err := json.Unmarshal([]byte(out), &findings); err != nil {
				t.Fatalf("%v: %d %s", err, code, errOut)
			}
			var got []string
			for _, f := range findings {
				_, name, _ := strings.Cut(f.Policy, " ")
				message, by, ok := strings.Cut(f.Message, " are decided without conditions by ")
				if strings.Contains(message, "denies everything to everybody") {
					continue // the mistake of a policy that shadows others
				}
				if !ok {
					t.Errorf("got %s", message)
				}
				got = append(got, strings.Trim(name, `"`)+" by "+by)
			}
			if strings.Join(got, "; ") != tc.want || (code == 1) != (len(findings) > 0) {
				t.Errorf("got %d %q, want %q", code, got, tc.want)
			}
		})
	}
}

func names(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("n%d", i))
	}
	return strings.Join(all, ", ")
}

// document is a document of OpenAPI v3 with one kind.
const document = `{"openapi": "3.0.0", "info": {"title": "t", "version": "v1"},
"paths": {"/api/v1/namespaces/{namespace}/things": {"post": {"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Thing"}}}, "/api/v1/": {"get": {}}},
"components": {"schemas": {
  "Thing": {"type": "object", "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}}, "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}]},
  "Spec": {"type": "object", "properties": {"class": {"type": "string"}, "size": {"type": "integer", "format": "int32"}}}}}}`

// TestMistakes finds mistakes in conditions, with and without schemas.
func TestMistakes(t *testing.T) {
	t.Parallel()
	schemas := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(schemas, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	things := func(condition string) string {
		return policy("q", "Allow", join(alice, `rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [things]}]`, "condition: "+fmt.Sprintf("%q", condition)))
	}
	for _, tc := range []struct {
		name, policy string
		args         []string
		want         string
	}{
		{name: "no mistake", policy: things(`object.spec.class == "dev"`), args: []string{"--openapi", schemas}},
		{name: "a field that does not exist", policy: things(`object.spec.klass == "dev"`), args: []string{"--openapi", schemas}, want: `klass`},
		{name: "without schemas it is not known", policy: things(`object.spec.klass == "dev"`)},
		{name: "a resource without a schema", policy: strings.Replace(things(`object.spec.klass == "dev"`), `apiGroups: [""]`, "apiGroups: [apps]", 1), args: []string{"--openapi", schemas}},
		{name: "another type", policy: things(`object.spec.size == "dev"`), args: []string{"--openapi", schemas}, want: "no matching overload"},
		{name: "never true", policy: things(`request.verb == "update" && object.spec.class == "dev"`), want: "spec.condition: "},
		{name: "an operation", policy: things(`operation == "CREAT"`), want: `operation is never "CREAT"`},
		{name: "values in another order", policy: things(`request.labelSelector.requirements.exists(r, r.values == ["b", "a"])`), want: `compare with ["a", "b"]`},
		{name: "a subject", policy: strings.Replace(things(`object.spec.class == "dev"`), "name: alice", `name: "*"`, 1), want: "subjects have no wildcards"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, errOut, code := run(t, tc.policy, append(tc.args, "-f", "-")...)
			if (code == 1) != (tc.want != "") || (out != "") != (tc.want != "") || errOut != "" || !strings.Contains(out, tc.want) {
				t.Errorf("got %d %s%s, want %q", code, out, errOut, tc.want)
			}
			if out != "" && !strings.HasPrefix(out, `standard input, document 1: ClusterAuthorizationPolicy "q": spec`) {
				t.Errorf("got %s", out)
			}
		})
	}
}

// TestOwnPolicies checks that there is nothing to find in the policies of the repository.
func TestOwnPolicies(t *testing.T) {
	t.Parallel()
	count := 0
	err := filepath.WalkDir("../../../artifacts", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(strings.TrimSpace(string(content)), "apiVersion: policy.proviso.dev/v1alpha1\nkind: ") || strings.Contains(string(content), "kind: FieldPermissionMapping") || strings.Contains(string(content), "apiVersion: rbac") {
			return err
		}
		out, errOut, code := run(t, "", "-f", path)
		if strings.Contains(errOut, "is not a policy") {
			return nil
		}
		count++
		if code != 0 || out+errOut != "" {
			t.Errorf("%s: got %d %s%s", path, code, out, errOut)
		}
		return nil
	})
	if err != nil || count < 12 {
		t.Errorf("%d files were checked: %v", count, err)
	}
}

// TestErrors checks the messages about bad input.
func TestErrors(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text.json")
	if err := os.WriteFile(text, []byte(`{"swagger": "2.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	good := policy("q", "Allow", join(alice, pods, dev))
	for _, tc := range []struct {
		name, input string
		args        []string
		want        string
	}{
		{name: "nothing", want: "must specify a file"},
		{name: "an argument", args: []string{"x"}, want: "takes no arguments"},
		{name: "a format", args: []string{"-f", "-", "-o", "x"}, want: `--output must be text or json, not "x"`},
		{name: "two sources of schemas", args: []string{"-f", "-", "--openapi=x", "--cluster"}, want: "cannot be set together"},
		{name: "no policy", args: []string{"-f", "-"}, want: "the files have no policy"},
		{name: "a file that is missing", args: []string{"-f", "missing.yaml"}, want: `the path "missing.yaml" does not exist`},
		{name: "another kind", input: "{apiVersion: v1, kind: Pod}", args: []string{"-f", "-"}, want: "is not a policy"},
		{name: "a policy that is not valid", input: policy("q", "Allow", join(alice, pods, `condition: "object."`)), args: []string{"-f", "-"}, want: "spec.condition"},
		{name: "another document", input: good, args: []string{"-f", "-", "--openapi", text}, want: "is not a document of OpenAPI v3"},
		{name: "no cluster", input: good, args: []string{"-f", "-", "--cluster", "--server=https://127.0.0.1:1"}, want: "127.0.0.1:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, errOut, code := run(t, tc.input, tc.args...)
			if code != 2 || out != "" || !strings.HasPrefix(errOut, "error: ") || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, tc.want) {
				t.Errorf("got %d %q %q, want %q", code, out, errOut, tc.want)
			}
		})
	}
}
