/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sbom_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

// allowed are the licences of modules in the executables, as SPDX names them. They let a release be distributed under the Apache License without
// its source. CNCF allows each of them (https://github.com/cncf/foundation/blob/main/allowed-third-party-license-policy.md).
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// leastCoverage is how many percent of a file must be a known licence. The rest are names of authors and of years.
const leastCoverage = 75

// TestLicences reads the licence of each module in the two executables, for the platforms of a release, from the module cache.
func TestLicences(t *testing.T) {
	t.Parallel()
	modules := map[string]string{} // directories by path
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/...")
		cmd.Dir, cmd.Stderr = filepath.Join("..", "..", ".."), os.Stderr
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if module, dir, found := strings.Cut(strings.TrimSpace(line), " "); found {
				modules[module] = dir
			}
		}
	}
	if len(modules) < 50 {
		t.Fatalf("got only %d modules", len(modules))
	}
	for module, dir := range modules {
		if problem := problemOf(t, dir); problem != "" {
			t.Errorf("%s %s", module, problem)
		}
	}
}

// problemOf returns a problem with the licence of a module, or nothing.
func problemOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	known := false
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		if entry.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		coverage := licensecheck.Scan(content)
		if coverage.Percent < leastCoverage {
			return "has a licence that is not known: " + entry.Name()
		}
		for _, match := range coverage.Match {
			if !match.IsURL && !slices.Contains(allowed, match.ID) {
				return "has the licence " + match.ID
			}
		}
		known = true
	}
	if !known {
		return "has no licence"
	}
	return ""
}

// TestOtherLicences tries modules that must not be in a release.
func TestOtherLicences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "has a licence that is not known: LICENSE",
		"All rights reserved.\n": "has a licence that is not known: LICENSE",
		"This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n": "has the licence GPL-3.0-or-later",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := problemOf(t, dir); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := problemOf(t, t.TempDir()); got != "has no licence" {
		t.Errorf("got %q", got)
	}
}
