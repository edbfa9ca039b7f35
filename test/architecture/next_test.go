/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNextHasTheModules compares the modules that this module and hack/next/next.mod require, without their versions: with a module
// missing, `make next` does not build.
func TestNextHasTheModules(t *testing.T) {
	t.Parallel()
	required := regexp.MustCompile(`(?m)^\t(\S+?)(?:/v[0-9]+)? v\S+$`)
	modules := func(path string) (paths []string) {
		content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range required.FindAllStringSubmatch(string(content), -1) {
			paths = append(paths, found[1])
		}
		slices.Sort(paths)
		return paths
	}
	want := modules("../../go.mod")
	if diff := cmp.Diff(want, modules("../../hack/next/next.mod")); diff != "" || len(want) == 0 {
		t.Errorf("hack/next/next.mod (-go.mod +next.mod):\n%s", diff)
	}
}
