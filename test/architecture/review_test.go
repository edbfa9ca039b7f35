/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxFilesOfAReview bounds the files of pkg whose code runs when the front door decides a POST that passes on a condition, from the handler to the answer.
const maxFilesOfAReview = 53

// TestFilesOfAReview counts the files with a block that runs once more for each further review. It compiles what the front door imports with coverage.
func TestFilesOfAReview(t *testing.T) {
	t.Parallel()
	const further = 20
	binary := filepath.Join(t.TempDir(), "frontdoor.test")
	run(t, root(t), nil, "go", "test", "-c", "-vet=off", "-covermode=atomic", "-coverpkg=./pkg/...", "-o", binary, "./pkg/frontdoor")
	counts := map[string][]int{}
	for _, reviews := range []int{1, 1 + further} {
		profile := filepath.Join(t.TempDir(), "profile")
		run(t, filepath.Join(root(t), "pkg/frontdoor"), []string{fmt.Sprintf("PROVISO_REVIEWS=%d", reviews)}, binary, "-test.run=^TestReviewThatPasses$", "-test.coverprofile="+profile)
		readProfile(t, profile, counts)
	}
	var files []string
	for block, n := range counts {
		if len(n) == 2 && n[1]-n[0] >= further {
			file, _, _ := strings.Cut(block, ":")
			files = append(files, strings.TrimPrefix(file, "github.com/proviso-authz/proviso/"))
		}
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) < 10 || len(files) > maxFilesOfAReview {
		t.Errorf("%d files, want at most %d:\n%s", len(files), maxFilesOfAReview, strings.Join(files, "\n"))
	}
}

func run(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// readProfile adds the counts of a profile, by block.
func readProfile(t *testing.T, name string, counts map[string][]int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // block, statements, count
		if len(fields) != 3 {
			continue
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		counts[fields[0]] = append(counts[fields[0]], n)
	}
}
