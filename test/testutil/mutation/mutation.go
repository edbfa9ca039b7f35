/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mutation checks that tests fail when a guard is deleted from the code. A mutant is a
// package in which one text is replaced by another. Its tests run through an overlay of the go
// command, so that no file of the repository changes.
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
	// Time is the processor time in which tests must detect a mutant.
	Time = time.Minute
	// patience is the factor for the elapsed time on a machine with other load.
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
	// Env are environment variables of the tests, as NAME=value.
	Env []string
	// Mutants are the mutants of the package.
	Mutants []Mutant
}

// Mutant is the package without one of its guards: the text Old, which must occur exactly once in
// File, is replaced by New.
type Mutant struct {
	Name, File, Old, New string
	// Test is the pattern of the tests that must fail for this mutant. If empty, the suite's
	// pattern is used.
	Test string
}

// Exist fails if a mutant cannot be created from the current code.
func (s Suite) Exist(t *testing.T) {
	t.Helper()
	for _, m := range s.Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s.mutated(t, m)
		})
	}
}

// Run runs the tests against each mutant whose name matches wanted, one after the other, and fails
// if they do not detect it.
func (s Suite) Run(t *testing.T, wanted *regexp.Regexp) {
	t.Helper()
	for _, m := range s.Mutants {
		if wanted.MatchString(m.Name) {
			t.Run(m.Name, func(t *testing.T) { s.run(t, m) })
		}
	}
}

// mutated returns the path of a mutant's file and its changed content.
func (s Suite) mutated(t *testing.T, m Mutant) (path, content string) {
	t.Helper()
	path = filepath.Join(root(t), s.Package, m.File)
	source, err := os.ReadFile(path) //nolint:gosec // a file of the repository
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		t.Fatalf("%s has %d occurrences of %q, want 1", path, n, m.Old)
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
		t.Fatalf("the tests %s do not detect the mutant in %v of processor time: %s", pattern, used, output)
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
		t.Fatalf("the mutant does not compile: %s", output)
	}
	return binary
}

// root returns the root directory of the module of the test.
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
			t.Fatalf("%s is not in a module", directory)
		}
	}
}
