/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	answers "github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
)

const testRole = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}"

// readTestFiles reads texts as files of a folder.
func readTestFiles(t *testing.T, texts map[string]string, names ...string) (e *example, warnings string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := &command.Files{Names: []string{dir}}
	for i, name := range names {
		if i == 0 {
			files.Names = nil
		}
		files.Names = append(files.Names, filepath.Join(dir, name))
	}
	errOut := &bytes.Buffer{}
	e, err = readFiles(files, &command.Options{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), ErrOut: errOut}})
	return e, errOut.String(), err
}

// TestFiles reads what users have in their folders.
func TestFiles(t *testing.T) {
	t.Parallel()
	const suite = `apiVersion: test.proviso.dev/v1alpha1
kind: PolicyTest
policies: [policy.yaml]
tests:
- {name: alice creates, requestFile: request.yaml, dataFile: data.yaml, expect: {decision: yes-if, outcome: "no"}}
- {name: RBAC allows, requestFile: request.yaml, dataFile: data.yaml, permissions: [{verbs: [create], apiGroups: [""], resources: [things]}], expect: {decision: "yes", outcome: "yes"}}
- {name: RBAC allows something else, requestFile: request.yaml, dataFile: data.yaml, permissions: [{verbs: [get, delete], apiGroups: [""], resources: [things, things/status]}], expect: {decision: yes-if, outcome: "no"}}
`
	const data = "apiVersion: authorization.k8s.io/v1alpha1\nkind: AuthorizationConditionsReview\nrequest: {operation: CREATE, object: " + testObject + "}\n"
	folder := map[string]string{"policy.yaml": testPolicy, "suite.yaml": suite, "request.yaml": testRequest("create"), "data.yaml": data}
	for _, tc := range []struct {
		name  string
		texts map[string]string
		names []string
		// want has the titles of the requests with their decisions.
		want []string
		warn string
		err  string
	}{
		{name: "a folder with a suite", texts: folder, want: []string{"alice creates: no", "RBAC allows: yes", "RBAC allows something else: no"}},
		{name: "a suite that names its policies", texts: folder, names: []string{"suite.yaml"}, want: []string{"alice creates: no", "RBAC allows: yes", "RBAC allows something else: no"}},
		{name: "a request with its data", texts: folder, names: []string{"policy.yaml", "request.yaml", "data.yaml"}, want: []string{"request.yaml, document 1: no"}},
		{name: "a policy alone", texts: folder, names: []string{"policy.yaml"}, want: []string{"write a request: "}},
		{name: "objects", texts: map[string]string{"a.yaml": testPolicy + "---\n" + testObject, "b.json": strings.NewReplacer("gold", `"dev"`, "apiVersion", `"apiVersion"`, "kind", `"kind"`, "metadata", `"metadata"`, "name", `"name"`, "spec", `"spec"`, "class", `"class"`, " v1", ` "v1"`, "Thing", `"Thing"`, ": a", `: "a"`).Replace(testObject)},
			want: []string{"create a.yaml, document 2: no", "create b.json, document 1: yes"}, warn: "the resource of the kind Thing is not known without a cluster"},
		{name: "a list", texts: map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimPrefix(testPolicy, "# A policy.\n"), "\n", "\n  ") + "\n- " + testObject},
			want: []string{"create a.yaml, document 1, item 2: no"}, warn: "the resource of the kind Thing is not known without a cluster"},
		{name: "a role", texts: map[string]string{"a.yaml": testPolicy + "---\n" + testRole}, want: []string{"create a.yaml, document 2: no"}},
		{name: "no policy", texts: map[string]string{"a.yaml": testObject}, warn: "the resource of the kind Thing", err: "the files of -f have no policy"},
		{name: "no file", names: []string{"a.yaml"}, err: "does not exist"},
		{name: "no YAML", texts: map[string]string{"a.yaml": "a: b\nc: ["}, err: "did not find expected node content"},
		{name: "no object", texts: map[string]string{"a.yaml": testPolicy + "---\na: b"}, err: "a.yaml, document 2: is not an object with apiVersion and kind"},
		{name: "a suite without tests", texts: map[string]string{"policy.yaml": testPolicy, "suite.yaml": "apiVersion: test.proviso.dev/v1alpha1\nkind: PolicyTest\ntests: []"}, err: "suite.yaml, document 1: has no tests"},
		{name: "two requests with their data", texts: map[string]string{"a.yaml": testPolicy + "---\n" + testRequest("create") + "---\n" + testRequest("create") + "---\n" + data + "---\n" + strings.Replace(data, "gold", "dev", 1)}, want: []string{"a.yaml, document 2: no", "a.yaml, document 3: yes"}},
		{name: "a suite whose file is missing", texts: map[string]string{"policy.yaml": testPolicy, "suite.yaml": suite}, err: "suite.yaml, document 1: open "},
		{name: "many objects", texts: map[string]string{"a.yaml": testPolicy + strings.Repeat("---\n"+testRole+"\n", maxFileRequests+1)}, err: "more than 200 tests"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, warnings, err := readTestFiles(t, tc.texts, tc.names...)
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || tc.err == "" && err != nil || !strings.Contains(warnings, tc.warn) || tc.warn == "" && warnings != "" {
				t.Fatalf("got %v, %q, want %s", err, warnings, tc.err)
			}
			if err != nil {
				return
			}
			handler := newTestHandler(t)
			var got []string
			for _, r := range e.Requests {
				verdict := answers.Verdict("")
				if r.Request != "" {
					a, _ := ask(t, handler, question{Policies: e.Policies, Request: r.Request, Object: r.Object, RBACAllows: r.RBACAllows})
					if verdict = a.Decision; len(a.Errors) > 0 {
						t.Errorf("%s: %+v", r.Title, a.Errors)
					}
				}
				title := r.Title
				if dir := filepath.Dir(strings.TrimPrefix(title, "create ")); dir != "." {
					title = strings.Replace(title, dir+"/", "", 1)
				}
				got = append(got, title+": "+string(verdict))
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if strings.Contains(strings.Join(mapValues(tc.texts), ""), "# A policy.") && !strings.Contains(e.Policies, "# A policy.") {
				t.Errorf("the comment is lost: %s", e.Policies)
			}
		})
	}
}

func mapValues(texts map[string]string) (values []string) {
	for _, text := range texts {
		values = append(values, text)
	}
	return values
}

// TestFilesNeedTheSecret serves files to those only who know the address that the command has printed.
func TestFilesNeedTheSecret(t *testing.T) {
	t.Parallel()
	handler, fragment, err := newHandler(testHost, &example{Name: "files", Policies: testPolicy})
	if err != nil {
		t.Fatal(err)
	}
	secret, ok := strings.CutPrefix(fragment, filesFragment)
	if !ok || len(secret) < 20 {
		t.Fatalf("got the fragment %q", fragment)
	}
	_, other, err := newHandler(testHost, &example{})
	if err != nil || other == fragment {
		t.Errorf("got %q again, %v", other, err)
	}
	for header, want := range map[string]int{
		"Bearer " + secret: http.StatusOK, "": http.StatusForbidden, "Bearer": http.StatusForbidden, "Bearer " + secret[1:]: http.StatusForbidden, "Bearer " + secret + "A": http.StatusForbidden,
	} {
		w := send(t.Context(), handler, http.MethodGet, "/api/v1/files", "", map[string]string{"Authorization": header})
		e := &example{}
		if w.Code != want || want == http.StatusOK && (json.Unmarshal(w.Body.Bytes(), e) != nil || e.Policies != testPolicy) || want != http.StatusOK && strings.Contains(w.Body.String(), "dev") {
			t.Errorf("%q: got %d %s", header, w.Code, w.Body)
		}
	}
	if w := send(t.Context(), handler, http.MethodGet, "/api/v1/examples", "", nil); strings.Contains(w.Body.String(), "# A policy.") {
		t.Error("the examples have the files")
	}
}
