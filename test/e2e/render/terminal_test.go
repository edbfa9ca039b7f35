/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	green, red, yellow = "\x1b[32m", "\x1b[31m", "\x1b[33m"
	eraseLine          = "\r\x1b[K"
	// progress is in a line that shows what the command does while it reads suites.
	progress = "suites are read"
)

// slowSuites writes suites, one of them with a test that fails, and returns their directory. Reading them takes longer than a second, since the policies of
// one come through a pipe.
func slowSuites(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	example := filepath.Join("..", "..", "..", "artifacts", "examples", "required-labels")
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	suite, err := os.ReadFile(filepath.Join(dir, "test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	slow := filepath.Join(dir, "slow")
	for i := range 20 {
		content := string(suite)
		switch i {
		case 0:
			content = strings.Replace(content, "policy.yaml", "slow", 1)
		case 19:
			content = strings.Replace(content, "outcome: no", "outcome: yes", 1)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("suite-%03d.yaml", i)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policies, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	if err := errors.Join(err, os.Remove(filepath.Join(dir, "test.yaml")), syscall.Mkfifo(slow, 0o600)); err != nil {
		t.Fatal(err)
	}
	go func() {
		pipe, err := os.OpenFile(slow, os.O_WRONLY, 0) // waits until the command reads
		if err == nil {
			time.Sleep(1200 * time.Millisecond)
			_, _ = pipe.Write(policies)
			_ = pipe.Close()
		}
	}()
	return dir
}

// TestTerminal runs commands on a terminal, which the program script provides, and beside one.
func TestTerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil || runtime.GOOS != "linux" {
		t.Fatal("needs Linux and the program script, which Debian has in the package bsdutils")
	}
	repository, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	slowly := func() string { return "test " + slowSuites(t) }
	const (
		refused  = `explain -f artifacts/examples/required-labels/test.yaml --test="A Deployment without labels"`
		openMiss = `explain -f artifacts/examples/storage-class/review.yaml -f artifacts/examples/storage-class/policy.yaml`
		short    = "test artifacts/examples/storage-class -v"
	)
	for _, tc := range []struct {
		name, env, command string
		// pipe is what follows the command.
		pipe        string
		want, never []string
	}{
		{name: "a test that passes", command: short, want: []string{"--- " + green + "PASS", green + "ok"}, never: []string{red, eraseLine}},
		{name: "a refusal", command: refused, want: []string{red + "no\x1b[0m\r\n"}, never: []string{green}},
		{name: "conditions", command: openMiss, want: []string{yellow + "yes, if\x1b[0m\r\n"}},
		{name: "long work", command: slowly(), want: []string{eraseLine, progress, eraseLine + "\x1b[32mok", "--- " + red + "FAIL"}},
		{name: "NO_COLOR", env: "NO_COLOR=1", command: short, want: []string{"--- PASS"}, never: []string{"\x1b"}},
		{name: "NO_COLOR and long work", env: "NO_COLOR=1", command: slowly(), want: []string{progress, "--- FAIL"}, never: []string{green, red}},
		{name: "a dumb terminal", env: "TERM=dumb", command: slowly(), want: []string{"--- FAIL"}, never: []string{"\x1b", progress}},
		{name: "JSON", command: short + " -o json", want: []string{`"passed": true`}, never: []string{"\x1b"}},
		{name: "a pipe", command: slowly(), pipe: " | cat", want: []string{"--- FAIL", progress}, never: []string{green, red}},
		{name: "errors to a file", command: slowly(), pipe: " 2> /dev/null", want: []string{"--- " + red + "FAIL"}, never: []string{progress, eraseLine}},
		{name: "no terminal", command: slowly(), pipe: " > /dev/null 2> $OUT; cat $OUT", never: []string{"\x1b", progress}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(repository, "_output", "bin", "kubectl-proviso") + " " + tc.command + tc.pipe
			cmd := exec.CommandContext(t.Context(), "script", "--quiet", "--command", script, "/dev/null")
			cmd.Dir = repository
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", "KUBECONFIG=/dev/null", "OUT="+filepath.Join(t.TempDir(), "errors"), tc.env)
			output, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatal(err)
			}
			text := string(output)
			shown := text[:min(len(text), 600)]
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("want %q in %q", want, shown)
				}
			}
			for _, never := range tc.never {
				if strings.Contains(text, never) {
					t.Errorf("got %q in %q", never, shown)
				}
			}
		})
	}
}
