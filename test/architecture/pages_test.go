/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPagesAreFound checks that README.md has a link to each page of docs, and that each page begins with
// what its reader gets.
func TestPagesAreFound(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, index, found := strings.Cut(string(readme), "## Read on")
	if !found {
		t.Fatal("README.md has no section Read on")
	}
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages:", err)
	}
	for _, path := range pages {
		page := filepath.Base(path)
		if !strings.Contains(index, "](docs/"+page+")") {
			t.Errorf("README.md has no link to docs/%s below Read on", page)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(content), "\n", 4)
		if len(lines) < 4 || !strings.HasPrefix(lines[0], "# ") || lines[1] != "" {
			t.Errorf("docs/%s does not begin with a title", page)
			continue
		}
		if !strings.HasPrefix(lines[2], "This page ") {
			t.Errorf("docs/%s must begin with what its reader gets: This page …; it begins with %q", page, lines[2])
		}
	}
}
