/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mutation checks that tests notice when a guard is deleted from the code. A mutant is a
// package in which one piece of text is replaced by another; its tests run against it through an
// overlay of the go command, so that no file of the repository changes.
package mutation

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	// Time is how much processor time tests may take to notice a mutant.
	Time = time.Minute
	// patience is how many times that may pass on a machine that is busy with other things.
	patience = 4
)

// Suite is a package, the tests that must fail for each of its mutants, and the mutants.
type Suite struct {
	// Package is the directory of the package, relative to the root of the module.
	Package string
	// Tests is the directory of the package whose tests must notice. If it is empty, it is Package.
	Tests string
	// Test is the pattern of the tests that must notice, as for go test -run.
	Test string
	// Env are variables that the tests get, as NAME=value.
	Env []string
	// Mutants are the mutants of the package.
	Mutants []Mutant
}

// Mutant is the package without one of its guards: the text Old, which must occur once in the
// file, is replaced by New.
type Mutant struct {
	Name, File, Old, New string
	// Test is the pattern of the tests that must notice this mutant, if not that of the suite.
	Test string
}

// Exist fails unless every mutant can be made of the code as it is.
func (s Suite) Exist(t *testing.T) {
	t.Helper()
	for _, m := range s.Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s.mutated(t, m)
		})
	}
}

// Run runs the tests against each mutant whose name matches, one after the other, and fails for
// those that they do not notice.
func (s Suite) Run(t *testing.T, wanted *regexp.Regexp) {
	t.Helper()
	for _, m := range s.Mutants {
		if wanted.MatchString(m.Name) {
			t.Run(m.Name, func(t *testing.T) { s.run(t, m) })
		}
	}
}

// mutated returns the path of a mutant's file, and what the mutant has in it.
func (s Suite) mutated(t *testing.T, m Mutant) (path, content string) {
	t.Helper()
	path = filepath.Join(root(t), s.Package, m.File)
	source, err := os.ReadFile(path) //nolint:gosec // a file of the repository
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		t.Fatalf("%s has %d times %q, want it once", path, n, m.Old)
	}
	return path, strings.Replace(string(source), m.Old, m.New, 1)
}

func (s Suite) run(t *testing.T, m Mutant) {
	t.Helper()
	binary := s.build(t, m)
	pattern := s.Test
	if m.Test != "" {
		pattern = m.Test
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience*Time)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run", pattern) //nolint:gosec // it was just built
	run.Dir = s.tests(t)
	run.Env = append(append(os.Environ(), "GOMAXPROCS=1"), s.Env...)
	output, _ := run.CombinedOutput()
	used := run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	if ctx.Err() != nil || used > Time || !strings.Contains(string(output), "--- FAIL: ") {
		t.Fatalf("the tests %s do not notice it in %v of processor time: %s", pattern, used, output)
	}
	t.Logf("noticed after %v of processor time: %s", used.Round(time.Millisecond), output)
}

// tests returns the path of the package whose tests must notice.
func (s Suite) tests(t *testing.T) string {
	t.Helper()
	return filepath.Join(root(t), cmp.Or(s.Tests, s.Package))
}

// build compiles the tests against the mutant.
func (s Suite) build(t *testing.T, m Mutant) (binary string) {
	t.Helper()
	original, content := s.mutated(t, m)
	directory := t.TempDir()
	mutated, overlay := filepath.Join(directory, filepath.Base(m.File)), filepath.Join(directory, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{mutated: content, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary = filepath.Join(directory, "mutant.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".") //nolint:gosec // the paths are ours
	build.Dir = s.tests(t)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %s", output)
	}
	return binary
}

// root returns the directory of the module that the test is in.
func root(t *testing.T) string {
	t.Helper()
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for at := directory; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			t.Fatalf("%s is in no module", directory)
		}
	}
}
