/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/documents"
)

// TestTutorial runs the tutorial up to the section that needs a cluster, without one, and compares what it shows. Tests with a cluster
// run the rest.
func TestTutorial(t *testing.T) {
	t.Parallel()
	repository := filepath.Join("..", "..", "..")
	content, err := os.ReadFile(filepath.Join(repository, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	offline, _, found := strings.Cut(string(content), "## On a cluster")
	if !found || documents.Blocks(offline) != 8 {
		t.Fatalf("found %d blocks", documents.Blocks(offline))
	}
	bin, err := filepath.Abs(filepath.Join(repository, "_output", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "errexit", "-o", "nounset", "-o", "pipefail", "-c", documents.Script(offline))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "none"), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+dir)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	printed := regexp.MustCompile(`\d+\.\d\ds`).ReplaceAllString(string(output), "0.00s")
	shown := regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(offline, -1)
	for _, text := range shown {
		if !strings.Contains(printed, text[1]) {
			t.Errorf("the tutorial shows %s, which is not in %s", text[1], printed)
		}
	}
	if len(shown) != 3 || strings.Count(printed, "FAIL: ") != 2 {
		t.Errorf("%d outputs are shown: %s", len(shown), printed)
	}
}
