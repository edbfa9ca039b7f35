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
	source, err := os.ReadFile("conditional.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(source), "// conditions makes")
	if !found {
		t.Fatal("the function is not there")
	}
	code = "// conditions makes" + code
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "library.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(document), "```go\n"+code+"```\n") {
		t.Error("docs/library.md does not show the function of conditional.go as it is")
	}
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
