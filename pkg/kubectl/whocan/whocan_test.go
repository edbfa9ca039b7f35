/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// run runs kubectl proviso who-can without a cluster.
func run(t *testing.T, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectl.Run(t.Context(), append([]string{"who-can"}, args...), streams)
	return stdout.String(), stderr.String(), code
}

// TestFiles prints lists from the roles and policies in a file.
func TestFiles(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, args := range []string{
		"update secrets -n blue", "update secrets/db -n blue", "update secrets -A", "list secrets -n red", "get /metrics", "update secrets/ci-1 -n blue -o json",
		"update secrets.v2. -n blue", "* * -n blue", "create pods --subresource exec -n blue", "create unicorns.example.com -n blue", "update secret -n red -o json",
	} {
		out, errOut, code := run(t, "", append(strings.Fields(args), "-f", filepath.Join("testdata", "cluster.yaml"))...)
		fmt.Fprintf(&text, "$ kubectl proviso who-can %s\n%s", args, out)
		for line := range strings.Lines(errOut) {
			text.WriteString("stderr: " + line)
		}
		fmt.Fprintf(&text, "exit code %d\n\n", code)
	}
	golden.Compare(t, filepath.Join("testdata", "files.golden.txt"), text.String())
}

// TestWhoCanMistakes has one clear error for each mistake.
func TestWhoCanMistakes(t *testing.T) {
	t.Parallel()
	const binding = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}}`
	for _, tc := range []struct {
		input, args, want string
		code              int
	}{
		{args: "get", want: "you must specify two arguments", code: 2},
		{args: "get pods -f -", want: "with -f, you must specify --namespace or --all-namespaces", code: 2},
		{args: "get /a --subresource=b -f -", want: "--subresource can not be used with NonResourceURL", code: 2},
		{args: "get pods -A -f - -o yaml", want: "--output must be table or json", code: 2},
		{args: "get pods -A -f missing.yaml", want: `the path "missing.yaml" does not exist`, code: 2},
		{args: "get pods -A -f -", input: "a: b", want: "standard input, document 1: is not an object with apiVersion and kind", code: 2},
		{args: "get pods -A -f -", input: binding + "\n---\n" + binding, want: `the same object is in standard input, document 1, too`, code: 2},
		{args: "get pods -A -f -", input: strings.Replace(binding, "ClusterRoleBinding", "RoleBinding", 1), want: "metadata.namespace: Required value", code: 2},
		{args: "get pods -A -f -", input: strings.Replace(binding, "roleRef", "role", 1), want: `unknown field "role"`, code: 2},
		{args: "get pods -A -f -", input: strings.Replace(binding, "/v1", "/v1beta1", 1), want: "no kind", code: 2},
		{args: "get pods -A -f -", input: "{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: a}, spec: {effect: Forbid}}", want: "spec.effect: Unsupported value", code: 2},
		{args: "get pods -A -f -", input: binding, want: `the ClusterRole "a", or its rules, are missing`, code: 1},
		{args: "get pods -A -f -", input: strings.NewReplacer("ClusterRoleBinding", "RoleBinding", "{name: a}", "{name: a, namespace: blue}").Replace(binding), want: `the ClusterRole "a", or its rules, are missing`, code: 1},
		{args: "get pods --kubeconfig=missing", want: "missing: no such file or directory", code: 2},
		{args: "get pods --kubeconfig=/dev/null --server=https://127.0.0.1:1", want: "127.0.0.1:1", code: 2},
	} {
		out, errOut, code := run(t, tc.input, strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(errOut, tc.want) || code == 2 && out != "" || tc.code == 2 && strings.Count(errOut, "error: ") < 1 {
			t.Errorf("%s: got %d %q %q, want %d and %q", tc.args, code, out, errOut, tc.code, tc.want)
		}
	}
}
