/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestContributingNamesWhatCIRuns compares the targets in .ci/run with those that CONTRIBUTING.md names, in their order.
func TestContributingNamesWhatCIRuns(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	var want []string
	for _, found := range regexp.MustCompile(`(?m)^make (\S+)`).FindAllStringSubmatch(read("../../.ci/run"), -1) {
		if found[1] != "down" {
			want = append(want, found[1])
		}
	}
	_, sentence, _ := strings.Cut(read("../../CONTRIBUTING.md"), "\n`.ci/run` runs ")
	sentence, _, _ = strings.Cut(sentence, "and until minute")
	var got []string
	for _, found := range regexp.MustCompile("`make (\\S+)`").FindAllStringSubmatch(sentence, -1) {
		got = append(got, found[1])
	}
	if len(want) < 5 || !slices.Equal(got, want) {
		t.Errorf("CONTRIBUTING.md names %q, and .ci/run runs %q", got, want)
	}
}
