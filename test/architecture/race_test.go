/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// withoutRace are packages with goroutines, or data that several share, whose tests make test runs without the race detector.
var withoutRace = []string{
	"cel", "cel/partial", // what several share is made once, and the race detector makes random cases ten times slower
	"kubectl/terminal", // has no tests
}

// TestRaceDetector finds packages that start goroutines, or have data for several, and that make test does not run with the race detector.
func TestRaceDetector(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^RACE := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no RACE")
	}
	got := strings.Fields(strings.ReplaceAll(string(list[1]), "\\\n", " "))
	shares := regexp.MustCompile(`(?m)^\s+go (func|[a-zA-Z.]+\()|sync\.(Mutex|RWMutex|Map|Cond|WaitGroup|Pool)\b|atomic\.|errgroup\.|make\(chan`)
	want := sets.New[string]()
	err = filepath.WalkDir("../../pkg", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			return err
		}
		if shares.Match(content) {
			name, err := filepath.Rel("../../pkg", filepath.Dir(path))
			want.Insert(name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range withoutRace {
		if !want.Has(name) {
			t.Errorf("%s is in withoutRace, and shares nothing", name)
		}
	}
	want.Delete(withoutRace...)
	if missing := want.Difference(sets.New(got...)); len(missing) > 0 || len(want) < 10 {
		t.Errorf("RACE in the Makefile lacks %v of %d", sets.List(missing), len(want))
	}
}
