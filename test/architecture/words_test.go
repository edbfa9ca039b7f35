/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden are words that say where the repository was written, which is nobody's
// business and true nowhere else.
var forbidden = regexp.MustCompile(`(?i)proxy\.golang\.org|/root/|/home/[a-z]+/`)

// TestStandsAlone checks that no file refers to anything outside the repository. It walks
// the files rather than asking git, so that it also runs in an unpacked archive.
func TestStandsAlone(t *testing.T) {
	t.Parallel()
	base, seen := root(t), 0
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "_output" || (strings.HasPrefix(name, ".") && name != ".ci")):
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(name, "go.sum") || name == "words_test.go":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if found := forbidden.Find(content); found != nil {
			t.Errorf("%s contains %q", path, found)
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("read %d files: %v", seen, err)
	}
}

// TestUnsafeIsInOnePlace checks that only one package, which says why, imports unsafe.
func TestUnsafeIsInOnePlace(t *testing.T) {
	t.Parallel()
	const only = "pkg/impersonation/internal/upstreamfilter/filter.go"
	var found []string
	err := filepath.WalkDir(filepath.Join(root(t), "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "\n\t\"unsafe\"\n") {
			found = append(found, filepath.ToSlash(strings.TrimPrefix(path, root(t)+string(filepath.Separator))))
		}
		return err
	})
	if err != nil || len(found) != 1 || found[0] != only {
		t.Errorf("got %v, %v, want only %s", found, err, only)
	}
}
