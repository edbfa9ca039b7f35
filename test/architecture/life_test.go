/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// maxFilesOfARequest bounds the files that the attributes of a request pass, from the authorization filter
// to the end of admission.
const maxFilesOfARequest = 12

// TestLifeOfARequest asks that the files and functions in docs/life-of-a-request.md exist, and that a request
// passes few files.
func TestLifeOfARequest(t *testing.T) {
	t.Parallel()
	base := root(t)
	content, err := os.ReadFile(filepath.Join(base, "docs", "life-of-a-request.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(string(content), -1)
	if len(rows) < 15 {
		t.Fatalf("got %d steps: the tables are not found", len(rows))
	}
	files := map[string]bool{}
	for i, row := range rows {
		if !declares(t, filepath.Join(base, row[2]), row[3]) {
			t.Errorf("step %s: %s declares no function %s", row[1], row[2], row[3])
		}
		if i < 15 { // the steps of a request that is not impersonated
			files[row[2]] = true
		}
	}
	if len(files) > maxFilesOfARequest {
		t.Errorf("a request passes %d files, want at most %d", len(files), maxFilesOfARequest)
	}
	for _, path := range regexp.MustCompile("`(pkg/[a-z/]+\\.go)`").FindAllStringSubmatch(string(content), -1) {
		if _, err := os.Stat(filepath.Join(base, path[1])); err != nil {
			t.Error(err)
		}
	}
}

// declares reports whether a Go file declares a function or a method.
func declares(t *testing.T, path, name string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Name.Name == name {
			return true
		}
	}
	return false
}
