/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mutation

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// Time is the processor time in which a test must detect a mutant.
	Time = time.Minute
	// patience is the factor for the elapsed time on a machine with other load.
	patience = 4
	// variable is the environment variable with the number of the mutant that is active in a test binary. None is without it.
	variable = "PROVISO_MUTANT"
)

// helpers is a file that is added to each package with mutants.
const helpers = `package %s

import (
	"os"
	"strconv"
)

// mutantActive is the number of the active mutant.
var mutantActive, _ = strconv.Atoi(os.Getenv("` + variable + `"))

func mutantZero[T any](on bool, value T) (zero T) {
	if on {
		return zero
	}
	return value
}

func mutantOr[T any](on bool, other any, value T) T {
	if on {
		return other.(T)
	}
	return value
}

var (
	_ = mutantActive
	_ = mutantZero[int]
	_ = mutantOr[int]
)
`

// overlay is a set of mutants with which packages are compiled.
type overlay struct {
	module *Module
	// file is the overlay of the go command.
	file string
	mu   sync.Mutex
	// builds are the test binaries by their directories.
	builds map[string]func() (binary string, err error)
}

// Run runs the test of each mutant, as many at a time as there are processors, and fails for a mutant that its test does not detect. Mutants that
// only insert code are compiled together: the environment says which one is active.
func (m *Module) Run(t *testing.T, mutants []Mutant) {
	t.Helper()
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	together := sync.OnceValues(func() (*overlay, error) { return m.overlay(t.TempDir(), mutants, true) })
	for i, mutant := range mutants {
		t.Run(mutant.String(), func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			if len(m.tests[mutant.Test]) != 1 {
				t.Fatalf("the test %s exists in %d packages, want 1", mutant.Test, len(m.tests[mutant.Test]))
			}
			directory := m.tests[mutant.Test][0]
			if edits, err := m.edits(mutant, "true"); err == nil && isInsertion(edits) {
				shared, err := together()
				if err != nil {
					t.Fatal(err)
				}
				if binary, err := shared.build(directory); err == nil {
					detect(t, binary, directory, mutant, i+1)
					return
				} // another mutant may not compile
			}
			alone, err := m.overlay(t.TempDir(), []Mutant{mutant}, false)
			if err != nil {
				t.Fatal(err)
			}
			binary, err := alone.build(directory)
			if err != nil {
				t.Fatal(err)
			}
			detect(t, binary, directory, mutant, 1)
		})
	}
}

// detect runs the test of a mutant, which must fail.
func detect(t *testing.T, binary, directory string, mutant Mutant, number int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience*Time)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run", "^"+mutant.Test+"$") //nolint:gosec // it was just built
	run.Dir = directory
	// The oracle of partial evaluation tries cases until it finds a difference.
	run.Env = append(os.Environ(), "GOMAXPROCS=1", variable+"="+strconv.Itoa(number), "ORACLE_CASES=1000000000", "ORACLE_FAILURES=1")
	output, _ := run.CombinedOutput()
	used := run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	if ctx.Err() != nil || used > Time || !strings.Contains(string(output), "--- FAIL: ") {
		t.Fatalf("the test %s does not detect the mutant in %v of processor time: %s", mutant.Test, used, output)
	}
	t.Logf("noticed after %v of processor time: %s", used.Round(time.Millisecond), output)
}

// overlay writes the files of the packages with mutants into a directory. With onlyInsertions it leaves out other mutants.
func (m *Module) overlay(directory string, mutants []Mutant, onlyInsertions bool) (*overlay, error) {
	contents, edits := map[string][]byte{}, map[*Guard][]edit{}
	for i, mutant := range mutants {
		if mutant.Guard == "" {
			if onlyInsertions {
				continue
			}
			path, content, err := m.replaced(mutant)
			if err != nil {
				return nil, err
			}
			contents[path] = content
			continue
		}
		added, err := m.edits(mutant, fmt.Sprintf("mutantActive == %d", i+1))
		if err != nil {
			return nil, err
		}
		if !onlyInsertions || isInsertion(added) {
			edits[m.guards[mutant.Guard]] = append(edits[m.guards[mutant.Guard]], added...)
		}
	}
	byFile := map[string][]edit{}
	of := map[string]*Guard{}
	for g, added := range edits {
		byFile[g.File], of[g.File] = append(byFile[g.File], added...), g
	}
	for path, added := range byFile {
		contents[path] = edited(of[path].files, of[path].source, added)
	}
	return m.write(directory, contents)
}

// write writes the overlay of the go command for changed files, with the helpers of their packages.
func (m *Module) write(directory string, contents map[string][]byte) (*overlay, error) {
	replace := map[string]string{}
	put := func(path string, content []byte) error {
		replace[path] = filepath.Join(directory, strconv.Itoa(len(replace))+".go")
		return os.WriteFile(replace[path], content, 0o600)
	}
	for path, content := range contents {
		file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		if err := put(path, content); err != nil {
			return nil, err
		}
		helper := filepath.Join(filepath.Dir(path), "mutant_helpers.go")
		if _, ok := replace[helper]; ok {
			continue
		}
		if err := put(helper, fmt.Appendf(nil, helpers, file.Name.Name)); err != nil {
			return nil, err
		}
	}
	o := &overlay{module: m, file: filepath.Join(directory, "overlay.json"), builds: map[string]func() (string, error){}}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return o, os.WriteFile(o.file, content, 0o600)
}

// build compiles the tests in a directory with the mutants, once.
func (o *overlay) build(directory string) (binary string, err error) {
	o.mu.Lock()
	build, ok := o.builds[directory]
	if !ok {
		binary := filepath.Join(filepath.Dir(o.file), strconv.Itoa(len(o.builds))+".test")
		build = sync.OnceValues(func() (string, error) {
			build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", o.file, "-o", binary, ".") //nolint:gosec // the paths are ours
			build.Dir = directory
			output, err := build.CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("the mutant does not compile: %w: %s", err, output)
			}
			return binary, nil
		})
		o.builds[directory] = build
	}
	o.mu.Unlock()
	return build()
}
