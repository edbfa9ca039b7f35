/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// withoutRace are packages with goroutines, or data that several share, whose tests make test runs without the race detector.
var withoutRace = []string{
	"pkg/cel", "pkg/cel/partial", // what several share is made once, and the race detector makes random cases ten times slower
}

// passOf returns the packages that a target of the Makefile tests, without the name of the module.
func passOf(t *testing.T, target string) sets.Set[string] {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", "-s", "--no-print-directory", target, "GOTEST=echo") //nolint:gosec // a target of the test
	command.Dir = "../.."
	command.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "MAKEFLAGS=") })
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := sets.New[string]()
	for _, field := range strings.Fields(string(output)) {
		if name, isOwn := strings.CutPrefix(field, "github.com/proviso-authz/proviso/"); isOwn {
			packages.Insert(name)
		} else if name, isOwn := strings.CutPrefix(field, "./"); isOwn {
			packages.Insert(name)
		}
	}
	return packages
}

// TestRaceDetector finds packages that make test does not run once, and those that start goroutines, or have data for several, and that it does not
// run with the race detector.
func TestRaceDetector(t *testing.T) {
	t.Parallel()
	unit, race := passOf(t, "test-unit"), passOf(t, "test-race")
	if both := unit.Intersection(race); len(both) > 0 {
		t.Errorf("make test runs %v twice", sets.List(both))
	}
	shares := regexp.MustCompile(`(?m)^\s+go (func|[a-zA-Z.]+\()|sync\.(Mutex|RWMutex|Map|Cond|WaitGroup|Pool)\b|atomic\.|errgroup\.|make\(chan`)
	want := sets.New[string]()
	for _, root := range []string{"apis", "cmd", "pkg"} {
		err := filepath.WalkDir("../../"+root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
			if !unit.Has(name) && !race.Has(name) {
				t.Errorf("make test does not run %s", name)
			}
			content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
			if root == "pkg" && !strings.HasSuffix(path, "_test.go") && shares.Match(content) {
				want.Insert(name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range withoutRace {
		if !want.Has(name) {
			t.Errorf("%s is in withoutRace, and shares nothing", name)
		}
	}
	want.Delete(withoutRace...)
	if missing := want.Difference(race); len(missing) > 0 || len(want) < 10 {
		t.Errorf("RACE in the Makefile lacks %v of %d", sets.List(missing), len(want))
	}
}
