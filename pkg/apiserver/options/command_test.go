/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
)

// TestCommandRefuses runs the command with mistakes. It ends before it opens a port or a directory, with every mistake
// in one error, and prints neither the error, which main does, nor the usage.
func TestCommandRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{name: "an argument", args: []string{"serve"}, want: []string{`unknown command "serve"`}},
		{name: "an unknown flag", args: []string{"--insecure-port=80"}, want: []string{"unknown flag: --insecure-port"}},
		{name: "a value of the wrong type", args: []string{"--secure-port=https"}, want: []string{`invalid argument "https" for "--secure-port" flag`}},
		{name: "a duration without a unit", args: []string{"--policy-staleness-bound=60"}, want: []string{"--policy-staleness-bound", "missing unit"}},
		{name: "no address", args: []string{"--webhook-bind-address=everywhere"}, want: []string{"--webhook-bind-address", "failed to parse IP"}},
		{name: "a log format", args: []string{"--logging-format=xml"}, want: []string{"logging: ", "xml"}},
		// Only one row may get so far, because a process sets up its logs once.
		{name: "several", args: []string{"--secure-port=0", "--policy-staleness-bound=0s", "--webhook-secure-port=1"},
			want: []string{"--secure-port must not be 0", "--policy-staleness-bound must be at least 1s", "--webhook-secure-port needs --webhook-client-ca-file"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := options.NewCommand(t.Context())
			var out, failures bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&failures)
			cmd.SetArgs(append([]string{"--data-dir=" + t.TempDir()}, tc.args...))
			err := cmd.Execute()
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want an error with %q", err, want)
				}
			}
			if out.Len() > 0 || failures.Len() > 0 {
				t.Errorf("got the output %q and %q, want none", out.String(), failures.String())
			}
		})
	}
}
