/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
)

func TestInnerDoorConfigCommand(t *testing.T) {
	t.Parallel()
	example := filepath.Join("..", "..", "..", "artifacts", "inner-door", "inner-door.yaml")
	dir := filepath.Join(t.TempDir(), "new")
	run := func(args ...string) (string, error) {
		cmd := options.NewCommand(t.Context())
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"inner-door-config"}, args...))
		err := cmd.Execute()
		return out.String(), err
	}
	for _, tc := range []struct {
		name      string
		args      []string
		before    func()
		out, fail string
	}{
		{name: "no files", fail: "--config and --output are required"},
		{name: "no directory", args: []string{"--config=" + example}, fail: "--config and --output are required"},
		{name: "an argument", args: []string{"now"}, fail: `unknown command "now"`},
		{name: "no such file", args: []string{"--config=missing", "--output=" + dir}, fail: "--config: "},
		{name: "check before they are written", args: []string{"--config=" + example, "--output=" + dir, "--check"}, out: "serving-ca.crt: the file is missing\n", fail: "the installed files differ in 6 places"},
		{name: "a kubeconfig without --check", args: []string{"--config=" + example, "--output=" + dir, "--kubeconfig=a"}, fail: "--kubeconfig needs --check"},
		{name: "a kubeconfig that is missing", args: []string{"--config=" + example, "--output=" + dir, "--check", "--kubeconfig=/missing"}, fail: "--kubeconfig: "},
		{name: "write", args: []string{"--config=" + example, "--output=" + dir}, out: "wrote the files to "},
		{name: "check", args: []string{"--config=" + example, "--output=" + dir, "--check"}, out: "are as they should be"},
		{name: "check after a change", args: []string{"--config=" + example, "--output=" + dir, "--check"}, before: func() {
			if err := os.Truncate(filepath.Join(dir, "manifests", "inner-door.yaml"), 0); err != nil {
				t.Fatal(err)
			}
		}, out: "manifests/inner-door.yaml: the file is empty\n", fail: "the installed files differ in 1 places"},
		{name: "write into a file", args: []string{"--config=" + example, "--output=" + example}, fail: "--output: "},
	} {
		if tc.before != nil {
			tc.before()
		}
		out, err := run(tc.args...)
		if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) || !strings.Contains(out, tc.out) {
			t.Errorf("%s: got %q and the error %v, want %q and %q", tc.name, out, err, tc.out, tc.fail)
		}
	}
}
