/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// run runs kubectl proviso without a cluster.
func run(t *testing.T, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectl.Run(t.Context(), args, streams)
	return stdout.String(), stderr.String(), code
}

// TestConvertFile compares the policies and the report. render, which validates policies as the server does, must accept them in both formats.
func TestConvertFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "roles.yaml")
	out, errOut, code := run(t, "", "convert", "rbac", "-n", "blue", "-f", file)
	if code != 1 {
		t.Errorf("got %d, want 1: something is left out", code)
	}
	golden.Compare(t, filepath.Join("testdata", "policies.golden.yaml"), out)
	golden.Compare(t, filepath.Join("testdata", "report.golden.txt"), errOut)
	asJSON, _, _ := run(t, "", "convert", "rbac", "-n", "blue", "-f", file, "-o", "json")
	for _, policies := range []string{out, asJSON} {
		report, errOut, code := run(t, policies, "render", "-f", "-", "--report=-")
		if code != 0 || !strings.Contains(report, "Allow") {
			t.Errorf("got %d %s%s", code, report, errOut)
		}
	}
}

// TestConvertAll has no report of something left out, and the exit code 0.
func TestConvertAll(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("testdata", "roles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	some := strings.Join(strings.Split(string(content), "---\n")[:5], "---\n")
	if out, errOut, code := run(t, some, "convert", "rbac", "-n", "blue", "-f", "-"); code != 0 || strings.Contains(errOut, "left out") || strings.Count(out, "kind: ClusterAuthorizationPolicy") != 1 {
		t.Errorf("got %d %s%s", code, out, errOut)
	}
	if out, errOut, code := run(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}", "convert", "rbac", "-f", "-", "-o", "json"); code != 0 || !strings.Contains(out, `"items": []`) {
		t.Errorf("got %d %s%s", code, out, errOut)
	}
}

func TestConvertMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, input, want string }{
		{args: "roles.yaml", want: "name files with -f"},
		{args: "-f - -o table", want: `--output must be yaml or json, not "table"`},
		{args: "-f missing", want: `the path "missing" does not exist`},
		{args: "-f -", want: "there are no roles and bindings in the files"},
		{args: "-f -", input: "{apiVersion: v1, kind: Pod}", want: "there are no roles and bindings in the files"},
		{args: "-f -", input: "a", want: "is not an object with apiVersion and kind"},
		{args: "-f -", input: "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}}", want: "metadata.namespace: Required value"},
		{args: "-f -", input: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rule: []}", want: `unknown field "rule"`},
		{args: "--kubeconfig=/dev/null --server=https://127.0.0.1:1", want: "127.0.0.1:1"},
	} {
		out, errOut, code := run(t, tc.input, append([]string{"convert", "rbac"}, strings.Fields(tc.args)...)...)
		if code != 2 || out != "" || !strings.Contains(errOut, tc.want) || strings.Count("\n"+errOut, "\nerror: ") != 1 {
			t.Errorf("%s: got %d %q %q, want 2 and %q", tc.args, code, out, errOut, tc.want)
		}
	}
}
