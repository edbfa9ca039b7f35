/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/documents"
)

// testFirstSteps runs the commands of the first documents that newcomers read, in the order in which they are read. Of the tutorial it runs the
// sections that need no feature of the demo: another test runs its rest.
func testFirstSteps(t *testing.T, r *rig) {
	t.Helper()
	for _, document := range []struct {
		name   string
		blocks int // the least number of blocks
	}{{"first-steps.md", 2}, {"templates.md", 2}, {"barriers.md", 2}, {"beside-other-tools.md", 1}, {"tutorial.md", 2}} {
		content, err := os.ReadFile(filepath.Join(r.Repository, "docs", document.name))
		if err != nil {
			t.Fatal(err)
		}
		if n := documents.Blocks(string(content)); n < document.blocks {
			t.Errorf("found %d blocks in %s, want at least %d", n, document.name, document.blocks)
		}
		scripts := []string{string(content)}
		if document.name == "tutorial.md" {
			managed, _, found := strings.Cut(string(content), "## Reviews: who may do what?")
			if !found {
				t.Error("tutorial.md has no section about reviews")
			}
			scripts = []string{managed}
		}
		if document.name == "templates.md" {
			// The recipe is for all templates, also those with a policy that has no barrier.
			scripts = append(scripts, strings.ReplaceAll(string(content), "restart-and-scale", "everything-but-secrets"))
		}
		for _, script := range scripts {
			if err := documents.Run(t.Context(), r.Cluster, script); err != nil {
				t.Error(document.name, err)
			}
		}
	}
}
