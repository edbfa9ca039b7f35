/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mutation checks that tests fail when a guard is taken from the code. A guard is a place in the code with a marker, such as
// //guard:expired, on a line of its own before it. A mutant names a guard, a change of its syntax, and a test that must fail. So code can be moved
// and renamed without a change of its mutants. The tests run through an overlay of the go command, so that no file of the repository changes.
package mutation

import (
	"bytes"
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Mutant is the code with one change.
type Mutant struct {
	// Guard is the name of the marker, and Change what happens to the code after it. Both are empty for a quoted mutant.
	Guard  string
	Change Change
	// Name, Old and New are of a quoted mutant: the text Old, which occurs once in the code, is replaced by New. The change of a quoted mutant is
	// one that the syntax alone does not define, for example of a number or a text.
	Name, Old, New string
	// Test is the test that must fail. It exists once in the module.
	Test string
}

// String returns the name of the mutant.
func (m Mutant) String() string {
	return cmp.Or(m.Name, strings.TrimSpace(m.Guard+" "+string(m.Change)))
}

// Parse reads mutants from lines with the guard, the change and the test. Empty lines, and those that begin with #, do not count.
func Parse(content string) (mutants []Mutant, err error) {
	for i, line := range strings.Split(content, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d has %d fields, want a guard, a change and a test", i+1, len(fields))
		}
		mutants = append(mutants, Mutant{Guard: fields[0], Change: Change(fields[1]), Test: fields[2]})
	}
	return mutants, nil
}

// Module is the code of a module with its guards and tests.
type Module struct {
	root   string
	guards map[string]*Guard
	// sources are the Go files that are not tests, and tests the directories of the packages that have a test.
	sources map[string][]byte
	tests   map[string][]string
}

// Load reads the packages of a module below some directories.
func Load(root string, directories ...string) (*Module, error) {
	root, err := filepath.Abs(root) // the go command runs in the directories of packages
	if err != nil {
		return nil, err
	}
	m := &Module{root: root, guards: map[string]*Guard{}, sources: map[string][]byte{}, tests: map[string][]string{}}
	for _, directory := range directories {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, "_test.go") {
				for _, found := range testFunction.FindAllSubmatch(content, -1) {
					m.tests[string(found[1])] = append(m.tests[string(found[1])], filepath.Dir(path))
				}
				return nil
			}
			m.sources[path] = content
			return collect(path, content, m.guards)
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// Check returns what is wrong with mutants: one that cannot be made of the code, one whose test does not exist once, a guard without a mutant, and two
// mutants that are the same.
func (m *Module) Check(mutants []Mutant) (errs []error) {
	unused, seen := maps.Clone(m.guards), map[string]bool{}
	for _, mutant := range mutants {
		if _, _, err := m.mutated(mutant); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", mutant, err))
		}
		if found := m.tests[mutant.Test]; len(found) != 1 {
			errs = append(errs, fmt.Errorf("%v: the test %s exists in %d packages, want 1: %v", mutant, mutant.Test, len(found), found))
		}
		if seen[mutant.String()] {
			errs = append(errs, fmt.Errorf("there are two mutants %q", mutant))
		}
		seen[mutant.String()] = true
		delete(unused, mutant.Guard)
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		errs = append(errs, fmt.Errorf("%s:%d: the guard %q has no mutant", unused[name].File, unused[name].Line, name))
	}
	return errs
}

// mutated returns the path of the file that a mutant changes, and its content.
func (m *Module) mutated(mutant Mutant) (path string, content []byte, err error) {
	if mutant.Guard == "" {
		path, content, err = m.replaced(mutant)
	} else {
		var edits []edit
		if edits, err = m.edits(mutant, "true"); err == nil {
			g := m.guards[mutant.Guard]
			path, content = g.File, edited(g.files, g.source, edits)
		}
	}
	if err == nil {
		_, err = parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution)
	}
	return path, content, err
}

func (m *Module) edits(mutant Mutant, on string) ([]edit, error) {
	g := m.guards[mutant.Guard]
	if g == nil {
		return nil, fmt.Errorf("no marker has the guard %q", mutant.Guard)
	}
	return g.edits(mutant.Change, on)
}

// replaced returns the file that has the text of a quoted mutant, with the text replaced.
func (m *Module) replaced(mutant Mutant) (path string, content []byte, err error) {
	occurrences := 0
	for name, source := range m.sources {
		if n := bytes.Count(source, []byte(mutant.Old)); n > 0 {
			occurrences += n
			path, content = name, bytes.Replace(source, []byte(mutant.Old), []byte(mutant.New), 1)
		}
	}
	if occurrences != 1 {
		return "", nil, fmt.Errorf("the text occurs %d times, want 1: %q", occurrences, mutant.Old)
	}
	return path, content, nil
}
