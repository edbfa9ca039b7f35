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
