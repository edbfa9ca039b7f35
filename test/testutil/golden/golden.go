/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package golden compares output with committed files. If the environment variable UPDATE_GOLDEN
// is set, it writes the files instead.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

// Compare fails the test if got is not the content of the file.
func Compare(tb testing.TB, file, got string) {
	tb.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("%v; set UPDATE_GOLDEN=1 to write it", err)
	}
	// cmp.Diff would leave out most lines of a long text.
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(string(want)), B: difflib.SplitLines(got), Context: 1})
	if err != nil {
		tb.Fatal(err)
	}
	if diff != "" {
		tb.Errorf("%s (-want +got); set UPDATE_GOLDEN=1 to update it:\n%s", file, diff)
	}
}

// sections lets one test at a time read a file and write one of its sections.
var sections sync.Mutex

// CompareSection is Compare for a section of a file: the lines between "<!-- begin generated NAME -->" and "<!-- end generated NAME -->".
func CompareSection(tb testing.TB, file, name, got string) {
	tb.Helper()
	sections.Lock()
	defer sections.Unlock()
	content, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	begin, end := "<!-- begin generated "+name+" -->\n", "<!-- end generated "+name+" -->\n"
	before, rest, found := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		tb.Fatalf("%s lacks the lines %q and %q", file, begin, end)
	}
	Compare(tb, file, before+begin+"\n"+got+"\n"+end+after)
}
