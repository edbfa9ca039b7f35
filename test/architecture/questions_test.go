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
	"strings"
	"testing"
)

var (
	// implemented finds a package in backquotes, and the names in backquotes that follow in parentheses.
	implemented = regexp.MustCompile("`((?:apis|pkg|test)/[\\w/]+)`(?: \\(((?:`[\\w.]+`(?:, )?)+)\\))?")
	// quoted finds a name in backquotes.
	quoted = regexp.MustCompile("`([\\w.]+)`")
)

// TestOpenQuestionsNameTheirCode asks that every answer of docs/adr/0005 is implemented, and that the packages declare the names that it
// has.
func TestOpenQuestionsNameTheirCode(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root(t), "docs", "adr", "0005-kep-5681-open-questions.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "- **") && !strings.HasPrefix(line, "## ") {
			continue
		}
		if strings.Contains(strings.ToLower(line), "not built") {
			t.Errorf("the answer is not built: %s", line)
		}
		for _, match := range implemented.FindAllStringSubmatch(line, -1) {
			declared := declarations(t, filepath.Join(root(t), filepath.FromSlash(match[1])))
			for _, name := range quoted.FindAllStringSubmatch(match[2], -1) {
				if named++; !declared[name[1]] {
					t.Errorf("%s does not declare %s", match[1], name[1])
				}
			}
		}
	}
	if named < 10 {
		t.Errorf("found only %d names", named)
	}
}

// declarations returns the names that the files of a package declare, with methods as Type.Method.
func declarations(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s is no package", dir)
	}
	declared := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					receiver := d.Recv.List[0].Type
					if pointer, ok := receiver.(*ast.StarExpr); ok {
						receiver = pointer.X
					}
					if of, ok := receiver.(*ast.Ident); ok {
						name = of.Name + "." + name
					}
				}
				declared[name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if declaredType, ok := spec.(*ast.TypeSpec); ok {
						declared[declaredType.Name.Name] = true
					}
				}
			}
		}
	}
	return declared
}
