/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// libraryBlocks are the commands of the section "From an empty folder", and its files with their names before them.
var libraryBlocks = regexp.MustCompile("(?s)(?:`([a-z]+\\.(?:go|yaml))`:\n\n)?```(bash|go|yaml)\n(.*?)```")

// TestLibraryFromAnEmptyFolder follows docs/library.md in an empty folder, block by block, in one shell. Then it takes away, one after
// the other, what lets requests pass on conditions through kube-apiserver.
func TestLibraryFromAnEmptyFolder(t *testing.T) {
	t.Parallel()
	document := readText(t, filepath.Join(stack.Repository, "docs", "library.md"))
	_, section, found := strings.Cut(document, "\n## From an empty folder\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("docs/library.md has no section From an empty folder")
	}
	reserved, err := cluster.ReservePort()
	must(t, err)
	port := strconv.Itoa(reserved)
	faults := strings.ReplaceAll(readText(t, "testdata/library-faults.sh"), "7443", port)
	// The server ends with the shell, however this does.
	script := "set -o errexit -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
	files, commands := 0, 0
	for i, block := range libraryBlocks.FindAllStringSubmatch(section, -1) {
		name, language, text := block[1], block[2], strings.ReplaceAll(block[3], "7443", port)
		if language == "bash" {
			commands++
			lines := strings.SplitAfter(text, "\n")
			if strings.HasPrefix(text, "export PROVISO=") { // which chooses the cluster of `make demo`
				lines = lines[1:]
			}
			if strings.HasPrefix(text, "kill ") { // the end of the trial
				script += faults
			}
			script += fmt.Sprintf("echo '--- block %d'\n%s", i+1, strings.Join(lines, ""))
			continue
		}
		if name == "" {
			t.Fatalf("block %d has no name of a file before it", i+1)
		}
		files++
		script += fmt.Sprintf("cat >%s <<'END OF FILE'\n%sEND OF FILE\n", name, text)
	}
	if files != 6 || commands != 7 {
		t.Errorf("got %d files and %d blocks of commands", files, commands)
	}
	dir, err := os.MkdirTemp("", "lib") // short enough for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PROVISO="+stack.Repository, "KUBECONFIG="+stack.Kubeconfig(), "TMPDIR="+dir,
		"PATH="+stack.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*", "things.log"))
		for _, log := range logs {
			content, _ := os.ReadFile(log)
			t.Logf("the log of the server: %s", content)
		}
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{
		`"name":"one"`, `"name":"two"`, `"name":"five"`, "folded: another Service", "passes: the Service again", "folded: unavailable", "folded: deleted", "passes: the configuration again", `"name":"six"`, "carol creates things of class dev only", "bob creates no things of class prod", `"kind":"ThingList"`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not have %q:\n%s", want, out)
		}
	}
}
