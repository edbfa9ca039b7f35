/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden are words that say where the repository was written, which is nobody's
// business and true nowhere else.
var forbidden = regexp.MustCompile(`(?i)proxy\.golang\.org|/root/|/home/[a-z]+/`)

// TestStandsAlone checks that no file refers to anything outside the repository.
func TestStandsAlone(t *testing.T) {
	t.Parallel()
	base := root(t)
	tracked, err := exec.CommandContext(t.Context(), "git", "-C", base, "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a git repository")
	}
	for _, name := range strings.Split(strings.TrimRight(string(tracked), "\x00"), "\x00") {
		if strings.HasSuffix(name, "go.sum") || name == "test/architecture/words_test.go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(base, name))
		if err != nil {
			continue // deleted, but not yet from the index
		}
		if found := forbidden.Find(content); found != nil {
			t.Errorf("%s contains %q", name, found)
		}
	}
}
