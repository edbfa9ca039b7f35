/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/pkg/version"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// run runs kubectl proviso.
func run(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = kubectl.Run(t.Context(), args, streams)
	return stdout.String(), stderr.String(), code
}

// TestHelp compares the help of each command.
func TestHelp(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{
		"help-can-i.txt":           {"can-i", "--help"},
		"help-can-impersonate.txt": {"can-impersonate", "--help"},
		"help-convert-rbac.txt":    {"convert", "rbac", "--help"},
		"help-convert.txt":         {"convert", "--help"},
		"help-explain.txt":         {"explain", "--help"},
		"help-lint.txt":            {"lint", "--help"},
		"help-playground.txt":      {"playground", "--help"},
		"help-render.txt":          {"render", "--help"},
		"help-test.txt":            {"test", "--help"},
		"help-version.txt":         {"version", "--help"},
		"help-who-can.txt":         {"who-can", "--help"},
		"help.txt":                 {"--help"},
	} {
		out, errOut, code := run(t, args...)
		if code != 0 || errOut != "" {
			t.Errorf("%v: %d %s", args, code, errOut)
		}
		golden.Compare(t, filepath.Join("testdata", file), out)
	}
	if out, _, code := run(t); code != 0 || !strings.Contains(out, "kubectl proviso [command]") {
		t.Errorf("without a command: %d %s", code, out)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if out, _, code := run(t, "version"); code != 0 || out != version.String()+"\n" {
		t.Errorf("got %d %q", code, out)
	}
	type info struct{ GitVersion string }
	decoded := info{}
	out, _, _ := run(t, "version", "-o", "json")
	if err := json.Unmarshal([]byte(out), &decoded); err != nil || decoded.GitVersion != version.Get().GitVersion {
		t.Errorf("got %s, %v", out, err)
	}
	decoded = info{}
	out, _, _ = run(t, "version", "--output=yaml")
	if err := yaml.Unmarshal([]byte(out), &decoded); err != nil || decoded.GitVersion != version.Get().GitVersion || strings.HasPrefix(out, "{") {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestCompletion completes commands and values of flags, as kubectl_complete-proviso does.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{args: []string{"re"}, want: []string{"render"}},
		{args: []string{"exp"}, want: []string{"explain"}},
		{args: []string{"explain", "-o", ""}, want: []string{"text", "json", "dot", "svg"}},
		{args: []string{"lint", "-o", ""}, want: []string{"text", "json"}},
		{args: []string{"pl"}, want: []string{"playground"}},
		{args: []string{"can"}, want: []string{"can-i"}},
		{args: []string{"render", "-o", ""}, want: []string{"yaml", "json"}},
		{args: []string{"render", "--report-format", ""}, want: []string{"table", "json"}},
		{args: []string{"render", "--exempt-"}, want: []string{"--exempt-user", "--exempt-group"}},
		{args: []string{"test", "-o", ""}, want: []string{"text", "json", "junit"}},
		{args: []string{"version", "-o", ""}, want: []string{"yaml", "json"}},
		{args: []string{"who-can", "-o", ""}, want: []string{"table", "json"}},
	} {
		out, _, code := run(t, append([]string{"__complete"}, tc.args...)...)
		for _, want := range tc.want {
			if code != 0 || !strings.Contains("\n"+out, "\n"+want) {
				t.Errorf("%q: got %d %q, want %s", tc.args, code, out, want)
			}
		}
	}
	if out, _, code := run(t, "completion", "bash"); code != 0 || !strings.Contains(out, "complete") {
		t.Errorf("got %d %s", code, out)
	}
}

// TestKubectlMistakes checks the messages and exit codes of mistakes in the command line.
func TestKubectlMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{args: []string{"rendr"}, want: "error: unknown command \"rendr\" for \"kubectl proviso\"; did you mean: render\n"},
		{args: []string{"lnt", "-f", "x"}, want: "error: unknown command \"lnt\" for \"kubectl proviso\"; did you mean: lint\n"},
		{args: []string{"--chek"}, want: "error: unknown flag: --chek; see 'kubectl proviso --help'\n"},
		{args: []string{"version", "--output=table"}, want: "error: --output must be json or yaml, not \"table\"\n"},
		{args: []string{"version", "now"}, want: "error: unknown command \"now\" for \"kubectl proviso version\"\n"},
		{args: []string{"render", "-o", "a", "--report-format=b"}, want: "error: must specify a file, a directory or standard input with -f\n" +
			"error: --output must be yaml or json, not \"a\"\nerror: --report-format must be table or json, not \"b\"\n"},
		{args: []string{"\x1b[2J"}, want: "error: unknown command \"\\x1b[2J\" for \"kubectl proviso\"\n"},
	} {
		out, errOut, code := run(t, tc.args...)
		if code != 2 || out != "" || errOut != tc.want {
			t.Errorf("%q: got %d, %q and %q, want 2 and %q", tc.args, code, out, errOut, tc.want)
		}
	}
}

// TestFolders has commands read folders that have documents of other kinds, too: they are ignored, and counted once.
func TestFolders(t *testing.T) {
	t.Parallel()
	const protection, agent = "artifacts/templates/protection", "artifacts/templates/ai-agent"
	for _, tc := range []struct {
		args    string
		ignored string // empty if there are none
		code    int
	}{
		{args: "lint -f " + protection, ignored: "2"},
		{args: "lint -f artifacts/render -R"},
		{args: "lint -f artifacts/inner-door -f " + protection, ignored: "13"},
		{args: "render -f " + protection + " --report=-", ignored: "2"},
		{args: "render -R -f artifacts/examples/fine-grained -f " + protection + " --report=-", ignored: "7"},
		{args: "convert rbac -f " + agent, ignored: "4"},
		{args: "who-can create configmaps -A -f " + agent, ignored: "1"},
		{args: "test " + protection},
	} {
		args := strings.Fields(strings.ReplaceAll(tc.args, "artifacts/", "../../artifacts/"))
		_, errOut, code := run(t, args...)
		want := 0
		if tc.ignored != "" {
			want = 1
		}
		if code != tc.code || strings.Count(errOut, "are ignored") != want || want == 1 && !strings.Contains(errOut, "Warning: documents of other kinds are ignored: "+tc.ignored+"\n") {
			t.Errorf("%s: got %d %s, want %d and %q ignored", tc.args, code, errOut, tc.code, tc.ignored)
		}
	}
}

// TestHiddenFlags has the help of commands that call no server show no flags of clients. They are accepted nevertheless.
func TestHiddenFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"test": false, "playground": false, "version": false, "lint": false, "lint --cluster": true, "can-i": true, "render": true} {
		out, _, code := run(t, append(strings.Fields(args), "--help")...)
		if code != 0 || strings.Contains(out, "--kubeconfig") != want {
			t.Errorf("%s: got %d %s", args, code, out)
		}
	}
	if out, errOut, code := run(t, "version", "--context=none"); code != 0 || out == "" {
		t.Errorf("got %d %s", code, errOut)
	}
}

// TestExamplesAreComplete runs the examples of commands that list or convert what files have. They have all that they need: otherwise the commands would
// end with the exit code 1.
func TestExamplesAreComplete(t *testing.T) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	count := 0
	var try func(*cobra.Command)
	try = func(command *cobra.Command) {
		for line := range strings.Lines(command.Example) {
			words := strings.Fields(strings.ReplaceAll(line, "artifacts/", "../../artifacts/"))
			if len(words) < 3 || words[0] != "kubectl" || words[2] != "who-can" && words[2] != "convert" || !slices.Contains(words, "-f") {
				continue
			}
			count++
			if out, errOut, code := run(t, words[2:]...); code != 0 || out == "" || strings.Contains(errOut, "Warning") {
				t.Errorf("%s: exit code %d: %s%s", line, code, out, errOut)
			}
		}
		for _, below := range command.Commands() {
			try(below)
		}
	}
	try(kubectl.NewCommand(streams))
	if count != 3 {
		t.Errorf("found %d examples, want 3", count)
	}
}
