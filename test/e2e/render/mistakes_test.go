/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// badInput is a row of bad-input.yaml.
type badInput struct {
	Args, Want, Works, Never string
}

// badInputs are the rows by the name of the command and the kind of the input.
func badInputs(t *testing.T) map[string]map[string]badInput {
	t.Helper()
	var file struct {
		Texts    map[string]string
		Commands map[string]map[string]badInput
	}
	plane.ReadYAML(t, "bad-input.yaml", &file)
	for _, kinds := range file.Commands {
		for kind, row := range kinds {
			for name, text := range file.Texts {
				row.Args, row.Want = strings.ReplaceAll(row.Args, "{"+name+"}", text), strings.ReplaceAll(row.Want, "{"+name+"}", text)
			}
			kinds[kind] = row
		}
	}
	return file.Commands
}

// leaves returns the names of the commands that have no commands below them.
func leaves(command *cobra.Command, prefix string) (names []string) {
	if !command.HasSubCommands() {
		return []string{strings.TrimSpace(prefix)}
	}
	for _, below := range command.Commands() {
		names = append(names, leaves(below, prefix+" "+below.Name())...)
	}
	return names
}

// testBadInput runs each command with each kind of bad input.
func testBadInput(t *testing.T, r *rig) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	commands, rows := leaves(kubectl.NewCommand(streams), ""), badInputs(t)
	if len(commands) != len(rows) {
		t.Errorf("there are the commands %q, and %d rows", commands, len(rows))
	}
	for _, command := range commands {
		for _, kind := range []string{"a missing file", "a file of another kind", "a server that cannot be reached", "no permission", "a server without Proviso"} {
			tc, found := rows[command][kind]
			if tc.Never != "" {
				continue
			}
			if !found {
				t.Errorf("%s: %s: not in the table", command, kind)
				continue
			}
			out, errOut, code := r.shell(t, "kubectl proviso "+command+" "+tc.Args)
			lines := strings.Count(errOut, "\n")
			switch {
			case tc.Works != "" && (code != 0 || out == "" && command != "lint" || !strings.Contains(errOut, tc.Want) || (lines > 0) != (tc.Want != "") || lines > 1):
				t.Errorf("%s: %s: %s, but got exit code %d, %d bytes and %s", command, kind, tc.Works, code, len(out), errOut)
			case tc.Works == "" && (code != 2 || out != "" || lines != 1 || !strings.HasPrefix(errOut, "error: ") || !strings.Contains(errOut, tc.Want)):
				t.Errorf("%s: %s: got exit code %d, %d bytes and %s, want one line with %s", command, kind, code, len(out), errOut, tc.Want)
			}
		}
	}
}
