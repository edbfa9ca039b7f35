/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxParameters = 6
	// maxContextKeys bounds the types of keys of contexts. A value in a context is a parameter that no signature shows.
	maxContextKeys = 8
	// maxFrontDoorFields bounds the fields of the configuration of the front door.
	maxFrontDoorFields = 6
)

// parametersOfOthers are methods that interfaces of Kubernetes ask for.
var parametersOfOthers = []string{"Update", "Validate"}

// TestShape holds what makes the code hard to follow: functions with many parameters, values in contexts, and the configuration of the front door.
func TestShape(t *testing.T) {
	t.Parallel()
	base := root(t)
	var keys []string
	err := filepath.WalkDir(filepath.Join(base, "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		where, _ := filepath.Rel(base, path)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if parameters := n.Type.Params.NumFields(); parameters > maxParameters && !slices.Contains(parametersOfOthers, n.Name.Name) {
					t.Errorf("%s: %s has %d parameters, want at most %d", where, n.Name.Name, parameters, maxParameters)
				}
			case *ast.TypeSpec:
				of, isStruct := n.Type.(*ast.StructType)
				if isStruct && of.Fields.NumFields() == 0 && strings.HasSuffix(n.Name.Name, "Key") {
					keys = append(keys, fmt.Sprintf("%s: %s", where, n.Name.Name))
				}
				if isStruct && where == "pkg/frontdoor/decide.go" && n.Name.Name == "Config" && of.Fields.NumFields() > maxFrontDoorFields {
					t.Errorf("%s: %s has %d fields, want at most %d", where, n.Name.Name, of.Fields.NumFields(), maxFrontDoorFields)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) < 5 || len(keys) > maxContextKeys {
		t.Errorf("%d keys of contexts, want at most %d:\n%s", len(keys), maxContextKeys, strings.Join(keys, "\n"))
	}
}
