/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const repository = "../.."

// recorded is the picture, with the lines of the demo that it shows.
type recorded struct {
	Lines []struct {
		Rows []string `xml:"text"`
	} `xml:"svg>g>g"`
}

// TestRecording checks that the picture shows the titles, comments and commands that the demo prints, and the policy, and that it is as this
// command draws it. hack/first-minutes.sh compares all of it with the output of the demo on a cluster.
func TestRecording(t *testing.T) {
	t.Parallel()
	content := read(t, "docs/pictures/demo.svg")
	var svg recorded
	if err := xml.Unmarshal([]byte(content), &svg); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range svg.Lines {
		lines = append(lines, strings.Join(line.Rows, ""))
	}
	if diff := cmp.Diff(string(picture(lines)), content); diff != "" {
		t.Errorf("run make recording: (-want +got)\n%s", diff)
	}
	want, err := shown(printed(t))
	if err != nil {
		t.Fatal(err)
	}
	withoutOutput := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, "  ") })
	if diff := cmp.Diff(want, withoutOutput); diff != "" {
		t.Errorf("run make recording: the demo prints other commands (-want +got)\n%s", diff)
	}
	policy := "  " + strings.ReplaceAll(strings.TrimSuffix(read(t, "artifacts/demo/policy-claims.yaml"), "\n"), "\n", "\n  ")
	if !strings.Contains(strings.Join(lines, "\n"), "$ cat artifacts/demo/policy-claims.yaml\n"+policy+"\n$ ") {
		t.Error("run make recording: the policy is another one")
	}
}

// TestShown checks what the picture leaves out and replaces.
func TestShown(t *testing.T) {
	t.Parallel()
	output := "1. A\n$ a\n\n2. B\n$ b\n  Warning: late\n  persistentvolumeclaim/scratch-8mbgl created\n\n3. C\n$ c\n\n4. D\n"
	got, err := shown(output)
	want := []string{"2. B", "$ b", "  persistentvolumeclaim/scratch-x7b2p created", "", "3. C", "$ c"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, output := range []string{"", "1. A\n\n2. B\n", "1. A\n\n4. D\n"} {
		if got, err := shown(output); err == nil {
			t.Errorf("%q: got %q, want an error", output, got)
		}
	}
}

// printed returns the titles, comments and commands that the demo prints. It runs the script in a folder in which the commands do nothing.
func printed(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"demo.sh":   read(t, "hack/demo.sh"),
		"walk.sh":   read(t, "hack/walk.sh") + `run() { printf '$ %s\n' "$1"; }; fails() { run "$1"; }`,
		"dev-up.sh": "#!/bin/sh\n",
	} {
		path := filepath.Join(folder, "hack", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(folder, "hack", "demo.sh")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
