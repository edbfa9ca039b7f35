/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package library_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocumentShowsTheCode compares docs/library.md with the code that the end-to-end tests
// run, and counts its lines.
func TestDocumentShowsTheCode(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "library.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := func(file, start string) string {
		t.Helper()
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, code, found := strings.Cut(string(source), start)
		if !found {
			t.Fatalf("the function is not in %s", file)
		}
		if !strings.Contains(string(document), "```go\n"+start+code+"```\n") {
			t.Errorf("docs/library.md does not show the function of %s as it is", file)
		}
		return start + code
	}
	shown("front.go", "// PassOn returns")
	shown("things/main.go", "package main\n")
	shown("things/conditions.go", "package main\n")
	code := shown("conditional.go", "// conditions configures")
	lines := 2 // the two in plain.go
	for line := range strings.Lines(code) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "//") {
			lines++
		}
	}
	if lines >= 40 {
		t.Errorf("conditional authorization takes %d lines, and is to take less than 40", lines)
	}
}
